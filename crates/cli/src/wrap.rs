//! Sentences in lines that fit.

use std::{io, os::fd::AsFd};

use rustix::termios::tcgetwinsize;

/// Where there is no terminal that has a width.
const WIDTH_DEFAULT: usize = 80;
/// Lines that are shorter are no sentences any more, and longer ones are hard to read.
const WIDTH_MIN: usize = 40;
const WIDTH_MAX: usize = 100;

/// The width of the terminal behind stdout.
pub fn width_of_stdout() -> usize {
    fitting(io::stdout())
}

/// The width of the terminal behind stderr.
pub fn width_of_stderr() -> usize {
    fitting(io::stderr())
}

fn fitting(stream: impl AsFd) -> usize {
    // Some terminals do not know how wide they are, and say 0.
    let told = tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    if told == 0 { WIDTH_DEFAULT } else { told.clamp(WIDTH_MIN, WIDTH_MAX) }
}

/// The text in lines of at most `width` characters; a word that is longer has a line of its own.
pub fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(lines("one two  three\nfour", 9), ["one two", "three", "four"]);
        assert_eq!(lines("ä ö ü", 3), ["ä ö", "ü"]);
        assert_eq!(lines("muchtoolong a", 5), ["muchtoolong", "a"]);
        assert!(lines("  ", 5).is_empty());
    }
}
