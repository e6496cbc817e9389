//! What a message waited for before a delivery, told once it is over.

use alloc::vec::Vec;

use crate::words::description::Wait;
use crate::words::id::Time;

/// How long a message waited for one delivery, and the times from which the reasons follow. Nothing is written down for
/// it: where a run of the shard has not seen when a reason ended, the wait counts as one for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Waited {
    /// When it was stored, or when its delivery before ended.
    pub since: Time,
    /// When it was lent.
    pub until: Time,
    /// It was not due before.
    pub due: Time,
    /// Its next attempt was not due before.
    pub retry_at: Time,
    /// That attempt waited for an effect.
    pub for_effect: bool,
    /// An earlier message with the same key was not done before.
    pub key_free: Time,
    /// A message with the same identity was being worked on until then.
    pub identity_free: Time,
    /// When deliveries were last stopped, and when they went on.
    pub paused: (Time, Time),
    /// Since when its partition has been running into its window; zero if it has not.
    pub full: Time,
}

impl Waited {
    /// The whole wait, cut where its reason changes: reason, begin and end, without gaps.
    #[must_use]
    pub fn parts(&self) -> Vec<(Wait, Time, Time)> {
        let mut parts: Vec<(Wait, Time, Time)> = Vec::new();
        let mut at = self.since;
        while at > Time(0) && at < self.until {
            let reason = self.reason(at);
            let next = self.cuts().into_iter().filter(|cut| *cut > at).min().unwrap_or(self.until);
            let end = next.min(self.until);
            match parts.last_mut() {
                Some(last) if last.0 == reason => last.2 = end,
                _ => parts.push((reason, at, end)),
            }
            at = end;
        }
        parts
    }

    const fn cuts(&self) -> [Time; 8] {
        let (stopped, went_on) = self.paused;
        [self.due, self.retry_at, self.key_free, self.identity_free, stopped, went_on, self.full, self.until]
    }

    /// The first reason that held, in the order in which dispatch meets them.
    fn reason(&self, at: Time) -> Wait {
        match () {
            () if at < self.due => Wait::Scheduled,
            () if at < self.retry_at && self.for_effect => Wait::Effect,
            () if at < self.retry_at => Wait::Backoff,
            () if self.paused.0 <= at && at < self.paused.1 => Wait::Paused,
            () if at < self.key_free => Wait::KeyBusy,
            () if at < self.identity_free => Wait::SameIdentityRunning,
            () if self.full > Time(0) && self.full <= at => Wait::WindowFull,
            () => Wait::Ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_cut_where_its_reason_changes_and_has_no_gap() {
        let waited = Waited {
            since: Time(100),
            until: Time(1_000),
            due: Time(200),
            retry_at: Time(300),
            key_free: Time(600),
            paused: (Time(400), Time(500)),
            full: Time(900),
            ..Waited::default()
        };
        let expected = [
            (Wait::Scheduled, 100, 200),
            (Wait::Backoff, 200, 300),
            (Wait::KeyBusy, 300, 400),
            (Wait::Paused, 400, 500),
            (Wait::KeyBusy, 500, 600),
            (Wait::Ready, 600, 900),
            (Wait::WindowFull, 900, 1_000),
        ];
        let expected = expected.map(|(wait, from, to)| (wait, Time(from), Time(to)));
        assert_eq!(waited.parts(), expected);
        let effect = Waited { for_effect: true, retry_at: Time::NEVER, due: Time(0), ..waited };
        assert_eq!(effect.parts(), [(Wait::Effect, Time(100), Time(1_000))]);
    }

    #[test]
    fn what_did_not_wait_has_no_parts() {
        assert!(Waited::default().parts().is_empty());
        assert!(Waited { since: Time(5), until: Time(5), ..Waited::default() }.parts().is_empty());
        let long_ago =
            Waited { since: Time(7), until: Time(9), paused: (Time(1), Time(3)), ..Waited::default() };
        assert_eq!(long_ago.parts(), [(Wait::Ready, Time(7), Time(9))]);
    }
}
