//! Everything that can go wrong, as one type. Every text says what to do next.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use driftq_api::Code;
pub use driftq_http::Refusal;

/// How much of an answer that is no problem document is passed on.
const COMPLAINT_BYTES_MAX: usize = 200;

/// Why something did not work.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server said no. [`Refusal::code`] is the reason, from the catalogue.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// Nothing listens at that address.
    #[error(
        "no server answers at {url} ({why}); start one with `driftq serve`, or name another by its URL or in DRIFTQ_SERVER"
    )]
    Unreachable {
        /// Where the server should be.
        url: String,
        /// What the system said.
        why: String,
    },
    /// The connection broke or no answer came in time, and patience is over. It may or may not have been done.
    #[error(
        "the connection to {url} broke ({why}); whether the call was carried out is not known, and it is safe to repeat when \
         the server is back"
    )]
    ConnectionLost {
        /// Where the server was.
        url: String,
        /// What happened to the connection.
        why: String,
    },
    /// What answers there is no DriftQ server.
    #[error("what answers at {url} is no DriftQ server ({why}); check the URL and any proxy on the way")]
    NotDriftQ {
        /// Where it answered.
        url: String,
        /// What it answered.
        why: String,
    },
    /// The certificate of what answers there is not trusted here. Nothing was sent, and nothing is repeated.
    #[error("the certificate of {url} is not trusted ({why}); nothing was sent")]
    Untrusted {
        /// Where it answered.
        url: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Another holder is carrying out this effect.
    #[error(
        "another holder is carrying out effect {effect}; try again in {} ms, or wait longer for it",
        retry_after.as_millis()
    )]
    EffectBusy {
        /// Which effect.
        effect: EffectName,
        /// When the server expects it to be over at the latest.
        retry_after: Duration,
    },
    /// The effect may have happened; its outcome is unknown.
    #[error(
        "effect {effect} may have happened; find out, then `driftq effect resolve`, or give it a reconciler{}",
        because(why)
    )]
    EffectUncertain {
        /// Which effect.
        effect: EffectName,
        /// What the reconciler said, if it said anything.
        why: String,
    },
    /// The effect failed for good, now or in a replay.
    #[error("effect {effect} failed for good{}; trying again changes nothing", because(reason))]
    EffectFailed {
        /// Which effect.
        effect: EffectName,
        /// Why.
        reason: String,
    },
    /// The effect failed as often as it may.
    #[error(
        "effect {effect} has no attempts left{}; `driftq effect resolve --status failed-retryable` grants one more",
        because(reason)
    )]
    EffectExhausted {
        /// Which effect.
        effect: EffectName,
        /// Why it failed last.
        reason: String,
    },
    /// The effect happened, and what it returned was too large to be stored.
    #[error("effect {effect} happened, but its result was not kept; return less, such as a pointer to it")]
    ResultNotKept {
        /// Which effect.
        effect: EffectName,
    },
    /// The stored result is not of the type that is asked for.
    #[error(
        "the stored result of effect {effect} does not parse ({why}); ask for the type that it was stored with"
    )]
    ResultUnreadable {
        /// Which effect.
        effect: EffectName,
        /// What the parser said.
        why: String,
    },
    /// AWS's STS refused a role to a credential of an attempt.
    #[error(transparent)]
    StsRefused(Box<StsRefusal>),
    /// There is no answer, or none of STS's: nothing listens there, it did not answer in time, or something else did.
    #[error("{why}")]
    StsUnanswered {
        /// What happened, where, and what to do.
        why: String,
        /// Whether the same question may succeed later.
        is_transient: bool,
    },
    /// The message is no longer this worker's: it was delivered again, or is settled.
    #[error("the lease is lost: another worker has the message; stop, and leave it to that worker")]
    LeaseLost,
    /// A client or an operator cancelled the message.
    #[error("the message was cancelled; stop")]
    Cancelled,
    /// The message's deadline has passed: it is of no use any more.
    #[error("the message's deadline has passed; stop")]
    DeadlinePassed,
    /// The handler outran its own time-out.
    #[error("the handler outran its time-out; stop, or give it more time")]
    TimedOut,
    /// The worker is about to end.
    #[error("the worker is stopping, and the time to drain is over; stop")]
    Stopped,
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
}

/// What AWS's STS said when it refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("STS refused: {code}: {detail}")]
#[non_exhaustive]
pub struct StsRefusal {
    /// STS's own code, such as `AccessDenied` or `InvalidIdentityToken`.
    pub code: String,
    /// What STS said about it.
    pub detail: String,
    /// The status.
    pub status: u16,
    /// STS's name for the call, if it gave one.
    pub request_id: Option<String>,
    /// Whether the same question may succeed later.
    pub retryable: bool,
}

