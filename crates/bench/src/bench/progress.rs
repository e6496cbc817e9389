//! Where the run is, for a user who watches it on a terminal.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(200);

/// A bar on stderr; nothing where stderr is not a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = if io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Announces more steps.
    pub(super) fn expect(&self, steps: usize) {
        self.bar.inc_length(steps as u64);
    }

    /// One step is over; says what comes next.
    pub(super) fn step(&self, what: &str) {
        self.bar.inc(1);
        self.bar.set_message(what.to_owned());
    }

    pub(super) fn done(&self) {
        self.bar.finish_and_clear();
    }
}
