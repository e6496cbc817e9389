//! Leaves a router alone that keeps failing.
//!
//! Pure: the time is an argument. Closed, everything passes and outcomes are watched; open, nothing passes until
//! the cool-down is over; half open, one call passes and its outcome decides.

use std::time::Duration;

use tokio::time::Instant;

/// When the breaker opens and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// Opens after this many failures in a row.
    pub failures_max: u32,
    /// Opens when this share of the calls in a window failed.
    pub failure_percent_max: u32,
    /// Calls that a window must have before their share of failures means anything.
    pub window_calls_min: u32,
    /// Length of a window.
    pub window: Duration,
    /// How long it stays open before one call is let through.
    pub cooldown: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failures_max: 5,
            failure_percent_max: 50,
            window_calls_min: 20,
            window: Duration::from_secs(10),
            cooldown: Duration::from_secs(5),
        }
    }
}

/// What the breaker does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BreakerState {
    /// Lets everything through.
    #[default]
    Closed,
    /// Lets nothing through.
    Open,
    /// Lets one call through, to see whether the router is back.
    HalfOpen,
}

/// Leave to ask once. Its outcome is reported back under its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// Which stretch of the breaker's life gave it; outcomes of earlier stretches say nothing about this one.
    stretch: u64,
}

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Good,
    Bad,
    /// The caller did not wait for the end.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Breaker {
    config: BreakerConfig,
    phase: Phase,
    stretch: u64,
    opened: u64,
}

#[derive(Debug)]
enum Phase {
    Closed { in_a_row: u32, window: Window },
    Open { until: Instant },
    HalfOpen { probing: bool },
}

#[derive(Debug)]
struct Window {
    began: Instant,
    calls: u32,
    failures: u32,
}

impl Phase {
    fn closed(now: Instant) -> Self {
        Self::Closed { in_a_row: 0, window: Window { began: now, calls: 0, failures: 0 } }
    }
}

impl Breaker {
    pub(super) fn new(config: BreakerConfig, now: Instant) -> Self {
        Self { config, phase: Phase::closed(now), stretch: 0, opened: 0 }
    }

    /// Whether a call could pass now, without taking the place.
    pub(super) fn would_pass(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Closed { .. } => true,
            Phase::Open { until } => now >= until,
            Phase::HalfOpen { probing } => !probing,
        }
    }

    /// Leave for one call, if there is any.
    pub(super) fn pass(&mut self, now: Instant) -> Option<Pass> {
        if !self.would_pass(now) {
            return None;
        }
        if let Phase::Open { .. } = self.phase {
            self.enter(Phase::HalfOpen { probing: false });
        }
        if let Phase::HalfOpen { probing } = &mut self.phase {
            *probing = true;
        }
        Some(Pass { stretch: self.stretch })
    }

    /// Hears how a call went. True if the state changed.
    pub(super) fn report(&mut self, pass: Pass, outcome: Outcome, now: Instant) -> bool {
        if pass.stretch != self.stretch {
            return false;
        }
        let next = match (&mut self.phase, outcome) {
            (Phase::Closed { in_a_row, window }, Outcome::Good | Outcome::Bad) => {
                let is_bad = outcome == Outcome::Bad;
                *in_a_row = if is_bad { *in_a_row + 1 } else { 0 };
                window.count(now, self.config.window, is_bad);
                let too_many = *in_a_row >= self.config.failures_max || window.is_bad(&self.config);
                too_many.then_some(Phase::Open { until: now + self.config.cooldown })
            }
            (Phase::HalfOpen { .. }, Outcome::Good) => Some(Phase::closed(now)),
            (Phase::HalfOpen { .. }, Outcome::Bad) => Some(Phase::Open { until: now + self.config.cooldown }),
            (Phase::HalfOpen { probing }, Outcome::Unknown) => {
                // The next one tries.
                *probing = false;
                None
            }
            (Phase::Open { .. }, _) | (Phase::Closed { .. }, Outcome::Unknown) => None,
        };
        next.map(|phase| self.enter(phase)).is_some()
    }

    /// The state as others see it: open until a call is let through.
    pub(super) const fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// How often it has opened.
    pub(super) const fn opened(&self) -> u64 {
        self.opened
    }

    fn enter(&mut self, phase: Phase) {
        self.opened += u64::from(matches!(phase, Phase::Open { .. }));
        self.stretch += 1;
        self.phase = phase;
    }
}

