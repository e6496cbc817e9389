//! Records in PostgreSQL.
//!
//! The table is the truth, and the database's clock decides. Nothing is kept in a session, so any pooler may stand in
//! between. A call reads how the record stands, asks the rules, and writes under the condition that the record is still
//! what was read (number, epoch, status, and that its lease is still over if that was the reason); if it is not, the
//! call begins again, a bounded number of times.

mod audit;
mod begin;
mod composite;
mod connect;
mod count;
mod fault;
mod finish;
mod joined;
mod link;
mod look;
mod migrate;
mod names;
mod release;
mod row;
mod sweep;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::Pool;

use self::link::Link;
use self::names::Names;
use crate::{
    AuditFilter, AuditPage, Begin, Decision, Ending, Filter, Finished, Identity, Kept, Lease, LedgerError,
    Lost, Moment, Page, Pending, Reacquire, Record, Resolve, Settings, Stats, Store, Sweep, Swept,
};

pub use self::fault::refused;
pub use self::joined::{Column, Row, Transaction, Value};
pub use self::migrate::Migration;
pub use self::names::TABLE_DEFAULT;
/// The libraries whose pool and transactions a store takes, in the versions that fit.
pub use {deadpool_postgres, tokio_postgres};

/// Connections of a pool that the store makes itself.
pub const CONNECTIONS_MAX: usize = 16;
/// How long the store waits for a connection of the pool, or for a new one.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(5);
/// How long notes of the audit are kept, unless [`PostgresStore::audit_kept`] says otherwise.
pub const AUDIT_KEPT_DEFAULT: Duration = Duration::from_secs(90 * 24 * 3600);
/// How often a call begins again because the record changed while it was at work.
const ROUNDS_MAX: u32 = 8;

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Statements {
    /// Each with its text: works behind every pooler.
    #[default]
    Unnamed,
    /// The two calls of every request prepared once per connection, all others with their text: quicker, and only for a
    /// direct connection or a pooler that follows them (PgBouncer from 1.21 with `max_prepared_statements`).
    Prepared,
}

/// Records in a table in PostgreSQL. Cheap to clone; every clone is the same store.
#[derive(Clone)]
pub struct PostgresStore {
    pool: Pool,
    inner: Arc<Inner>,
    /// Rows that were passed over because they cannot be read.
    unreadable: Arc<AtomicU64>,
    /// How long a database that refuses connections is asked again.
    patience: Duration,
    /// How long bodies are kept, if for another time than their records.
    bodies_kept: Option<Duration>,
    /// How long notes of the audit are kept.
    audit_kept: Duration,
    /// Of the calls that join a transaction: all others come from a ledger, which has checked them.
    settings: Settings,
    /// The newest step that it takes, and that it knows.
    newest: i32,
}

struct Inner {
    names: Names,
    statements: Statements,
    sql: Sql,
}

/// The statements of the store, with its names filled in.
struct Sql {
    begin: String,
    read: String,
    finish: String,
    take_over: String,
    begin_anew: String,
    give_up: String,
    renew: String,
    resolve: String,
    give_back: String,
}

impl PostgresStore {
    /// From `postgres://user:password@host/database`. Connects when the first call is made. With the feature `tls`,
    /// `sslmode=verify-full` (or `require`, which means the same here) in the URL is for TLS with a certificate that is
    /// checked, and `sslrootcert=FILE` names authorities to trust on top of the system's. Without such a word there is no
    /// TLS. For anything else build a pool and hand it to [`new`](Self::new).
    pub fn connect(url: &str) -> Result<Self, LedgerError> {
        Self::new(connect::pool(url, CONNECTION_PATIENCE)?)
    }

    /// On a pool of the service's own.
    pub fn new(pool: Pool) -> Result<Self, LedgerError> {
        let names = Names::new(TABLE_DEFAULT)?;
        let inner = Arc::new(Inner::new(names, Statements::default(), migrate::NEWEST));
        Ok(Self {
            pool,
            inner,
            unreadable: Arc::default(),
            patience: CONNECTION_PATIENCE,
            bodies_kept: None,
            audit_kept: AUDIT_KEPT_DEFAULT,
            settings: Settings::default(),
            newest: migrate::NEWEST,
        })
    }

    /// With another table: `name` or `schema.name`.
    pub fn table(mut self, table: &str) -> Result<Self, LedgerError> {
        self.inner = Arc::new(Inner::new(Names::new(table)?, self.inner.statements, self.newest));
        Ok(self)
    }

    /// With a function in the database, `name` or `schema.name`, that tells the time instead of the database's own
    /// clock, so that tests can let time pass. Before [`migrate`](Self::migrate).
    #[doc(hidden)]
    pub fn clock(mut self, function: &str) -> Result<Self, LedgerError> {
        let names = self.inner.names.clone().with_clock(function)?;
        self.inner = Arc::new(Inner::new(names, self.inner.statements, self.newest));
        Ok(self)
    }

