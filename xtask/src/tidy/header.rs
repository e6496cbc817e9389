//! Every source file opens with a `//!` line that says what it is for.

use super::{finding::Finding, source::Source};

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    // Inner attributes such as `#![no_std]` may stand above the header.
    let first = source.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    let is_header =
        first.is_some_and(|line| line.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty()));
    if is_header {
        return Vec::new();
    }
    let message = "no module header: begin the file with `//! ...`, one sentence about why it exists";
    vec![Finding::error(&source.path, 1, "header", message)]
}

#[cfg(test)]
mod tests {
    use super::{Source, check};

    #[test]
    fn a_file_without_a_header_fails() {
        for (text, expected) in [
            ("//! Why.\nfn a() {}\n", 0),
            ("#![no_std]\n//! Why.\n", 0),
            ("fn a() {}\n", 1),
            ("//!\nfn a() {}\n", 1),
            ("// A note.\n", 1),
            ("", 1),
        ] {
            assert_eq!(check(&Source::new("a.rs", text)).len(), expected, "for {text:?}");
        }
    }
}