impl Window {
    fn count(&mut self, now: Instant, length: Duration, is_bad: bool) {
        if now.duration_since(self.began) >= length {
            *self = Self { began: now, calls: 0, failures: 0 };
        }
        self.calls = self.calls.saturating_add(1);
        self.failures = self.failures.saturating_add(u32::from(is_bad));
    }

    fn is_bad(&self, config: &BreakerConfig) -> bool {
        let (failures, calls) = (u64::from(self.failures), u64::from(self.calls));
        self.failures > 0
            && self.calls >= config.window_calls_min
            && failures * 100 >= calls * u64::from(config.failure_percent_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: BreakerConfig = BreakerConfig {
        failures_max: 3,
        failure_percent_max: 50,
        window_calls_min: 10,
        window: Duration::from_secs(10),
        cooldown: Duration::from_secs(5),
    };

    fn call(breaker: &mut Breaker, outcome: Outcome, now: Instant) -> bool {
        let pass = breaker.pass(now).expect("the breaker lets calls through");
        breaker.report(pass, outcome, now)
    }

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(CONFIG, now);
        for expected in [false, false, true] {
            assert_eq!(call(&mut breaker, Outcome::Bad, now), expected);
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let now = Instant::now();
        let mut breaker = Breaker::new(CONFIG, now);
        for outcome in [Outcome::Bad, Outcome::Bad, Outcome::Good, Outcome::Bad, Outcome::Bad] {
            assert!(!call(&mut breaker, outcome, now));
        }
        assert!(call(&mut breaker, Outcome::Bad, now));
        assert_eq!((breaker.state(), breaker.opened()), (BreakerState::Open, 1));
        assert_eq!(breaker.pass(now), None);
    }

    #[test]
    fn a_share_of_failures_opens_it_only_within_a_window() {
        let now = Instant::now();
        let mixed = |breaker: &mut Breaker, calls: usize, now| {
            (0..calls).any(|n| call(breaker, if n % 2 == 0 { Outcome::Good } else { Outcome::Bad }, now))
        };
        let mut breaker = Breaker::new(CONFIG, now);
        assert!(!mixed(&mut breaker, 9, now), "too few calls to tell");
        assert!(!mixed(&mut breaker, 9, now + CONFIG.window), "a new window knows nothing of the old one");
        let mut breaker = Breaker::new(CONFIG, now);
        assert!(mixed(&mut breaker, 10, now));
    }

    #[test]
    fn after_the_cool_down_one_call_decides() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let early = now + CONFIG.cooldown - Duration::from_millis(1);
        assert_eq!(breaker.pass(early), None);
        let later = now + CONFIG.cooldown;
        let probe = breaker.pass(later).unwrap();
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.pass(later), None, "one at a time");
        assert!(breaker.report(probe, Outcome::Bad, later));
        assert_eq!((breaker.state(), breaker.opened()), (BreakerState::Open, 2));
        assert_eq!(breaker.pass(later), None, "the cool-down begins again");
        let again = later + CONFIG.cooldown;
        assert!(call(&mut breaker, Outcome::Good, again));
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(!call(&mut breaker, Outcome::Bad, again), "it counts from nothing");
    }

    #[test]
    fn a_probe_that_nobody_waits_for_makes_room_for_the_next() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + CONFIG.cooldown;
        assert!(!call(&mut breaker, Outcome::Unknown, later));
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(call(&mut breaker, Outcome::Good, later));
    }

    #[test]
    fn late_outcomes_of_an_earlier_stretch_change_nothing() {
        let now = Instant::now();
        let mut breaker = Breaker::new(CONFIG, now);
        let slow = breaker.pass(now).unwrap();
        for _ in 0..3 {
            call(&mut breaker, Outcome::Bad, now);
        }
        let later = now + CONFIG.cooldown;
        let probe = breaker.pass(later).unwrap();
        assert!(!breaker.report(slow, Outcome::Good, later));
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.report(probe, Outcome::Good, later));
    }
}
