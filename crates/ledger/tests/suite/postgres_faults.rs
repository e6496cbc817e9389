//! What a database and the way to it can do wrong, and what the ledger says then.

use std::time::{Duration, Instant};

use crate::support::{Bed, ask, identity, lease};
use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{
    Begin, Counters, Decision, Ending, Filter, Finished, Ledger, LedgerError, RequestHash, Response,
    Settings, Status, Sweep, Terms,
};
use driftq_testbed::Postgres;

fn done() -> Ending {
    Ending::succeeded(Response::new("paid").code(200))
}

#[tokio::test]
async fn a_missing_table_says_how_to_make_it() {
    let bed = Bed::empty();
    for error in [
        bed.ledger.begin(ask("k")).await.unwrap_err(),
        bed.ledger.get(&identity("k")).await.unwrap_err(),
        bed.ledger.sweep(Sweep::default()).await.unwrap_err(),
        bed.ledger.stats().await.unwrap_err(),
    ] {
        assert!(matches!(error, LedgerError::NotMigrated(_)), "{error:?}");
        assert!(error.to_string().ends_with("run `driftq ledger migrate`"), "{error}");
    }
}

#[tokio::test]
async fn a_status_that_nobody_knows_is_told_and_left_alone() {
    let bed = Bed::new().await;
    let held = lease(&bed.ledger, ask("k")).await;
    lease(&bed.ledger, ask("other")).await;
    bed.psql("UPDATE {table} SET status = 'PAUSED' WHERE idempotency_key = 'k'");
    let before = bed.psql("SELECT * FROM {table} WHERE idempotency_key = 'k'");
    for error in [
        bed.ledger.begin(ask("k")).await.unwrap_err(),
        bed.ledger.finish(&held, &done()).await.unwrap_err(),
        bed.ledger.renew(&held, Duration::from_secs(1)).await.unwrap_err(),
        bed.ledger.get(&identity("k")).await.unwrap_err(),
    ] {
        assert!(matches!(&error, LedgerError::Corrupt(what) if what.contains("PAUSED")), "{error:?}");
    }
    assert_eq!(bed.psql("SELECT * FROM {table} WHERE idempotency_key = 'k'"), before);
    assert!(matches!(bed.ledger.begin(ask("other")).await.unwrap(), Decision::InProgress { .. }));
}

#[tokio::test]
async fn rows_that_make_no_sense_are_no_reason_to_panic() {
    let bed = Bed::new().await;
    for change in [
        "epoch = -1",
        "attempts = -5",
        "attempts_max = -5",
        "on_lapse = 'perhaps'",
        "expires_at = 'infinity'",
        "expires_at = '-infinity'",
        "lease_expires_at = 'infinity'",
        "lease_expires_at = NULL",
        "ttl_us = -1",
        "hash_version = -7",
        "status = 'SUCCEEDED', response_headers = '[1]'",
        "status = 'SUCCEEDED', response_headers = '{\"a\": 1}'",
        "created_at = '-infinity', updated_at = 'infinity'",
        "principal = 'unknown'",
    ] {
        let held = lease(&bed.ledger, ask("k")).await;
        bed.psql(&format!("UPDATE {{table}} SET {change}"));
        // Whatever they answer, they answer.
        drop(bed.ledger.begin(ask("k")).await);
        drop(bed.ledger.get(&identity("k")).await);
        drop(bed.ledger.list(&Filter { limit: 10, ..Filter::default() }).await);
        drop(
            bed.ledger.list(&Filter { limit: 10, status: Some(Status::Unknown), ..Filter::default() }).await,
        );
        drop(bed.ledger.stats().await);
        drop(bed.ledger.sweep(Sweep::default()).await);
        drop(bed.ledger.renew(&held, Duration::from_secs(1)).await);
        drop(bed.ledger.finish(&held, &done()).await);
        bed.psql("DELETE FROM {table}");
    }
}

