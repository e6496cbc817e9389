//! Calls whose answer is lost.
//!
//! A caller that is told "not available" does not run its effect, nor does one that went away before it was told anything,
//! but the store may have given it a lease that nobody knows of. Nothing was done under it. So the ledger gives it back as soon as the store answers again: otherwise the next
//! caller and the operator would wait for the whole lease, and the effect would be unknown after that.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use crate::ledger::new_call;
use crate::words::beginning;
use crate::{Identity, Ledger, LedgerError, Lost, NOTE_BYTES_MAX};

/// Lost calls of this process that are followed up at the same time. More than these lapse by themselves.
const FOLLOWED_MAX: usize = 1_000;
/// First pause before the store is asked; it doubles. What was lost may still be on its way in the database.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

static FOLLOWED: AtomicUsize = AtomicUsize::new(0);

/// Counts as one that is followed up for as long as it lives.
struct Followed;

impl Followed {
    fn new() -> Option<Self> {
        let before = FOLLOWED.fetch_add(1, Ordering::Relaxed);
        let followed = Self;
        (before < FOLLOWED_MAX).then_some(followed)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        FOLLOWED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call of a name that no other call has. If it ends without an answer, because the store does not give one or because
/// the caller drops the call, what it may have got is given back.
pub(crate) struct Sent<'a> {
    ledger: &'a Ledger,
    identity: &'a Identity,
    /// `None` if the caller can ask for it again by a name of its own.
    call: Option<&'a str>,
    owner: Option<&'a str>,
    lease: Duration,
    /// Whether the store may have decided something that nobody was told.
    is_unanswered: bool,
}

impl<'a> Sent<'a> {
    pub(crate) const fn new(
        ledger: &'a Ledger,
        identity: &'a Identity,
        call: Option<&'a str>,
        owner: Option<&'a str>,
        lease: Duration,
    ) -> Self {
        Self { ledger, identity, call, owner, lease, is_unanswered: false }
    }

    /// The store is asked from now on.
    pub(crate) const fn asks(&mut self) {
        self.is_unanswered = true;
    }

    /// This is what came of it.
    pub(crate) const fn heard<T>(&mut self, result: &Result<T, LedgerError>) {
        self.is_unanswered = matches!(result, Err(LedgerError::Unavailable(_) | LedgerError::TimedOut(_)));
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let (true, Some(call), Ok(runtime)) = (self.is_unanswered, self.call, Handle::try_current()) else {
            return;
        };
        let Some(followed) = Followed::new() else { return };
        let (ledger, lease) = (self.ledger.clone(), self.lease);
        let owner = self.owner.map(str::to_owned);
        let lost = Lost { identity: self.identity.clone(), call: call.to_owned(), owner };
        runtime.spawn(async move {
            ledger.give_back(&lost, lease).await;
            drop(followed);
        });
    }
}

impl Ledger {
    /// Asks until it is given back, or its time is over.
    async fn give_back(&self, lost: &Lost, lease: Duration) {
        let until = Instant::now().checked_add(lease);
        let mut pause = PAUSE_FIRST;
        while until.is_none_or(|until| Instant::now() + pause < until) {
            sleep(pause).await;
            match timeout(self.settings().call_timeout, self.store().give_back(lost)).await {
                Ok(Ok(true)) => {
                    tracing::info!(identity = %lost.identity, "the answer to a begin was lost; its lease is given back");
                    return;
                }
                Ok(Err(error)) if !error.is_transient() => return,
                Ok(Ok(false) | Err(_)) | Err(_) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// A name of this call alone, unless the caller has said who it is and can tell its calls apart.
pub(crate) fn own_call(given: Option<&str>, owner: Option<&str>) -> String {
    let Some(given) = given else { return new_call() };
    if owner.is_some() {
        return given.to_owned();
    }
    let own = new_call();
    format!("{}#{own}", beginning(given, NOTE_BYTES_MAX - own.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_callers_only_if_the_caller_is_known() {
        assert_eq!(own_call(Some("charge"), Some("worker-1")), "charge");
        let names = [None, Some("charge"), Some("charge")].map(|given| own_call(given, None));
        assert!(names[1].starts_with("charge#") && names[1] != names[2], "{names:?}");
        assert_eq!(names[0].len(), 22);
        let long = "ü".repeat(127);
        assert!(own_call(Some(&long), None).len() <= NOTE_BYTES_MAX);
    }
}
