//! The circuit breaker of an endpoint: one that only fails is left alone for a while, and asked with one delivery
//! before all of them come. Time is passed in, since any moment of the caller's choice.

use std::collections::VecDeque;
use std::time::Duration;

/// So many failures in a row open it.
const CONSECUTIVE_MAX: u32 = 10;
/// So many sends must be in the window before their share of failures counts.
const WINDOW_LEAST: usize = 10;
/// Most sends in the window.
const WINDOW_MAX: usize = 100;
/// How far back the window reaches.
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// A share of failures that opens it, in percent.
const FAILED_PERCENT: usize = 70;
/// How long it stays open at first, and at most after probes that failed.
const OPEN_FIRST: Duration = Duration::from_secs(30);
const OPEN_MAX: Duration = Duration::from_secs(10 * 60);
/// By when a probe has told how it ended, or another one goes.
const PROBE_WITHIN: Duration = Duration::from_secs(2 * 60);

/// Whether a delivery may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    Send,
    /// It may, and all others wait for how it ends.
    Probe,
    /// It may not, and is asked for again after this time.
    Wait(Duration),
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// Deliveries are sent.
    #[default]
    Closed,
    /// They wait.
    Open,
    /// They wait for how one of them ends.
    HalfOpen,
}

/// What a send changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// From now on deliveries wait.
    Opened,
    /// From now on they are sent again.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Duration },
    HalfOpen { since: Duration },
}

/// The breaker of one endpoint.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: State,
    /// How long it is open the next time.
    next_open: Duration,
    failed_in_a_row: u32,
    /// When sends ended, and whether they failed; the oldest first.
    window: VecDeque<(Duration, bool)>,
    /// The first failure since a success.
    failing_since: Option<Duration>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: State::Closed,
            next_open: OPEN_FIRST,
            failed_in_a_row: 0,
            window: VecDeque::new(),
            failing_since: None,
        }
    }
}

impl Breaker {
    /// Whether a delivery may be sent now.
    pub fn permit(&mut self, now: Duration) -> Permit {
        match self.state {
            State::Closed => Permit::Send,
            State::Open { until } if now < until => Permit::Wait(until - now),
            State::HalfOpen { since } if now < since + PROBE_WITHIN => Permit::Wait(OPEN_FIRST),
            State::Open { .. } | State::HalfOpen { .. } => {
                self.state = State::HalfOpen { since: now };
                Permit::Probe
            }
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn position(&self) -> Position {
        match self.state {
            State::Closed => Position::Closed,
            State::Open { .. } => Position::Open,
            State::HalfOpen { .. } => Position::HalfOpen,
        }
    }

    /// A probe was not sent after all: the next delivery is one.
    pub fn give_back(&mut self, now: Duration) {
        if matches!(self.state, State::HalfOpen { .. }) {
            self.state = State::Open { until: now };
        }
    }

    /// How a send ended.
    pub fn record(&mut self, now: Duration, has_failed: bool) -> Option<Change> {
        self.window.push_back((now, has_failed));
        while self.window.len() > WINDOW_MAX
            || self.window.front().is_some_and(|(at, _)| now.saturating_sub(*at) > WINDOW)
        {
            self.window.pop_front();
        }
        if has_failed { self.failed(now) } else { self.succeeded() }
    }

    fn succeeded(&mut self) -> Option<Change> {
        self.failed_in_a_row = 0;
        self.failing_since = None;
        if self.state == State::Closed {
            return None;
        }
        *self = Self::default();
        Some(Change::Closed)
    }

    fn failed(&mut self, now: Duration) -> Option<Change> {
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        self.failing_since.get_or_insert(now);
        match self.state {
            // It was sent before the breaker opened.
            State::Open { .. } => None,
            State::HalfOpen { .. } => {
                self.open(now);
                None
            }
            State::Closed if self.is_failing() => {
                self.open(now);
                Some(Change::Opened)
            }
            State::Closed => None,
        }
    }

    fn is_failing(&self) -> bool {
        let failed = self.window.iter().filter(|(_, has_failed)| *has_failed).count();
        let is_share = failed * 100 >= self.window.len() * FAILED_PERCENT;
        self.failed_in_a_row >= CONSECUTIVE_MAX || (self.window.len() >= WINDOW_LEAST && is_share)
    }

    fn open(&mut self, now: Duration) {
        self.state = State::Open { until: now + self.next_open };
        self.next_open = (self.next_open * 2).min(OPEN_MAX);
    }

    /// For how long every send has failed.
    #[must_use]
    pub fn failing_for(&self, now: Duration) -> Duration {
        self.failing_since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }
}
