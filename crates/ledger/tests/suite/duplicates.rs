//! 64 callers at once for each of 1,000 keys: one of them runs the effect, and all get its answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use driftq_ledger::{
    Begin, Decision, Ending, Identity, Ledger, RequestHash, Response, Terms, postgres::PostgresStore,
};
use driftq_testbed::Postgres;
use tokio::{sync::Barrier, task::JoinSet};

/// Callers of one key.
const CALLERS: usize = 64;
/// Keys.
const KEYS: usize = 1_000;
/// Keys that are asked for at a time.
const LANES: usize = 4;
/// Longest that one caller waits for the one who runs it.
const PATIENCE: Duration = Duration::from_secs(60);

/// One caller of a key: runs the effect if it is told to, and returns the answer that it would give to its client.
async fn call(ledger: &Ledger, key: usize, caller: usize, runs: &AtomicU32) -> String {
    let identity = Identity::new("customer", "pay", &format!("key-{key}")).expect("it names an effect");
    let hash = RequestHash::of_bytes(&key.to_le_bytes());
    // A lease that does not lapse here: what runs twice runs twice by mistake.
    let terms = Terms::default().lease(Duration::from_secs(3600));
    let asked = Begin::new(identity, hash).terms(terms).wait(PATIENCE);
    match ledger.begin(asked).await.expect("the ledger answers") {
        Decision::Execute(lease) => {
            runs.fetch_add(1, Ordering::Relaxed);
            let answer = format!("caller {caller} ran {key}");
            let ending = Ending::succeeded(Response::new(answer.clone()));
            ledger.finish(&lease, &ending).await.expect("its lease is the newest");
            answer
        }
        Decision::Replay(outcome) => String::from_utf8_lossy(&outcome.response.payload).into_owned(),
        other => panic!("caller {caller} of {key} got {other:?}"),
    }
}

/// All callers of one key, let go at the same moment.
async fn race(ledger: &Ledger, key: usize) {
    let (runs, barrier) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(CALLERS)));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (ledger, runs, barrier) = (ledger.clone(), Arc::clone(&runs), Arc::clone(&barrier));
        callers.spawn(async move {
            barrier.wait().await;
            call(&ledger, key, caller, &runs).await
        });
    }
    let answers = callers.join_all().await;
    assert_eq!(runs.load(Ordering::Relaxed), 1, "key {key} did not run once");
    assert_eq!(answers.len(), CALLERS);
    assert!(
        answers.iter().all(|answer| *answer == answers[0] && !answer.is_empty()),
        "key {key}: {answers:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_callers_at_once_one_runs_it_and_all_get_its_answer() {
    let postgres = Postgres::shared().expect("PostgreSQL starts");
    let schema = format!("duplicates_{}", std::process::id());
    postgres.psql(&format!("CREATE SCHEMA {schema}")).expect("a new schema");
    let store = PostgresStore::connect(postgres.url()).expect("it is a URL");
    let store = store.table(&format!("{schema}.idempotency_keys")).expect("it is a name");
    store.migrate().await.expect("a new schema takes the table");
    let ledger = Ledger::new(store);

    let started = Instant::now();
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let ledger = ledger.clone();
        lanes.spawn(async move {
            for key in (lane..KEYS).step_by(LANES) {
                race(&ledger, key).await;
            }
        });
    }
    lanes.join_all().await;
    println!("{KEYS} keys with {CALLERS} callers each in {:?}", started.elapsed());

    let count =
        format!("SELECT status, epoch, attempts, count(*) FROM {schema}.idempotency_keys GROUP BY 1, 2, 3");
    assert_eq!(postgres.psql(&count).expect("PostgreSQL answers"), format!("SUCCEEDED|1|1|{KEYS}"));
    postgres.psql(&format!("DROP SCHEMA {schema} CASCADE")).expect("it is our schema");
}
