//! Colours, where somebody can see them.

use anstream::stream::RawStream;

use crate::colour;

/// Paints text for one stream; leaves it as it is where there is to be no colour.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    pub fn of(stream: &impl RawStream) -> Self {
        Self { is_on: colour::is_on(stream) }
    }

    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub fn cyan(self, text: &str) -> String {
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
