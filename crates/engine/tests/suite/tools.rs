//! Looking into a log offline, and mending it.

use std::fs;
use std::path::Path;

use crate::common::{ack_of, at, crash_image, next, reader, soon, start, text};
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

/// The directory of a broker that was stopped in an orderly way, with a snapshot, and with messages that nobody has
/// acked in several segments before it.
async fn pinned() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut config = at(dir.path());
    config.segment_bytes = 1 << 20;
    let broker = start(config);
    broker.create_topic("t", 1).await.unwrap();
    let value = "x".repeat(200_000);
    for _ in 0..20 {
        broker.produce("t", text(&value)).await.unwrap();
    }
    broker.stop().await;
    dir
}

/// A copy that may be spoilt.
fn copy(dir: &Path) -> tempfile::TempDir {
    crash_image(dir)
}

fn segments(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with("seg-") && name.ends_with(".log")).collect();
    names.sort();
    names
}

/// Refused by a start, by an inspection and by a repair, each of which names the file.
fn assert_refused(dir: &Path, file: &str, how: &str) {
    let refused = Broker::start(at(dir)).err().unwrap_or_else(|| panic!("{file} {how}, and it starts"));
    let StartError::Damaged(text) = &refused else { panic!("{refused}") };
    assert!(text.contains(file) && text.contains(how), "{text}");
    let inspection = inspect(dir, false, &mut |_| ()).unwrap();
    assert_eq!(inspection.outlook, Outlook::Damaged, "{}", inspection.text);
    assert!(inspection.text.contains(file), "{}", inspection.text);
}

#[tokio::test]
async fn a_segment_before_the_snapshot_that_is_gone_or_cut_is_missed_at_the_start() {
    let dir = pinned().await;
    let names = segments(dir.path());
    assert!(names.len() >= 4, "{names:?}");
    Broker::start(at(copy(dir.path()).path())).expect("unspoilt it starts").broker.stop().await;
    // The last one holds what comes after the snapshot, and others look after that.
    for name in &names[..names.len() - 1] {
        let gone = copy(dir.path());
        fs::remove_file(gone.path().join(name)).unwrap();
        assert_refused(gone.path(), name, "is missing");
        let error = repair(gone.path(), true).unwrap_err();
        assert!(error.to_string().contains(name), "no cut mends that: {error}");

        for keep in [100_000, 500_000] {
            let cut = copy(dir.path());
            let file = fs::OpenOptions::new().write(true).open(cut.path().join(name)).unwrap();
            file.set_len(keep).unwrap();
            assert_refused(cut.path(), name, &format!("ends at byte {keep}"));
        }
    }
}
