//! Which of the options of every command a command hears. What it does not hear it does not offer, and refuses: an
//! option that is taken and does nothing is a promise that is not kept.

use clap::{ArgMatches, Command, parser::ValueSource};

use driftq_cli::exit::{Exit, Fault};

const SERVER: [&str; 4] = ["server", "context", "key_file", "ca_file"];
const OUTPUT: [&str; 1] = ["output"];

/// A command, what it does not hear, and why.
struct Deaf {
    path: &'static [&'static str],
    options: &'static [&'static str],
    why: &'static str,
}

const HOSTS: &str = "it is a server, and listens where --listen says";
const OWN: &str = "it starts a server of its own";
const FILES: &str = "it works on files, without a server";
const SELF: &str = "it tells about this program, without a server";
const NAMES: &str = "it is about the names of servers, and talks to none";
const TEXT: &str = "what it prints has one form";

#[rustfmt::skip]
const ALL: [Deaf; 21] = [
    Deaf { path: &["serve"], options: &SERVER, why: HOSTS },
    Deaf { path: &["serve"], options: &OUTPUT, why: "its log has --log-format" },
    Deaf { path: &["dev"], options: &SERVER, why: HOSTS },
    Deaf { path: &["dev"], options: &OUTPUT, why: "it is for people; `driftq serve` is for programs" },
    Deaf { path: &["demo"], options: &SERVER, why: OWN },
    Deaf { path: &["bench"], options: &SERVER, why: OWN },
    Deaf { path: &["wal", "inspect"], options: &SERVER, why: FILES },
    Deaf { path: &["wal", "repair"], options: &SERVER, why: FILES },
    Deaf { path: &["backup"], options: &SERVER, why: FILES },
    Deaf { path: &["restore"], options: &SERVER, why: FILES },
    Deaf { path: &["migrate"], options: &SERVER, why: "it works on files and databases, without a server" },
    Deaf { path: &["config", "check"], options: &SERVER, why: FILES },
    Deaf { path: &["tls", "dev"], options: &SERVER, why: FILES },
    Deaf { path: &["tls", "dev"], options: &OUTPUT, why: TEXT },
    Deaf { path: &["completions"], options: &SERVER, why: SELF },
    Deaf { path: &["completions"], options: &OUTPUT, why: TEXT },
    Deaf { path: &["context", "add"], options: &["context"], why: "the new name is an argument" },
    Deaf { path: &["context", "use"], options: &SERVER, why: NAMES },
    Deaf { path: &["context", "list"], options: &SERVER, why: NAMES },
    Deaf { path: &["context", "remove"], options: &SERVER, why: NAMES },
    Deaf { path: &["effect", "run"], options: &OUTPUT, why: "what is printed here is the command's own output" },
];

/// Takes the options out of the help of commands that do not hear them. They stay known, so that they are refused with
/// a reason.
pub(super) fn hidden(mut root: Command) -> Command {
    for deaf in &ALL {
        let unheard: Vec<_> = root
            .get_arguments()
            .filter(|arg| deaf.options.contains(&arg.get_id().as_str()))
            .cloned()
            .collect();
        root = within(root, deaf.path, &|command| {
            unheard.iter().fold(command, |command, arg| command.arg(arg.clone().hide(true)))
        });
    }
    root
}

/// Changes one command and leaves all of them in their order.
fn within(command: Command, path: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    let [first, rest @ ..] = path else { return change(command) };
    command.mut_subcommands(
        |inner| {
            if inner.get_name() == *first { within(inner, rest, change) } else { inner }
        },
    )
}

/// What was written into the command line and would not be heard. What is set in the environment is for other commands.
pub(super) fn refuse_unheard(matches: &ArgMatches) -> Result<(), Fault> {
    let (path, inner) = (path(matches), innermost(matches));
    let has = |option: &str| inner.contains_id(option);
    // What depends on the rest of the command line.
    let special: [(bool, &[&str], &str); 3] = [
        (path == ["context", "show"] && has("name"), &SERVER, "the context is named already"),
        (
            path == ["consume"] && has("exec"),
            &OUTPUT,
            "with --exec what is printed is the command's own output",
        ),
        (
            path.first() == Some(&"ledger") && has("store"),
            &SERVER,
            "--store or DRIFTQ_LEDGER_STORE says where the records are",
        ),
    ];
    let always = ALL.iter().filter(|deaf| path == deaf.path).map(|deaf| (deaf.options, deaf.why));
    let special =
        special.into_iter().filter(|(is_deaf, ..)| *is_deaf).map(|(_, options, why)| (options, why));
    for (options, why) in always.chain(special) {
        if let Some(option) = options.iter().find(|option| is_typed(matches, option)) {
            return Err(unheard(option, &path, why));
        }
    }
    Ok(())
}

fn unheard(option: &str, path: &[&str], why: &str) -> Fault {
    let message =
        format!("--{} means nothing to `driftq {}`: {why}", option.replace('_', "-"), path.join(" "));
    Fault::new(Exit::Usage, message).help("leave it out")
}

fn is_typed(matches: &ArgMatches, option: &str) -> bool {
    matches.value_source(option) == Some(ValueSource::CommandLine)
}

fn path(matches: &ArgMatches) -> Vec<&str> {
    let mut path = Vec::new();
    let mut here = matches;
    while let Some((name, inner)) = here.subcommand() {
        path.push(name);
        here = inner;
    }
    path
}

fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_heard_is_not_offered() {
        let mut root = crate::command();
        // Only then the options of every command are there.
        root.build();
        for deaf in &ALL {
            let mut command = &root;
            for name in deaf.path {
                command = command.find_subcommand(name).unwrap_or_else(|| panic!("{:?}", deaf.path));
            }
            for option in deaf.options {
                let arg = command.get_arguments().find(|arg| arg.get_id().as_str() == *option).unwrap();
                assert!(arg.is_hide_set(), "{:?} --{option}", deaf.path);
            }
        }
    }
}
