//! `kill -9` of a sink at any point loses no row and doubles none.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use driftq_client::Client;
use driftq_connect::config::File;
use driftq_connect::run::Connectors;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::bed::{Bed, eventually};

/// What the process that is killed is told.
const FILE: &str = "DRIFTQ_TEST_SINK_FILE";
const SERVER: &str = "DRIFTQ_TEST_SINK_SERVER";

const SINK: &str = "mode = \"append\"\nbatch_rows = 50\n\
     columns = [{ name = \"id\", from = \"/id\", type = \"bigint\" }]\n";

/// Messages between two kills.
const MESSAGES: u64 = 2_000;

#[tokio::test]
#[ignore = "the process that is killed by the tests below; alone it does nothing"]
async fn the_sink_that_is_killed() {
    let (Some(file), Ok(server)) = (std::env::var_os(FILE), std::env::var(SERVER)) else { return };
    let connectors = Connectors::new(File::read(&PathBuf::from(file)).unwrap()).unwrap();
    let stop = tokio::sync::watch::Sender::new(false);
    connectors.run(&Client::new(&server).unwrap(), stop.subscribe()).await.unwrap();
}

fn spawn(bed: &Bed, file: &std::path::Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::the_sink_that_is_killed", "--ignored", "--nocapture"]);
    command.env(FILE, file).env(SERVER, bed.server.url()).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// Kills a sink so many times, each time at another point of its work, and lets the last one end it.
async fn survive(kills: u64) {
    let bed = Bed::new().await;
    let sink = bed.file(SINK).replace("lease_ms = 3000", "lease_ms = 300");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("connect.toml");
    std::fs::write(&file, sink).unwrap();
    bed.connectors(SINK).migrate().await.unwrap();
    let mut interrupted = 0;
    for round in 0..kills {
        bed.produce_json((round * MESSAGES..(round + 1) * MESSAGES).map(|id| json!({"id": id}))).await;
        let rows = || bed.sql("SELECT count(*) FROM orders").parse::<u64>().unwrap();
        let before = rows();
        let mut child = spawn(&bed, &file);
        // It is at work, and dies somewhere within the next transactions.
        eventually("the sink writes", || async { rows() > before || bed.is_idle().await }).await;
        let mut point = [0_u8; 2];
        getrandom::fill(&mut point).unwrap();
        sleep(Duration::from_micros(u64::from(u16::from_be_bytes(point)) % 20_000)).await;
        child.kill().await.unwrap();
        interrupted += u64::from(!bed.is_idle().await);
    }
    // Nobody is in the way of the last one, so that it may write in large batches.
    std::fs::write(&file, bed.file(&SINK.replace("batch_rows = 50\n", ""))).unwrap();
    let mut last = spawn(&bed, &file);
    bed.idle().await;
    last.kill().await.unwrap();
    let all = kills * MESSAGES;
    println!("{kills} kills, {interrupted} in the middle of work, {all} messages");
    assert_eq!(bed.sql("SELECT count(*), count(DISTINCT id) FROM orders"), format!("{all}|{all}"));
    assert_eq!(bed.letters().await, Vec::<String>::new());
    assert!(interrupted > 0, "no kill came in the middle of work");
}

#[tokio::test]
async fn five_kills_lose_nothing_and_double_nothing() {
    survive(5).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn two_hundred_kills_lose_nothing_and_double_nothing() {
    survive(200).await;
}
