//! The table, made and brought up to date.

use tokio_postgres::{GenericClient, Transaction};

use super::fault::{of_pool, of_statement};
use super::row::get;
use super::{Names, PostgresStore};
use crate::LedgerError;

/// A step that makes the table what this version works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Steps are taken in this order.
    pub version: i32,
    /// What it is about, in a word.
    pub name: &'static str,
    /// The statements.
    pub sql: String,
    /// Whether the database has it.
    pub applied: bool,
}

/// A step, and which releases work with the table after it.
struct Step {
    version: i32,
    name: &'static str,
    sql: &'static str,
    /// A release whose newest step is this one, or a later one, works with the table also after this step: a deployment
    /// can go back to it.
    works_from: i32,
}

/// All steps, in order. A step that was released never changes; what is new is a new step.
const STEPS: [Step; 6] = [
    Step { version: 1, name: "contract", sql: include_str!("migrations/1_contract.sql"), works_from: 1 },
    Step { version: 2, name: "leases", sql: include_str!("migrations/2_leases.sql"), works_from: 2 },
    Step { version: 3, name: "calls", sql: include_str!("migrations/3_calls.sql"), works_from: 3 },
    // The functions of the step before are still there.
    Step { version: 4, name: "promises", sql: include_str!("migrations/4_promises.sql"), works_from: 3 },
    // No call is made differently. What an older release sweeps and lists it finds without the index, only slower.
    Step { version: 5, name: "storage", sql: include_str!("migrations/5_storage.sql"), works_from: 3 },
    // The functions of the steps before are still there, and the trigger notes the same.
    Step { version: 6, name: "shorter", sql: include_str!("migrations/6_shorter.sql"), works_from: 3 },
];

/// The step that brought the functions by which this release begins and finishes.
pub(super) const STEP_OF_CALLS: i32 = 6;
/// The newest step that this release knows.
pub(super) const NEWEST: i32 = STEPS[STEPS.len() - 1].version;

/// Where it is written down which steps were taken. What older releases left out has no range.
const JOURNAL: &str = "CREATE TABLE IF NOT EXISTS {migrations} (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
);
ALTER TABLE {migrations} ADD COLUMN IF NOT EXISTS works_from integer;
";

/// The columns of the contract, as this version reads and writes them. A table that was there before may differ.
const COLUMNS: [(&str, &str); 10] = [
    ("principal", "text"),
    ("grpc_method", "text"),
    ("idempotency_key", "text"),
    ("request_hash", "text"),
    ("status", "text"),
    ("response_code", "integer"),
    ("response_payload", "bytea"),
    ("created_at", "timestamp with time zone"),
    ("updated_at", "timestamp with time zone"),
    ("expires_at", "timestamp with time zone"),
];

impl PostgresStore {
    /// All steps and whether the database has them. Changes nothing. Refused if a newer release has left a table behind
    /// with which this one does not work.
    pub async fn migrations(&self) -> Result<Vec<Migration>, LedgerError> {
        let client = self.pool().get().await.map_err(of_pool)?;
        let names = &self.inner.names;
        let there = client
            .query_typed(
                "SELECT to_regclass($1) IS NOT NULL",
                &[(&names.migrations, tokio_postgres::types::Type::TEXT)],
            )
            .await
            .map_err(|error| of_statement(&error))?;
        let is_there = there.first().is_some_and(|row| row.try_get(0).unwrap_or(false));
        let applied = if is_there { applied(&**client, names, self.newest).await? } else { Vec::new() };
        Ok(steps(names, &applied, self.newest))
    }

    /// Takes the steps that the database does not have yet, all or none. Several programs may do so at the same time:
    /// one does, the others wait. Returns all steps; those that were taken now had `applied: false` before.
    ///
    /// If the database has them all, it is only read: a service may call this at each start, also as a user who may
    /// make no tables, and also after a newer release has taken steps of its own, as far as those allow it.
    pub async fn migrate(&self) -> Result<Vec<Migration>, LedgerError> {
        let there = self.migrations().await?;
        if there.iter().all(|step| step.applied) {
            return Ok(there);
        }
        let mut client = self.pool().get().await.map_err(of_pool)?;
        let failed = |error: tokio_postgres::Error| of_statement(&error);
        let transaction = client.transaction().await.map_err(failed)?;
        match take_steps(&transaction, &self.inner.names, self.newest).await {
            Ok(steps) => transaction.commit().await.map_err(failed).map(|()| steps),
            Err(error) => {
                // Done now and not later: other programs may wait for the lock.
                drop(transaction.rollback().await);
                Err(error)
            }
        }
    }

