//! When to try again, and when to give up.

use std::time::Duration;

use driftq_api::Code;
use tokio::time::Instant;

/// The first wait when the server names none.
const WAIT_FIRST: Duration = Duration::from_millis(100);
/// No wait of our own is longer.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Patience for one call.
#[derive(Clone, Debug)]
pub struct Patience {
    /// `None`: for ever.
    until: Option<Instant>,
    /// How long that was at the beginning, if it was said.
    length: Option<Duration>,
    next: Duration,
    heeded: Option<Code>,
}

impl Patience {
    /// Keeps trying for this long.
    #[must_use]
    pub fn lasting(patience: Duration) -> Self {
        // What is further away than the clock can say is for ever.
        let until = Instant::now().checked_add(patience);
        Self { until, length: until.map(|_| patience), next: WAIT_FIRST, heeded: None }
    }

    /// Keeps trying until then.
    #[must_use]
    pub const fn until(end: Instant) -> Self {
        Self { until: Some(end), length: None, next: WAIT_FIRST, heeded: None }
    }

    /// Never gives up.
    #[must_use]
    pub const fn endless() -> Self {
        Self { until: None, length: None, next: WAIT_FIRST, heeded: None }
    }

    /// For how long it was said to last.
    #[must_use]
    pub const fn length(&self) -> Option<Duration> {
        self.length
    }

    /// As much of it as there was at the beginning.
    #[must_use]
    pub fn again(&self) -> Self {
        self.length
            .map_or_else(|| self.clone(), |length| Self { heeded: self.heeded, ..Self::lasting(length) })
    }

    /// Takes this refusal as an answer, although the server would accept the same call later.
    #[must_use]
    pub const fn heeding(mut self, code: Code) -> Self {
        self.heeded = Some(code);
        self
    }

    /// Whether this refusal is an answer.
    #[must_use]
    pub fn heeds(&self, code: Option<Code>) -> bool {
        code.is_some() && self.heeded == code
    }

    /// How long to wait before the next try, after a failure that may pass: as long as the server told, else longer
    /// each time and then `share` of it. None if the time is up.
    pub fn wait(&mut self, told: Option<Duration>, now: Instant, share: f64) -> Option<Duration> {
        let own = self.next;
        self.next = (own * 2).min(WAIT_MAX);
        let wait = told.unwrap_or_else(|| own.mul_f64(share));
        match (self.until, now.checked_add(wait)) {
            // A wait that ends after our patience would only delay the bad news.
            (Some(until), Some(then)) if then > until => None,
            _ => Some(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_the_server_s_word_comes_first() {
        let (now, mut patience) = (Instant::now(), Patience::endless());
        let told = Duration::from_millis(7);
        assert_eq!(patience.wait(Some(told), now, 1.0), Some(told));
        for expected_ms in [200, 400, 800, 1600, 3200, 5000, 5000] {
            assert_eq!(patience.wait(None, now, 1.0), Some(Duration::from_millis(expected_ms)));
        }
        assert_eq!(patience.wait(None, now, 0.5), Some(WAIT_MAX / 2));
    }

    #[test]
    fn lost_patience_ends_it() {
        let now = Instant::now();
        let mut hasty = Patience::until(now + Duration::from_millis(50));
        assert_eq!(hasty.wait(Some(Duration::from_millis(51)), now, 1.0), None);
        assert_eq!(hasty.wait(Some(Duration::from_millis(50)), now, 1.0), Some(Duration::from_millis(50)));
        assert_eq!(hasty.again().length(), None);
        assert_eq!(Patience::lasting(Duration::MAX).length(), None, "for ever");
        let mut tried = Patience::lasting(WAIT_MAX).heeding(Code::Overloaded);
        assert_eq!(tried.wait(None, now, 1.0), Some(WAIT_FIRST));
        let mut again = tried.again();
        assert_eq!((again.length(), again.wait(None, now, 1.0)), (Some(WAIT_MAX), Some(WAIT_FIRST)));
        assert!(
            again.heeds(Some(Code::Overloaded)) && !again.heeds(Some(Code::Internal)) && !again.heeds(None)
        );
    }
}