#[tokio::test]
async fn a_replica_takes_no_writes_and_says_where_to_go() {
    let bed = Bed::on(Postgres::start().unwrap());
    bed.store.migrate().await.unwrap();
    let held = lease(&bed.ledger, ask("k")).await;
    let standby = bed.postgres.standby().unwrap();
    let replica = Ledger::new(PostgresStore::connect(standby.url()).unwrap().table(&bed.table()).unwrap());
    for error in [
        replica.begin(ask("new")).await.unwrap_err(),
        replica.finish(&held, &done()).await.unwrap_err(),
        replica.renew(&held, Duration::from_secs(1)).await.unwrap_err(),
    ] {
        assert!(matches!(error, LedgerError::ReadOnly(_)), "{error:?}");
        assert!(error.to_string().ends_with("connect to the primary"), "{error}");
    }
    assert!(replica.get(&identity("k")).await.unwrap().is_some(), "reading is allowed");
    assert_eq!(bed.ledger.finish(&held, &done()).await.unwrap(), Finished::Committed, "nothing was lost");
}

#[tokio::test]
async fn nobody_there_and_nobody_allowed() {
    let nobody = PostgresStore::connect("postgres://driftq@127.0.0.1:1/postgres").unwrap();
    let (settings, started) =
        (Settings { call_timeout: Duration::from_secs(6), ..Settings::default() }, Instant::now());
    let error = Ledger::with(nobody, settings, driftq_ledger::Silent).begin(ask("k")).await.unwrap_err();
    assert!(matches!(error, LedgerError::Unavailable(_)) && error.is_transient(), "{error:?}");
    assert!(error.to_string().contains("refused"), "it says why: {error}");
    assert!(started.elapsed() > Duration::from_secs(4), "it is waited for, not given up at once");

    let bed = Bed::new().await;
    let url = bed.postgres.url_for("there_is_no_such_database");
    let error = Ledger::new(PostgresStore::connect(&url).unwrap()).begin(ask("k")).await.unwrap_err();
    assert!(matches!(error, LedgerError::Denied(_)), "{error:?}");

    let role = format!("role_{}", bed.schema);
    bed.psql(&format!("CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {} TO {role}", bed.schema));
    let url = bed.postgres.url().replacen("driftq@", &format!("{role}@"), 1);
    let stranger = PostgresStore::connect(&url).unwrap().table(&bed.table()).unwrap();
    let error = Ledger::new(stranger).begin(ask("k")).await.unwrap_err();
    bed.psql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert!(matches!(error, LedgerError::Denied(_)), "{error:?}");

    for url in ["", "nonsense", "postgres://h/d?sslmode=secret", "postgres://user:secret@h:port/d"] {
        let error = PostgresStore::connect(url).err().unwrap();
        assert!(matches!(error, LedgerError::Invalid(_)), "{url}: {error:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

/// Every connection is cut, again and again, while calls are under way: each call succeeds by its own retries, and
/// nothing runs twice.
#[tokio::test]
async fn connections_that_are_cut_in_the_middle_lose_nothing() {
    let bed = Bed::new().await;
    let observer = std::sync::Arc::new(Counters::default());
    let ledger = Ledger::with(
        bed.store.clone(),
        Settings { retries_max: 20, ..Settings::default() },
        Told(observer.clone()),
    );
    let table = bed.table();
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name = 'driftq-ledger' AND query LIKE '%{}%'",
        bed.schema
    );
    let (begun, mut rounds) = tokio::sync::watch::channel(0);
    let killer = {
        let store = PostgresStore::connect(bed.postgres.url()).unwrap();
        tokio::spawn(async move {
            let client = store.pool().get().await.unwrap();
            client.batch_execute("SET application_name = 'killer'").await.unwrap();
            let mut cuts = 0;
            while rounds.changed().await.is_ok() {
                for _ in 0..3 {
                    cuts += client.query(&cut, &[]).await.unwrap().len();
                }
            }
            cuts
        })
    };
    for round in 0..60 {
        let key = format!("k{round}");
        begun.send(round).unwrap();
        let held = lease(&ledger, ask(&key)).await;
        assert_eq!((held.epoch, held.attempt), (1, 1), "a repeated begin gets its own lease again");
        ledger.finish(&held, &done()).await.unwrap();
        let Decision::Replay(outcome) = ledger.begin(ask(&key)).await.unwrap() else {
            panic!("it has ended")
        };
        assert_eq!(outcome.response, done().response);
    }
    drop(begun);
    assert!(killer.await.unwrap() > 0, "nothing was cut: the test shows nothing");
    assert_eq!(
        bed.psql("SELECT count(*) FROM {table} WHERE status = 'SUCCEEDED' AND epoch = 1"),
        "60",
        "{table}"
    );
    assert_eq!(observer.calls("begin", "execute"), 60);
}

struct Told(std::sync::Arc<Counters>);

impl driftq_ledger::Observer for Told {
    fn on_call(&self, call: driftq_ledger::Call) {
        self.0.on_call(call);
    }
}

/// A statement that does not come back in time is given up, and its connection with it: the next call is not stuck
/// behind it.
#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_with_its_connection() {
    let bed = Bed::new().await;
    let held = lease(&bed.ledger, ask("k")).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&format!("SELECT * FROM {} FOR UPDATE", bed.table())).await.unwrap();
    let settings = Settings { call_timeout: Duration::from_millis(200), ..Settings::default() };
    let hasty = Ledger::with(bed.store.clone(), settings, driftq_ledger::Silent);
    let error = hasty.finish(&held, &done()).await.unwrap_err();
    assert!(matches!(error, LedgerError::TimedOut(_)), "{error:?}");
    assert!(error.to_string().contains("safe to repeat"));
    assert_eq!(bed.store.pool().status().size, 1, "the stuck connection has left the pool");
    assert!(matches!(hasty.begin(ask("k")).await.unwrap(), Decision::InProgress { .. }), "others go on");
    transaction.rollback().await.unwrap();
    // The statement that was given up may go through now, or may not: the same finish again is fine with either.
    bed.ledger.finish(&held, &done()).await.unwrap();
    assert!(matches!(bed.ledger.begin(ask("k")).await.unwrap(), Decision::Replay(_)));
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_the_lease_still_counts() {
    let bed = Bed::new().await;
    let held = lease(&bed.ledger, ask("k")).await;
    let large = Ending::succeeded(Response::new(vec![7; (1 << 20) + 1]));
    let error = bed.ledger.finish(&held, &large).await.unwrap_err();
    assert_eq!(error, LedgerError::TooLarge { bytes: (1 << 20) + 1, limit: 1 << 20 });
    let largest = Ending::succeeded(Response::new(vec![7; 1 << 20]));
    assert_eq!(bed.ledger.finish(&held, &largest).await.unwrap(), Finished::Committed);
    let Decision::Replay(outcome) = bed.ledger.begin(ask("k")).await.unwrap() else { panic!("it has ended") };
    assert_eq!(outcome.response, largest.response);
    let endless =
        Begin::new(identity("l"), RequestHash::of_bytes(b"")).terms(Terms::default().lease(Duration::MAX));
    assert!(matches!(bed.ledger.begin(endless).await, Err(LedgerError::Invalid(_))));
}

/// What a replay costs the database: one look into the index, one row, no write.
#[tokio::test]
async fn a_replay_is_one_indexed_read() {
    let bed = Bed::new().await;
    let held = lease(&bed.ledger, ask("k")).await;
    bed.ledger.finish(&held, &done()).await.unwrap();
    let client = bed.store.pool().get().await.unwrap();
    let counts = format!(
        "SELECT seq_scan, idx_scan, n_tup_ins + n_tup_upd + n_tup_del, n_tup_hot_upd FROM pg_stat_user_tables \
         WHERE schemaname = '{}' AND relname = 'idempotency_keys'",
        bed.schema
    );
    let measure = async || {
        client.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
        client.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
        let row = client.query_one(&counts, &[]).await.unwrap();
        [0, 1, 2].map(|at| row.get::<_, i64>(at))
    };
    // The statements of the store, on this very connection, whose counts we can ask for.
    let begin = format!(
        "SELECT {}_begin_3('ann', '/pay.Pay/Charge', 'k', 'h', 1::smallint, 1, 1, 'hold', NULL, NULL, 'c')",
        bed.table()
    );
    client.query(&begin, &[]).await.unwrap();
    let before = measure().await;
    for _ in 0..100 {
        assert_eq!(client.query(&begin, &[]).await.unwrap().len(), 1);
    }
    let after = measure().await;
    assert_eq!([after[0] - before[0], after[1] - before[1], after[2] - before[2]], [0, 100, 0]);
}

/// A trigger of the operator's own refuses: that is a refusal, and the record is fine.
#[tokio::test]
async fn what_a_trigger_refuses_is_refused_and_not_corrupt() {
    let bed = Bed::new().await;
    let schema = &bed.schema;
    bed.psql(&format!(
        "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'closed for the night'; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON {{table}} FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()"
    ));
    let error = bed.ledger.begin(ask("k")).await.unwrap_err();
    assert!(matches!(&error, LedgerError::Denied(why) if why.contains("closed for the night")), "{error:?}");
}

/// A statement of the caller's has failed before, and its transaction can only be rolled back.
#[tokio::test]
async fn an_aborted_transaction_says_so() {
    let bed = Bed::new().await;
    let held = lease(&bed.ledger, ask("k")).await;
    let mut client = bed.store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("SELECT 1 / 0").await.unwrap_err();
    let error = bed.store.finish_tx(&transaction, &held, &done()).await.unwrap_err();
    assert!(matches!(&error, LedgerError::Invalid(why) if why.contains("roll it back")), "{error:?}");
    assert!(!error.is_transient());
}

/// Nobody is there at first, for many more tries than a call makes at once; then the database is back.
#[tokio::test]
async fn a_database_that_is_back_soon_is_waited_for() {
    const REFUSED: usize = 12;
    let bed = Bed::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, place) = (listener.local_addr().unwrap().port(), bed.postgres.url().to_owned());
    let place = place.rsplit_once('@').unwrap().1.split('/').next().unwrap().to_owned();
    let url = bed.postgres.url().replacen(&place, &format!("127.0.0.1:{port}"), 1);
    let proxy = tokio::spawn(async move {
        for _ in 0..REFUSED {
            drop(listener.accept().await.unwrap());
        }
        let (mut client, _) = listener.accept().await.unwrap();
        let mut database = tokio::net::TcpStream::connect(place).await.unwrap();
        drop(tokio::io::copy_bidirectional(&mut client, &mut database).await);
    });
    let ledger = Ledger::new(PostgresStore::connect(&url).unwrap().table(&bed.table()).unwrap());
    assert!(matches!(ledger.begin(ask("k")).await.unwrap(), Decision::Execute(_)));
    proxy.abort();
}

/// Two workers that give their calls the same name: one of them runs it.
#[tokio::test]
async fn a_name_of_a_call_that_another_owner_uses_runs_nothing() {
    let bed = Bed::new().await;
    for ledger in [bed.ledger.clone(), Ledger::new(driftq_ledger::memory::MemoryStore::new())] {
        let asked = |owner: &str| ask("k").call("charge").owner(owner);
        let held = lease(&ledger, asked("one")).await;
        assert_eq!(lease(&ledger, asked("one")).await, held, "its own call, once more");
        for other in [asked("two"), ask("k").call("charge")] {
            let told = ledger.begin(other).await.unwrap();
            assert!(matches!(told, Decision::InProgress { epoch: 1, .. }), "{told:?}");
        }
    }
}
