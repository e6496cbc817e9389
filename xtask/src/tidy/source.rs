//! One Rust file as the rules see it: text, masked text, and which parts are tests.

use std::{ops::Range, path::PathBuf};

use super::mask::{is_word, mask};

pub(crate) struct Source {
    /// Relative to the workspace root, with forward slashes.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// The text with comments and literals blanked; the offsets are those of `text`.
    pub(crate) code: String,
    /// The whole file is test code: it lies in a tests folder, or its `mod` line is `#[cfg(test)]`.
    pub(crate) is_test: bool,
    test_ranges: Vec<Range<usize>>,
    line_starts: Vec<usize>,
}

impl Source {
    pub(crate) fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = mask(&text);
        let test_folder = |part: &std::ffi::OsStr| part == "tests" || part == "benches" || part == "examples";
        let is_test = path.iter().any(test_folder);
        let test_ranges = test_ranges(&code);
        let line_starts = line_starts(&text);
        Self { path, text, code, is_test, test_ranges, line_starts }
    }

    /// The 1-based line of a byte offset.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    pub(crate) fn in_test(&self, offset: usize) -> bool {
        self.is_test || self.test_ranges.iter().any(|range| range.contains(&offset))
    }

    /// Where `#[cfg(test)]` items lie.
    pub(crate) fn test_ranges(&self) -> &[Range<usize>] {
        &self.test_ranges
    }

    /// Offsets at which `needle` stands in the code as a whole word on both sides.
    pub(crate) fn words<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
        words(&self.code, needle)
    }
}

/// Offsets at which `needle` stands in `text` without being part of a longer identifier.
pub(crate) fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(needle).map(|(offset, _)| offset).filter(move |&offset| {
        let end = offset + needle.len();
        let starts_word = needle.as_bytes().first().copied().is_some_and(is_word);
        let ends_word = needle.as_bytes().last().copied().is_some_and(is_word);
        let open_before = offset == 0 || !starts_word || !is_word(bytes[offset - 1]);
        let open_after = end >= bytes.len() || !ends_word || !is_word(bytes[end]);
        open_before && open_after
    })
}

/// The offset just behind the bracket that closes the one at `open`, or the end of the text.
pub(crate) fn matching(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return offset + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The end of the item that starts at `start`: its closing brace, or its semicolon when it has no body.
pub(crate) fn item_end(code: &str, start: usize) -> usize {
    match body_start(code, start) {
        Some(open) => matching(code, open),
        None => code[start..].find(';').map_or(code.len(), |found| start + found + 1),
    }
}

/// The opening brace of the item that starts at `start`; none when a semicolon comes first.
pub(crate) fn body_start(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return Some(offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Attributes with their range: `(#[...], offset of the hash .. offset behind the bracket)`.
pub(crate) fn attributes(code: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let starts = code.match_indices('#').map(|(offset, _)| offset);
    starts.filter_map(|hash| {
        let rest = &code[hash + 1..];
        let open = hash + 1 + usize::from(rest.starts_with('!'));
        code[open..].starts_with('[').then(|| hash..matching(code, open))
    })
}

fn test_ranges(code: &str) -> Vec<Range<usize>> {
    let is_test = |attribute: &str| {
        let plain = attribute.contains("cfg(") && words(attribute, "test").next().is_some();
        let negated = attribute.contains("not(test") || attribute.contains("cfg_attr");
        plain && !negated
    };
    let attributes = attributes(code).filter(|range| is_test(&code[range.clone()]));
    attributes.map(|range| range.start..item_end(code, range.end)).collect()
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(offset, _)| offset + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Source, words};

    #[test]
    fn test_modules_are_told_from_code() {
        let source = Source::new("a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n");
        let at = |needle: &str| source.text.find(needle).expect("the sample contains it");
        assert!(!source.in_test(at("fn a")));
        assert!(source.in_test(at("fn b")));
        assert!(!source.in_test(at("fn c")));
        assert_eq!(source.line(at("fn b")), 4);
    }

    #[test]
    fn code_that_is_absent_in_tests_is_not_test_code() {
        let source =
            Source::new("a.rs", "#[cfg(not(test))]\nfn a() {}\n#[cfg(feature = \"test\")]\nfn b() {}\n");
        assert!(source.test_ranges().is_empty());
    }

    #[test]
    fn words_do_not_match_inside_identifiers() {
        assert_eq!(words("fastrand::x rand::y my_rand", "rand::").count(), 1);
        assert_eq!(words("dbg!(1) my_dbg!(2)", "dbg!").count(), 1);
    }
}
