//! What tests of `driftq ledger` share: a database, a schema of one's own in it, and records of every kind.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::sync::LazyLock;
use std::time::Duration;

use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{Ending, Lease, Ledger, OnLapse, Response, Terms};
use driftq_testbed::Postgres;

use super::command::{Ran, run_with};
use super::world::{begin, identity, lease, until_it};

/// One database server for all tests here; each has a schema of its own.
pub(crate) static DATABASE: LazyLock<Postgres> = LazyLock::new(|| Postgres::shared().unwrap());

/// A schema of one's own, and the ledger's table in it.
pub(crate) struct Schema {
    pub(crate) table: String,
    pub(crate) url: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        let schema = format!("cli_{name}_{}", std::process::id());
        DATABASE.psql(&format!("CREATE SCHEMA {schema}")).unwrap();
        Self { table: format!("{schema}.keys"), url: DATABASE.url().to_owned() }
    }

    pub(crate) fn migrated(name: &str) -> Self {
        let schema = Self::new(name);
        schema.run(&["migrate"]).ok();
        schema
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_at(&self.url, arguments)
    }

    pub(crate) fn run_at(&self, url: &str, arguments: &[&str]) -> Ran {
        let arguments = [&["ledger", "--table", &self.table][..], arguments].concat();
        run_with(&[("DRIFTQ_LEDGER_STORE", url), ("USER", "ann")], &arguments)
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::new(PostgresStore::connect(&self.url).unwrap().table(&self.table).unwrap())
    }

    pub(crate) fn psql(&self, sql: &str) -> String {
        DATABASE.psql(&sql.replace("{table}", &self.table)).unwrap()
    }

    /// The same with another user, or with settings for the session.
    pub(crate) fn url_with(&self, user: &str, options: &str) -> String {
        let (_, rest) = self.url.split_once('@').unwrap();
        let query = if options.is_empty() { String::new() } else { format!("?options={options}") };
        format!("postgresql://{user}@{rest}{query}")
    }
}

#[track_caller]
pub(crate) fn says(ran: Ran, code: i32, all: &[&str]) {
    let ran = ran.code(code);
    shows(&ran.stderr, all);
}

#[track_caller]
pub(crate) fn shows(text: &str, all: &[&str]) {
    for words in all {
        assert!(text.contains(words), "{words}: {text}");
    }
}

pub(crate) async fn begun(ledger: &Ledger, key: &str) -> Lease {
    lease(ledger.begin(begin(key).owner("w1")).await.unwrap())
}

/// One record of each kind: `done`, `never`, `later`, `runs`, `lapsed` and `unclear`.
pub(crate) async fn one_of_each(ledger: &Ledger) {
    let response = Response::new(vec![0xff, 0]).code(201).header("content-type", "image/png");
    for (key, ending) in [
        ("done", Ending::succeeded(response)),
        ("never", Ending::failed_final("no such\u{7} card")),
        ("later", Ending::failed_retryable("timed out")),
    ] {
        let held = begun(ledger, key).await;
        ledger.finish(&held, &ending).await.unwrap();
    }
    begun(ledger, "runs").await;
    for (key, on_lapse) in [("lapsed", OnLapse::Retry), ("unclear", OnLapse::Hold)] {
        let terms = Terms::default().lease(Duration::from_millis(1)).on_lapse(on_lapse);
        ledger.begin(begin(key).terms(terms)).await.map(drop).unwrap();
        until_it(ledger, &identity(key), |found| !found.unwrap().lease_live).await;
    }
}

/// Puts so many records there whose time is over.
pub(crate) fn put_over(schema: &Schema, records: u32) {
    schema.psql(&format!(
        "INSERT INTO {{table}} (principal, grpc_method, idempotency_key, request_hash, status, expires_at) \
         SELECT 'ann', 'old', 'k' || number, 'h', 'SUCCEEDED', now() - interval '1 day' \
         FROM generate_series(1, {records}) AS number"
    ));
}
