//! Colours, where somebody can see them.

use std::{env, io::IsTerminal};

/// Paints text for one stream; leaves it as it is where that is no terminal, or where `NO_COLOR` is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let is_wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            is_on: is_wanted
                && stream.is_terminal()
                && env::var_os("TERM").is_some_and(|term| term != "dumb"),
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_seen_is_painted() {
        assert_eq!(Paint { is_on: false }.red("no"), "no");
        assert_eq!(Paint { is_on: true }.red("no"), "\u{1b}[31mno\u{1b}[0m");
    }
}
