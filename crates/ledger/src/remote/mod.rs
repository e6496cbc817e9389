//! The store on a DriftQ server: the ledger that the broker keeps, asked over its public API.
//!
//! The principal is the server's tenant, the method its scope, the key its key. What differs from the other stores:
//! - The server sweeps by itself, and holds what no caller may repeat as soon as its lease lapses.
//! - It waits for another holder's outcome, so that a caller need not ask again and again.
//! - What came of a resolution is remembered for as long as the newest lease asked for; `Resolve::ttl` is not passed on.
//! - Effects that other clients have begun there under names that no [`Identity`] can have, such as an empty tenant,
//!   are not of this ledger and are not listed.
//! - It does not say how large a result may be, only that one is too large.
//!
//! With the feature `tls` it also asks servers at `https://` URLs, whose certificates are checked against the
//! authorities of the system, or those that `SSL_CERT_FILE` or `SSL_CERT_DIR` name.

mod refusal;
mod server;
mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use driftq_api::Code;
use driftq_api::v2::{
    Effect, EffectBegin, EffectFinish, EffectFinished, EffectGet, EffectReacquire, EffectRenew,
    EffectRenewed, EffectResolve, Effects, LIMIT_MAX, WAIT_MS_MAX,
};

pub use driftq_http::{CONNECT_TIMEOUT, KEPT_MAX, Key};

use crate::ledger::new_call;
use crate::{
    Begin, Decision, Ending, Filter, Finished, Identity, Lease, LedgerError, Moment, Page, Pending, Proof,
    Reacquire, Record, RequestHash, Resolve, Stats, Status, Store, Sweep, Swept, Terms,
};
use refusal::Trouble;
use server::Server;
pub use server::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, CALLS_MAX, WAITING_MAX};
use words::whole_ms;

/// The store on a DriftQ server.
///
/// Any number of tasks may ask it at the same time: up to [`CALLS_MAX`] calls are under way at once and the others
/// queue, up to [`WAITING_MAX`] more wait for another holder's outcome, and up to [`KEPT_MAX`] connections are kept
/// open for the next call.
#[derive(Debug)]
pub struct RemoteStore {
    server: Server,
}

impl RemoteStore {
    /// The ledger of the server at `url`, such as `http://127.0.0.1:8080`. Nothing is connected yet.
    /// It is shown the key in `DRIFTQ_KEY`, if there is one.
    pub fn new(url: &str) -> Result<Self, LedgerError> {
        let key = Key::from_environment();
        Self::trusting(url, key.map_err(|why| LedgerError::Invalid(format!("DRIFTQ_KEY: {why}")))?, None)
    }

    /// The same, with this key alone, and with the authorities in the file trusted besides those of the system.
    pub fn trusting(url: &str, key: Option<Key>, ca_file: Option<PathBuf>) -> Result<Self, LedgerError> {
        Ok(Self { server: Server::new(url, key, ca_file)? })
    }

