//! The business write and the outcome in one transaction, by every library that a service may have.

use crate::support::{BRIEF, Bed, ask, identity, lease};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _,
    TransactionManager,
};
use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{
    Begin, Decision, Ending, Finished, Lease, LedgerError, OnLapse, Resolve, Resolver, Response, Status,
    Terms,
};
use sqlx::{Connection as _, Executor as _};

/// A connection by one library, and its transactions.
trait Library: Sized + Send {
    async fn open(url: &str) -> Self;
    async fn begin(&mut self);
    /// Whether the statement went well.
    async fn run(&mut self, sql: &str) -> bool;
    async fn finish_tx(
        &mut self,
        store: &PostgresStore,
        lease: &Lease,
        ending: &Ending,
    ) -> Result<Finished, LedgerError>;
    async fn begin_tx(&mut self, store: &PostgresStore, asked: &Begin) -> Result<Decision, LedgerError>;
    async fn resolve_tx(&mut self, store: &PostgresStore, found: &Resolve) -> Result<Finished, LedgerError>;
    async fn commit(&mut self);
    async fn roll_back(&mut self);
}

/// Calls of the ledger on whatever stands for the transaction.
macro_rules! joins {
    ($self:ident => $transaction:expr) => {
        async fn finish_tx(
            &mut $self,
            store: &PostgresStore,
            lease: &Lease,
            ending: &Ending,
        ) -> Result<Finished, LedgerError> {
            store.finish_tx($transaction, lease, ending).await
        }

        async fn begin_tx(&mut $self, store: &PostgresStore, asked: &Begin) -> Result<Decision, LedgerError> {
            store.begin_tx($transaction, asked).await
        }

        async fn resolve_tx(&mut $self, store: &PostgresStore, found: &Resolve) -> Result<Finished, LedgerError> {
            store.resolve_tx($transaction, found).await
        }
    };
}

/// A transaction of sqlx.
struct SqlxTransaction {
    pool: sqlx::PgPool,
    open: Option<sqlx::Transaction<'static, sqlx::Postgres>>,
}

impl Library for SqlxTransaction {
    async fn open(url: &str) -> Self {
        Self { pool: sqlx::PgPool::connect(url).await.unwrap(), open: None }
    }

    async fn begin(&mut self) {
        self.open = Some(self.pool.begin().await.unwrap());
    }

    async fn run(&mut self, sql: &str) -> bool {
        self.open.as_mut().unwrap().execute(sqlx::AssertSqlSafe(sql)).await.is_ok()
    }

    joins!(self => self.open.as_mut().unwrap());

    async fn commit(&mut self) {
        self.open.take().unwrap().commit().await.unwrap();
    }

    async fn roll_back(&mut self) {
        self.open.take().unwrap().rollback().await.unwrap();
    }
}

/// A connection of sqlx that says itself when a transaction begins and ends.
struct SqlxConnection(sqlx::PgConnection);

impl Library for SqlxConnection {
    async fn open(url: &str) -> Self {
        Self(sqlx::PgConnection::connect(url).await.unwrap())
    }

    async fn begin(&mut self) {
        assert!(self.run("BEGIN").await);
    }

    async fn run(&mut self, sql: &str) -> bool {
        self.0.execute(sqlx::AssertSqlSafe(sql)).await.is_ok()
    }

    joins!(self => &mut self.0);

    async fn commit(&mut self) {
        assert!(self.run("COMMIT").await);
    }

    async fn roll_back(&mut self) {
        assert!(self.run("ROLLBACK").await);
    }
}

/// A connection of diesel-async.
struct Diesel(AsyncPgConnection);

impl Library for Diesel {
    async fn open(url: &str) -> Self {
        Self(AsyncPgConnection::establish(url).await.unwrap())
    }

    async fn begin(&mut self) {
        AnsiTransactionManager::begin_transaction(&mut self.0).await.unwrap();
    }

    async fn run(&mut self, sql: &str) -> bool {
        self.0.batch_execute(sql).await.is_ok()
    }

    joins!(self => &mut self.0);

    async fn commit(&mut self) {
        AnsiTransactionManager::commit_transaction(&mut self.0).await.unwrap();
    }

    async fn roll_back(&mut self) {
        AnsiTransactionManager::rollback_transaction(&mut self.0).await.unwrap();
    }
}

fn done() -> Ending {
    Ending::succeeded(Response::new(vec![0, 1, 255]).code(201).header("greeting", "grüß dich"))
}

async fn with_charges<L: Library>() -> (Bed, L) {
    let bed = Bed::new().await;
    bed.psql(&format!("CREATE TABLE {}.charges (key text)", bed.schema));
    let library = L::open(bed.postgres.url()).await;
    (bed, library)
}

fn charge(bed: &Bed) -> String {
    format!("INSERT INTO {}.charges VALUES ('k')", bed.schema)
}

fn charges(bed: &Bed) -> String {
    bed.psql(&format!("SELECT count(*) FROM {}.charges", bed.schema))
}

