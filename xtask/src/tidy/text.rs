//! Rules for every text file: clean whitespace, and no path of one particular machine.

use std::path::Path;

use super::finding::Finding;

/// Top folders that exist on one machine only. Kept without slashes so that this file passes its own rule.
const MACHINE_FOLDERS: [&str; 4] = ["work", "root", "home", "Users"];

pub(crate) fn check(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    for (index, line) in text.split('\n').enumerate() {
        let mut error = |rule, message: String| findings.push(Finding::error(path, index + 1, rule, message));
        if line.ends_with([' ', '\t', '\r']) {
            error("whitespace", "trailing whitespace: delete it".to_owned());
        }
        if is_rust && line.contains('\t') {
            error("whitespace", "tab: indent with spaces, write `\\t` in literals".to_owned());
        }
        if let Some(folder) = machine_path(line) {
            let message =
                format!("`/{folder}/` exists on one machine only: use a relative path or a temporary folder");
            error("machine-path", message);
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        let message = "no newline at the end of the file: add one";
        findings.push(Finding::error(path, text.lines().count(), "whitespace", message));
    }
    findings
}

/// The machine folder that an absolute path in `line` starts with. `docs/work/` is relative and therefore fine.
fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_FOLDERS.into_iter().find(|folder| {
        let absolute = format!("/{folder}/");
        line.match_indices(&absolute).any(|(offset, _)| {
            let before = line[..offset].chars().next_back();
            !before.is_some_and(|letter| letter.is_alphanumeric() || "._-*~}>)/".contains(letter))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{MACHINE_FOLDERS, check};

    fn rules(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        check(Path::new(path), text).into_iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn whitespace_must_be_clean() {
        assert_eq!(rules("a.rs", "//! x\n"), []);
        assert_eq!(rules("a.md", "a\nb \n"), [("whitespace", 2)]);
        assert_eq!(rules("a.md", "a\r\n"), [("whitespace", 1)]);
        assert_eq!(rules("a.rs", "\tfn a() {}\n"), [("whitespace", 1)]);
        assert_eq!(rules("Makefile", "\ttrue\n"), []);
        assert_eq!(rules("a.md", "a\nb"), [("whitespace", 2)]);
    }

    #[test]
    fn machine_paths_fail_and_relative_ones_pass() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(rules("a.md", &format!("see `/{folder}/x`\n")), [("machine-path", 1)], "{folder}");
            assert_eq!(rules("a.md", &format!("see docs/{folder}/x\n")), [], "{folder}");
        }
    }
}
