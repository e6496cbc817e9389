//! When to try again, and when to give up.

use std::time::Duration;

use tokio::time::Instant;

use super::CallError;

/// The first wait when the server names none.
const WAIT_FIRST: Duration = Duration::from_millis(100);
/// No wait of our own is longer.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Patience for one call.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    patience: Duration,
    until: Instant,
    next: Duration,
}

impl Retry {
    /// Keeps trying for this long.
    pub(crate) fn within(patience: Duration) -> Self {
        Self { patience, until: Instant::now() + patience, next: WAIT_FIRST }
    }

    /// The same patience for the next call.
    pub(crate) fn again(&self) -> Self {
        Self::within(self.patience)
    }

    /// How long to wait before the next try; none if the error is final or the time is up.
    pub(crate) fn after(&mut self, error: &CallError) -> Option<Duration> {
        if !error.is_transient() {
            return None;
        }
        let own = self.next;
        self.next = (own * 2).min(WAIT_MAX);
        let wait = error.retry_after_ms().map_or(own, Duration::from_millis);
        // A wait that ends after our patience would only delay the bad news.
        (Instant::now() + wait <= self.until).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Refusal;

    fn refused(status: u16, body: &str) -> CallError {
        CallError::Refused(Refusal::read(status, body.as_bytes(), None).unwrap().into())
    }

    #[test]
    fn the_server_s_word_comes_before_our_own_guess() {
        let mut retry = Retry::within(Duration::from_secs(60));
        assert_eq!(
            retry.after(&refused(429, r#"{"code":"X","retry_after_ms":1000}"#)),
            Some(Duration::from_secs(1))
        );
        assert_eq!(retry.after(&refused(503, r#"{"code":"X"}"#)), Some(Duration::from_millis(200)));
        assert_eq!(retry.after(&refused(503, r#"{"code":"X"}"#)), Some(Duration::from_millis(400)));
        for _ in 0..10 {
            retry.after(&refused(503, r#"{"code":"X"}"#));
        }
        assert_eq!(retry.after(&refused(503, r#"{"code":"X"}"#)), Some(WAIT_MAX));
    }

    #[test]
    fn final_answers_and_lost_patience_end_it() {
        let mut retry = Retry::within(Duration::from_secs(60));
        assert_eq!(retry.after(&refused(400, r#"{"code":"X"}"#)), None);
        assert_eq!(retry.after(&refused(409, r#"{"code":"X"}"#)), None);
        let mut hasty = Retry::within(Duration::from_millis(50));
        assert_eq!(hasty.after(&refused(429, r#"{"code":"X","retry_after_ms":1000}"#)), None);
    }
}
