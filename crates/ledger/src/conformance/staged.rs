//! Two calls about one record, of which one comes between the look and the write of the other. What comes of it is what
//! would have come of it one after the other: the records of both are compared as a whole.

use std::time::Duration;

use super::Harness;
use super::kit::{Case, LONG, success};
use crate::{
    Begin, Decision, Ending, Finished, Identity, Lease, Ledger, LedgerError, Moment, OnLapse, Outcome, Proof,
    Record, Resolve,
};

/// A call about a record.
#[derive(Clone, Debug)]
pub enum Move {
    /// A caller wants to run it.
    Begin(Box<Begin>),
    /// A holder says how it ended.
    Finish(Lease, Ending),
    /// A holder goes on.
    Renew(Lease, Duration),
    /// An operator says how it ended.
    Resolve(Box<Resolve>),
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub enum Made {
    /// Of a begin.
    Begun(Result<Decision, LedgerError>),
    /// Of a finish or a resolution.
    Finished(Result<Finished, LedgerError>),
    /// Of a renewal.
    Renewed(Result<Moment, LedgerError>),
}

impl Move {
    /// Makes it.
    pub async fn make(self, ledger: &Ledger) -> Made {
        match self {
            Self::Begin(asked) => Made::Begun(ledger.begin(*asked).await),
            Self::Finish(lease, ending) => Made::Finished(ledger.finish(&lease, &ending).await),
            Self::Renew(lease, lasts) => Made::Renewed(ledger.renew(&lease, lasts).await),
            Self::Resolve(found) => Made::Finished(ledger.resolve(&found).await),
        }
    }
}

/// Times and numbers of two records differ, and everything else must not.
const SOME_TIME: Moment = Moment::from_micros(0);

fn some_lease(mut lease: Lease, identity: &Identity) -> Lease {
    lease.identity = identity.clone();
    lease.expires_at = SOME_TIME;
    lease.proof = Proof::Record(0);
    lease
}

fn some_outcome(outcome: Outcome) -> Outcome {
    Outcome { finished_at: SOME_TIME, ..outcome }
}

impl Made {
    /// Without what differs between two records.
    fn alike(self, identity: &Identity) -> Self {
        match self {
            Self::Begun(begun) => Self::Begun(begun.map(|decision| match decision {
                Decision::Execute(lease) => Decision::Execute(some_lease(lease, identity)),
                Decision::Replay(outcome) => Decision::Replay(some_outcome(outcome)),
                Decision::InProgress { epoch, attempt, .. } => {
                    Decision::InProgress { retry_after: Duration::ZERO, epoch, attempt }
                }
                Decision::Retryable { outcome, attempts_left } => {
                    Decision::Retryable { outcome: some_outcome(outcome), attempts_left }
                }
                Decision::Unknown { epoch, attempt, .. } => {
                    Decision::Unknown { epoch, attempt, since: SOME_TIME }
                }
            })),
            // Why it is stale may be told in more words, or fewer.
            Self::Finished(Err(LedgerError::Stale(_))) => {
                Self::Finished(Err(LedgerError::Stale(String::new())))
            }
            Self::Renewed(Err(LedgerError::Stale(_))) => {
                Self::Renewed(Err(LedgerError::Stale(String::new())))
            }
            Self::Renewed(Ok(_)) => Self::Renewed(Ok(SOME_TIME)),
            other => other,
        }
    }
}

fn alike(record: Record, identity: &Identity) -> Record {
    assert!(record.created_at <= record.updated_at, "{record:?}");
    Record {
        identity: identity.clone(),
        created_at: SOME_TIME,
        updated_at: SOME_TIME,
        lease_expires_at: record.lease_expires_at.map(|_| SOME_TIME),
        expires_at: record.expires_at.map(|_| SOME_TIME),
        outcome: record.outcome.map(some_outcome),
        ..record
    }
}

/// Stages two moves, each made for a record in its first state, and makes the same two one after the other with another
/// record: the answers and the records must be the same. `prepare` brings a record about and says what to do with it.
async fn is_as_one_after_the_other(case: &Case<'_>, prepare: impl AsyncFn(&'static str) -> (Move, Move)) {
    let (first, late) = prepare("plain").await;
    let one = first.make(case.ledger()).await;
    let other = late.make(case.ledger()).await;
    let (first, late) = prepare("staged").await;
    let identity = case.identity("staged");
    let (staged_one, staged_other) = case.harness.staged(&identity, first, late).await;
    assert_eq!(staged_one.alike(&identity), one.alike(&identity), "the first");
    assert_eq!(staged_other.alike(&identity), other.alike(&identity), "the late one");
    let records = (case.record("staged").await, case.record("plain").await);
    assert_eq!(alike(records.0, &identity), alike(records.1, &identity));
}

