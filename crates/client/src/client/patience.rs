//! When to try again, and when to give up.

use std::time::Duration;

use driftq_api::Code;
use tokio::time::Instant;

use crate::chance::Chance;
use crate::error::Error;

/// Patience for one call.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    time: driftq_http::Patience,
    /// A refusal that is an answer, though the server would take the same call again.
    heeded: Option<Code>,
}

impl Patience {
    const fn new(time: driftq_http::Patience) -> Self {
        Self { time, heeded: None }
    }

    /// Keeps trying for this long.
    pub(crate) fn lasting(patience: Duration) -> Self {
        Self::new(driftq_http::Patience::lasting(patience))
    }

    pub(crate) const fn until(end: Instant) -> Self {
        Self::new(driftq_http::Patience::until(end))
    }

    pub(crate) const fn endless() -> Self {
        Self::new(driftq_http::Patience::endless())
    }

    /// For how long it was said to last.
    pub(crate) const fn length(&self) -> Option<Duration> {
        self.time.length()
    }

    /// Takes this refusal for an answer.
    pub(crate) const fn heeding(mut self, code: Code) -> Self {
        self.heeded = Some(code);
        self
    }

    /// How long to wait before the next try; none if the error is final or the time is up.
    pub(crate) fn after(&mut self, error: &Error, now: Instant, chance: &Chance) -> Option<Duration> {
        if !error.is_transient() || self.heeded.is_some() && self.heeded == error.code() {
            return None;
        }
        // Many workers lose the same server at the same moment: they must not all come back at once.
        self.time.wait(error.retry_after(), now, chance.between(0.5, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Error {
        Error::ConnectionLost { url: String::new(), why: String::new() }
    }

    fn refused(status: u16, retry_after_ms: Option<u64>) -> Error {
        let code = if status == 429 { "OVERLOADED" } else { "INVALID_ARGUMENT" };
        let body = serde_json::json!({"code": code, "status": status, "title": "t", "detail": "d",
            "retryable": status == 429, "retry_after_ms": retry_after_ms, "help": "h"});
        Error::from(crate::error::Refusal::read(body.to_string().as_bytes(), None).unwrap())
    }

    #[test]
    fn workers_do_not_all_come_back_at_once() {
        let (now, chance) = (Instant::now(), Chance::default());
        let mut patience = Patience::endless();
        assert_eq!(patience.after(&refused(429, Some(7)), now, &chance), Some(Duration::from_millis(7)));
        let mut expected = Duration::from_millis(200);
        for _ in 0..12 {
            let wait = patience.after(&down(), now, &chance).unwrap();
            assert!(wait >= expected / 2 && wait <= expected, "{wait:?} of {expected:?}");
            expected = (expected * 2).min(Duration::from_secs(5));
        }
    }

    #[test]
    fn final_answers_and_lost_patience_end_it() {
        let (now, chance) = (Instant::now(), Chance::default());
        assert_eq!(Patience::endless().after(&refused(400, None), now, &chance), None);
        let mut hasty = Patience::until(now + Duration::from_millis(50));
        assert_eq!(hasty.after(&refused(429, Some(1000)), now, &chance), None);
        let mut heeding = Patience::endless().heeding(Code::Overloaded);
        assert_eq!(heeding.after(&refused(429, Some(10)), now, &chance), None);
        assert!(heeding.after(&down(), now, &chance).is_some());
    }
}
