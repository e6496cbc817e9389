//! Looking into a log offline, and mending it.
#![allow(clippy::unwrap_used, reason = "an error here is a failed test")]

mod common;

use std::fs;
use std::path::Path;

use common::{ack_of, at, crash_image, next, reader, soon, start, text};
use driftq_engine::tools::{Line, Outlook, ToolError, inspect, repair};
use driftq_engine::{Broker, StartError};

/// The directory of a broker that was killed after one message went round.
async fn killed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(at(dir.path()));
    broker.create_topic("orders", 2).await.unwrap();
    broker.produce("orders", text("x")).await.unwrap();
    let mut stream = broker.consume(reader("orders", "g")).await.unwrap();
    let delivered = next(&mut stream).await;
    broker.ack(ack_of("orders", "g", &delivered)).await.unwrap();
    crash_image(dir.path())
}

fn look(dir: &Path) -> (Vec<Line>, Outlook) {
    let mut lines = Vec::new();
    let inspection = inspect(dir, true, &mut |line| lines.push(line)).unwrap();
    assert!(!inspection.in_use);
    (lines, inspection.outlook)
}

#[tokio::test]
async fn a_log_tells_its_story() {
    let dir = killed().await;
    let (lines, outlook) = look(dir.path());
    assert_eq!(outlook, Outlook::Sound);
    let story: Vec<&str> =
        lines.iter().filter(|line| line.kind == "fact").map(|line| line.text.as_str()).collect();
    for (place, part) in [
        "run 1 began",
        "the shard got the secret",
        "\"orders\", 2 partitions",
        "message 0 of topic 0",
        "group 0 of topic 0",
        "leased to \"me\"",
        "acked",
    ]
    .iter()
    .enumerate()
    {
        assert!(story[place].contains(part), "{story:?}");
    }
    assert!(
        lines.iter().any(|line| line.kind == "segment" && line.file.as_deref() == Some("seg-00000001.log"))
    );
}

#[tokio::test]
async fn damage_is_named_refused_and_mended() {
    let dir = killed().await;
    let (lines, _) = look(dir.path());
    let batches: Vec<u64> = lines
        .iter()
        .filter(|line| line.kind == "batch")
        .map(|line| line.at.as_ref().unwrap().split(':').nth(1).unwrap().parse().unwrap())
        .collect();
    let file = dir.path().join("seg-00000001.log");
    let mut bytes = fs::read(&file).unwrap();
    let hurt = usize::try_from(batches[1]).unwrap() + 50;
    bytes[hurt] ^= 1;
    fs::write(&file, bytes).unwrap();

    assert_eq!(look(dir.path()).1, Outlook::Damaged);
    let refused = Broker::start(at(dir.path())).map(drop);
    let Err(StartError::Damaged(text)) = refused else { panic!("{refused:?}") };
    assert!(text.contains("seg-00000001.log") && text.contains("driftq wal inspect"), "{text}");

    let plan = repair(dir.path(), true).unwrap();
    assert!(!plan.applied && plan.damage.len() == 1 && plan.cuts.len() == 1);
    assert_eq!(look(dir.path()).1, Outlook::Damaged, "a dry run changes nothing");
    let done = repair(dir.path(), false).unwrap();
    assert!(done.applied && dir.path().join(&done.cuts[0].kept_in).exists());
    let broker = start(at(dir.path()));
    assert_eq!(broker.status().epoch, 2);
    soon(broker.stop()).await;
}

#[tokio::test]
async fn a_log_in_use_is_looked_at_but_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(at(dir.path()));
    assert!(inspect(dir.path(), false, &mut drop).unwrap().in_use);
    assert!(matches!(repair(dir.path(), true), Err(ToolError::Locked(_))));
    soon(broker.stop()).await;
    let none = dir.path().join("none");
    assert!(matches!(inspect(&none, false, &mut drop), Err(ToolError::NoDirectory(_))));
    assert!(!none.exists());
}