/// What an effect is called.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EffectName {
    /// Whose it is; may be empty.
    pub tenant_id: String,
    /// Its kind.
    pub scope: String,
    /// Which one.
    pub key: String,
}

impl fmt::Display for EffectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scope, self.key)
    }
}

fn because(reason: &str) -> Cow<'_, str> {
    if reason.is_empty() { Cow::Borrowed("") } else { Cow::Owned(format!(" ({reason})")) }
}

/// The beginning of an answer that was not understood, fit for a line.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(COMPLAINT_BYTES_MAX)]);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Error {
    /// The code of the server's refusal, if it is one that this SDK knows.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(refusal) => refusal.code,
            _ => None,
        }
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::ConnectionLost { .. } => true,
            Self::Refused(refusal) => refusal.retryable || matches!(refusal.status, 429 | 503),
            Self::StsRefused(refusal) => refusal.retryable,
            Self::StsUnanswered { is_transient, .. } => *is_transient,
            _ => false,
        }
    }

    /// How long the server asks to wait before the next try.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after_ms.map(Duration::from_millis),
            Self::EffectBusy { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }

    /// The error's name, as all SDKs call it: `TopicUnknown`, `LeaseLost`.
    #[must_use]
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Refused(refusal) => {
                return refusal.code.map_or(Cow::Borrowed("Refused"), |code| format!("{code:?}").into());
            }
            Self::Unreachable { .. } => "Unreachable",
            Self::ConnectionLost { .. } => "ConnectionLost",
            Self::NotDriftQ { .. } => "NotDriftQ",
            Self::Untrusted { .. } => "Untrusted",
            Self::EffectBusy { .. } => "EffectBusy",
            Self::EffectUncertain { .. } => "EffectUncertain",
            Self::EffectFailed { .. } => "EffectFailed",
            Self::EffectExhausted { .. } => "EffectExhausted",
            Self::ResultNotKept { .. } => "ResultNotKept",
            Self::ResultUnreadable { .. } => "ResultUnreadable",
            Self::StsRefused(_) => "StsRefused",
            Self::StsUnanswered { .. } => "StsUnanswered",
            Self::LeaseLost => "LeaseLost",
            Self::Cancelled => "Cancelled",
            Self::DeadlinePassed => "DeadlinePassed",
            Self::TimedOut => "TimedOut",
            Self::Stopped => "Stopped",
            Self::Invalid(_) => "Invalid",
        })
    }

    /// A refused lease is a lost one, where a delivery stands behind the call.
    pub(crate) fn of_delivery(self) -> Self {
        match self.code() {
            Some(Code::StaleLease | Code::LeaseUnknown) => Self::LeaseLost,
            _ => self,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: Code) -> Error {
        let fault = driftq_api::Fault::new(code, "what happened");
        Refusal::read(&serde_json::to_vec(&fault.v2()).unwrap(), Some("r-1".to_owned())).unwrap().into()
    }

    #[test]
    fn every_code_has_its_name_its_help_and_its_word_on_repeats() {
        for code in Code::ALL {
            let (error, entry) = (refused(code), code.entry());
            assert_eq!(error.code(), Some(code));
            assert_eq!(error.name(), format!("{code:?}"));
            let text = error.to_string();
            assert!(text.contains(entry.help) && text.contains(entry.code), "{text}");
            assert_eq!(error.is_transient(), entry.retryable || matches!(entry.status, 429 | 503), "{text}");
        }
    }

    #[test]
    fn a_newer_server_s_code_is_a_plain_refusal() {
        let body = br#"{"code":"NEW","status":409,"title":"t","detail":"d","retryable":true,"help":"h"}"#;
        let error = Error::from(Refusal::read(body, None).unwrap());
        assert_eq!((error.code(), &*error.name(), error.is_transient()), (None, "Refused", true));
        assert!(Refusal::read(b"<html>", None).is_none());
    }

    #[test]
    fn a_stale_lease_is_a_lost_one() {
        assert!(matches!(refused(Code::StaleLease).of_delivery(), Error::LeaseLost));
        assert!(matches!(refused(Code::LeaseUnknown).of_delivery(), Error::LeaseLost));
        assert_eq!(refused(Code::KeyReused).of_delivery().code(), Some(Code::KeyReused));
    }
}
