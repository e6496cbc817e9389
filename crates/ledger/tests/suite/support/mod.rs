//! A table of its own in a real PostgreSQL, for one test.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{Begin, Decision, Identity, Lease, Ledger, RequestHash, Terms};
use driftq_testbed::Postgres;

/// Leases and records that are let pass: an hour, because time is moved, not waited for.
pub(crate) const BRIEF: Duration = Duration::from_secs(3600);

/// A database with a schema of its own in it, which goes when the database does.
pub(crate) struct Bed {
    pub(crate) postgres: Postgres,
    pub(crate) schema: String,
    pub(crate) store: PostgresStore,
    pub(crate) ledger: Ledger,
}

impl Bed {
    /// With the table in it.
    pub(crate) async fn new() -> Self {
        let bed = Self::empty();
        bed.store.migrate().await.unwrap();
        bed
    }

    /// With the table in it, and a clock that can be set forward.
    pub(crate) async fn with_clock() -> Self {
        let mut bed = Self::empty();
        let schema = &bed.schema;
        bed.psql(&format!(
            "CREATE TABLE {schema}.passed (time interval); INSERT INTO {schema}.passed VALUES ('0'); \
             CREATE FUNCTION {schema}.clock() RETURNS timestamptz LANGUAGE sql VOLATILE \
             AS 'SELECT clock_timestamp() + time FROM {schema}.passed'"
        ));
        bed.store = bed.store.clock(&format!("{schema}.clock")).unwrap();
        bed.ledger = Ledger::new(bed.store.clone());
        bed.store.migrate().await.unwrap();
        bed
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
        Self { postgres, schema, store, ledger }
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
