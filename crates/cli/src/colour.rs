//! Colour, for people at a terminal. `NO_COLOR` turns it off, `CLICOLOR_FORCE` on; pipes, JSON and terminals
//! that are `dumb` have none.

use std::{env, io};

use anstream::{AutoStream, ColorChoice, stream::RawStream};
use clap::builder::styling::{AnsiColor, Style};

/// What a text is, not how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Heading,
    Good,
    Caution,
    Bad,
}

impl Tone {
    const fn style(self) -> Style {
        match self {
            Self::Heading => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Caution => AnsiColor::Yellow.on_default().bold(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// The text for stdout.
pub fn on_stdout(tone: Tone, text: &str) -> String {
    paint(is_on(&io::stdout()), tone, text)
}

/// The text for stderr.
pub fn on_stderr(tone: Tone, text: &str) -> String {
    paint(is_on(&io::stderr()), tone, text)
}

/// Whether what is written there may have colour. Unit tests compare texts, and may run in a terminal: there it is off.
pub fn is_on(stream: &impl RawStream) -> bool {
    !cfg!(test) && !is_plain() && AutoStream::choice(stream) != ColorChoice::Never
}

/// What clap prints has colour where everything else has it.
pub fn of_help() -> clap::ColorChoice {
    if is_plain() { clap::ColorChoice::Never } else { clap::ColorChoice::Auto }
}

/// A terminal that says that it knows no colour has none, whatever else is known about it; that of a build service, for
/// example, is taken for one that has. Whoever asks for colour gets it.
fn is_plain() -> bool {
    let is_forced = env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    !is_forced && env::var_os("TERM").is_some_and(|term| term == "dumb")
}

fn paint(is_coloured: bool, tone: Tone, text: &str) -> String {
    if !is_coloured {
        return text.to_owned();
    }
    let style = tone.style();
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_surround_the_text_or_are_not_there() {
        assert_eq!(paint(false, Tone::Bad, "x"), "x");
        let painted = paint(true, Tone::Bad, "x");
        assert!(painted.starts_with('\u{1b}') && painted.ends_with("\u{1b}[0m"), "{painted:?}");
    }
}