async fn together<L: Library>() {
    let (bed, mut library) = with_charges::<L>().await;
    let held = lease(&bed.ledger, ask("k")).await;
    library.begin().await;
    assert!(library.run(&charge(&bed)).await);
    assert_eq!(library.finish_tx(&bed.store, &held, &done()).await, Ok(Finished::Committed));
    assert!(matches!(bed.ledger.begin(ask("k")).await, Ok(Decision::InProgress { .. })));
    assert_eq!(charges(&bed), "0");
    library.commit().await;
    let Ok(Decision::Replay(outcome)) = bed.ledger.begin(ask("k")).await else { panic!("it has ended") };
    assert_eq!(outcome.response, done().response, "every byte of it");
    assert_eq!(charges(&bed), "1");
    library.begin().await;
    assert_eq!(library.finish_tx(&bed.store, &held, &done()).await, Ok(Finished::AlreadyCommitted));
    library.roll_back().await;
}

async fn rolled_back<L: Library>() {
    let (bed, mut library) = with_charges::<L>().await;
    let held = lease(&bed.ledger, ask("k")).await;
    library.begin().await;
    assert!(library.run(&charge(&bed)).await);
    assert_eq!(library.finish_tx(&bed.store, &held, &done()).await, Ok(Finished::Committed));
    library.roll_back().await;
    assert_eq!(charges(&bed), "0");
    let record = bed.ledger.get(&identity("k")).await.unwrap().unwrap();
    assert_eq!((record.status, record.lease_live), (Status::InProgress, true));
    assert_eq!(bed.ledger.finish(&held, &done()).await, Ok(Finished::Committed), "the lease still counts");
}

async fn stale<L: Library>() {
    let (bed, mut library) = with_charges::<L>().await;
    let may_repeat = || ask("k").terms(Terms::default().lease(BRIEF).ttl(BRIEF).on_lapse(OnLapse::Retry));
    let stale = lease(&bed.ledger, may_repeat()).await;
    library.begin().await;
    assert!(library.run(&charge(&bed)).await);
    bed.elapse(&identity("k")).await;
    let newer = lease(&bed.ledger, may_repeat()).await;
    let refused = library.finish_tx(&bed.store, &stale, &done()).await;
    assert!(matches!(refused, Err(LedgerError::Stale(_))), "{refused:?}");
    library.roll_back().await;
    assert_eq!(charges(&bed), "0");
    assert_eq!(bed.ledger.finish(&newer, &done()).await, Ok(Finished::Committed));
}

/// Also what has no value and what is read back.
async fn begun_and_resolved<L: Library>() {
    let (bed, mut library) = with_charges::<L>().await;
    library.begin().await;
    let begun = library.begin_tx(&bed.store, &ask("k").owner("worker")).await;
    let Ok(Decision::Execute(held)) = begun else { panic!("it may run: {begun:?}") };
    let again = library.begin_tx(&bed.store, &ask("k")).await;
    assert!(matches!(again, Ok(Decision::InProgress { epoch: 1, attempt: 1, .. })), "{again:?}");
    library.commit().await;
    bed.elapse(&held.identity).await;
    let found = Resolve {
        identity: held.identity.clone(),
        epoch: Some(1),
        ending: done(),
        resolver: Resolver { by: "ann".to_owned(), why: "it is in the books".to_owned() },
        ttl: BRIEF,
    };
    library.begin().await;
    assert_eq!(library.resolve_tx(&bed.store, &found).await, Ok(Finished::Committed));
    library.commit().await;
    let record = bed.ledger.get(&held.identity).await.unwrap().unwrap();
    assert_eq!(
        (record.status, record.epoch, record.owner.as_deref()),
        (Status::Succeeded, 2, Some("worker"))
    );
}

/// What the database says is told in the ledger's words.
async fn told<L: Library>() {
    let (bed, mut library) = with_charges::<L>().await;
    let held = lease(&bed.ledger, ask("k")).await;
    library.begin().await;
    assert!(!library.run("SELECT 1 / 0").await);
    let aborted = library.finish_tx(&bed.store, &held, &done()).await;
    assert!(
        matches!(&aborted, Err(LedgerError::Invalid(why)) if why.contains("roll it back")),
        "{aborted:?}"
    );
    library.roll_back().await;
    library.begin().await;
    assert!(library.run("SET TRANSACTION READ ONLY").await);
    let read_only = library.finish_tx(&bed.store, &held, &done()).await;
    assert!(matches!(read_only, Err(LedgerError::ReadOnly(_))), "{read_only:?}");
    library.roll_back().await;
    let elsewhere = bed.store.clone().table(&format!("{}.nowhere", bed.schema)).unwrap();
    library.begin().await;
    let missing = library.finish_tx(&elsewhere, &held, &done()).await;
    assert!(matches!(missing, Err(LedgerError::NotMigrated(_))), "{missing:?}");
    library.roll_back().await;
    assert_eq!(bed.ledger.finish(&held, &done()).await, Ok(Finished::Committed));
}

macro_rules! suite {
    ($($name:ident: $library:ty),*) => {$(mod $name {
        use super::*;

        #[tokio::test]
        async fn a_write_and_its_outcome_are_there_together() {
            together::<$library>().await;
        }

        #[tokio::test]
        async fn what_is_rolled_back_has_no_outcome() {
            rolled_back::<$library>().await;
        }

        #[tokio::test]
        async fn a_stale_worker_cannot_commit_its_write() {
            stale::<$library>().await;
        }

        #[tokio::test]
        async fn effects_are_begun_and_resolved() {
            begun_and_resolved::<$library>().await;
        }

        #[tokio::test]
        async fn what_the_database_says_is_told() {
            told::<$library>().await;
        }
    })*};
}

suite!(sqlx_transaction: SqlxTransaction, sqlx_connection: SqlxConnection, diesel: Diesel);
