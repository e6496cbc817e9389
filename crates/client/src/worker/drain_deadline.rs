//! By when a draining worker must be done.

use std::time::Duration;

use tokio::time::Instant;

use super::CANCEL_GRACE;

/// First, running handlers may end; then they are told to stop; then what has ended is settled, which a server that is
/// away must not hold up for ever.
#[derive(Debug, Default)]
pub(super) struct DrainDeadline {
    at: Option<Instant>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Running handlers may end.
    #[default]
    Ending,
    /// They were told to stop.
    Cancelled,
    /// No handler runs, or the worker no longer waits for those that do.
    Settling,
}

/// What to do when the time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// Running handlers are told to stop.
    Cancel,
    /// The worker goes, whatever is left.
    Leave,
}

impl DrainDeadline {
    /// The worker is draining; whether a handler runs decides what it waits for.
    pub(super) fn look(&mut self, now: Instant, is_running: bool, drain_timeout: Duration) {
        if !is_running && self.stage != Stage::Settling {
            self.stage = Stage::Settling;
            self.at = Some(now + CANCEL_GRACE);
        }
        self.at.get_or_insert(now + drain_timeout);
    }

    /// The worker no longer waits for running handlers: only what has ended is settled.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.stage != Stage::Settling {
            self.stage = Stage::Settling;
            self.at = Some(now + CANCEL_GRACE);
        }
    }

    pub(super) const fn at(&self) -> Option<Instant> {
        self.at
    }

    /// The time is up.
    pub(super) fn pass(&mut self) -> Passed {
        if self.stage != Stage::Ending {
            return Passed::Leave;
        }
        self.stage = Stage::Cancelled;
        // A handler that does not stop is aborted after one grace period; its outcome is settled within another.
        self.at = self.at.map(|at| at + 2 * CANCEL_GRACE);
        Passed::Cancel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAIN: Duration = Duration::from_secs(30);

    #[test]
    fn what_runs_is_waited_for_told_and_left() {
        let (mut deadline, now) = (DrainDeadline::default(), Instant::now());
        assert_eq!(deadline.at(), None);
        deadline.look(now, true, DRAIN);
        deadline.look(now + DRAIN / 2, true, DRAIN);
        assert_eq!(deadline.at(), Some(now + DRAIN), "looking again moves nothing");
        assert_eq!(deadline.pass(), Passed::Cancel);
        deadline.look(now + DRAIN, true, DRAIN);
        assert_eq!(deadline.at(), Some(now + DRAIN + 2 * CANCEL_GRACE));
        assert_eq!(deadline.pass(), Passed::Leave);
    }

    #[test]
    fn a_server_that_does_not_hear_is_given_a_grace_and_no_more() {
        for is_cancelled in [false, true] {
            let (mut deadline, now) = (DrainDeadline::default(), Instant::now());
            deadline.look(now, true, DRAIN);
            if is_cancelled {
                assert_eq!(deadline.pass(), Passed::Cancel);
            }
            let ended = now + Duration::from_secs(2);
            deadline.look(ended, false, DRAIN);
            deadline.look(ended + Duration::from_secs(1), false, DRAIN);
            assert_eq!(deadline.at(), Some(ended + CANCEL_GRACE));
            assert_eq!(deadline.pass(), Passed::Leave);
        }
    }
}
