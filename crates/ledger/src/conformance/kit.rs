//! What the cases share: calls in few words, and what must come of them.

use std::time::Duration;

use super::Harness;
use crate::{
    Begin, Decision, End, Ending, Filter, Finished, Identity, Lease, Ledger, LedgerError, OnLapse, Outcome,
    Reacquire, Record, RequestHash, Resolve, Resolver, Response, Status, Terms,
};

/// Longer than any test: a lease or a record that must stay.
pub const LONG: Duration = Duration::from_secs(3600);
/// How long a case waits for what must come. If it comes, it comes much sooner.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A case with its store, under names of its own.
pub struct Case<'a> {
    /// The store and its time.
    pub harness: &'a dyn Harness,
    /// The principal of all effects of this case.
    pub principal: String,
    /// The method of all effects of this case.
    pub method: String,
}

impl<'a> Case<'a> {
    /// Under names that no other case has, nor this one at another time.
    #[must_use]
    pub fn new(harness: &'a dyn Harness) -> Self {
        let name = crate::ledger::new_call();
        Self { harness, principal: format!("suite-{name}"), method: format!("POST /suite/{name}") }
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &'a Ledger {
        self.harness.ledger()
    }

    /// An effect of this case.
    #[must_use]
    pub fn identity(&self, key: &str) -> Identity {
        Identity::new(&self.principal, &self.method, key).expect("the suite's own names are fine")
    }

    /// Terms under which nothing lapses or expires meanwhile.
    #[must_use]
    pub fn long(&self) -> Terms {
        Terms::default().lease(LONG).ttl(LONG)
    }

    /// Terms whose lease lapses, with this meaning, and whose record stays.
    #[must_use]
    pub fn lapsing(&self, on_lapse: OnLapse) -> Terms {
        self.long().lease(self.harness.brief()).on_lapse(on_lapse)
    }

    /// A caller that asks for the usual request, on long terms.
    #[must_use]
    pub fn asking(&self, key: &str) -> Begin {
        Begin::new(self.identity(key), hash("the request")).terms(self.long())
    }

    /// A retry worker, on long terms.
    #[must_use]
    pub fn retrying(&self, key: &str) -> Reacquire {
        Reacquire::new(self.identity(key)).terms(self.long())
    }

    /// What a caller that asks on long terms is told.
    pub async fn begin(&self, key: &str) -> Decision {
        self.told(self.asking(key)).await
    }

    /// What a caller that asks is told; it must be a decision.
    pub async fn told(&self, asked: Begin) -> Decision {
        self.ledger().begin(asked).await.expect("begin decides")
    }

    /// The lease of the first caller.
    pub async fn first(&self, key: &str) -> Lease {
        self.first_on(key, self.long()).await
    }

    /// The lease of the first caller, on these terms.
    pub async fn first_on(&self, key: &str, terms: Terms) -> Lease {
        executes(self.told(self.asking(key).terms(terms)).await, 1, 1)
    }

    /// A lease that has lapsed, with this meaning.
    pub async fn lapsed(&self, key: &str, on_lapse: OnLapse) -> Lease {
        self.lapsed_on(key, self.lapsing(on_lapse)).await
    }

    /// A lease that has lapsed, on these terms.
    pub async fn lapsed_on(&self, key: &str, terms: Terms) -> Lease {
        let lease = self.first_on(key, terms).await;
        self.harness.elapse(&lease.identity).await;
        lease
    }

    /// A lease under which an effect may have happened, and a caller was told that its outcome is unknown.
    pub async fn unknown(&self, key: &str) -> Lease {
        let lease = self.lapsed(key, OnLapse::Hold).await;
        is_unknown(&self.begin(key).await, &lease);
        lease
    }

    /// A lease under which an effect ended in this way.
    pub async fn ended(&self, key: &str, ending: &Ending) -> Lease {
        let lease = self.first(key).await;
        self.commit(&lease, ending).await;
        lease
    }

    /// Says how it ended, which must be news.
    pub async fn commit(&self, lease: &Lease, ending: &Ending) {
        assert_eq!(self.ledger().finish(lease, ending).await, Ok(Finished::Committed), "{ending:?}");
    }

    /// A lease that is over changes nothing any more: it can neither end the effect nor go on.
    pub async fn is_shut_out(&self, lease: &Lease) {
        let before = self.ledger().get(&lease.identity).await;
        for ending in [success("too late"), Ending::failed_retryable("too late")] {
            is_stale(&self.ledger().finish(lease, &ending).await);
        }
        is_stale(&self.ledger().renew(lease, LONG).await);
        let after = self.ledger().get(&lease.identity).await;
        assert_eq!(before, after, "a holder that was overtaken changes nothing");
    }

    /// What an operator found out about how an effect ended.
    #[must_use]
    pub fn found(&self, key: &str, ending: Ending) -> Resolve {
        let resolver = Resolver { by: "ann".to_owned(), why: "looked it up: ü".to_owned() };
        Resolve { identity: self.identity(key), epoch: None, ending, resolver, ttl: LONG }
    }

    /// Resolves an effect, which must be news.
    pub async fn resolve(&self, key: &str, ending: Ending) {
        let found = self.found(key, ending);
        assert_eq!(self.ledger().resolve(&found).await, Ok(Finished::Committed));
    }

    /// The record of an effect, which must be there.
    pub async fn record(&self, key: &str) -> Record {
        let record = self.ledger().get(&self.identity(key)).await.expect("get answers");
        record.unwrap_or_else(|| panic!("there is a record of {key}"))
    }

