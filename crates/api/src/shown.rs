//! Names as words of a shell, for commands that are to be pasted.

use crate::printable;

/// The text as one word, quoted if it must be.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@%+=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    if text.contains(char::is_control) {
        // They would drive the terminal that shows the command. Written like this, shells read them as they are.
        return format!("$'{}'", printable(&text.replace('\\', "\\\\").replace('\'', "\\'")));
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_quotes_has_them() {
        for (text, expected) in [
            ("dlq.orders", "dlq.orders"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$(rm)", "'$(rm)'"),
            ("", "''"),
            ("-x", "'-x'"),
            ("it's\u{1b}[2J\\", r"$'it\'s\u001b[2J\\'"),
        ] {
            assert_eq!(word(text), expected);
        }
    }
}
