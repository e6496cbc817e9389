//! The only place that asks what time it is.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use driftq_core::Time;

#[cfg(any(feature = "nats", feature = "postgres"))]
use crate::failure::StartError;
use crate::locks::lock;

/// How far this machine's clock may be off from the one that the servers of a log share.
#[cfg(any(feature = "nats", feature = "postgres"))]
const OFF_MAX: Duration = Duration::from_secs(60);

/// What a clock elsewhere showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Since the Unix epoch.
    pub shown: Duration,
    /// It showed that at some moment after this one …
    pub asked: Instant,
    /// … and before this one.
    pub answered: Instant,
}

#[cfg(any(feature = "nats", feature = "postgres"))]
impl Reading {
    /// Asks a clock elsewhere.
    pub(crate) fn take<E>(ask: impl FnOnce() -> Result<Duration, E>) -> Result<Self, E> {
        let asked = Instant::now();
        let shown = ask()?;
        Ok(Self { shown, asked, answered: Instant::now() })
    }

    /// Refuses a machine whose clock is far off. What the broker does is counted by the shared clock; certificates,
    /// traces and the programs beside it go by this machine's.
    pub(crate) fn check(&self, whose: &str) -> Result<(), StartError> {
        self.check_against(wall().saturating_sub(self.answered.elapsed()), whose)
    }

    /// `wall` is what this machine's clock showed when the answer was here.
    fn check_against(&self, wall: Duration, whose: &str) -> Result<(), StartError> {
        let earliest = wall.saturating_sub(self.answered.saturating_duration_since(self.asked));
        let (off, direction) = match (earliest.checked_sub(self.shown), self.shown.checked_sub(wall)) {
            (Some(ahead), _) if ahead > OFF_MAX => (ahead, "ahead of"),
            (_, Some(behind)) if behind > OFF_MAX => (behind, "behind"),
            _ => return Ok(()),
        };
        let what = format!("the clock of this machine is {} s {direction} {whose}", off.as_secs());
        let help = "have a time service set both (chrony, systemd-timesyncd), and start again";
        Err(StartError::Database { what, help: help.into() })
    }
}

/// Milliseconds since the Unix epoch that never go back.
///
/// They are those of the machine's clock whenever that is ahead: after a suspend, in which the steady clock of most
/// systems stands still, or once a late time service has set it, everything is due when the calendar says so. Leases
/// whose end has come meanwhile have lapsed. While the machine's clock is behind, because it was set back, time goes on
/// at half its pace until the two meet: nothing stands still, and no due time is further off than the clock was set.
///
/// Servers that share a log [follow](Self::follow) one clock, the one where the log is kept: whichever of them takes
/// over ends leases when the one before would have, whatever their own clocks show.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    course: Mutex<Course>,
}

/// The time that was told last.
#[derive(Clone, Copy, Debug)]
struct Course {
    told: Duration,
    /// What the steady clock showed then.
    steady: Duration,
    /// What a clock elsewhere showed that is followed, and what the steady clock showed then.
    followed: Option<(Duration, Duration)>,
}

impl Course {
    /// The time, given what both clocks show.
    fn tell(&mut self, wall: Duration, steady: Duration) -> Duration {
        let wall = self.followed.map_or(wall, |(shown, then)| shown + steady.saturating_sub(then));
        let passed = steady.saturating_sub(self.steady);
        self.steady = self.steady.max(steady);
        self.told = wall.max(self.told + passed / 2);
        self.told
    }

    /// Goes by a clock elsewhere from now on, which showed `shown` at some moment between these two of the steady clock.
    /// What is believed of it changes only if it cannot be true: an answer that took long says little.
    fn follow(&mut self, shown: Duration, asked: Duration, answered: Duration) {
        let passed = answered.saturating_sub(asked);
        let now = match self.followed {
            Some((before, then)) => {
                let expected = before + answered.saturating_sub(then);
                expected.clamp(shown, shown + passed)
            }
            None => {
                // Nobody has been told a time yet.
                (self.told, self.steady) = (shown + passed / 2, answered);
                self.told
            }
        };
        self.followed = Some((now, answered));
    }
}

/// What the machine's clock shows. One before 1970 is a machine without a clock: zero is as good as any other start.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Clock {
    pub(crate) fn start() -> Self {
        let course = Course { told: wall(), steady: Duration::ZERO, followed: None };
        Self { start: Instant::now(), course: Mutex::new(course) }
    }

    fn told(&self) -> Duration {
        let mut course = lock(&self.course);
        // Read under the lock: an older reading that comes later would count its time twice.
        let (wall, steady) = (wall(), self.start.elapsed());
        course.tell(wall, steady)
    }

    /// Goes by a clock elsewhere. The first time, before anybody asks what time it is.
    pub(crate) fn follow(&self, reading: &Reading) {
        let since = |moment: Instant| moment.saturating_duration_since(self.start);
        lock(&self.course).follow(reading.shown, since(reading.asked), since(reading.answered));
    }

    pub(crate) fn now(&self) -> Time {
        Time(millis(self.told()))
    }

    /// How long to wait for `time`; zero if it has passed.
    pub(crate) fn until(&self, time: Time) -> Duration {
        // A deadline of "never" must not overflow whatever waits for it.
        Duration::from_millis(time.0).saturating_sub(self.told()).min(WAIT_MAX)
    }
}

