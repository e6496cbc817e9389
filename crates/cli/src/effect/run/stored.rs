//! What is stored of a command's end, and what a replay makes of it.

use std::io::{self, Write};
use std::{borrow::Cow, process::ExitStatus};

use anyhow::Result;
use driftq_api::v2::{EffectOutcome, EffectResult, EffectStatus, Headers, OnLapse};

use super::note;
use crate::child::{self, EXIT_DEAD, EXIT_RETRY};
use crate::{Exit, Fault, printable};

/// No server keeps more of a result than this.
pub(super) const STDOUT_KEPT_BYTES_MAX: usize = 4 << 20;
/// Says that there was a result, and that it is not here. All SDKs use the same word.
const RESULT_HEADER: &str = "x-driftq-result";
const OMITTED: &str = "omitted";
const CONTENT_TYPE: &str = "content-type";

/// The stdout of a command, as long as it can be stored.
#[derive(Debug, Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    is_too_large: bool,
}

impl Kept {
    pub(super) fn see(&mut self, bytes: &[u8]) {
        self.is_too_large |= self.bytes.len() + bytes.len() > STDOUT_KEPT_BYTES_MAX;
        if self.is_too_large {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// What this end means for the effect; none if that cannot be known.
pub(super) fn status(status: ExitStatus, on_lapse: OnLapse) -> Option<EffectStatus> {
    match (status.code(), on_lapse) {
        (Some(0), _) => Some(EffectStatus::Succeeded),
        (Some(EXIT_RETRY), _) => Some(EffectStatus::FailedRetryable),
        (Some(EXIT_DEAD), _) => Some(EffectStatus::FailedFinal),
        (_, OnLapse::Retry) => Some(EffectStatus::FailedRetryable),
        (_, OnLapse::Hold) => None,
    }
}

/// What is stored of this end.
pub(super) fn result<'a>(
    status: EffectStatus,
    ended: ExitStatus,
    kept: &'a Kept,
    last_line: &str,
) -> EffectResult<'a> {
    let mut result = EffectResult { code: Some(child::code(ended)), ..EffectResult::new(status) };
    if status != EffectStatus::Succeeded {
        result.error = Cow::Owned(child::reason(ended, last_line));
    }
    if kept.is_too_large {
        return without_body(result);
    }
    // What may be tried again is not replayed.
    if status != EffectStatus::FailedRetryable {
        result.headers = header(CONTENT_TYPE, content_type(&kept.bytes));
        result.body = Some(Cow::Borrowed(&kept.bytes));
    }
    result
}

/// The same end with a note in place of what was too large.
pub(super) fn without_body(result: EffectResult<'_>) -> EffectResult<'_> {
    EffectResult { headers: header(RESULT_HEADER, OMITTED), body: None, ..result }
}

fn header<'a>(name: &'a str, value: &'a str) -> Headers<'a> {
    Headers::new(vec![(Cow::Borrowed(name), Cow::Borrowed(value))]).unwrap_or_default()
}

/// So that an SDK that replays it knows what it has.
fn content_type(bytes: &[u8]) -> &'static str {
    if serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok() {
        "application/json"
    } else if std::str::from_utf8(bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

/// Does as the command did: the same words on stdout, the same end.
pub(super) fn replay(name: &str, outcome: &EffectOutcome<'_>) -> Result<i32> {
    note(&format!("{name}: it ended at {}; this is what came of it", outcome.finished_at));
    let is_omitted =
        outcome.headers.pairs().iter().any(|(name, value)| name == RESULT_HEADER && value == OMITTED);
    if let Some(body) = outcome.bytes() {
        io::stdout().write_all(&body)?;
        io::stdout().flush()?;
    }
    match outcome.status {
        EffectStatus::Succeeded if is_omitted => {
            let text = format!("{name}: it happened before, and its output was too large to be kept");
            let help = "let the command store large output elsewhere and print where, or raise the server's \
                        effect_result_bytes_max";
            Err(Fault::new(Exit::Replay, text).help(help).into())
        }
        EffectStatus::Succeeded => Ok(0),
        _ => {
            eprintln!("error: {name}: it failed for good: {}", printable(&outcome.error));
            // Others who store effects use numbers of their own; what a process can end with is the rest.
            let code = outcome.code.filter(|code| (1..=255).contains(code));
            Ok(code.unwrap_or(EXIT_DEAD))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn every_end_says_what_happened() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        for (ended, hold, retry) in [
            (exit(0), Some(EffectStatus::Succeeded), Some(EffectStatus::Succeeded)),
            (exit(75), Some(EffectStatus::FailedRetryable), Some(EffectStatus::FailedRetryable)),
            (exit(65), Some(EffectStatus::FailedFinal), Some(EffectStatus::FailedFinal)),
            (exit(1), None, Some(EffectStatus::FailedRetryable)),
            (ExitStatus::from_raw(9), None, Some(EffectStatus::FailedRetryable)),
        ] {
            assert_eq!(status(ended, OnLapse::Hold), hold, "{ended}");
            assert_eq!(status(ended, OnLapse::Retry), retry, "{ended}");
        }
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let mut kept = Kept::default();
        kept.see(&vec![b'x'; STDOUT_KEPT_BYTES_MAX]);
        assert!(!kept.is_too_large);
        kept.see(b"x");
        let stored = result(EffectStatus::Succeeded, ExitStatus::from_raw(0), &kept, "");
        assert_eq!(stored.body, None);
        assert_eq!(stored.headers, header(RESULT_HEADER, OMITTED));
    }

    #[test]
    fn the_kind_of_content_is_seen() {
        assert_eq!(content_type(b"{\"id\": 1}\n"), "application/json");
        assert_eq!(content_type(b"ch_1\n"), "text/plain; charset=utf-8");
        assert_eq!(content_type(b"\xff\n"), "application/octet-stream");
    }
}