    /// Migrates as a release does that knows no step after this one, so that tests can deploy such a release beside this
    /// one and go back to it. Its begin goes by the function of such a release; its other calls stay those of this one.
    #[doc(hidden)]
    #[must_use]
    pub fn migrating_to(mut self, newest: i32) -> Self {
        self.newest = newest;
        self.inner = Arc::new(Inner::new(self.inner.names.clone(), self.inner.statements, newest));
        self
    }

    /// With bounds of the service's own for the calls that join a transaction, which no ledger checks: those that
    /// [`Ledger::with`](crate::Ledger::with) is given.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Forgets the payloads of what has ended for good when they have been kept for this long, and keeps the record
    /// until its own time is over: a replay then says how it ended, and how large the payload was
    /// ([`Response::omitted`](crate::Response::omitted)). It is the sweep that forgets them. Without this, they are kept
    /// for as long as their records.
    #[must_use]
    pub const fn bodies_kept(mut self, kept: Duration) -> Self {
        self.bodies_kept = Some(kept);
        self
    }

    /// Keeps the notes of the audit for another time than 90 days. It is the sweep that removes them.
    #[must_use]
    pub const fn audit_kept(mut self, kept: Duration) -> Self {
        self.audit_kept = kept;
        self
    }

    /// Waits for another time than 5 s for a database that refuses connections. A service lives through a restart or a
    /// failover with it; a tool whose user may have typed the wrong port waits for nothing.
    #[must_use]
    pub const fn connection_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// With another way to send statements.
    #[must_use]
    pub fn statements(mut self, statements: Statements) -> Self {
        self.inner = Arc::new(Inner::new(self.inner.names.clone(), statements, self.newest));
        self
    }

    /// The pool, for work beside the ledger's.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// How often a row was passed over by a sweep or a list because it cannot be read: its identity is one that no
    /// caller can have, or its values make no sense. Counted anew each time, for metrics; the log names one of them.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Counts rows that were passed over.
    fn passed_over(&self, rows: usize) -> u64 {
        self.unreadable.fetch_add(rows as u64, Ordering::Relaxed);
        rows as u64
    }

    async fn link(&self) -> Result<Link<'static>, LedgerError> {
        Link::pooled(&self.pool, self.inner.statements, self.patience).await
    }
}

impl Inner {
    fn new(names: Names, statements: Statements, newest: i32) -> Self {
        let has_calls = newest >= migrate::STEP_OF_CALLS;
        let sql = Sql {
            begin: names.fill(if has_calls { begin::BEGIN } else { begin::BEGIN_BEFORE }),
            read: names.fill(begin::READ),
            finish: names.fill(finish::FINISH),
            take_over: names.fill(&begin::take_over()),
            begin_anew: names.fill(&begin::begin_anew()),
            give_up: names.fill(&begin::give_up()),
            renew: names.fill(&finish::renew()),
            resolve: names.fill(finish::RESOLVE),
            give_back: names.fill(finish::GIVE_BACK),
        };
        Self { names, statements, sql }
    }
}

impl Store for PostgresStore {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        Box::pin(async move { Ok(self.begin_on(&mut self.link().await?, asked).await?.0) })
    }

    fn begin_kept<'a>(&'a self, asked: &'a Begin) -> Pending<'a, (Decision, Option<Kept>)> {
        Box::pin(async move { self.begin_on(&mut self.link().await?, asked).await })
    }

    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        Box::pin(async move { self.reacquire_on(&mut self.link().await?, asked).await })
    }

    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished> {
        Box::pin(async move { self.finish_on(&mut self.link().await?, lease, ending).await })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Pending<'a, Finished> {
        Box::pin(async move { self.release_on(&mut self.link().await?, lease).await })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, lasts: Duration) -> Pending<'a, Moment> {
        Box::pin(async move { self.renew_on(&mut self.link().await?, lease, lasts).await })
    }

    fn resolve<'a>(&'a self, found: &'a Resolve) -> Pending<'a, Finished> {
        Box::pin(async move { self.resolve_on(&mut self.link().await?, found).await })
    }

    fn get<'a>(&'a self, identity: &'a Identity) -> Pending<'a, Option<Record>> {
        Box::pin(async move {
            let held = self.read(&mut self.link().await?, identity).await?;
            Ok(held.and_then(row::StoredRow::view))
        })
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Pending<'a, Page> {
        Box::pin(async move { self.list_on(&mut self.link().await?, filter).await })
    }

    fn sweep(&self, sweep: Sweep) -> Pending<'_, Swept> {
        Box::pin(async move { self.sweep_on(&mut self.link().await?, sweep).await })
    }

    fn stats(&self) -> Pending<'_, Stats> {
        Box::pin(async move { self.stats_on(&mut self.link().await?).await })
    }

    fn give_back<'a>(&'a self, lost: &'a Lost) -> Pending<'a, bool> {
        Box::pin(async move { self.give_back_on(&mut self.link().await?, lost).await })
    }

    fn audit<'a>(&'a self, filter: &'a AuditFilter) -> Pending<'a, AuditPage> {
        Box::pin(async move { self.audit_on(&mut self.link().await?, filter).await })
    }
}
