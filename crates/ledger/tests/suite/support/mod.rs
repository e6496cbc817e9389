//! A table of its own in a real PostgreSQL, for one test.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driftq_ledger::postgres::{PostgresStore, deadpool_postgres};
use driftq_ledger::{Begin, Decision, Identity, Lease, Ledger, RequestHash, Terms};
use driftq_testbed::Postgres;

/// Leases and records that are let pass: an hour, because time is moved, not waited for.
pub(crate) const BRIEF: Duration = Duration::from_secs(3600);

/// A database with a schema in it that nobody else uses at the same time, and that goes when the database does.
pub(crate) struct Bed {
    pub(crate) postgres: Postgres,
    pub(crate) schema: String,
    pub(crate) store: PostgresStore,
    pub(crate) ledger: Ledger,
    /// The session that keeps others out of a schema that is borrowed.
    _borrower: Option<deadpool_postgres::Object>,
}

impl Bed {
    /// With the table in it.
    pub(crate) async fn new() -> Self {
        let bed = Self::empty();
        bed.store.migrate().await.unwrap();
        bed
    }

    /// With the table in it, and a clock that can be set forward. Tests that leave table and clock as they are borrow them
    /// from each other, one after the other: to make them takes longer than most of these tests.
    pub(crate) async fn with_clock() -> Self {
        let postgres = Postgres::shared().unwrap();
        let store = PostgresStore::connect(postgres.url()).unwrap();
        let borrower = store.pool().get().await.unwrap();
        // Held by the session, so that it is free again however this process ends.
        let borrow = "SELECT number FROM generate_series(1, 10000) AS number \
                      WHERE pg_try_advisory_lock(hashtext('beds with a clock'), number) LIMIT 1";
        let number: i32 = borrower.query_one(borrow, &[]).await.unwrap().get(0);
        // A server that outlives a run may have the tables of other steps.
        let steps = blake3::hash(store.migrations_sql().as_bytes()).to_hex();
        let schema = format!("lent_{}_{number}", &steps[..8]);
        let table = format!("{schema}.idempotency_keys");
        let store = store.table(&table).unwrap().clock(&format!("{schema}.clock")).unwrap();
        let is_made = format!("SELECT to_regclass('{schema}.passed') IS NOT NULL");
        if !borrower.query_one(&is_made, &[]).await.unwrap().get::<_, bool>(0) {
            // By a key: the ledger's functions rule out scans of whole tables, and at the price of a scan that cannot be
            // ruled out PostgreSQL compiles every statement that asks for the time, for tens of milliseconds.
            borrower
                .batch_execute(&format!(
                    "CREATE SCHEMA {schema}; CREATE TABLE {schema}.passed (one integer PRIMARY KEY, time interval); \
                     INSERT INTO {schema}.passed VALUES (1, '0'); \
                     CREATE FUNCTION {schema}.clock() RETURNS timestamptz LANGUAGE sql VOLATILE \
                     AS 'SELECT clock_timestamp() + time FROM {schema}.passed WHERE one = 1'"
                ))
                .await
                .unwrap();
        }
        store.migrate().await.unwrap();
        let clean = format!(
            "UPDATE {schema}.passed SET time = '0'; \
             TRUNCATE {table}, {table}_segments, {table}_open, {table}_audit RESTART IDENTITY"
        );
        borrower.batch_execute(&clean).await.unwrap();
        let ledger = Ledger::new(store.clone());
        Self { postgres, schema, store, ledger, _borrower: Some(borrower) }
    }

    /// Lets time pass for everybody who goes by the clock.
    pub(crate) async fn pass(&self, time: Duration) {
        let client = self.store.pool().get().await.unwrap();
        let statement = format!(
            "UPDATE {}.passed SET time = time + interval '{} microseconds'",
            self.schema,
            time.as_micros()
        );
        assert_eq!(client.execute(&statement, &[]).await.unwrap(), 1);
    }

    /// With nothing in it.
    pub(crate) fn empty() -> Self {
        Self::on(Postgres::shared().unwrap())
    }

    pub(crate) fn on(postgres: Postgres) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        postgres.psql(&format!("CREATE SCHEMA {schema}")).unwrap();
        let store = PostgresStore::connect(postgres.url()).unwrap();
        let store = store.table(&format!("{schema}.idempotency_keys")).unwrap();
        let ledger = Ledger::new(store.clone());
        Self { postgres, schema, store, ledger, _borrower: None }
    }

    pub(crate) fn table(&self) -> String {
        format!("{}.idempotency_keys", self.schema)
    }

    /// Runs statements beside the store; what they print.
    pub(crate) fn psql(&self, sql: &str) -> String {
        self.postgres.psql(&sql.replace("{table}", &self.table())).unwrap().trim().to_owned()
    }

    /// Returns when a statement on the table waits for a lock.
    pub(crate) async fn until_one_waits(&self) {
        let waits =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{table}%'";
        while self.psql(waits) == "0" {
            tokio::task::yield_now().await;
        }
    }

    /// Lets the lease of a record lapse: its end moves into the past, as if the time had gone by.
    pub(crate) async fn elapse(&self, identity: &Identity) {
        self.move_back(identity, "1 hour").await;
    }

    /// Lets the time of a record go by.
    pub(crate) async fn expire(&self, identity: &Identity) {
        self.move_back(identity, "2 hours").await;
    }

    async fn move_back(&self, identity: &Identity, by: &str) {
        let statement = format!(
            "UPDATE {} SET lease_expires_at = lease_expires_at - interval '{by}', \
             expires_at = expires_at - interval '{by}' \
             WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3",
            self.table()
        );
        let client = self.store.pool().get().await.unwrap();
        let named: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&identity.principal(), &identity.method(), &identity.key()];
        assert_eq!(client.execute(&statement, &named).await.unwrap(), 1, "there is no record of {identity}");
    }
}

pub(crate) fn identity(key: &str) -> Identity {
    Identity::new("ann", "/pay.Pay/Charge", key).unwrap()
}

pub(crate) fn ask(key: &str) -> Begin {
    Begin::new(identity(key), RequestHash::of_bytes(b"charge 5"))
        .terms(Terms::default().lease(BRIEF).ttl(BRIEF))
}

pub(crate) async fn lease(ledger: &Ledger, asked: Begin) -> Lease {
    match ledger.begin(asked).await.unwrap() {
        Decision::Execute(lease) => lease,
        other => panic!("expected a lease, got {other:?}"),
    }
}
