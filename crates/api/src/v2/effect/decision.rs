//! The answer to who wants to carry out an effect.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::EffectOutcome;
use crate::moment::Moment;

/// To `POST /v2/effects/begin` and `POST /v2/effects/reacquire`. `decision` says what to do, and which other fields
/// are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum EffectDecision<'a> {
    /// Carry it out, and finish with the token.
    Execute {
        /// The right to carry it out.
        lease: EffectLease<'a>,
    },
    /// It has ended: this is what came of it.
    Replay {
        /// What came of it.
        outcome: EffectOutcome<'a>,
    },
    /// Somebody else carries it out.
    InProgress {
        /// When to ask again.
        retry_after_ms: u64,
        /// Which lease of the effect is live.
        epoch: u64,
        /// The attempt that is under way.
        attempt: u32,
    },
    /// It failed and may be tried again, by whoever asks for that.
    Retryable {
        /// How it failed.
        outcome: EffectOutcome<'a>,
        /// The lease under which it failed.
        epoch: u64,
        /// The attempt that failed.
        attempt: u32,
        /// How many attempts are left, if there is a cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts_left: Option<u32>,
    },
    /// It may have happened: it is not carried out again until somebody has resolved it.
    Unknown {
        /// The lease under which it may have happened.
        epoch: u64,
        /// The attempt in which it may have happened.
        attempt: u32,
        /// Since when nobody knows.
        since: Moment,
    },
}

/// The right to carry out an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectLease<'a> {
    /// Names this lease, and is the authority to finish the effect.
    pub token: Cow<'a, str>,
    /// Which lease of the effect it is; a newer one fences this one off.
    pub epoch: u64,
    /// 1-based count of attempts.
    pub attempt: u32,
    /// When it ends unless it is renewed.
    pub expires_at: Moment,
}
