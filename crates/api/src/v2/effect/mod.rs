//! Effects: what a worker does to the world outside, remembered under a key so that it is not done twice.
//!
//! A worker begins an effect and learns in one word whether to carry it out, to take the outcome that is already
//! there, to wait, or to leave it to people. The worker that carries it out holds a token, and finishes with it.

mod begin;
mod decision;
mod finish;
mod headers;
mod many;
mod outcome;
mod reacquire;
mod record;
mod resolve;

use crate::ToSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use begin::EffectBegin;
pub(super) use decision::EffectDecisionShape;
pub use decision::{EffectDecision, EffectLease};
pub use finish::{
    EffectFinish, EffectFinished, EffectRelease, EffectReleased, EffectRenew, EffectRenewed, EffectResult,
    ReleaseResult,
};
pub use headers::Headers;
pub(super) use headers::owned as owned_headers;
pub(super) use many::{EffectAnswerShape, EffectBeginShape};
pub use many::{EffectBeginCall, EffectBegins, EffectBegun, EffectRefused, EffectsBegun};
pub use outcome::{EffectOutcome, LastOutcome};
pub use reacquire::EffectReacquire;
pub use record::{Effect, EffectGet, Effects, EffectsQuery, MessagePlace};
pub use resolve::EffectResolve;

use super::read::text;

/// What becomes of an effect whose lease lapses without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLapse {
    /// The next begin carries it out again: for what may safely happen twice.
    Retry,
    /// It is held as unknown until an operator or a reconciler resolves it: what may have happened is never repeated
    /// blindly.
    #[default]
    Hold,
}

impl<'de> Deserialize<'de> for OnLapse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &[("retry", Self::Retry), ("hold", Self::Hold)])
    }
}

/// An [`OnLapse`] that may be left out or `null`.
fn on_lapse<'de, D: Deserializer<'de>>(from: D) -> Result<OnLapse, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// How an effect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectStatus {
    /// It happened. It will never be carried out again.
    Succeeded,
    /// It did not happen and never will.
    FailedFinal,
    /// It did not happen, and may be tried again.
    FailedRetryable,
}

impl<'de> Deserialize<'de> for EffectStatus {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let words = [
            ("succeeded", Self::Succeeded),
            ("failed_final", Self::FailedFinal),
            ("failed_retryable", Self::FailedRetryable),
        ];
        text::word(from, &words)
    }
}

/// Where an effect stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// A holder carries it out, or has let the lease lapse and no other caller has taken over yet.
    InProgress,
    /// It happened.
    Succeeded,
    /// It did not happen and never will.
    FailedFinal,
    /// It did not happen, and may be tried again.
    FailedRetryable,
    /// It may have happened: an operator or a reconciler must find out and resolve it.
    Unknown,
}

impl EffectState {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("in_progress", Self::InProgress),
        ("succeeded", Self::Succeeded),
        ("failed_final", Self::FailedFinal),
        ("failed_retryable", Self::FailedRetryable),
        ("unknown", Self::Unknown),
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

impl<'de> Deserialize<'de> for EffectState {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &Self::WORDS)
    }
}

/// Whether a call changed something, or was the repetition of one that had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommitResult {
    /// It was done now.
    Committed,
    /// It had been done before, exactly so; nothing was changed.
    AlreadyCommitted,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(super) const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_wire() {
        for (name, state) in EffectState::WORDS {
            assert_eq!(serde_json::to_value(state).unwrap(), name);
            assert_eq!(state.name(), name);
        }
        for status in [EffectStatus::Succeeded, EffectStatus::FailedFinal, EffectStatus::FailedRetryable] {
            let text = serde_json::to_string(&status).unwrap();
            assert_eq!(serde_json::from_str::<EffectStatus>(&text).unwrap(), status);
        }
        for on_lapse in [OnLapse::Retry, OnLapse::Hold] {
            let text = serde_json::to_string(&on_lapse).unwrap();
            assert_eq!(serde_json::from_str::<OnLapse>(&text).unwrap(), on_lapse);
        }
        let results = [CommitResult::Committed, CommitResult::AlreadyCommitted];
        assert_eq!(serde_json::to_string(&results).unwrap(), r#"["committed","already_committed"]"#);
    }
}
