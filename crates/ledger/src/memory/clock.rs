//! The clock that a store in memory goes by.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

use crate::Moment;

/// What tells a store in memory the time. The store never lets time go back: if the clock does, it stands still until
/// the clock has caught up.
pub trait Clock: Send + Sync + 'static {
    /// What time it is.
    fn now(&self) -> Moment;

    /// Returns when that time has come, and not before: the caller that waits looks again at once.
    fn reached(&self, at: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }
}

/// The system's time at the start of the process's store, and from there on a clock that cannot be set.
pub(crate) struct SystemClock {
    origin: Moment,
    started: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self { origin: Moment::from(SystemTime::now()), started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        self.origin.after(self.started.elapsed())
    }
}

/// A clock that stands still until it is moved: tests let time pass without waiting for it.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
    moved: watch::Sender<()>,
}

impl ManualClock {
    /// A clock that shows this time.
    #[must_use]
    pub fn new(now: Moment) -> Self {
        Self { micros: AtomicI64::new(now.micros()), moved: watch::Sender::new(()) }
    }

    /// Time passes.
    pub fn advance(&self, duration: Duration) {
        self.set(self.now().after(duration));
    }

    /// Sets the time, which may be earlier than it was: clocks that are set do that.
    pub fn set(&self, now: Moment) {
        self.micros.store(now.micros(), Ordering::SeqCst);
        self.moved.send_replace(());
    }
}

impl Default for ManualClock {
    /// It is noon on a day in 2025.
    fn default() -> Self {
        Self::new(Moment::from_millis(1_766_318_400_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::from_micros(self.micros.load(Ordering::SeqCst))
    }

    fn reached(&self, at: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut moved = self.moved.subscribe();
        Box::pin(async move {
            // The sender lives as long as the clock, so waiting does not fail.
            let _ = moved.wait_for(|()| self.now() >= at).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_whoever_waits_for_it_and_nobody_else() {
        let clock = Arc::new(ManualClock::default());
        let (early, late) =
            (clock.now().after(Duration::from_secs(1)), clock.now().after(Duration::from_secs(2)));
        let waiting = |at| {
            let clock = Arc::clone(&clock);
            tokio::spawn(async move { clock.reached(at).await })
        };
        let (first, second) = (waiting(early), waiting(late));
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(1));
        first.await.unwrap();
        assert!(!second.is_finished());
        clock.advance(Duration::from_secs(1));
        second.await.unwrap();
        clock.reached(early).await;
    }

    #[test]
    fn the_systems_clock_starts_at_the_systems_time() {
        let before = Moment::from(SystemTime::now());
        let now = SystemClock::new().now();
        assert!(before <= now && now.since(before) < Duration::from_secs(60), "{before} {now}");
    }
}
