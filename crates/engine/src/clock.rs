//! The only place that asks what time it is.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use driftq_core::Time;

use crate::locks::lock;

/// Milliseconds since the Unix epoch that never go back.
///
/// They are those of the machine's clock whenever that is ahead: after a suspend, in which the steady clock of most
/// systems stands still, or once a late time service has set it, everything is due when the calendar says so. Leases
/// whose end has come meanwhile have lapsed. While the machine's clock is behind, because it was set back, time goes on
/// at half its pace until the two meet: nothing stands still, and no due time is further off than the clock was set.
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
}

impl Course {
    /// The time, given what both clocks show.
    fn tell(&mut self, wall: Duration, steady: Duration) -> Duration {
        let passed = steady.saturating_sub(self.steady);
        self.steady = self.steady.max(steady);
        self.told = wall.max(self.told + passed / 2);
        self.told
    }
}

/// What the machine's clock shows. One before 1970 is a machine without a clock: zero is as good as any other start.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Clock {
    pub(crate) fn start() -> Self {
        let course = Course { told: wall(), steady: Duration::ZERO };
        Self { start: Instant::now(), course: Mutex::new(course) }
    }

    fn told(&self) -> Duration {
        let mut course = lock(&self.course);
        // Read under the lock: an older reading that comes later would count its time twice.
        let (wall, steady) = (wall(), self.start.elapsed());
        course.tell(wall, steady)
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
        (Course { told: noon, steady: Duration::ZERO }, noon)
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
    fn an_old_reading_changes_nothing() {
        let (mut course, noon) = noon();
        let told = course.tell(noon + 2 * SECOND, 2 * SECOND);
        assert_eq!(course.tell(noon + SECOND, SECOND), told);
        assert_eq!(course.tell(noon + 3 * SECOND, 3 * SECOND), noon + 3 * SECOND);
    }
}
