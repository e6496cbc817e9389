//! What becomes of a message, by what its handler said.

use std::time::Duration;

use driftq_api::Code;

use crate::error::{EffectName, Error};
use crate::outcome::{Dead, Failure, Retry, Snooze};
use crate::text::cut;

/// When an effect of unknown outcome is looked at again, if it has not been resolved by then.
const UNCERTAIN_AFTER: Duration = Duration::from_secs(5 * 60);
/// When an effect is looked at again that another holder runs, if the server does not say how long that may take.
const BUSY_AFTER: Duration = Duration::from_secs(30);

/// The three ways to settle, each with a call of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ack,
    Nack,
    Release,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Ack, Kind::Nack, Kind::Release];

/// What becomes of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ack,
    /// It comes again after the delay, or as the retry policy says; or it becomes a dead letter.
    Nack {
        delay: Option<Duration>,
        is_dead: bool,
        error: String,
    },
    /// It comes again, and the attempt does not count.
    Release {
        delay: Option<Duration>,
    },
    /// It comes again when an effect has ended or is free, or after the delay. The attempt does not count: waiting is
    /// not failing.
    Await {
        delay: Duration,
        effect: EffectName,
    },
    /// It is settled already.
    Done,
}

impl Verdict {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Ack | Self::Done => Kind::Ack,
            Self::Nack { .. } => Kind::Nack,
            Self::Release { .. } | Self::Await { .. } => Kind::Release,
        }
    }

    /// What it adds to a settling call.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Nack { error, .. } => error.len(),
            Self::Await { effect, .. } => effect.tenant_id.len() + effect.scope.len() + effect.key.len(),
            Self::Ack | Self::Release { .. } | Self::Done => 0,
        }
    }

    fn nack(delay: Option<Duration>, error: &str) -> Self {
        Self::Nack { delay, is_dead: false, error: cut(error).to_owned() }
    }

    pub(crate) fn retry(error: &str) -> Self {
        Self::nack(None, error)
    }

    pub(crate) fn dead(error: &str) -> Self {
        Self::Nack { delay: None, is_dead: true, error: cut(error).to_owned() }
    }

    /// What the handler's error means.
    pub(crate) fn of(failure: &Failure) -> Self {
        if let Some(retry) = failure.find::<Retry>() {
            return Self::nack(retry.after, &retry.reason);
        }
        if let Some(dead) = failure.find::<Dead>() {
            return Self::dead(&dead.reason);
        }
        if let Some(snooze) = failure.find::<Snooze>() {
            return Self::Release { delay: Some(snooze.lasting) };
        }
        let Some(error) = failure.error() else { return Self::retry(&format!("{failure:?}")) };
        let text = format!("{}: {failure:?}", error.name());
        match error {
            Error::EffectBusy { effect, retry_after } => {
                let delay = if retry_after.is_zero() { BUSY_AFTER } else { *retry_after };
                Self::Await { delay, effect: effect.clone() }
            }
            Error::EffectUncertain { effect, .. } => {
                Self::Await { delay: UNCERTAIN_AFTER, effect: effect.clone() }
            }
            // Trying again changes nothing.
            Error::EffectFailed { .. } | Error::EffectExhausted { .. } => Self::dead(&text),
            error if error.code() == Some(Code::KeyReused) => Self::dead(&text),
            _ => Self::retry(&text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Refusal;

    fn effect() -> EffectName {
        EffectName { tenant_id: "t".to_owned(), scope: "charge".to_owned(), key: "order-1".to_owned() }
    }

    fn refused(code: Code) -> Error {
        let body = serde_json::to_vec(&driftq_api::Fault::new(code, "detail").v2()).unwrap();
        Refusal::read(&body, None).unwrap().into()
    }

    #[test]
    fn the_table_of_the_documentation() {
        let second = Duration::from_secs(1);
        let of = |failure: Failure| Verdict::of(&failure);
        assert_eq!(of(Retry::after(second, "limit").into()), Verdict::nack(Some(second), "limit"));
        assert_eq!(of(Retry::new("limit").into()), Verdict::nack(None, "limit"));
        assert_eq!(of(Dead::new("gone").into()), Verdict::dead("gone"));
        assert_eq!(of(Snooze::lasting(second).into()), Verdict::Release { delay: Some(second) });
        assert_eq!(of(Failure::new("broken pipe")), Verdict::nack(None, "broken pipe"));
        let delay = |failure: Error| match of(failure.into()) {
            Verdict::Nack { delay, is_dead: false, .. } => delay,
            other => panic!("{other:?}"),
        };
        let busy = |retry_after| of(Error::EffectBusy { effect: effect(), retry_after }.into());
        assert_eq!(busy(second), Verdict::Await { delay: second, effect: effect() });
        assert_eq!(busy(Duration::ZERO), Verdict::Await { delay: BUSY_AFTER, effect: effect() });
        let uncertain = of(Error::EffectUncertain { effect: effect(), why: String::new() }.into());
        assert_eq!(uncertain, Verdict::Await { delay: UNCERTAIN_AFTER, effect: effect() });
        assert_eq!(delay(Error::LeaseLost), None);
        assert_eq!(delay(refused(Code::TopicUnknown)), None);
        let is_dead = |error: Error| matches!(of(error.into()), Verdict::Nack { is_dead: true, .. });
        assert!(is_dead(Error::EffectFailed { effect: effect(), reason: String::new() }));
        assert!(is_dead(Error::EffectExhausted { effect: effect(), reason: String::new() }));
        assert!(is_dead(refused(Code::KeyReused)));
    }

    #[test]
    fn the_reason_has_the_error_s_name_and_text() {
        let Verdict::Nack { error, .. } = Verdict::of(&refused(Code::TopicUnknown).into()) else {
            panic!("not nacked")
        };
        assert!(error.starts_with("TopicUnknown: detail"), "{error}");
    }
}
