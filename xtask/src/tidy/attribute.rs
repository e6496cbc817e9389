//! Lint exceptions and ignored tests carry their reason.

use super::{
    finding::Finding,
    source::{Source, attributes, words},
};

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for range in attributes(&source.code) {
        let attribute = &source.code[range.clone()];
        let line = source.line(range.start);
        let has = |word| words(attribute, word).next().is_some();
        if (has("allow(") || has("expect(")) && !has("reason") {
            let message = "lint exception without a reason: add `reason = \"...\"`, or follow the lint";
            findings.push(Finding::error(&source.path, line, "reason", message));
        }
        if has("ignore") && !attribute.contains('=') {
            let message = "ignored test without a reason: write `#[ignore = \"why, and how to run it\"]`";
            findings.push(Finding::error(&source.path, line, "reason", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Source, check};

    #[test]
    fn exceptions_without_a_reason_fail() {
        for (text, expected) in [
            ("#[allow(dead_code)]\nfn a() {}\n", 1),
            ("#![allow(dead_code)]\n", 1),
            ("#[expect(\n    dead_code\n)]\nfn a() {}\n", 1),
            ("#[cfg_attr(test, allow(dead_code))]\nfn a() {}\n", 1),
            ("#[allow(dead_code, reason = \"used by the fuzzer\")]\nfn a() {}\n", 0),
            ("#[test]\n#[ignore]\nfn a() {}\n", 1),
            ("#[test]\n#[ignore = \"needs an hour\"]\nfn a() {}\n", 0),
            ("#[derive(Debug)]\nstruct A;\n", 0),
            ("// #[allow(dead_code)]\n", 0),
        ] {
            assert_eq!(check(&Source::new("a.rs", text)).len(), expected, "for {text:?}");
        }
    }
}
