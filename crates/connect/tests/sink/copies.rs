//! Several copies of a sink at once.

use driftq_connect::config::File;
use driftq_connect::run::Connectors;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::bed::{Bed, WITHIN};

const MESSAGES: u64 = 6_000;

async fn run_copies(bed: &Bed, rest: &str, copies: usize) -> u64 {
    let file = File::parse(&bed.file(rest)).unwrap();
    let all: Vec<Connectors> = (0..copies).map(|_| Connectors::new(file.clone()).unwrap()).collect();
    // All of them make the tables.
    futures_util::future::try_join_all(all.iter().map(Connectors::migrate)).await.unwrap();
    let stop = watch::Sender::new(false);
    let work = futures_util::future::try_join_all(
        all.iter().map(|connectors| connectors.run(&bed.client, stop.subscribe())),
    );
    let watch = async {
        bed.idle().await;
        stop.send_replace(true);
    };
    let (outcome, ()) = timeout(WITHIN, async { tokio::join!(work, watch) }).await.expect("an end");
    outcome.unwrap();
    all.iter().map(|connectors| connectors.sinks()[0].progress().borrow().rows).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_lose_nothing_and_double_nothing_without_a_key() {
    let bed = Bed::new().await;
    bed.produce_json((0..MESSAGES).map(|id| json!({"id": id}))).await;
    let sink = "mode = \"append\"\nbatch_rows = 97\ncolumns = [{ name = \"id\", from = \"/id\", type = \"bigint\" }]\n";
    assert_eq!(run_copies(&bed, sink, 3).await, MESSAGES);
    let expected = format!("{MESSAGES}|{MESSAGES}");
    assert_eq!(bed.sql("SELECT count(*), count(DISTINCT id) FROM orders"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_that_fight_for_the_same_rows_keep_the_newest() {
    let bed = Bed::new().await;
    bed.produce_json((0..MESSAGES).map(|n| json!({"id": format!("k{}", n * 7919 % 50), "version": n}))).await;
    let sink = "mode = \"upsert\"\nbatch_rows = 113\ndedupe_key = [\"id\"]\nversion = \"version\"\ncolumns = [\
         { name = \"id\", from = \"/id\", type = \"text\", required = true }, \
         { name = \"version\", from = \"/version\", type = \"bigint\", required = true }]\n";
    run_copies(&bed, sink, 3).await;
    let expected: u64 =
        (0..50).map(|key| (0..MESSAGES).filter(|n| n * 7919 % 50 == key).max().unwrap()).sum();
    assert_eq!(bed.sql("SELECT count(*), sum(version) FROM orders"), format!("50|{expected}"));
    assert_eq!(bed.letters().await, Vec::<String>::new());
}
