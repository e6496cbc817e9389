//! Every command, from clap's own tables.

use clap::{Arg, ArgAction, Command};

use crate::markdown::{cell, head, prose, row};
use driftq_cli::exit::{ERRORS_AS_JSON, Exit};

/// A command.
pub(crate) struct Entry {
    pub(crate) name: String,
    about: String,
    usage: String,
    options: Vec<Choice>,
    notes: String,
}

/// An option or an argument.
struct Choice {
    name: String,
    help: String,
    defaults: Vec<String>,
    variable: Option<String>,
    values: Vec<String>,
}

/// All commands that help shows, depth first.
pub(crate) fn list(root: &Command) -> Vec<Entry> {
    let mut entries = Vec::new();
    collect(root, &mut entries);
    entries
}

pub(crate) fn page(root: &Command) -> String {
    let mut page = String::from(
        "# The command line\n\nMade by `cargo xtask docs` from the commands themselves; edit those, not this page. Every command \
         also has `--help`; `cargo xtask docs --man DIR` writes man pages.\n\n",
    );
    page.push_str("## Options of every command\n\n");
    let common: Vec<Choice> = root.get_arguments().filter(|arg| arg.is_global_set()).map(choice).collect();
    page.push_str(&table(&common));
    page.push_str(&format!("\n## Exit codes\n\n{}", exit_codes()));
    for entry in list(root) {
        page.push_str(&format!("\n## {}\n\n{}.\n\n", entry.name, entry.about));
        page.push_str(&format!("```text\n{}\n```\n", entry.usage));
        if !entry.options.is_empty() {
            page.push_str(&format!("\n{}", table(&entry.options)));
        }
        if !entry.notes.is_empty() {
            page.push_str(&format!("\n{}", prose(&entry.notes)));
        }
    }
    page
}

fn exit_codes() -> String {
    let mut text = head(&["code", "meaning"]);
    for exit in Exit::ALL {
        text.push_str(&row([&*format!("{}", exit as u8), &cell(exit.meaning())]));
    }
    text.push_str(
        "\n`driftq check` has codes of its own, those of Nagios: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.\n",
    );
    text + &format!("\n## Errors for programs\n\n{ERRORS_AS_JSON}\n")
}

fn collect(command: &Command, entries: &mut Vec<Entry>) {
    entries.push(entry(command));
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    for inner in inner {
        collect(inner, entries);
    }
}

fn entry(command: &Command) -> Entry {
    let own = command.get_arguments().filter(|arg| !arg.is_global_set() && !arg.is_hide_set());
    let own = own.filter(|arg| {
        !matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort | ArgAction::Version
        )
    });
    let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    Entry {
        name: command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned(),
        about: text(command.get_about()).trim_end_matches('.').to_owned(),
        usage: usage.trim_start_matches("Usage: ").trim().to_owned(),
        options: own.map(choice).collect(),
        notes: text(command.get_after_help()),
    }
}

fn choice(arg: &Arg) -> Choice {
    let values = arg.get_possible_values();
    let shown = values.iter().filter(|value| !value.is_hide_set() && arg.get_action().takes_values());
    let is_default_told = !arg.is_hide_default_value_set() && arg.get_action().takes_values();
    let defaults = arg.get_default_values().iter().filter(|_| is_default_told);
    Choice {
        name: name(arg),
        help: arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default(),
        defaults: defaults.map(|value| value.to_string_lossy().into_owned()).collect(),
        variable: arg.get_env().map(|name| name.to_string_lossy().into_owned()),
        values: shown.map(|value| value.get_name().to_owned()).collect(),
    }
}

/// As help writes it: `-o, --output <FORMAT>`, `<TOPIC>`, `[VALUE]`.
fn name(arg: &Arg) -> String {
    let value = if arg.get_action().takes_values() {
        let names = arg.get_value_names().unwrap_or_default();
        let names = if names.is_empty() { arg.get_id().to_string().to_uppercase() } else { names.join(" ") };
        if arg.is_positional() && !arg.is_required_set() {
            format!("[{names}]")
        } else {
            format!("<{names}>")
        }
    } else {
        String::new()
    };
    let flags = arg.get_short().map(|short| format!("-{short}")).into_iter();
    let flags = flags.chain(arg.get_long().map(|long| format!("--{long}"))).collect::<Vec<_>>().join(", ");
    format!("{flags} {value}").trim().to_owned()
}

fn table(options: &[Choice]) -> String {
    let mut text = head(&["option", "meaning"]);
    for option in options {
        let mut meaning = cell(&option.help);
        let quoted = |values: &[String]| {
            values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
        };
        if !option.values.is_empty() {
            meaning.push_str(&format!(". One of {}", quoted(&option.values)));
        }
        if !option.defaults.is_empty() {
            meaning.push_str(&format!(". Default: {}", quoted(&option.defaults)));
        }
        if let Some(variable) = &option.variable {
            meaning.push_str(&format!(". Variable: `{variable}`"));
        }
        text.push_str(&row([&*format!("`{}`", option.name.replace('|', "\\|")), &meaning]));
    }
    text
}
