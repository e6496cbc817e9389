//! When to try again, and when to give up.

use std::time::Duration;

use driftq_http::Patience;
use tokio::time::Instant;

use super::CallError;

/// Patience for one call.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    patience: Duration,
    time: Patience,
}

impl Retry {
    /// Keeps trying for this long.
    pub(crate) fn within(patience: Duration) -> Self {
        Self { patience, time: Patience::lasting(patience) }
    }

    /// The same patience for the next call.
    pub(crate) fn again(&self) -> Self {
        Self::within(self.patience)
    }

    /// How long to wait before the next try; none if the error is final or the time is up.
    pub(crate) fn after(&mut self, error: &CallError) -> Option<Duration> {
        let told = error.retry_after_ms().map(Duration::from_millis);
        if error.is_transient() { self.time.wait(told, Instant::now(), 1.0) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftq_http::Refusal;

    fn refused(status: u16, retry_after_ms: Option<u64>) -> CallError {
        let body = serde_json::json!({"error": "X", "message": "m", "retry_after_ms": retry_after_ms});
        CallError::Refused(Refusal::read_v1(status, body.to_string().as_bytes(), None).unwrap().into())
    }

    #[test]
    fn the_server_s_word_comes_before_our_own_guess() {
        let mut retry = Retry::within(Duration::from_secs(60));
        assert_eq!(retry.after(&refused(429, Some(1000))), Some(Duration::from_secs(1)));
        assert_eq!(retry.after(&refused(503, None)), Some(Duration::from_millis(200)));
        assert_eq!(retry.after(&refused(503, None)), Some(Duration::from_millis(400)));
    }

    #[test]
    fn final_answers_and_lost_patience_end_it() {
        let mut retry = Retry::within(Duration::from_secs(60));
        assert_eq!(retry.after(&refused(400, None)), None);
        assert_eq!(retry.after(&refused(409, None)), None);
        let mut hasty = Retry::within(Duration::from_millis(50));
        assert_eq!(hasty.after(&refused(429, Some(1000))), None);
    }
}
