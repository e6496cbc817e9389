//! Files stay small enough to read in one sitting, and long inline tests move out.
//!
//! Physical lines of the whole file count. The state machine grows into a monster in every broker; the limit makes
//! that visible while splitting it is still cheap.

use super::{finding::Finding, source::Source};

const FILE_LINES_SOFT: usize = 400;
const FILE_LINES_HARD: usize = 600;
const INLINE_TEST_LINES_SOFT: usize = 200;

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if source.is_test {
        return Vec::new();
    }
    let lines = source.text.lines().count();
    let mut findings = Vec::new();
    if lines > FILE_LINES_HARD {
        let message =
            format!("{lines} lines, the limit is {FILE_LINES_HARD}: split the file by noun or by command");
        findings.push(Finding::error(&source.path, 1, "file-size", message));
    } else if lines > FILE_LINES_SOFT {
        let message = format!("{lines} lines, {FILE_LINES_SOFT} is the soft limit: plan where to split it");
        findings.push(Finding::warning(&source.path, 1, "file-size", message));
    }
    for range in source.test_ranges() {
        let first = source.line(range.start);
        let lines = source.line(range.end - 1) + 1 - first;
        if lines > INLINE_TEST_LINES_SOFT {
            let message = format!("{lines} lines of inline tests: move them into a file of their own");
            findings.push(Finding::warning(&source.path, first, "file-size", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Source, check};

    #[test]
    fn a_file_fails_above_the_hard_limit_and_warns_above_the_soft_one() {
        for (lines, expected) in [(400, None), (401, Some(true)), (600, Some(true)), (601, Some(false))] {
            let findings = check(&Source::new("crates/core/src/a.rs", "//! x\n".repeat(lines)));
            assert_eq!(findings.first().map(|finding| finding.is_warning), expected, "{lines} lines");
        }
    }

    #[test]
    fn tests_folders_have_no_limit() {
        assert!(check(&Source::new("crates/core/tests/a.rs", "//! x\n".repeat(900))).is_empty());
    }

    #[test]
    fn long_inline_tests_are_listed() {
        let text = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(198));
        let findings = check(&Source::new("crates/core/src/a.rs", text));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].is_warning);
    }
}
