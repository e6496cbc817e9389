//! How many messages a reader that settles nothing has on loan.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// Most of them. A reader that only looks must not use up an attempt of everything that a topic has.
pub(super) const LOANS_MAX: usize = 100;

/// The loans that still run, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Window {
    ends: VecDeque<Instant>,
}

impl Window {
    pub(super) fn lent(&mut self, messages: usize, now: Instant, lease: Duration) {
        self.ends.extend(std::iter::repeat_n(now + lease, messages));
    }

    /// How many more may be borrowed.
    pub(super) fn room(&mut self, now: Instant) -> usize {
        while self.ends.front().is_some_and(|end| *end <= now) {
            self.ends.pop_front();
        }
        LOANS_MAX.saturating_sub(self.ends.len())
    }

    /// The group has only so many on loan: their readers have settled the others.
    pub(super) fn seen(&mut self, in_flight: u64) {
        let in_flight = usize::try_from(in_flight).unwrap_or(usize::MAX);
        self.ends.drain(..self.ends.len().saturating_sub(in_flight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back_with_time_and_with_acks() {
        let (begin, lease) = (Instant::now(), Duration::from_secs(30));
        let mut window = Window::default();
        window.lent(LOANS_MAX - 1, begin, lease);
        assert_eq!(window.room(begin), 1);
        window.lent(1, begin + lease / 2, lease);
        assert_eq!(window.room(begin + lease / 2), 0);
        window.seen(40);
        assert_eq!(window.room(begin + lease / 2), LOANS_MAX - 40);
        assert_eq!(window.room(begin + lease), LOANS_MAX - 1, "the last one runs on");
        window.seen(1_000);
        assert_eq!(window.room(begin + 2 * lease), LOANS_MAX);
    }
}