    /// That no record of an effect counts.
    pub async fn is_forgotten(&self, key: &str) {
        assert_eq!(self.ledger().get(&self.identity(key)).await, Ok(None), "{key}");
    }

    /// That an effect is replayed, and how it ended.
    pub async fn replayed(&self, key: &str) -> Outcome {
        replays(self.begin(key).await)
    }

    /// All records of this case that have this status, page by page, each once.
    pub async fn listed(&self, status: Option<Status>, limit: u32) -> Vec<Record> {
        let principal = Some(self.principal.clone());
        let mut filter = Filter { status, principal, limit, ..Filter::default() };
        let mut found: Vec<Record> = Vec::new();
        loop {
            let page = self.ledger().list(&filter).await.expect("list answers");
            assert!(page.records.len() <= limit as usize, "no page is longer than asked for");
            for record in page.records {
                assert!(found.iter().all(|one| one.identity != record.identity), "listed twice: {record:?}");
                found.push(record);
            }
            if page.cursor.is_none() {
                return found;
            }
            assert_ne!(page.cursor, filter.cursor, "a page leads on");
            filter.cursor = page.cursor;
        }
    }

    /// The keys of all records of this case that have this status, in alphabetical order.
    pub async fn keys(&self, status: Option<Status>) -> Vec<String> {
        let records = self.listed(status, 100).await;
        let mut keys: Vec<String> = records.iter().map(|one| one.identity.key().to_owned()).collect();
        keys.sort_unstable();
        keys
    }
}

/// What was asked for, by a hash of the caller's own.
#[must_use]
pub fn hash(request: &str) -> RequestHash {
    RequestHash::of_bytes(request.as_bytes())
}

/// It happened.
#[must_use]
pub fn success(payload: &str) -> Ending {
    Ending::succeeded(Response::new(payload.to_owned()))
}

/// An ending of each kind.
#[must_use]
pub fn endings() -> [Ending; 3] {
    [
        success("done"),
        Ending::failed_final("no such account"),
        Ending::failed_retryable("the provider is down"),
    ]
}

/// The lease of a begin that must allow the effect to be run.
pub fn executes(decision: Decision, epoch: u32, attempt: u32) -> Lease {
    match decision {
        Decision::Execute(lease) => {
            assert_eq!((lease.epoch, lease.attempt), (epoch, attempt), "{lease:?}");
            lease
        }
        other => panic!("it may be run as attempt {attempt}, and begin says {other:?}"),
    }
}

/// The outcome of a begin that must replay it.
pub fn replays(decision: Decision) -> Outcome {
    match decision {
        Decision::Replay(outcome) => outcome,
        other => panic!("it is over, and begin says {other:?}"),
    }
}

/// The outcome, and the attempts left, of a begin that must say that it failed and may be tried again.
pub fn may_be_tried(decision: Decision) -> (Outcome, Option<u32>) {
    match decision {
        Decision::Retryable { outcome, attempts_left } => (outcome, attempts_left),
        other => panic!("it failed and may be tried again, and begin says {other:?}"),
    }
}

/// A begin that must keep the caller off, because this lease is live.
pub fn keeps_off(decision: &Decision, lease: &Lease) {
    match decision {
        Decision::InProgress { retry_after, epoch, attempt } => {
            assert_eq!((*epoch, *attempt), (lease.epoch, lease.attempt));
            assert!(!retry_after.is_zero(), "asking at once is of no use");
        }
        other => panic!("a holder runs it, and begin says {other:?}"),
    }
}

/// A begin that must say that it may have happened under this lease.
pub fn is_unknown(decision: &Decision, lease: &Lease) {
    match decision {
        Decision::Unknown { epoch, attempt, since } => {
            assert_eq!((*epoch, *attempt), (lease.epoch, lease.attempt));
            assert!(*since >= lease.expires_at, "unknown since {since}, {lease:?}");
        }
        other => panic!("it may have happened, and begin says {other:?}"),
    }
}

/// What the holder of a stale lease is told.
pub fn is_stale<T: std::fmt::Debug>(result: &Result<T, LedgerError>) {
    assert!(matches!(result, Err(LedgerError::Stale(_))), "the lease is stale, not {result:?}");
}

/// What a caller is told that uses a key for another request.
pub fn is_conflict<T: std::fmt::Debug>(result: &Result<T, LedgerError>) {
    assert!(matches!(result, Err(LedgerError::Conflict(_))), "the key was used before, not {result:?}");
}

/// What a caller is told that asks for what cannot be.
pub fn is_invalid<T: std::fmt::Debug>(result: &Result<T, LedgerError>) {
    assert!(matches!(result, Err(LedgerError::Invalid(_))), "that cannot be, not {result:?}");
}

/// That an outcome is what this lease said.
pub fn is_what_was_said(outcome: &Outcome, lease: &Lease, ending: &Ending) {
    let told = (outcome.end, &outcome.response, &outcome.error);
    assert_eq!(told, (ending.end, &ending.response, &ending.error));
    assert_eq!((outcome.epoch, outcome.attempt), (lease.epoch, lease.attempt));
    assert_eq!(outcome.resolved, None);
}

/// Every end.
pub const ENDS: [End; 3] = [End::Succeeded, End::FailedFinal, End::FailedRetryable];

/// Endings that no case has written down before.
#[must_use]
pub fn ends_otherwise() -> [Ending; 3] {
    ENDS.map(|end| Ending { end, response: Response::new("another story"), error: String::new() })
}
