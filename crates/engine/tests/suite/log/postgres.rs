//! The log in PostgreSQL: the suite, two servers, lost answers, and what is refused.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use driftq_core::ShardId;
use driftq_engine::log::{Append as _, AppendError, Archive, Log, PostgresLog, PostgresPlace};
use driftq_engine::{StartError, Storage};
use driftq_testbed::{PgBouncer, Postgres};

use super::conformance::{append, check_all};
use super::{SEGMENT_BYTES, run_all_claimed, take_over};

/// It writes through to the disk: one that does not is refused.
static DATABASE: LazyLock<Postgres> = LazyLock::new(|| Postgres::start().unwrap());

fn place(url: &str) -> PostgresPlace {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PostgresPlace { url: url.to_owned(), schema: format!("driftq_log_{number}"), cluster: "main".into() }
}

fn log(place: &PostgresPlace) -> PostgresLog {
    PostgresLog::new(place.clone(), ShardId(0), SEGMENT_BYTES).unwrap()
}

fn conforms(url: &str) {
    run_all_claimed(|| place(url), log);
}

#[test]
fn the_log_in_postgres_is_a_log() {
    conforms(DATABASE.url());
}

#[test]
fn a_pooler_may_give_every_transaction_to_another_session() {
    let pooler = PgBouncer::start(&DATABASE).unwrap();
    conforms(pooler.url());
}

/// Sessions are ended in the middle of appends, over and over: every batch is there once, in order.
#[test]
fn no_batch_is_lost_or_doubled_when_connections_break() {
    let log = log(&place(DATABASE.url()));
    let mut opened = log.open().unwrap();
    let over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        scope.spawn(|| {
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE application_name = 'driftq-log'";
            while !over.load(Ordering::Acquire) {
                DATABASE.psql(end).unwrap();
            }
        });
        let written = append(&mut opened, 0..200);
        over.store(true, Ordering::Release);
        written
    });
    check_all(&opened.archive, opened.start, &written);
}

#[test]
fn a_crash_of_the_database_is_survived() {
    let database = Postgres::start().unwrap();
    let log = log(&place(database.url()));
    let mut opened = log.open().unwrap();
    let mut written = append(&mut opened, 0..20);
    database.crash().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| database.restart().unwrap());
        written.extend(append(&mut opened, 20..40));
    });
    check_all(&opened.archive, opened.start, &written);
}

/// Somebody who cancels the wait for a synchronous standby ends it with a success and a warning. The batch is in the
/// database then, and a fail-over would lose it: nothing is answered before the standby has it.
#[test]
fn a_batch_that_only_the_primary_has_is_not_answered() {
    let database = Postgres::start().unwrap();
    // What a role asks for counts from its next session on, and does not count here.
    database.psql("ALTER ROLE driftq SET synchronous_commit = 'local'").unwrap();
    let place = place(database.url());
    let mut opened = log(&place).open().unwrap();
    append(&mut opened, 0..1);
    database.psql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").unwrap();
    database.psql("SELECT pg_reload_conf()").unwrap();
    let (cancelled, released) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let operator = scope.spawn(|| {
            let until = |sql: &str, answer: &str| {
                let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
                while std::time::Instant::now() < deadline {
                    if database.psql(sql).is_ok_and(|said| said == answer) {
                        return true;
                    }
                }
                false
            };
            let waits = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE";
            let insert = until(&format!("SELECT pg_cancel_backend(pid) {waits} '%INSERT INTO%batch%'"), "t");
            cancelled.store(true, Ordering::Release);
            // It is committed, and asked for again: by a statement that waits for the standby, too.
            let asks = format!("SELECT EXISTS (SELECT {waits} '%FOR SHARE OF shard')");
            let asked = until(&asks, "t");
            released.store(true, Ordering::Release);
            database.psql("ALTER SYSTEM RESET synchronous_standby_names").unwrap();
            database.psql("SELECT pg_reload_conf()").unwrap();
            (insert, asked)
        });
        // The database waits for the standby from some moment after the reload on.
        let mut number = 1;
        while !cancelled.load(Ordering::Acquire) {
            append(&mut opened, number..number + 1);
            number += 1;
        }
        assert!(released.load(Ordering::Acquire), "it was answered although no standby has it");
        assert_eq!(operator.join().unwrap(), (true, true), "the wait was cancelled, and asked for again");
    });
}

