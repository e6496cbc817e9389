//! The open connections. When the limit is reached, the connection that has been without a request for longest makes
//! room for a new one: thousands of idle clients must not lock out one that wants to work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use super::pulse::Pulse;

/// A connection is left alone for this long after its last request: clients that work pause, too.
const IDLE_LEAST: Duration = Duration::from_secs(1);

/// All open connections.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    members: Mutex<HashMap<u64, Arc<Pulse>>>,
    next: AtomicU64,
}

impl Crowd {
    /// Counts a connection in for as long as the guard lives.
    pub(crate) fn join(&self, pulse: Arc<Pulse>) -> Member<'_> {
        let number = self.next.fetch_add(1, Relaxed);
        self.members().insert(number, pulse);
        Member { crowd: self, number }
    }

    /// Asks the idlest connection to leave. False if all have something to do.
    pub(crate) fn dismiss_idlest(&self, now: Instant) -> bool {
        let members = self.members();
        let idle = members.values().filter_map(|pulse| Some((pulse.idle_for(now)?, pulse)));
        let idlest = idle.filter(|(idle, _)| *idle >= IDLE_LEAST).max_by_key(|(idle, _)| *idle);
        idlest.inspect(|(_, pulse)| pulse.dismiss()).is_some()
    }

    /// Those whose request is under way. Each keeps a sender until it is answered.
    pub(crate) fn await_rest(&self, under_way: &Sender<()>) -> Vec<Arc<Pulse>> {
        let members = self.members();
        members.values().filter(|pulse| pulse.keep_while_busy(under_way.clone())).cloned().collect()
    }

    fn members(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Pulse>>> {
        // The table is whole at every point, so a panic elsewhere says nothing about it.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection.
pub(crate) struct Member<'a> {
    crowd: &'a Crowd,
    number: u64,
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.crowd.members().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

    fn pulse(now: Instant, idle: Duration) -> Arc<Pulse> {
        let pulse = Pulse::new(now, Duration::from_secs(10), IDLE_TIMEOUT);
        pulse.idle(now + IDLE_TIMEOUT - idle);
        Arc::new(pulse)
    }

    #[test]
    fn the_idlest_goes_first_and_whoever_works_stays() {
        let (begun, crowd) = (Instant::now(), Crowd::default());
        let now = begun + IDLE_TIMEOUT;
        let pulses = [30, 90, 60].map(|seconds| pulse(begun, Duration::from_secs(seconds)));
        let busy = pulse(begun, Duration::from_secs(100));
        busy.busy();
        let fresh = pulse(begun, Duration::from_millis(500));
        let all = [&pulses[0], &pulses[1], &pulses[2], &busy, &fresh];
        let mut members: Vec<Member<'_>> = all.map(|pulse| crowd.join(Arc::clone(pulse))).into();
        for idlest in [1, 2, 0] {
            assert!(crowd.dismiss_idlest(now));
            assert!(pulses[idlest].is_dismissed());
        }
        assert!(!busy.is_dismissed() && !fresh.is_dismissed());
        assert!(!crowd.dismiss_idlest(now), "the others have something to do, or had a moment ago");
        members.clear();
        assert!(crowd.members().is_empty());
    }
}