    /// The statements of all steps, for operators who apply them by other means.
    #[must_use]
    pub fn migrations_sql(&self) -> String {
        let names = &self.inner.names;
        let mut text = names.fill(JOURNAL);
        for step in steps(names, &[], self.newest) {
            text.push_str(&format!(
                "\n-- Step {}: {}\n{}\n{} ON CONFLICT DO NOTHING;\n",
                step.version,
                step.name,
                step.sql.trim_end(),
                note(names, &step),
            ));
        }
        format!("BEGIN;\n{text}\nCOMMIT;\n")
    }
}

/// Within a transaction, so that it is all or nothing.
async fn take_steps(
    transaction: &Transaction<'_>,
    names: &Names,
    newest: i32,
) -> Result<Vec<Migration>, LedgerError> {
    let failed = |error: tokio_postgres::Error| of_statement(&error);
    // Ends with the transaction, so that nothing stays behind in a session that a pooler gives to another client.
    let lock = format!("SELECT pg_advisory_xact_lock(hashtextextended('{}', 0))", names.migrations);
    transaction.batch_execute(&lock).await.map_err(failed)?;
    transaction.batch_execute(&names.fill(JOURNAL)).await.map_err(failed)?;
    let before = applied(transaction, names, newest).await?;
    let steps = steps(names, &before, newest);
    for step in steps.iter().filter(|step| !step.applied) {
        transaction.batch_execute(&step.sql).await.map_err(failed)?;
        if step.version == 1 {
            fits(transaction, names).await?;
        }
        transaction.batch_execute(&note(names, step)).await.map_err(failed)?;
    }
    Ok(steps)
}

fn steps(names: &Names, applied: &[i32], newest: i32) -> Vec<Migration> {
    let step = |step: Step| Migration {
        version: step.version,
        name: step.name,
        sql: names.fill(step.sql),
        applied: applied.contains(&step.version),
    };
    STEPS.into_iter().filter(|step| step.version <= newest).map(step).collect()
}

/// Writes down that a step was taken.
fn note(names: &Names, step: &Migration) -> String {
    let works_from =
        STEPS.iter().find(|known| known.version == step.version).map_or(step.version, |step| step.works_from);
    format!(
        "INSERT INTO {} (version, name, works_from) VALUES ({}, '{}', {works_from})",
        names.migrations, step.version, step.name
    )
}

/// The steps that were taken. Refused if one of them is newer than this release and too much for it.
async fn applied(client: &impl GenericClient, names: &Names, newest: i32) -> Result<Vec<i32>, LedgerError> {
    // The column may not be there yet.
    let statement = format!(
        "SELECT version, (to_jsonb(taken) ->> 'works_from')::integer AS works_from FROM {} AS taken ORDER BY version",
        names.migrations
    );
    let rows = client.query_typed(&statement, &[]).await.map_err(|error| of_statement(&error))?;
    let mut versions = Vec::with_capacity(rows.len());
    for row in &rows {
        let version: i32 = get(row, "version")?;
        let works_from = get::<Option<i32>>(row, "works_from")?.unwrap_or(version);
        if version > newest && works_from > newest {
            return Err(LedgerError::TooNew(format!(
                "a newer release has taken step {version}, which works with releases that know step {works_from}; \
                 this one knows steps up to {newest}"
            )));
        }
        versions.push(version);
    }
    Ok(versions)
}

/// Whether a table that may have been there before is one that the next steps can build on.
async fn fits(client: &impl GenericClient, names: &Names) -> Result<(), LedgerError> {
    let statement = format!(
        "SELECT attname::text AS name, format_type(atttypid, NULL) AS type FROM pg_attribute \
         WHERE attrelid = '{0}'::regclass AND attnum > 0 AND NOT attisdropped",
        names.table
    );
    let rows = client.query_typed(&statement, &[]).await.map_err(|error| of_statement(&error))?;
    let mut wrong = Vec::new();
    for (name, kind) in COLUMNS {
        let found = rows.iter().find(|row| row.try_get("name").is_ok_and(|found: &str| found == name));
        match found.map(|row| get::<&str>(row, "type")).transpose()? {
            None => wrong.push(format!("there is no column {name}")),
            Some(found) if found != kind => wrong.push(format!("{name} is {found}, not {kind}")),
            Some(_) => {}
        }
    }
    let unique = format!(
        "SELECT 1 FROM pg_index WHERE indrelid = '{0}'::regclass AND indisunique AND indpred IS NULL AND indnkeyatts = 3 \
         AND (SELECT array_agg(attname::text ORDER BY attname::text) FROM pg_attribute \
              WHERE attrelid = indrelid AND attnum = ANY(indkey::smallint[])) \
             = ARRAY['grpc_method', 'idempotency_key', 'principal']",
        names.table
    );
    if client.query_typed(&unique, &[]).await.map_err(|error| of_statement(&error))?.is_empty() {
        wrong.push("there is no unique index on (principal, grpc_method, idempotency_key)".to_owned());
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(LedgerError::Invalid(format!(
        "the table {} was there before and does not fit: {}; change it first, nothing was done",
        names.table,
        wrong.join("; ")
    )))
}