/// A row that is gone from the end means that the database came back without what it had acknowledged.
#[test]
fn a_log_with_a_hole_takes_nothing_more() {
    let place = place(DATABASE.url());
    let log = log(&place);
    let mut opened = log.open().unwrap();
    append(&mut opened, 0..5);
    let schema = &place.schema;
    let last = format!("(SELECT max(position) FROM {schema}.batch)");
    DATABASE.psql(&format!("DELETE FROM {schema}.batch WHERE position = {last}")).unwrap();
    let Err(AppendError::Failed(why)) = opened.writer.append(b"next") else { panic!("it was appended") };
    assert!(why.contains("asynchronous standby"), "{why}");
    let count = DATABASE.psql(&format!("SELECT count(*) FROM {schema}.batch")).unwrap();
    assert_eq!(count, "4");
}

#[test]
fn damage_is_noticed_at_the_next_start() {
    let place = place(DATABASE.url());
    let schema = &place.schema;
    let log = log(&place);
    let mut opened = log.open().unwrap();
    append(&mut opened, 0..9);
    let middle = format!("(SELECT position FROM {schema}.batch ORDER BY position OFFSET 4 LIMIT 1)");
    for harm in [
        format!("UPDATE {schema}.batch SET body = body || 'x' WHERE position = {middle}"),
        format!("DELETE FROM {schema}.batch WHERE position = {middle}"),
    ] {
        DATABASE.psql(&harm).unwrap();
        let replayed = opened
            .archive
            .replay(opened.start, opened.archive.durable(), &mut |_, _| std::ops::ControlFlow::Continue(()));
        assert!(replayed.unwrap_err().to_string().contains("damaged"), "{harm}");
    }
}

fn refusal(place: PostgresPlace) -> (String, String) {
    let opened = PostgresLog::new(place, ShardId(0), SEGMENT_BYTES).and_then(|log| log.open().map(drop));
    match opened {
        Err(StartError::Database { what, help }) => (what, help),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_the_next_step() {
    let first = place(DATABASE.url());
    log(&first).open().map(drop).unwrap();
    let (what, help) = refusal(PostgresPlace { cluster: "other".into(), ..first.clone() });
    assert!(
        what.contains("belongs to the cluster \"main\"") && help.contains("--log-schema"),
        "{what} {help}"
    );
    DATABASE.psql(&format!("UPDATE {}.about SET version = 9", first.schema)).unwrap();
    let (what, _) = refusal(first);
    assert!(what.contains("version 9"), "{what}");
    DATABASE.psql("CREATE USER nobody").unwrap();
    let (what, help) = refusal(place(&DATABASE.url().replace("driftq@", "nobody@")));
    assert!(what.contains("permission denied") && help.contains("GRANT CREATE"), "{what} {help}");
    let (what, help) = refusal(place(&DATABASE.with_clock_ahead(3600).unwrap()));
    assert!(what.contains("s behind the database's") && help.contains("time service"), "{what} {help}");
    let (what, help) = refusal(place(&DATABASE.url_for("nothing")));
    assert!(what.contains("does not exist") && help.contains("CREATE DATABASE"), "{what} {help}");
    let (what, help) = refusal(place("postgres://driftq@127.0.0.1:1/postgres"));
    assert!(what.contains("cannot be reached") && help.contains("host and port"), "{what} {help}");
    let (what, _) = refusal(place("postgres://?sslmode=sometimes"));
    assert!(what.contains("the database's URL"), "{what}");
    let standby = DATABASE.standby().unwrap();
    let (what, help) = refusal(place(standby.url()));
    assert!(what.contains("is a standby") && help.contains("host1,host2"), "{what} {help}");
    let careless = Postgres::shareable().start().unwrap();
    let (what, help) = refusal(place(careless.url()));
    assert!(what.contains("fsync = off") && help.contains("postgresql.conf"), "{what} {help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_takes_over_and_the_first_steps_down() {
    let storage = Storage::Postgres(place(DATABASE.url()));
    take_over::a_second_server_takes_over_and_the_first_steps_down(storage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_shards_are_kept_and_taken_over() {
    take_over::several_shards_are_kept_and_taken_over(Storage::Postgres(place(DATABASE.url()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_batches_are_folded_as_many_bytes_are() {
    take_over::many_small_batches_are_folded_as_many_bytes_are(Storage::Postgres(place(DATABASE.url())))
        .await;
}

#[test]
fn servers_may_begin_at_once() {
    take_over::servers_may_begin_at_once(|| Storage::Postgres(place(DATABASE.url())));
}
