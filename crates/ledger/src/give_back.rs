//! A begin whose answer was lost. It may have got a lease that nobody knows of, which would keep every other caller off
//! until it lapses, and then need an operator, though nothing was done under it. So it is looked for and given up.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use crate::{Begin, Decision, Lease, Ledger, LedgerError, Status};

/// Lost begins that are looked after at the same time, so that a store that is away is not asked by more and more.
pub(crate) const GIVE_BACKS_MAX: usize = 64;
/// First pause before it is looked for; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A store that is being asked to begin. If it does not answer, or the caller drops the question, what it may have begun
/// is given back.
pub(crate) struct Asking<'a> {
    ledger: &'a Ledger,
    asked: &'a Begin,
    /// Whether nobody can come to run it under the name of this call.
    is_ours: bool,
}

impl<'a> Asking<'a> {
    /// `is_ours`: the ledger has made up the name of the call. A caller that brings its own may ask again under that name,
    /// and then it has the lease that must not be given up.
    pub(crate) const fn new(ledger: &'a Ledger, asked: &'a Begin, is_ours: bool) -> Self {
        Self { ledger, asked, is_ours }
    }

    /// The store has said this.
    pub(crate) fn answered(mut self, answer: &Result<Decision, LedgerError>) {
        self.is_ours &= matches!(answer, Err(LedgerError::Unavailable(_) | LedgerError::TimedOut(_)));
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.is_ours {
            self.ledger.look_after(self.asked.clone());
        }
    }
}

/// What became of a lost begin.
enum Found {
    /// It cannot be said yet.
    Nothing,
    /// It has no lease, or none any more.
    Settled,
}

impl Ledger {
    fn look_after(&self, asked: Begin) {
        let Ok(runtime) = Handle::try_current() else { return };
        let Ok(place) = Arc::clone(self.give_backs()).try_acquire_owned() else {
            tracing::warn!(identity = %asked.identity, "too many begins are unanswered; this one is left to its lapse");
            return;
        };
        let ledger = self.clone();
        let look = async move {
            ledger.give_back(asked).await;
            drop(place);
        };
        runtime.spawn(look.in_current_span());
    }

    /// Looks for a lease that nobody knows of until it would have lapsed, and gives it up.
    async fn give_back(&self, mut asked: Begin) {
        // It only wants back what it has: it neither waits nor takes on what failed.
        asked.reacquire = false;
        asked.wait = Duration::ZERO;
        let until = Instant::now() + asked.terms.lease;
        let mut pause = PAUSE_FIRST;
        while Instant::now() < until {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            match self.found(&asked).await {
                Ok(Found::Settled) => return,
                Ok(Found::Nothing) => {}
                Err(error) if error.is_transient() => {}
                Err(error) => {
                    tracing::warn!(%error, identity = %asked.identity, "a lost begin is left to its lapse");
                    return;
                }
            }
        }
    }

    async fn found(&self, asked: &Begin) -> Result<Found, LedgerError> {
        // To ask first changes nothing: a begin would make a record if there is none.
        match self.get(&asked.identity).await? {
            None => return Ok(Found::Nothing),
            Some(record) if record.status == Status::InProgress && record.lease_live => {}
            Some(_) => return Ok(Found::Settled),
        }
        // The very call that got a lease gets it again; to any other the ledger says that it runs.
        match self.begin_again(asked).await? {
            Decision::Execute(lease) => self.given_up(&lease).await,
            _ => Ok(Found::Settled),
        }
    }

    async fn given_up(&self, lease: &Lease) -> Result<Found, LedgerError> {
        match self.release(lease).await {
            Ok(_) | Err(LedgerError::Stale(_)) => Ok(Found::Settled),
            Err(error) => Err(error),
        }
    }
}
