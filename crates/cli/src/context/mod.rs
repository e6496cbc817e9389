//! `driftq context …`: servers by name.

mod chosen;
mod file;

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::{Client, Columns, Common, Exit, Fault, description, printable, yes_or};
#[cfg(feature = "ledger")]
pub(super) use chosen::Chosen;
pub(super) use chosen::{SERVER_DEFAULT, Typed, choose};
use file::{Context, Contexts};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Remember a server by name
    #[command(
        after_help = "The name is for --context, DRIFTQ_CONTEXT and `driftq context use`. With --key-file, \
the key in that file is shown to the server; with --ca-file, the authorities in that file are trusted, besides those of \
the system. Files are named, not copied.

Examples:
  driftq context add staging --server http://10.0.0.5:8080
  driftq context add local --server http://127.0.0.1:8080 --use
  driftq context add live --server https://q.example.com --key-file ~/.config/driftq/live.key
  driftq context add local --server https://localhost:8080 --ca-file ./tls/ca.pem
  driftq context add staging --server http://10.0.0.6:8080 --replace"
    )]
    Add {
        /// Its name
        #[arg(value_parser = file::name)]
        name: String,
        /// Use it from now on
        #[arg(long = "use")]
        is_used: bool,
        /// Give the name to this server if another has it
        #[arg(long)]
        replace: bool,
    },
    /// Choose the context that commands use when nothing else is said
    #[command(after_help = "Examples:
  driftq context use staging
  driftq context use --none    # back to the default server")]
    Use {
        /// Its name
        #[arg(required_unless_present = "none")]
        name: Option<String>,
        /// Use none
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// List contexts
    #[command(after_help = "Examples:
  driftq context list
  driftq context list -o json")]
    List,
    /// Show a context, or which server a command would talk to now, and why
    #[command(after_help = "The first of these that names a server is heard: --server, --context, \
DRIFTQ_SERVER, DRIFTQ_CONTEXT, the current context, the default.

Examples:
  driftq context show
  driftq context show staging
  driftq --context staging context show -o json")]
    Show {
        /// Its name; without it, what is in force
        name: Option<String>,
    },
    /// Forget a context
    #[command(after_help = "Examples:
  driftq context remove staging")]
    Remove {
        /// Its name
        name: String,
    },
}

/// A context as it is printed.
#[derive(Serialize)]
struct Row {
    name: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<String>,
    current: bool,
}

impl Row {
    fn new(contexts: &Contexts, name: &str, context: &Context) -> Self {
        let current = contexts.current.as_deref() == Some(name);
        let shown = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
        let (key_file, ca_file) = (shown(&context.key_file), shown(&context.ca_file));
        Self { name: name.to_owned(), server: context.server.clone(), key_file, ca_file, current }
    }
}

const ROWS: Columns<Row> = &[
    ("NAME", |row, _| row.name.clone()),
    ("SERVER", |row, _| printable(&row.server)),
    ("CURRENT", |row, _| yes_or(row.current, "").to_owned()),
];

const CONTEXT: Columns<Row> = &[
    ("context", |row, _| row.name.clone()),
    ("server", |row, _| printable(&row.server)),
    ("key", |row, _| row.key_file.as_deref().map_or_else(|| "none".to_owned(), printable)),
    ("trusts", |row, _| row.ca_file.as_deref().map_or_else(|| "the system's".to_owned(), printable)),
    ("current", |row, _| yes_or(row.current, "no").to_owned()),
];

pub(super) fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Add { name, is_used, replace } => add(common, name, *is_used, *replace),
        Command::Use { name, .. } => switch(common, name.as_deref()),
        Command::List => {
            let path = file::path()?;
            let contexts = file::read(&path)?;
            let rows = contexts.contexts.iter().map(|(name, context)| Row::new(&contexts, name, context));
            let add = "add one with `driftq context add NAME --server URL`";
            let nothing = format!("no contexts in {}; {add}", path.display());
            common.show_all(&rows.collect::<Vec<_>>(), ROWS, &nothing)
        }
        Command::Show { name: Some(name) } => {
            let path = file::path()?;
            let contexts = file::read(&path)?;
            let row = Row::new(&contexts, name, contexts.get(&path, name)?);
            common.show(&row, |row| format!("{}file     {}\n", description(CONTEXT, row), path.display()))
        }
        Command::Show { name: None } => show_in_force(common),
        Command::Remove { name } => remove(common, name),
    }
}