/// A caller that takes over what lapsed or failed.
fn takes_over(case: &Case<'_>, key: &str, owner: &str) -> Move {
    let terms = case.long().on_lapse(OnLapse::Retry);
    Move::Begin(Box::new(case.asking(key).terms(terms).reacquire().owner(owner)))
}

fn resolves(case: &Case<'_>, key: &str) -> Move {
    Move::Resolve(Box::new(case.found(key, success("found"))))
}

/// Two callers look at a lease that has lapsed, and one of them takes over.
pub async fn a_takeover_comes_before_a_takeover(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        case.lapsed(key, OnLapse::Retry).await;
        (takes_over(case, key, "first"), takes_over(case, key, "late"))
    })
    .await;
}

/// A holder whose lease has lapsed is about to say how it ended.
pub async fn a_takeover_comes_before_an_ending(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        let lease = case.lapsed(key, OnLapse::Retry).await;
        (takes_over(case, key, "first"), Move::Finish(lease, success("too late")))
    })
    .await;
}

/// A holder whose lease has lapsed is about to go on.
pub async fn a_takeover_comes_before_a_renewal(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        let lease = case.lapsed(key, OnLapse::Retry).await;
        (takes_over(case, key, "first"), Move::Renew(lease, LONG))
    })
    .await;
}

/// An operator looks at a lease that has lapsed.
pub async fn a_takeover_comes_before_a_resolution(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        case.lapsed(key, OnLapse::Retry).await;
        (takes_over(case, key, "first"), resolves(case, key))
    })
    .await;
}

/// A caller looks at a lease that has lapsed, and its holder says after all how it ended.
pub async fn an_ending_comes_before_a_takeover(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        let lease = case.lapsed(key, OnLapse::Retry).await;
        (Move::Finish(lease, success("in time")), takes_over(case, key, "late"))
    })
    .await;
}

/// An operator looks at what may have happened, and its holder says after all how it ended.
pub async fn an_ending_comes_before_a_resolution(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        let lease = case.unknown(key).await;
        (Move::Finish(lease, success("in time")), resolves(case, key))
    })
    .await;
}

/// A holder is about to say how it ended, and an operator has said so.
pub async fn a_resolution_comes_before_an_ending(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        let lease = case.unknown(key).await;
        (resolves(case, key), Move::Finish(lease, success("too late")))
    })
    .await;
}

/// A caller looks at a failure, and an operator says that it was none.
pub async fn a_resolution_comes_before_a_takeover(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        case.ended(key, &Ending::failed_retryable("for now")).await;
        (resolves(case, key), takes_over(case, key, "late"))
    })
    .await;
}

/// A caller finds nothing and waits for another one that was quicker.
pub async fn a_begin_comes_before_a_begin(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        (takes_over(case, key, "first"), takes_over(case, key, "late"))
    })
    .await;
}

/// Two callers look at a record whose time is over, and one begins it anew.
pub async fn a_record_begun_anew_comes_before_another(harness: &dyn Harness) {
    let case = &Case::new(harness);
    is_as_one_after_the_other(case, async |key| {
        let lease = case.first_on(key, case.long().ttl(harness.brief())).await;
        case.commit(&lease, &success("old")).await;
        harness.expire(&lease.identity).await;
        (takes_over(case, key, "first"), takes_over(case, key, "late"))
    })
    .await;
}
