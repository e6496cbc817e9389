//! What handlers and tests tell each other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Nothing in these tests takes longer, unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What handlers and tests tell each other.
pub(crate) struct Signals {
    /// How often a handler has run.
    pub(crate) runs: AtomicUsize,
    /// A permit for every handler that has begun and waits.
    pub(crate) entered: Semaphore,
    /// A permit for every handler that may go on.
    pub(crate) gate: Semaphore,
}

impl Default for Signals {
    fn default() -> Self {
        Self { runs: AtomicUsize::new(0), entered: Semaphore::new(0), gate: Semaphore::new(0) }
    }
}

impl Signals {
    pub(crate) fn run(&self) -> usize {
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// A handler waits here until the test lets it go on.
    pub(crate) async fn pause(&self) {
        self.entered.add_permits(1);
        self.gate.acquire().await.unwrap().forget();
    }

    /// The test waits here until a handler waits.
    pub(crate) async fn until_entered(&self) {
        within(self.entered.acquire()).await.unwrap().forget();
    }

    pub(crate) fn let_go(&self) {
        self.gate.add_permits(1);
    }
}

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("this takes too long")
}
