//! Nothing half-done is left behind: no `unwrap`, no placeholder macros, no notes to self.

use super::{
    finding::Finding,
    source::{Source, words},
};

/// Macros that mark unfinished work. They fail in tests too: a test that stops at one proves nothing.
const MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];

/// Notes to self, written in two halves so that this file passes its own rule.
const NOTES: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let error = |offset: usize, message: String| {
        Finding::error(&source.path, source.line(offset), "leftover", message)
    };
    let mut findings = Vec::new();
    for (offset, _) in source.code.match_indices(".unwrap()") {
        if !source.in_test(offset) {
            let message = "`unwrap()` outside tests: return the error, or `expect` with the invariant that rules it out";
            findings.push(error(offset, message.to_owned()));
        }
    }
    for name in MACROS {
        let report = |offset| error(offset, format!("`{name}` is unfinished work: finish it or take it out"));
        findings.extend(source.words(name).map(report));
    }
    for note in NOTES {
        let report =
            |offset| error(offset, format!("`{note}`: do it now, or write down the limit in plain words"));
        findings.extend(words(&source.text, note).map(report));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{MACROS, NOTES, Source, check};

    #[test]
    fn unwrap_fails_in_code_and_passes_in_tests_and_prose() {
        assert_eq!(check(&Source::new("a.rs", "fn a() {\n    b().unwrap();\n}\n"))[0].line, 2);
        assert!(check(&Source::new("a.rs", "#[cfg(test)]\nmod t { fn a() { b().unwrap(); } }\n")).is_empty());
        assert!(check(&Source::new("a/tests/a.rs", "fn a() { b().unwrap(); }\n")).is_empty());
        assert!(check(&Source::new("a.rs", "// never .unwrap() here\n")).is_empty());
        assert!(check(&Source::new("a.rs", "fn a() { b().unwrap_or(1); }\n")).is_empty());
    }

    #[test]
    fn placeholders_and_notes_fail() {
        for name in MACROS {
            assert_eq!(check(&Source::new("a.rs", format!("fn a() {{ {name}(); }}\n"))).len(), 1, "{name}");
        }
        for note in NOTES {
            assert_eq!(check(&Source::new("a.rs", format!("// {note}: later\n"))).len(), 1, "{note}");
        }
        assert!(check(&Source::new("a.rs", "// a template like XXXXXX is fine\n")).is_empty());
    }
}
