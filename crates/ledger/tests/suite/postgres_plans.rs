//! What calls cost the database: rows read in proportion to calls, whatever it thought of the table when it planned.

use crate::support::{BRIEF, Bed, ask, identity, lease};
use driftq_ledger::postgres::{PostgresStore, Statements};
use driftq_ledger::{Decision, Ending, Ledger, Response};

fn done() -> Ending {
    Ending::succeeded(Response::new("paid").code(200))
}

/// Effects of each test: enough that reading all of them for each would be seen.
const EFFECTS: u32 = 400;
/// More than any call reads: begin, renew, get, finish and replay, each with a row or two and their older versions.
const ROWS_READ_PER_EFFECT_MAX: i64 = 40;

/// Rows that were read since the table was made, by the scans of the whole table and of its indexes.
async fn rows_read(bed: &Bed, store: &PostgresStore) -> (i64, i64) {
    let client = store.pool().get().await.unwrap();
    client.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    client.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
    let counts = format!(
        "SELECT seq_tup_read, (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes AS by WHERE by.relid = of.relid) \
         FROM pg_stat_user_tables AS of WHERE schemaname = '{}' AND relname = 'idempotency_keys'",
        bed.schema
    );
    let row = client.query_one(&counts, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// The database has counted the table while it was tiny, and every plan is made then. Nothing counts it again.
#[tokio::test]
async fn plans_made_while_the_table_is_tiny_stay_good() {
    for statements in [Statements::Unnamed, Statements::Prepared] {
        let bed = Bed::new().await;
        bed.psql("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        let store = bed.store.clone().statements(statements);
        let ledger = Ledger::new(store.clone());
        let tiny = lease(&ledger, ask("tiny")).await;
        bed.psql("ANALYZE {table}");
        // More often than it takes for a plan to be kept.
        for _ in 0..12 {
            ledger.renew(&tiny, BRIEF).await.unwrap();
            assert!(matches!(ledger.begin(ask("tiny")).await.unwrap(), Decision::InProgress { .. }));
            ledger.get(&identity("tiny")).await.unwrap();
        }
        for at in 0..12 {
            let held = lease(&ledger, ask(&format!("small {at}"))).await;
            ledger.finish(&held, &done()).await.unwrap();
        }
        let before = rows_read(&bed, &store).await;
        let mut leases = Vec::new();
        for at in 0..EFFECTS {
            leases.push(lease(&ledger, ask(&format!("k{at}"))).await);
        }
        for held in &leases {
            ledger.renew(held, BRIEF).await.unwrap();
            ledger.get(&held.identity).await.unwrap();
            ledger.finish(held, &done()).await.unwrap();
            assert!(matches!(ledger.begin(ask(held.identity.key())).await.unwrap(), Decision::Replay(_)));
        }
        assert_eq!(store.pool().status().size, 1, "one connection has planned it all");
        let after = rows_read(&bed, &store).await;
        let (whole, indexed) = (after.0 - before.0, after.1 - before.1);
        let most = i64::from(EFFECTS) * ROWS_READ_PER_EFFECT_MAX;
        assert!(
            whole == 0 && indexed < most,
            "{statements:?}: {whole} rows by whole scans, {indexed} by indexes"
        );
    }
}
