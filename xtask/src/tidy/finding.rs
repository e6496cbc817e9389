//! What a rule says when it is broken: where, which rule, and what to do about it.

use std::{fmt, path::PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) message: String,
    /// Warnings are listed and do not fail the run.
    pub(crate) is_warning: bool,
}

impl Finding {
    pub(crate) fn error(
        path: impl Into<PathBuf>,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, rule, message: message.into(), is_warning: false }
    }

    pub(crate) fn warning(
        path: impl Into<PathBuf>,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { is_warning: true, ..Self::error(path, line, rule, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_warning { "warning" } else { "error" };
        write!(out, "{}:{}: {kind}[{}]: {}", self.path.display(), self.line, self.rule, self.message)
    }
}