    async fn begin(&self, asked: &Begin) -> Result<Decision, LedgerError> {
        // A call that waits keeps a connection busy. When enough do, the others are told at once how it stands.
        let mut place = if asked.wait.is_zero() { None } else { self.server.place_to_wait() };
        let (identity, terms) = (&asked.identity, &asked.terms);
        let mut request = EffectBegin {
            tenant_id: Cow::Borrowed(identity.principal()),
            scope: Cow::Borrowed(identity.method()),
            key: Cow::Borrowed(identity.key()),
            request_hash: Some(Cow::Owned(asked.hash.to_string())),
            lease_ms: Some(whole_ms(terms.lease)),
            ttl_ms: Some(whole_ms(terms.ttl)),
            on_lapse: words::on_lapse(terms.on_lapse),
            max_attempts: terms.attempts_max,
            reacquire: asked.reacquire,
            wait_ms: if place.is_some() { whole_ms(asked.wait).min(WAIT_MS_MAX) } else { 0 },
            request_id: Some(call_name(asked.call.as_deref())),
            owner: Cow::Borrowed(asked.owner.as_deref().unwrap_or_default()),
            ..EffectBegin::default()
        };
        let mut older = older_recipes(&asked.hash);
        loop {
            let answer = self.server.post("/v2/effects/begin", &request, place.as_ref()).await;
            match answer {
                Ok(decision) => return words::decision(decision, identity, terms),
                Err(trouble) if trouble.is(Code::KeyReused) => match older.next() {
                    Some(hash) => request.request_hash = Some(hash),
                    None => return Err(trouble.into()),
                },
                // Too many calls wait already, in other processes: go on as if the server could not wait.
                Err(trouble) if request.wait_ms > 0 && trouble.is(Code::LimitReached) => {
                    (request.wait_ms, place) = (0, None);
                }
                Err(trouble) if trouble.is(Code::AttemptsExhausted) => {
                    return Err(self.exhausted(identity, terms).await);
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
    }

    async fn reacquire(&self, asked: &Reacquire) -> Result<Decision, LedgerError> {
        let (identity, terms) = (&asked.identity, &asked.terms);
        let mut request = EffectReacquire {
            tenant_id: Cow::Borrowed(identity.principal()),
            scope: Cow::Borrowed(identity.method()),
            key: Cow::Borrowed(identity.key()),
            request_hash: asked.hash.as_ref().map(|hash| Cow::Owned(hash.to_string())),
            lease_ms: Some(whole_ms(terms.lease)),
            ttl_ms: Some(whole_ms(terms.ttl)),
            on_lapse: words::on_lapse(terms.on_lapse),
            max_attempts: terms.attempts_max,
            lease_token: None,
            request_id: Some(call_name(asked.call.as_deref())),
            owner: Cow::Borrowed(asked.owner.as_deref().unwrap_or_default()),
        };
        let mut older = asked.hash.iter().flat_map(older_recipes);
        loop {
            let answer = self.server.post("/v2/effects/reacquire", &request, None).await;
            match answer {
                Ok(decision) => return words::decision(decision, identity, terms),
                Err(trouble) if trouble.is(Code::KeyReused) => match older.next() {
                    Some(hash) => request.request_hash = Some(hash),
                    None => return Err(trouble.into()),
                },
                Err(trouble) if trouble.is(Code::AttemptsExhausted) => {
                    return Err(self.exhausted(identity, terms).await);
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
    }

    /// The refusal does not say how many attempts there were; the record does.
    async fn exhausted(&self, identity: &Identity, terms: &Terms) -> LedgerError {
        match self.get(identity).await {
            Ok(Some(record)) => LedgerError::Exhausted { attempts: record.attempts },
            // It went away in between. It is certain that all those that the asker knows of were used up.
            Ok(None) | Err(_) => LedgerError::Exhausted { attempts: terms.attempts_max.unwrap_or(1) },
        }
    }

    async fn finish(&self, lease: &Lease, ending: &Ending) -> Result<Finished, LedgerError> {
        let result = words::result(ending)?;
        let request = EffectFinish { token: Cow::Borrowed(token(lease)?), result };
        let answer = self.server.post("/v2/effects/finish", &request, None).await;
        let finished: EffectFinished = answer.map_err(|trouble| of_result(trouble, ending))?;
        Ok(words::finished(finished.result))
    }

    async fn renew(&self, lease: &Lease, lasts: Duration) -> Result<Moment, LedgerError> {
        let lease_ms = Some(whole_ms(lasts));
        let request = EffectRenew { token: Cow::Borrowed(token(lease)?), lease_ms };
        let renewed: EffectRenewed = self.server.post("/v2/effects/renew", &request, None).await?;
        Ok(words::moment(renewed.expires_at))
    }

    async fn resolve(&self, found: &Resolve) -> Result<Finished, LedgerError> {
        let request = EffectResolve {
            tenant_id: Cow::Borrowed(found.identity.principal()),
            scope: Cow::Borrowed(found.identity.method()),
            key: Cow::Borrowed(found.identity.key()),
            result: words::result(&found.ending)?,
            by: Cow::Borrowed(&found.resolver.by),
            why: Cow::Borrowed(&found.resolver.why),
            epoch: found.epoch.map(u64::from),
        };
        let answer = self.server.post("/v2/effects/resolve", &request, None).await;
        let finished: EffectFinished = answer.map_err(|trouble| of_result(trouble, &found.ending))?;
        Ok(words::finished(finished.result))
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, LedgerError> {
        let request = EffectGet {
            tenant_id: Cow::Borrowed(identity.principal()),
            scope: Cow::Borrowed(identity.method()),
            key: Cow::Borrowed(identity.key()),
        };
        match self.server.post::<Effect<'static>>("/v2/effects/get", &request, None).await {
            Ok(effect) => words::record(&effect, identity.clone()).map(Some),
            Err(trouble) if trouble.is(Code::EffectUnknown) => Ok(None),
            Err(trouble) => Err(trouble.into()),
        }
    }

    async fn list(&self, filter: &Filter) -> Result<Page, LedgerError> {
        // No effect has an empty scope, and the server would take it for a mistake.
        if filter.method.as_deref() == Some("") {
            return Ok(Page::default());
        }
        let found: Effects<'static> = self.server.get(&words::listing(filter)).await?;
        let records = Vec::with_capacity(found.effects.len());
        let mut page = Page { records, cursor: found.cursor, unreadable: 0 };
        for effect in &found.effects {
            // A name that no identity can have was not given by this ledger.
            match Identity::new(&effect.tenant_id, &effect.scope, &effect.key) {
                Ok(identity) => page.records.push(words::record(effect, identity)?),
                Err(_) => page.unreadable += 1,
            }
        }
        Ok(page)
    }

    /// Counts what it lists, since the server's own counters do not tell what succeeded from what failed for good. That
    /// is one call per thousand records: for a gauge, take `driftq_effects` of the server's metrics.
    async fn stats(&self) -> Result<Stats, LedgerError> {
        let mut by_status: BTreeMap<_, _> =
            Status::ALL.iter().map(|status| (crate::words::of_status(*status), 0)).collect();
        let mut lapsed = 0;
        let mut filter = Filter { limit: LIST_MAX, ..Filter::default() };
        loop {
            let page = self.list(&filter).await?;
            for record in &page.records {
                *by_status.entry(crate::words::of_status(record.status)).or_default() += 1;
                lapsed += u64::from(record.status == Status::InProgress && !record.lease_live);
            }
            match page.cursor {
                None => return Ok(Stats { by_status, lapsed, ..Stats::default() }),
                cursor => filter.cursor = cursor,
            }
        }
    }
}

/// Most records that the server lists at once.
const LIST_MAX: u32 = LIMIT_MAX as u32;

impl Store for RemoteStore {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        Box::pin(self.begin(asked))
    }

    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        Box::pin(self.reacquire(asked))
    }

    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished> {
        Box::pin(self.finish(lease, ending))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, lasts: Duration) -> Pending<'a, Moment> {
        Box::pin(self.renew(lease, lasts))
    }

    fn resolve<'a>(&'a self, found: &'a Resolve) -> Pending<'a, Finished> {
        Box::pin(self.resolve(found))
    }

    fn get<'a>(&'a self, identity: &'a Identity) -> Pending<'a, Option<Record>> {
        Box::pin(self.get(identity))
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Pending<'a, Page> {
        Box::pin(self.list(filter))
    }

    fn sweep(&self, _: Sweep) -> Pending<'_, Swept> {
        Box::pin(async { Ok(Swept { by_itself: true, ..Swept::default() }) })
    }

    fn stats(&self) -> Pending<'_, Stats> {
        Box::pin(self.stats())
    }
}

/// The server compares hashes as texts. What an older release has begun it knows by an older recipe, so that is asked
/// for when the newest one does not fit.
fn older_recipes(hash: &RequestHash) -> impl Iterator<Item = Cow<'static, str>> {
    hash.all().skip(1).map(|hash| Cow::Owned(hash.to_string()))
}

/// The name of a call. One without a name gets one here, because a call whose answer is lost is made again.
fn call_name(given: Option<&str>) -> Cow<'_, str> {
    given.map_or_else(|| Cow::Owned(new_call()), Cow::Borrowed)
}

/// What the server recognises a lease by.
fn token(lease: &Lease) -> Result<&str, LedgerError> {
    match &lease.proof {
        Proof::Token(token) => Ok(token),
        Proof::Record(_) => Err(LedgerError::Invalid(format!(
            "the lease of {} was given by another store, not by a server",
            lease.identity
        ))),
    }
}

/// A result that the server does not keep is too large by its own limit, which it does not tell. All that is known is
/// that this is more.
fn of_result(trouble: Trouble, ending: &Ending) -> LedgerError {
    if !trouble.is(Code::ResultTooLarge) && !trouble.is(Code::BodyTooLarge) {
        return trouble.into();
    }
    let headers = ending.response.headers.iter().map(|(name, value)| name.len() + value.len());
    let bytes = ending.response.payload.len() + ending.error.len() + headers.sum::<usize>();
    LedgerError::TooLarge { bytes, limit: bytes.saturating_sub(1) }
}
