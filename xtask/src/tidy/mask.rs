//! Blanks out comments and literals, so that rules look at code and not at prose.
//!
//! The masked text has the same bytes at the same offsets as the original, except that the inside of comments,
//! strings and characters became spaces. Newlines stay, and so do the quotes around strings. That is enough to
//! match braces reliably without a parser, and it keeps xtask free of heavy dependencies.

/// Returns `text` with the inside of every comment, string and character literal replaced by spaces.
pub(crate) fn mask(text: &str) -> String {
    let mut lexer = Lexer { input: text.as_bytes(), at: 0, output: Vec::with_capacity(text.len()) };
    while lexer.at < lexer.input.len() {
        lexer.step();
    }
    // Only whole literals and comments are blanked, and each of their bytes becomes one space: still UTF-8.
    String::from_utf8_lossy(&lexer.output).into_owned()
}

struct Lexer<'a> {
    input: &'a [u8],
    at: usize,
    output: Vec<u8>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.input.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn keep(&mut self, count: usize) {
        let end = (self.at + count).min(self.input.len());
        self.output.extend_from_slice(&self.input[self.at..end]);
        self.at = end;
    }

    fn blank(&mut self, count: usize) {
        let end = (self.at + count).min(self.input.len());
        for &byte in &self.input[self.at..end] {
            self.output.push(if byte == b'\n' { b'\n' } else { b' ' });
        }
        self.at = end;
    }

    fn step(&mut self) {
        let inside_word = self.at > 0 && is_word(self.input[self.at - 1]);
        match self.peek(0) {
            b'/' if self.peek(1) == b'/' => self.line_comment(),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'"' => self.string(),
            b'\'' => self.quote(),
            b'r' if !inside_word => self.raw_string(0),
            b'b' | b'c' if !inside_word && self.peek(1) == b'r' => self.raw_string(1),
            _ => self.keep(1),
        }
    }

    fn line_comment(&mut self) {
        let rest = &self.input[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.blank(length);
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => depth += 1,
                (b'*', b'/') => depth -= 1,
                _ if self.at >= self.input.len() => return,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.keep(1);
        while self.at < self.input.len() && self.peek(0) != b'"' {
            self.blank(if self.peek(0) == b'\\' { 2 } else { 1 });
        }
        self.keep(1);
    }

    /// A quote opens a character or a lifetime; only the former has a closing quote right after one character.
    fn quote(&mut self) {
        let rest = String::from_utf8_lossy(&self.input[self.at + 1..self.input.len().min(self.at + 12)]);
        let mut letters = rest.chars();
        let first = letters.next();
        if first == Some('\\') {
            self.keep(1);
            self.blank(2);
            while self.at < self.input.len() && self.peek(0) != b'\'' {
                self.blank(1);
            }
            self.keep(1);
        } else if letters.next() == Some('\'') {
            let width = first.map_or(0, char::len_utf8);
            self.keep(1);
            self.blank(width);
            self.keep(1);
        } else {
            self.keep(1);
        }
    }

    /// `prefix` is the number of bytes before the `r`. Falls back to one kept byte for words such as `return`.
    fn raw_string(&mut self, prefix: usize) {
        let mut hashes = 0;
        while self.peek(prefix + 1 + hashes) == b'#' {
            hashes += 1;
        }
        if self.peek(prefix + 1 + hashes) != b'"' {
            return self.keep(1);
        }
        self.keep(prefix + 1 + hashes + 1);
        let closing = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
        while self.at < self.input.len() && !self.input[self.at..].starts_with(&closing) {
            self.blank(1);
        }
        self.keep(closing.len());
    }
}

/// Whether a byte can be part of an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn comments_and_literals_become_spaces_of_equal_length() {
        let cases = [
            ("a // x\nb", "a     \nb"),
            ("a /* { /* } */ \n */ b", "a              \n    b"),
            (r#"f("}\"{")"#, r#"f("    ")"#),
            (r##"r#"{"}"#;"##, r##"r#"   "#;"##),
            (r#"br"{" b"}""#, r#"br" " b" ""#),
            ("'{' '\\'' '\\u{7d}'", "' ' '  ' '      '"),
            ("'é' x", "'  ' x"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("return for_r", "return for_r"),
        ];
        for (input, expected) in cases {
            assert_eq!(mask(input), expected, "for {input:?}");
            assert_eq!(mask(input).len(), input.len(), "offsets must not move for {input:?}");
        }
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for input in ["\"abc", "/* abc", "r#\"abc", "'\\", "'"] {
            assert_eq!(mask(input).len(), input.len(), "for {input:?}");
        }
    }
}