/// The longest single wait; afterwards the deadline is looked at again. A sleeper does not notice that the machine was
/// suspended or its clock set: this is how late it learns of it.
const WAIT_MAX: Duration = Duration::from_secs(1);

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    /// A course at noon of some day, by both clocks.
    fn noon() -> (Course, Duration) {
        let noon = 500_000 * HOUR;
        (Course { told: noon, steady: Duration::ZERO, followed: None }, noon)
    }

    #[test]
    fn it_never_goes_back_and_never_waits_for_the_past() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert_eq!(clock.until(Time(0)), Duration::ZERO);
        assert_eq!(clock.until(Time::NEVER), WAIT_MAX);
    }

    #[test]
    fn it_is_the_machines_clock_as_long_as_that_goes_on() {
        let (mut course, noon) = noon();
        for second in 1..100 {
            // A time service makes it a little faster or slower.
            let wall = noon + second * SECOND - Duration::from_micros(u64::from(second) * 400);
            assert_eq!(course.tell(wall, second * SECOND), wall);
        }
    }

    #[test]
    fn it_follows_a_suspend_and_a_late_time_service_at_once() {
        let (mut course, noon) = noon();
        assert_eq!(course.tell(noon + SECOND, SECOND), noon + SECOND);
        let woken = noon + 8 * HOUR;
        assert_eq!(course.tell(woken, 2 * SECOND), woken, "the steady clock stood still meanwhile");
        assert_eq!(course.tell(woken + SECOND, 3 * SECOND), woken + SECOND);
    }

    #[test]
    fn set_back_it_goes_on_at_half_the_pace_until_both_agree() {
        let (mut course, noon) = noon();
        let mut before = noon;
        for minute in 1..=180 {
            let passed = minute * 60 * SECOND;
            let wall = noon - HOUR + passed;
            let told = course.tell(wall, passed);
            assert!(told > before, "nothing stands still");
            assert!(told - wall <= HOUR, "no further off than it was set back");
            assert_eq!(told, wall.max(noon + passed / 2));
            before = told;
        }
        assert_eq!(before, noon + 2 * HOUR, "and it has healed");
    }

    #[test]
    fn a_clock_that_is_followed_counts_and_the_machines_does_not() {
        let (mut course, noon) = noon();
        let there = noon - 30 * SECOND;
        course.follow(there, SECOND, SECOND);
        // The machine's clock is ahead by half a minute, and is then set ahead by an hour.
        assert_eq!(course.tell(noon + 2 * SECOND, 2 * SECOND), there + SECOND);
        assert_eq!(course.tell(noon + HOUR, 4 * SECOND), there + 3 * SECOND);
        // That one is set ahead, and back again.
        course.follow(there + HOUR, 5 * SECOND, 5 * SECOND);
        assert_eq!(course.tell(noon, 6 * SECOND), there + HOUR + SECOND);
        course.follow(there + 6 * SECOND, 7 * SECOND, 7 * SECOND);
        assert_eq!(course.tell(noon, 10 * SECOND), there + HOUR + 3 * SECOND, "it never goes back");
    }

    #[test]
    fn an_answer_that_took_long_changes_only_what_cannot_be_true() {
        let (mut course, noon) = noon();
        course.follow(noon, SECOND, SECOND);
        // It showed noon and 3 s when the question was on its way, or the answer.
        course.follow(noon + 3 * SECOND, 2 * SECOND, 8 * SECOND);
        assert_eq!(course.tell(noon, 8 * SECOND), noon + 7 * SECOND);
        // It cannot show more than noon and 9 s by now, nor less than that.
        course.follow(noon + 8 * SECOND, 11 * SECOND, 12 * SECOND);
        assert_eq!(course.followed, Some((noon + 9 * SECOND, 12 * SECOND)));
        course.follow(noon + 20 * SECOND, 12 * SECOND, 13 * SECOND);
        assert_eq!(course.followed, Some((noon + 20 * SECOND, 13 * SECOND)));
    }

    #[cfg(any(feature = "nats", feature = "postgres"))]
    #[test]
    fn a_machine_whose_clock_is_far_off_is_refused_in_words() {
        let (asked, noon) = (Instant::now(), 500_000 * HOUR);
        let reading = Reading { shown: noon, asked, answered: asked + 5 * SECOND };
        for fine in [noon, noon - OFF_MAX, noon + OFF_MAX + 5 * SECOND] {
            assert!(reading.check_against(fine, "the database's").is_ok(), "{fine:?}");
        }
        let told = |wall: Duration| match reading.check_against(wall, "the database's") {
            Err(StartError::Database { what, help }) => format!("{what}; {help}"),
            other => panic!("{other:?}"),
        };
        let ahead = told(noon + HOUR);
        assert!(
            ahead.contains("is 3595 s ahead of the database's") && ahead.contains("time service"),
            "{ahead}"
        );
        let behind = told(noon - HOUR);
        assert!(behind.contains("is 3600 s behind the database's"), "{behind}");
    }

    #[test]
    fn an_old_reading_changes_nothing() {
        let (mut course, noon) = noon();
        let told = course.tell(noon + 2 * SECOND, 2 * SECOND);
        assert_eq!(course.tell(noon + SECOND, SECOND), told);
        assert_eq!(course.tell(noon + 3 * SECOND, 3 * SECOND), noon + 3 * SECOND);
    }
}
