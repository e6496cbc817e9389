//! Exit codes, and the error that carries one.

use std::{borrow::Cow, fmt, io::Write as _, process::ExitCode};

use serde::Serialize;

use crate::Format;
use crate::colour::{self, Tone};

/// How a command ends. Scripts may rely on these numbers; `--help` lists them from [`Exit::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Success = 0,
    Failure = 1,
    Usage = 2,
    Unreachable = 3,
    Invalid = 4,
    Conflict = 5,
    Overloaded = 6,
    Damaged = 7,
    Locked = 8,
    Config = 9,
    ServerFault = 10,
    Listen = 11,
    Replay = 12,
    InProgress = 13,
    Retryable = 14,
    Unknown = 15,
}

/// Every code and what it means, in order.
const MEANINGS: [(Exit, &str); 16] = [
    (Exit::Success, "done"),
    (Exit::Failure, "failed for another reason; the message says which"),
    (Exit::Usage, "the command line was not understood"),
    (Exit::Unreachable, "no server answers at --server, or no store at --store"),
    (Exit::Invalid, "the server refused the request: not found, or an argument it does not accept"),
    (Exit::Conflict, "a conflict: a stale lease, another's message, other settings, or what is final"),
    (Exit::Overloaded, "the server is overloaded (429) and stayed so through all retries"),
    (Exit::Damaged, "the log on disk is damaged"),
    (Exit::Locked, "another process uses the data directory"),
    (Exit::Config, "the configuration is not valid"),
    (Exit::ServerFault, "the server answered with a fault of its own (5xx)"),
    (Exit::Listen, "the listen address cannot be used"),
    (Exit::Replay, "the effect has ended before: take the outcome that was printed"),
    (Exit::InProgress, "the effect is being carried out by another caller: ask again later"),
    (Exit::Retryable, "the effect failed and may be tried again: reacquire it"),
    (Exit::Unknown, "the effect may have happened: find out, and resolve it"),
];

impl Exit {
    pub const ALL: [Self; MEANINGS.len()] = {
        let mut all = [Self::Success; MEANINGS.len()];
        let mut number = 0;
        while number < all.len() {
            all[number] = MEANINGS[number].0;
            number += 1;
        }
        all
    };

    /// One line for the help text.
    pub const fn meaning(self) -> &'static str {
        MEANINGS[self as usize].1
    }

    /// Its name for programs, such as `SERVER_FAULT`.
    fn word(self) -> String {
        let mut word = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !word.is_empty() {
                word.push('_');
            }
            word.push(letter.to_ascii_uppercase());
        }
        word
    }

    fn line(self) -> String {
        format!("  {:>3}  {}\n", self as u8, self.meaning())
    }

    /// The codes that answer a caller that wants to carry out an effect.
    pub fn decisions() -> String {
        let codes = [Self::Replay, Self::InProgress, Self::Retryable, Self::Unknown];
        let own = "Exit codes:\n    0  the effect is yours: carry it out, and finish it with the token\n";
        codes.into_iter().fold(own.to_owned(), |text, exit| text + &exit.line())
    }

    /// The table of codes as `--help` prints it.
    pub fn table() -> String {
        let mut text = String::from("Exit codes:\n");
        for exit in Self::ALL {
            text.push_str(&exit.line());
        }
        text.push_str("  130  ended at once by a second Ctrl-C (143: by a second SIGTERM)");
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A failure that knows its exit code and what the user can do next.
#[derive(Debug)]
pub struct Fault {
    pub exit: Exit,
    pub message: String,
    pub help: Option<String>,
    /// Who says so, if it is not this command line itself.
    origin: Option<Box<Origin>>,
}

/// What the server's answer says about itself, for programs.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub code: String,
    pub status: Option<u16>,
    /// The server's name for the request.
    pub request_id: Option<String>,
}

impl Origin {
    /// Something that only has a name for programs.
    pub fn new(code: &str) -> Self {
        Self { code: code.to_owned(), ..Self::default() }
    }
}

impl Fault {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), help: None, origin: None }
    }

    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin.into());
        self
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// Where errors are told as JSON, for `--help` and the reference.
pub const ERRORS_AS_JSON: &str = "With -o json or -o ndjson an error is one JSON object in the last line of \
stderr: code (the server's, or a name for the exit code), message and exit_code, and where they are known help, status \
and request_id.";

/// An error as programs read it.
#[derive(Serialize)]
struct Complaint<'a> {
    code: Cow<'a, str>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

/// Prints the failure on stderr and gives the code to end with.
pub fn report(error: &anyhow::Error, format: Option<Format>) -> Exit {
    let fault = error.chain().find_map(|cause| cause.downcast_ref::<Fault>());
    let exit = fault.map_or(Exit::Failure, |fault| fault.exit);
    let help = fault.and_then(|fault| fault.help.as_deref());
    if matches!(format, Some(Format::Json | Format::Ndjson)) {
        let origin = fault.and_then(|fault| fault.origin.as_deref());
        let complaint = Complaint {
            code: origin.map_or_else(|| exit.word().into(), |origin| (&*origin.code).into()),
            message: format!("{error:#}"),
            help,
            exit_code: exit as u8,
            status: origin.and_then(|origin| origin.status),
            request_id: origin.and_then(|origin| origin.request_id.as_deref()),
        };
        // Texts and numbers always have a JSON form.
        say(&serde_json::to_string(&complaint).unwrap_or_default());
        return exit;
    }
    say(&format!("{} {error:#}", colour::on_stderr(Tone::Bad, "error:")));
    if let Some(help) = help {
        say(&format!(" {} {help}", colour::on_stderr(Tone::Good, "help:")));
    }
    exit
}

/// To stderr; one that takes nothing changes no exit code.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The same for a command line that clap does not understand.
pub fn misunderstood(error: &clap::Error) -> Fault {
    let text = error.to_string();
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let lines = || rest.lines().map(str::trim);
    let tip = lines().find_map(|line| line.strip_prefix("tip: "));
    // The values that it takes, or the arguments that are missing.
    let choice = lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let choice = (!choice.is_empty()).then_some(&*choice);
    Fault::new(Exit::Usage, first.trim_start_matches("error: ").trim_end_matches(':'))
        .help(tip.or(choice).unwrap_or("--help behind the command says what it takes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_dense() {
        for (number, exit) in Exit::ALL.into_iter().enumerate() {
            assert_eq!(exit as usize, number);
        }
    }

    #[test]
    fn the_code_survives_added_context() {
        let error = anyhow::Error::new(Fault::new(Exit::Conflict, "not owner")).context("acking 0/1");
        assert_eq!(report(&error, None), Exit::Conflict);
        assert_eq!(report(&anyhow::anyhow!("plain"), Some(Format::Json)), Exit::Failure);
    }

    #[test]
    fn codes_have_names_for_programs() {
        assert_eq!(Exit::ServerFault.word(), "SERVER_FAULT");
        assert_eq!(Exit::Usage.word(), "USAGE");
    }
}
