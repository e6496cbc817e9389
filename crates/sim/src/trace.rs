//! A running digest of everything that happened, to hold two runs of one seed against each other.

use std::fmt::Debug;

/// FNV-1a over the text of every step, and the last steps in full for a report.
#[derive(Debug, Default)]
pub struct Trace {
    digest: u64,
    steps: u64,
    recent: std::collections::VecDeque<String>,
    verbose: bool,
}

/// Steps that a report shows.
const RECENT_STEPS: usize = 40;
/// Characters of a step that a report shows.
const RECENT_CHARACTERS: usize = 260;

impl Trace {
    /// An empty trace; a verbose one prints the whole story as it goes.
    #[must_use]
    pub fn new(verbose: bool) -> Self {
        Self { verbose, ..Self::default() }
    }

    /// Notes a step.
    pub fn note(&mut self, what: &str, detail: &dyn Debug) {
        let line = format!("{what} {detail:?}");
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.steps += 1;
        if self.verbose {
            println!("{:>6} {line}", self.steps);
        }
        if self.recent.len() == RECENT_STEPS {
            self.recent.pop_front();
        }
        self.recent.push_back(line.chars().take(RECENT_CHARACTERS).collect());
    }

    /// The digest so far.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Notes taken so far.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The last steps, oldest first.
    pub fn recent(&self) -> impl Iterator<Item = &str> {
        self.recent.iter().map(String::as_str)
    }
}
