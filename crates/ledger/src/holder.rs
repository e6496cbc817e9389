//! What the holder of a lease does: it runs the effect, keeps the lease meanwhile, and gets the outcome written down.

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

#[cfg(any(feature = "grpc", feature = "http"))]
use crate::End;
use crate::{Ending, Lease, Ledger, LedgerError, OMITTED, Outcome};

/// How often a lease is renewed within its time.
const RENEWALS_PER_LEASE: u32 = 3;
/// Between two tries to get an outcome written down.
const FINISH_PAUSE: Duration = Duration::from_millis(100);

/// Runs in a task of its own, to its end also if the caller goes away and drops the returned future. If the work
/// panics, so does this. `None`: the runtime is shutting down and has dropped the task, and how far it came is unknown.
pub(crate) async fn detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let task = tokio::spawn(Box::pin(work).in_current_span());
    match task.await {
        Ok(done) => Some(done),
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => None,
    }
}

/// What the ledger is told about an attempt.
pub(crate) enum Report {
    /// It ended in this way.
    Ended(Ending),
    /// Nothing was done: the lease is given up.
    Refused,
    /// It may have happened. Nothing is written down: when the lease lapses, its terms decide.
    Unclear,
}

/// What became of a report.
pub(crate) enum Told {
    /// It is written down.
    Written,
    /// Nothing is to be written down.
    Nothing,
    /// The holder of the lease had ended the effect itself, in this way, and that counts.
    Before(Outcome),
    /// Another caller took over.
    Overtaken,
    /// It could not be written down.
    Unwritten(LedgerError),
}

impl Ledger {
    /// Runs `work` and keeps the lease meanwhile. `None` if another caller took over: it was stopped where it stood.
    pub(crate) async fn under<T>(&self, lease: &Lease, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.keep(lease) => None,
        }
    }

    /// Renews a lease until another caller takes over, and returns then. If its holder has ended the effect, which it
    /// may do in a transaction of its own and go on with its answer, there is nothing left to renew, and this never
    /// returns.
    pub async fn keep(&self, lease: &Lease) {
        loop {
            sleep(lease.lasts / RENEWALS_PER_LEASE).await;
            let trouble = match self.renew(lease, lease.lasts).await {
                Ok(_) => continue,
                Err(LedgerError::Stale(_) | LedgerError::NotFound) => match self.ended(lease).await {
                    Ok(Some(_)) => return pending().await,
                    Ok(None) => return,
                    Err(trouble) => trouble,
                },
                // A lease that lapsed is still the newest until another caller takes over, so it is worth going on.
                Err(trouble) => trouble,
            };
            tracing::warn!(error = %trouble, identity = %lease.identity, "a lease could not be renewed");
        }
    }

    /// Renews a lease while the outcome is written down: that may take a while, too, and a lease that lapses
    /// meanwhile could be taken over. A renewal that comes too late says nothing; the ending itself says what became
    /// of it.
    async fn keeping<T>(&self, lease: &Lease, ended: impl Future<Output = T>) -> T {
        let kept = async {
            self.keep(lease).await;
            pending().await
        };
        tokio::select! {
            done = ended => done,
            never = kept => never,
        }
    }

    /// How the holder of a lease has ended the effect; `None` if it has not. By what the ledger has: a transaction that
    /// was rolled back has ended nothing, and one whose commit was not answered may have.
    pub(crate) async fn ended(&self, lease: &Lease) -> Result<Option<Outcome>, LedgerError> {
        let record = self.get(&lease.identity).await?;
        // A record that was begun anew counts its epochs from the beginning, and was made when this lease was over.
        let record = record.filter(|record| record.created_at <= lease.expires_at);
        Ok(record.and_then(|record| record.outcome).filter(|outcome| outcome.epoch == lease.epoch))
    }

    /// Tells the ledger about an attempt, and keeps the lease meanwhile.
    pub(crate) async fn report(&self, lease: &Lease, report: &Report) -> Told {
        let written = match report {
            Report::Ended(ending) => self.keeping(lease, self.finish_in_any_case(lease, ending)).await,
            Report::Refused => self.keeping(lease, self.release_patiently(lease)).await,
            Report::Unclear => return Told::Nothing,
        };
        let told = match written {
            Ok(()) => return Told::Written,
            Err(LedgerError::Stale(_)) => self.ended(lease).await,
            Err(error) => Err(error),
        };
        match told {
            Ok(Some(outcome)) => Told::Before(outcome),
            Ok(None) => Told::Overtaken,
            Err(error) => {
                tracing::error!(%error, identity = %lease.identity, "what became of an effect is not written down");
                Told::Unwritten(error)
            }
        }
    }

    /// As [`report`](Self::report), of a holder that took on to end the effect itself. What it has committed counts,
    /// whatever it says; a success that it has not committed is none.
    #[cfg(any(feature = "grpc", feature = "http"))]
    pub(crate) async fn report_of_joined(&self, lease: &Lease, report: &Report) -> Told {
        let is_success = matches!(report, Report::Ended(Ending { end: End::Succeeded, .. }));
        if !is_success && !matches!(report, Report::Unclear) {
            // The ledger refuses it if there is an outcome already. It waits for a transaction that is still under way.
            return self.report(lease, report).await;
        }
        match self.ended(lease).await {
            Ok(Some(outcome)) => Told::Before(outcome),
            Ok(None) if !is_success => Told::Nothing,
            Ok(None) => {
                let why = "the handler took the lease to end the effect itself, said that it succeeded, and has not \
                           committed that";
                tracing::error!(identity = %lease.identity, why);
                Told::Unwritten(LedgerError::Invalid(why.to_owned()))
            }
            Err(error) => {
                tracing::error!(%error, identity = %lease.identity, "it is not known how an effect ended");
                Told::Unwritten(error)
            }
        }
    }

    /// How it ended matters more than what it said: that is written down also if the answer cannot be kept, first
    /// without its payload, then without its headers.
    async fn finish_in_any_case(&self, lease: &Lease, ending: &Ending) -> Result<(), LedgerError> {
        let mut ending = ending.clone();
        self.settings().headers.retain(&mut ending.response.headers);
        let ending = &ending;
        let cannot_be_kept = |result: &Result<(), LedgerError>| {
            matches!(result, Err(LedgerError::TooLarge { .. } | LedgerError::Invalid(_)))
        };
        let whole = self.finish_patiently(lease, ending).await;
        if !cannot_be_kept(&whole) {
            return whole;
        }
        let mut less = ending.clone();
        less.response = less.response.omit_payload();
        let without_payload = self.finish_patiently(lease, &less).await;
        if !cannot_be_kept(&without_payload) {
            return without_payload;
        }
        less.response.headers.retain(|name, _| name == OMITTED);
        self.finish_patiently(lease, &less).await
    }

    async fn finish_patiently(&self, lease: &Lease, ending: &Ending) -> Result<(), LedgerError> {
        self.patiently(|| async { self.finish(lease, ending).await.map(drop) }).await
    }

    async fn release_patiently(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.patiently(|| async { self.release(lease).await.map(drop) }).await
    }

    /// Tries for longer than a single call would: what became of an effect is worth the wait.
    async fn patiently<Fut>(&self, tell: impl Fn() -> Fut) -> Result<(), LedgerError>
    where
        Fut: Future<Output = Result<(), LedgerError>>,
    {
        let until = Instant::now() + self.settings().finish_patience;
        loop {
            match tell().await {
                Err(error) if error.is_transient() && Instant::now() < until => sleep(FINISH_PAUSE).await,
                told => return told,
            }
        }
    }
}
