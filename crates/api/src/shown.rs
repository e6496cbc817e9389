//! Numbers and texts as people see them, and names as words of a shell, for commands that are to be pasted.

/// A count with thin groups, for people: `1_234_567` → `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A text in a table is cut here: JSON has all of it.
const CELL_CHARS_MAX: usize = 60;

/// The beginning of a long text.
#[must_use]
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Escapes control characters as JSON does, so that a message's bytes cannot drive the terminal and can still be read.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if c.is_control() => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

/// The text as one word of a shell, quoted if it must be.
#[must_use]
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
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

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

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\u{85}\n\u{0}"), r"a\u001b[2Jb\u0085\n\u0000");
        assert_eq!(printable("plain, \u{fffd} and ü"), "plain, \u{fffd} and ü");
    }
}
