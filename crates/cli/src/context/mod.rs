//! `driftq context …`: servers by name.

mod chosen;
mod file;

use anyhow::Result;
use serde::Serialize;

use crate::{Client, Common, Exit, Fault, Listing, output, printable};
pub(super) use chosen::{SERVER_DEFAULT, Typed, choose};
use file::{Context, Contexts};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Remember a server by name
    #[command(after_help = "The name is for --context, DRIFTQ_CONTEXT and `driftq context use`.

Examples:
  driftq context add staging --server http://10.0.0.5:8080
  driftq context add local --server http://127.0.0.1:8080 --use
  driftq context add staging --server http://10.0.0.6:8080 --replace")]
    Add(Add),
    /// Choose the context that commands use when nothing else is said
    #[command(after_help = "Examples:
  driftq context use staging
  driftq context use --none    # back to the default server")]
    Use(Use),
    /// List contexts
    #[command(after_help = "Examples:
  driftq context list
  driftq context list -o json")]
    List,
    /// Show a context, or which server a command would talk to now, and why
    #[command(
        after_help = "The first of these that names a server is heard: --server, --context, DRIFTQ_SERVER, \
DRIFTQ_CONTEXT, the current context, the default.

Examples:
  driftq context show
  driftq context show staging
  driftq --context staging context show -o json"
    )]
    Show(Show),
    /// Forget a context
    #[command(after_help = "Examples:
  driftq context remove staging")]
    Remove(Named),
}

#[derive(clap::Args)]
pub(crate) struct Add {
    /// Its name
    #[arg(value_parser = file::name)]
    name: String,
    /// Use it from now on
    #[arg(long = "use")]
    is_used: bool,
    /// Give the name to this server if another has it
    #[arg(long)]
    replace: bool,
}

#[derive(clap::Args)]
pub(crate) struct Use {
    /// Its name
    #[arg(required_unless_present = "none")]
    name: Option<String>,
    /// Use none
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

#[derive(clap::Args)]
pub(crate) struct Show {
    /// Its name; without it, what is in force
    name: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct Named {
    /// Its name
    name: String,
}

/// A context as it is printed.
#[derive(Serialize)]
struct Row {
    name: String,
    server: String,
    current: bool,
}

impl Row {
    fn new(contexts: &Contexts, name: &str, context: &Context) -> Self {
        Self {
            name: name.to_owned(),
            server: context.server.clone(),
            current: contexts.current.as_deref() == Some(name),
        }
    }
}

pub(super) fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Add(args) => add(common, args),
        Command::Use(args) => switch(common, args),
        Command::List => list(common),
        Command::Show(args) => show(common, args.name.as_deref()),
        Command::Remove(args) => remove(common, &args.name),
    }
}

fn add(common: &Common, args: &Add) -> Result<()> {
    let Some(server) = &common.server else {
        let fault = Fault::new(Exit::Usage, "which server?");
        return Err(fault
            .help(format!("for example `driftq context add {} --server {SERVER_DEFAULT}`", args.name))
            .into());
    };
    Client::new(server)?;
    let path = file::path()?;
    let (row, _) = file::change(&path, |contexts| {
        if let Some(known) = contexts.contexts.get(&args.name)
            && known.server != *server
            && !args.replace
        {
            let message =
                format!("context `{}` is {} already, in {}", args.name, known.server, path.display());
            return Err(Fault::new(Exit::Conflict, message).help("choose another name, or give --replace"));
        }
        let context = Context { server: server.clone() };
        if args.is_used {
            contexts.current = Some(args.name.clone());
        }
        contexts.contexts.insert(args.name.clone(), context.clone());
        Ok(Row::new(contexts, &args.name, &context))
    })?;
    output::print_one(common.output, &row, || {
        let next = if row.current {
            "commands use it from now on".to_owned()
        } else {
            format!("use it with `driftq context use {0}`, or once with --context {0}", row.name)
        };
        format!("context {} is {}; {next}\n", row.name, printable(&row.server))
    })
}

fn switch(common: &Common, args: &Use) -> Result<()> {
    #[derive(Serialize)]
    struct Switched {
        current: Option<String>,
    }
    let path = file::path()?;
    let (server, contexts) = file::change(&path, |contexts| {
        let server = args.name.as_deref().map(|name| contexts.get(&path, name).cloned()).transpose()?;
        contexts.current.clone_from(&args.name);
        Ok(server.map(|context| context.server))
    })?;
    let switched = Switched { current: contexts.current };
    output::print_one(common.output, &switched, || match (&switched.current, server) {
        (Some(name), Some(server)) => {
            format!("commands use context {name} ({}) from now on\n", printable(&server))
        }
        _ => format!("commands use {SERVER_DEFAULT} from now on, unless told otherwise\n"),
    })?;
    if common.server.is_some() && !common.typed.server {
        eprintln!("note: DRIFTQ_SERVER is set, and comes before the current context");
    }
    Ok(())
}

fn list(common: &Common) -> Result<()> {
    let path = file::path()?;
    let contexts = file::read(&path)?;
    let rows: Vec<Row> =
        contexts.contexts.iter().map(|(name, context)| Row::new(&contexts, name, context)).collect();
    output::print_many(common.output, &rows, || {
        if rows.is_empty() {
            return format!(
                "no contexts in {}; add one with `driftq context add NAME --server URL`\n",
                path.display()
            );
        }
        let mut listing = Listing::new(&["NAME", "SERVER", "CURRENT"]);
        for row in &rows {
            listing.row([&*row.name, &printable(&row.server), if row.current { "yes" } else { "" }]);
        }
        listing.text()
    })
}

fn show(common: &Common, name: Option<&str>) -> Result<()> {
    #[derive(Serialize)]
    struct InForce<'a> {
        server: &'a str,
        origin: chosen::Origin,
        context: Option<&'a str>,
        file: Option<String>,
    }
    let path = file::path();
    if let Some(name) = name {
        let path = path?;
        let contexts = file::read(&path)?;
        let row = Row::new(&contexts, name, contexts.get(&path, name)?);
        return output::print_one(common.output, &row, || {
            let current = if row.current { "yes" } else { "no" };
            format!(
                "context  {}\nserver   {}\ncurrent  {current}\nfile     {}\n",
                row.name,
                printable(&row.server),
                path.display()
            )
        });
    }
    let chosen = choose(common)?;
    let in_force = InForce {
        server: &chosen.server,
        origin: chosen.origin,
        context: chosen.context.as_ref().map(|(name, _)| &**name),
        file: path.ok().map(|path| path.display().to_string()),
    };
    output::print_one(common.output, &in_force, || {
        format!(
            "server    {}\nbecause   {}\ncontext   {}\nfile      {}\n",
            printable(in_force.server),
            in_force.origin.words(),
            in_force.context.unwrap_or("none"),
            in_force.file.as_deref().unwrap_or("none: HOME is not set"),
        )
    })
}

fn remove(common: &Common, name: &str) -> Result<()> {
    #[derive(Serialize)]
    struct Removed<'a> {
        name: &'a str,
        removed: bool,
        was_current: bool,
    }
    let path = file::path()?;
    let (was_current, _) = file::change(&path, |contexts| {
        contexts.get(&path, name)?;
        contexts.contexts.remove(name);
        let was_current = contexts.current.as_deref() == Some(name);
        contexts.current.take_if(|current| current == name);
        Ok(was_current)
    })?;
    let removed = Removed { name, removed: true, was_current };
    output::print_one(common.output, &removed, || {
        let note = if was_current { "; it was the current one, and none is now" } else { "" };
        format!("context {name} is forgotten{note}\n")
    })
}