fn add(common: &Common, name: &str, is_used: bool, replace: bool) -> Result<()> {
    let Some(server) = &common.server else {
        let fault = Fault::new(Exit::Usage, "which server?");
        return Err(fault
            .help(format!("for example `driftq context add {name} --server {SERVER_DEFAULT}`"))
            .into());
    };
    let key_file = common.key_file.as_deref().map(std::path::absolute).transpose()?;
    let ca_file = trusted(common, server)?;
    // Read now, so that a wrong name is told now.
    Client::trusting(server, None, ca_file.as_deref())?;
    crate::key::given(key_file.as_deref())?;
    let path = file::path()?;
    let (row, _) = file::change(&path, |contexts| {
        if let Some(known) = contexts.contexts.get(name)
            && known.server != *server
            && !replace
        {
            let message = format!("context `{name}` is {} already, in {}", known.server, path.display());
            return Err(Fault::new(Exit::Conflict, message).help("choose another name, or give --replace"));
        }
        let (key_file, ca_file) = (key_file.clone(), ca_file.clone());
        let context = Context { server: server.clone(), key_file, ca_file };
        if is_used {
            contexts.current = Some(name.to_owned());
        }
        contexts.contexts.insert(name.to_owned(), context.clone());
        Ok(Row::new(contexts, name, &context))
    })?;
    common.show(&row, |row| {
        let next = if row.current {
            "commands use it from now on".to_owned()
        } else {
            format!("use it with `driftq context use {name}`, or once with --context {name}")
        };
        format!("context {name} is {}; {next}\n", printable(&row.server))
    })
}

/// The file of authorities for this server. Without TLS there is nothing to trust: whoever names a file then has made a
/// mistake, and one that is set in the environment is meant for other servers.
fn trusted(common: &Common, server: &str) -> Result<Option<PathBuf>> {
    if server.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        return Ok(common.ca_file.as_deref().map(std::path::absolute).transpose()?);
    }
    if common.typed.ca_file {
        let fault = Fault::new(Exit::Usage, format!("--ca-file means nothing to {}", printable(server)));
        return Err(fault
            .help("a server with TLS is named by https://; leave --ca-file out for others")
            .into());
    }
    Ok(None)
}

fn switch(common: &Common, name: Option<&str>) -> Result<()> {
    #[derive(Serialize)]
    struct Switched<'a> {
        current: Option<&'a str>,
    }
    let path = file::path()?;
    let (server, _) = file::change(&path, |contexts| {
        let server = name.map(|name| contexts.get(&path, name).cloned()).transpose()?;
        contexts.current = name.map(str::to_owned);
        Ok(server.map(|context| context.server))
    })?;
    common.show(&Switched { current: name }, |_| match (name, server) {
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

fn show_in_force(common: &Common) -> Result<()> {
    #[derive(Serialize)]
    struct InForce<'a> {
        server: &'a str,
        origin: chosen::Origin,
        context: Option<&'a str>,
        file: Option<String>,
    }
    let path = file::path();
    let chosen = choose(common)?;
    let in_force = InForce {
        server: &chosen.server,
        origin: chosen.origin,
        context: chosen.context.as_ref().map(|(name, _)| &**name),
        file: path.ok().map(|path| path.display().to_string()),
    };
    common.show(&in_force, |in_force| {
        format!(
            "server    {}\nbecause   {}\ncontext   {}\nfile      {}\n",
            printable(in_force.server),
            in_force.origin.display(),
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
        Ok(contexts.current.take_if(|current| current == name).is_some())
    })?;
    common.show(&Removed { name, removed: true, was_current }, |_| {
        let note = if was_current { "; it was the current one, and none is now" } else { "" };
        format!("context {name} is forgotten{note}\n")
    })
}
