//! The words in which statuses and policies are written down, in tables and on the wire of the seed's contract.

use crate::{End, OnLapse, Status};

/// As it is written in a table.
#[must_use]
pub const fn of_status(status: Status) -> &'static str {
    match status {
        Status::InProgress => "IN_PROGRESS",
        Status::Succeeded => "SUCCEEDED",
        Status::FailedFinal => "FAILED_FINAL",
        Status::FailedRetryable => "FAILED_RETRYABLE",
        Status::Unknown => "UNKNOWN",
    }
}

/// As it is written in a table.
#[must_use]
pub const fn of_end(end: End) -> &'static str {
    match end {
        End::Succeeded => of_status(Status::Succeeded),
        End::FailedFinal => of_status(Status::FailedFinal),
        End::FailedRetryable => of_status(Status::FailedRetryable),
    }
}

/// What a word means; `None` if it means nothing.
#[must_use]
pub fn status(word: &str) -> Option<Status> {
    Status::ALL.into_iter().find(|status| of_status(*status) == word)
}

/// As it is written in a table.
#[must_use]
pub const fn of_on_lapse(on_lapse: OnLapse) -> &'static str {
    match on_lapse {
        OnLapse::Retry => "retry",
        OnLapse::Hold => "hold",
    }
}

/// What a word means; `None` if it means nothing.
#[must_use]
pub fn on_lapse(word: &str) -> Option<OnLapse> {
    [OnLapse::Retry, OnLapse::Hold].into_iter().find(|on_lapse| of_on_lapse(*on_lapse) == word)
}

/// As much of a text as fits into this many bytes, in whole characters.
#[must_use]
pub(crate) fn beginning(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        for (bytes_max, expected) in
            [(0, ""), (1, "a"), (2, "a"), (3, "aü"), (6, "aü"), (7, "aü🚀"), (99, "aü🚀")]
        {
            assert_eq!(beginning("aü🚀", bytes_max), expected, "{bytes_max}");
        }
    }

    #[test]
    fn every_word_is_understood_and_no_other() {
        for known in Status::ALL {
            assert_eq!(status(of_status(known)), Some(known));
        }
        for known in [OnLapse::Retry, OnLapse::Hold] {
            assert_eq!(on_lapse(of_on_lapse(known)), Some(known));
        }
        for word in ["", "succeeded", "DONE", " UNKNOWN"] {
            assert_eq!((status(word), on_lapse(word)), (None, None));
        }
    }
}
