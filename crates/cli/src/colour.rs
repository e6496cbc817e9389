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
    Paint::of(&io::stdout()).styled(tone.style(), text)
}

/// The text for stderr.
pub fn on_stderr(tone: Tone, text: &str) -> String {
    Paint::of(&io::stderr()).styled(tone.style(), text)
}

/// Paints text for one stream; leaves it as it is where there is to be no colour.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    pub fn of(stream: &impl RawStream) -> Self {
        Self { is_on: is_on(stream) }
    }

    pub fn bold(self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    pub fn dim(self, text: &str) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    pub fn red(self, text: &str) -> String {
        self.styled(AnsiColor::Red.on_default(), text)
    }

    pub fn green(self, text: &str) -> String {
        self.styled(AnsiColor::Green.on_default(), text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.styled(AnsiColor::Yellow.on_default(), text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.styled(AnsiColor::Cyan.on_default(), text)
    }

    fn styled(self, style: Style, text: &str) -> String {
        if self.is_on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
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
/// example, is taken for one that has. `CLICOLOR_FORCE` comes first.
fn is_plain() -> bool {
    let is_forced = env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    !is_forced && env::var_os("TERM").is_some_and(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_surround_the_text_or_are_not_there() {
        assert_eq!(Paint { is_on: false }.red("no"), "no");
        assert_eq!(Paint { is_on: true }.red("no"), "\u{1b}[31mno\u{1b}[0m");
    }
}
