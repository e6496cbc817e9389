//! Values of flags that several commands share.

use std::{borrow::Cow, ffi::OsStr};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, Error};
use driftq_api::Moment;
use driftq_api::units::{duration, millis};
use driftq_api::v2::{Labels, LetterPlace};

use crate::{Exit, Fault};

/// Values that must say something: a name that is empty is a variable that is not set.
const NAMES: [&str; 5] = ["topic", "group", "scope", "dataset", "entity"];
/// Commands for a shell: an empty one succeeds, and that would be taken for work done.
const COMMANDS: [&str; 2] = ["exec", "reconcile"];

/// Every name and every command of the command line with its rule.
pub fn named(command: Command) -> Command {
    command
        .mut_args(|arg| match arg.get_id().as_str() {
            id if NAMES.contains(&id) => arg.value_parser(name),
            id if COMMANDS.contains(&id) => arg.value_parser(shell_command),
            _ => arg,
        })
        .mut_subcommands(named)
}

/// A name that is one.
pub(super) fn name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a name must not be empty; is it a variable that is not set?".to_owned());
    }
    Ok(text.to_owned())
}

fn shell_command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("there is no command in it; is it a variable that is not set?".to_owned());
    }
    Ok(text.to_owned())
}

/// A length of time that is one.
pub(super) fn span(text: &str) -> Result<u64, String> {
    something(duration(text)?)
}

/// The same for a flag whose name says what a bare number is.
pub(super) fn span_ms(text: &str) -> Result<u64, String> {
    something(millis(text)?)
}

fn something(length_ms: u64) -> Result<u64, String> {
    if length_ms == 0 { Err("that is no time at all; the least is 1ms".to_owned()) } else { Ok(length_ms) }
}

/// A point in time.
pub(super) fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text)
        .ok_or_else(|| format!("`{text}` is not an RFC 3339 time; write for example 2030-01-31T12:00:00Z"))
}

/// `name=value`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}

/// `partition:offset`; a slash will do too, since that is how places are printed.
pub(super) fn place(text: &str) -> Result<LetterPlace, String> {
    let numbers = text.split_once([':', '/']);
    let place = numbers.and_then(|(partition, offset)| {
        Some(LetterPlace { partition: partition.parse().ok()?, offset: offset.parse().ok()? })
    });
    place.ok_or_else(|| format!("`{text}` is not PARTITION:OFFSET; write for example 0:12"))
}

/// The values of a flag that takes one of several: its word, what that means, and what it stands for on the wire.
pub(super) type Choices<T> = &'static [(&'static str, &'static str, T)];

/// Reads one of several words. Where a word has a hyphen, an underscore will do too: so it is written on the wire.
#[derive(Clone, Copy)]
pub(super) struct Choice<T: 'static>(pub(super) Choices<T>);

impl<T: Copy> Choice<T> {
    pub(super) fn find(self, text: &str, ignore_case: bool) -> Option<T> {
        let word = text.replace('_', "-");
        let is_it = |known: &str| if ignore_case { known.eq_ignore_ascii_case(&word) } else { known == word };
        self.0.iter().find(|(known, ..)| is_it(known)).map(|(.., value)| *value)
    }

    fn possible(self) -> impl Iterator<Item = PossibleValue> {
        self.0.iter().map(|(word, help, _)| match *help {
            "" => PossibleValue::new(*word),
            help => PossibleValue::new(*word).help(help),
        })
    }
}

impl<T: Copy + Send + Sync> TypedValueParser for Choice<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, text: &OsStr) -> Result<T, Error> {
        let ignore_case = arg.is_some_and(Arg::is_ignore_case_set);
        let found = text.to_str().and_then(|text| self.find(text, ignore_case));
        match found {
            Some(value) => Ok(value),
            // It refuses the text, and says what would be taken.
            None => PossibleValuesParser::new(self.possible())
                .try_map(|_| Err("not one of them"))
                .parse_ref(command, arg, text),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.possible()))
    }
}

/// Labels out of pairs; says which one the server would not take.
pub(super) fn labels(pairs: &[(String, String)]) -> Result<Labels<'static>, Fault> {
    let pairs = pairs.iter().map(|(name, value)| (Cow::Owned(name.clone()), Cow::Owned(value.clone())));
    Labels::new(pairs.collect()).map_err(|why| Fault::new(Exit::Usage, format!("--label: {why}")))
}

/// A text for the wire, if there is one.
pub(super) fn owned(text: Option<&String>) -> Option<Cow<'static, str>> {
    text.map(|text| Cow::Owned(text.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_help_writes_them() {
        assert_eq!(pair("team=a=b"), Ok(("team".to_owned(), "a=b".to_owned())));
        assert_eq!(place("3:12"), Ok(LetterPlace { partition: 3, offset: 12 }));
        assert_eq!(place("3/12"), Ok(LetterPlace { partition: 3, offset: 12 }));
        assert!(moment("2030-01-31T12:00:00Z").is_ok());
    }

    #[test]
    fn a_length_of_time_is_not_nothing() {
        assert_eq!(span("1ms"), Ok(1));
        for text in ["0", "0s", "0ms", "-1s", ""] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn refusals_show_how_it_is_written() {
        assert!(pair("team").unwrap_err().contains("NAME=VALUE"));
        assert!(pair("=a").is_err());
        assert!(place("12").unwrap_err().contains("0:12"));
        assert!(moment("tomorrow").unwrap_err().contains("2030-01-31T12:00:00Z"));
        let twice = [("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())];
        assert!(labels(&twice).unwrap_err().message.contains("given twice"));
    }
}
