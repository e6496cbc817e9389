//! Logs taken elsewhere: what must not be taken for whole.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use driftq_engine::transfer::{Copied, Copy, CopyEnd, TransferError, logs_in, migrate};
use driftq_engine::{Broker, Config, Started, Storage};

use crate::common::{config, soon, text};

/// Puts these messages into the log of a directory.
async fn filled(dir: &Path, values: std::ops::Range<u32>) {
    let config = Config { storage: Storage::Directory(dir.to_owned()), segment_bytes: 4 << 10, ..config() };
    let started = tokio::task::spawn_blocking(move || Broker::start(config));
    let broker = soon(started).await.unwrap().unwrap().broker;
    // It may be there already.
    let _ = broker.create_topic("t", 1).await;
    for n in values {
        soon(broker.produce("t", text(&n.to_string().repeat(50)))).await.unwrap();
    }
    soon(broker.stop()).await;
}

fn copied(dir: &Path) -> Result<CopyEnd, TransferError> {
    let mut copy = Copy::begin(dir)?;
    while copy.next(&mut Vec::new())?.is_some() {}
    Ok(copy.finish())
}

/// Copies a directory into another one, and says what was copied.
fn restored(dir: &Path, to: &Path) -> (Vec<Copied>, CopyEnd) {
    let (mut copy, mut files) = (Copy::begin(dir).unwrap(), Vec::new());
    loop {
        let mut bytes = Vec::new();
        let Some(copied) = copy.next(&mut bytes).unwrap() else { return (files, copy.finish()) };
        bytes.resize(usize::try_from(copied.length).unwrap(), 0);
        let path = to.join(&copied.name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        files.push(copied);
    }
}

fn last_segment(dir: &Path) -> PathBuf {
    let files = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "log")).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_does_not_end_where_damage_begins() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    filled(&dir, 0..4).await;
    assert!(matches!(copied(&dir).unwrap(), CopyEnd::Whole { messages: 4, .. }));
    let file = fs::OpenOptions::new().read(true).write(true).open(last_segment(&dir)).unwrap();
    let mut byte = [0];
    // In the first batch of the segment, which every later one says to be synced.
    file.read_exact_at(&mut byte, 64 + 44).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 64 + 44).unwrap();
    let refused = copied(&dir).unwrap_err().to_string();
    assert!(refused.contains("damaged") || refused.contains("synced"), "{refused}");
    let to = Storage::Directory(home.path().join("elsewhere"));
    let refused = migrate(&Storage::Directory(dir), &to).unwrap_err().to_string();
    assert!(refused.contains("damaged"), "{refused}");
}

/// What an earlier attempt left is not what the log holds now: it is thrown away, and the next attempt is whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_has_changed_between_two_attempts_is_taken_anew() {
    let home = tempfile::tempdir().unwrap();
    let [dir, one, two] = ["data", "one", "two"].map(|name| home.path().join(name));
    filled(&dir, 0..30).await;
    let from = Storage::Directory(dir.clone());
    let first = migrate(&from, &Storage::Directory(one.clone())).unwrap();
    fs::rename(&one, home.path().join("two.migrating")).unwrap();
    filled(&dir, 30..60).await;
    let to = Storage::Directory(two.clone());
    let refused = migrate(&from, &to).unwrap_err();
    assert!(
        matches!(&refused, TransferError::Refused { what, .. } if what.contains("has changed")),
        "{refused}"
    );
    assert!(!two.exists());
    let second = migrate(&from, &to).unwrap();
    assert!(second.batches() > first.batches() && second.digest() != first.digest() && second.resumed() == 0);
    filled(&two, 60..70).await;
    assert!(matches!(copied(&two).unwrap(), CopyEnd::Whole { messages: 70, .. }));
}

/// A server with three shards, and the messages of topics that live in different ones.
async fn sharded(dir: &Path, values: std::ops::Range<u32>) -> u64 {
    let storage = Storage::Directory(dir.to_owned());
    let config = Config { storage, segment_bytes: 4 << 10, shards: 3, ..config() };
    let started = tokio::task::spawn_blocking(move || Broker::start(config));
    let Started { broker, recovery } = soon(started).await.unwrap().unwrap();
    for n in values {
        let topic = format!("t{}", n % 12);
        let _ = broker.create_topic(&topic, 1).await;
        soon(broker.produce(&topic, text(&n.to_string().repeat(50)))).await.unwrap();
    }
    soon(broker.stop()).await;
    recovery.messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_the_logs_of_all_shards() {
    let home = tempfile::tempdir().unwrap();
    let [dir, one, two] = ["data", "one", "two"].map(|name| home.path().join(name));
    sharded(&dir, 0..120).await;
    let (files, end) = restored(&dir, &one);
    let is_whole = |end: &String| end.split(", ").count() == 3;
    assert!(matches!(&end, CopyEnd::Whole { messages: 120, end, shards: 3 } if is_whole(end)), "{end:?}");
    for shard in ["seg-", "shard-1/seg-", "shard-2/seg-"] {
        let of_shard = files.iter().filter(|file| file.name.starts_with(shard));
        assert!(of_shard.count() > 1, "{shard}: there are messages in every shard: {files:?}");
    }
    for Copied { name, .. } in &files {
        let [there, here] = [&dir, &one].map(|dir| fs::read(dir.join(name)).unwrap());
        let same = there.len().min(here.len());
        assert!(there[..same] == here[..same], "{name}");
        assert!(there[same..].iter().chain(&here[same..]).all(|byte| *byte == 0), "{name}");
    }
    assert_eq!(logs_in(&one).unwrap().len(), 3);
    assert_eq!(restored(&one, &two), (files, end));
    assert_eq!(sharded(&two, 120..130).await, 120);
    assert!(matches!(copied(&two).unwrap(), CopyEnd::Whole { messages: 130, .. }));
}

/// Not a log of fewer shards, which would look whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_without_a_log_is_not_taken_elsewhere() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    sharded(&dir, 0..1).await;
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(dir.join("shard-3")).unwrap();
    let (from, to) = (Storage::Directory(dir), Storage::Directory(elsewhere.clone()));
    let TransferError::Refused { what, help } = migrate(&from, &to).unwrap_err() else { panic!() };
    assert!(what.contains("there is no log in") && what.contains("shard-3"), "{what}");
    assert!(help.contains("start the server once"), "{help}");
    assert!(!elsewhere.exists());
}

/// Copies a directory until it is not overtaken, and says how many messages are in the copy.
fn copied_at_last(dir: &Path, to: &Path) -> u64 {
    for _ in 0..100 {
        match restored(dir, to).1 {
            CopyEnd::Whole { messages, .. } => return messages,
            CopyEnd::Overtaken => drop(fs::remove_dir_all(to)),
        }
    }
    panic!("the server was always faster")
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_are_copied_while_they_are_at_work() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    sharded(&dir, 0..12).await;
    let storage = Storage::Directory(dir.clone());
    // Segments and snapshots come and go.
    let config =
        Config { storage, segment_bytes: 4 << 10, snapshot_every_bytes: 16 << 10, shards: 3, ..config() };
    let broker =
        soon(tokio::task::spawn_blocking(move || Broker::start(config))).await.unwrap().unwrap().broker;
    let mut taken = 12_u64;
    for round in 0..5 {
        let (before, to) = (taken, home.path().join(round.to_string()));
        let copying = tokio::task::spawn_blocking({
            let (dir, to) = (dir.clone(), to.clone());
            move || copied_at_last(&dir, &to)
        });
        while !copying.is_finished() || taken < before + 100 {
            let (topic, value) = (format!("t{}", taken % 12), taken.to_string().repeat(50));
            soon(broker.produce(&topic, text(&value))).await.unwrap();
            taken += 1;
        }
        let messages = soon(copying).await.unwrap();
        assert!((before..=taken).contains(&messages), "{before}, then {messages}, then {taken}");
        assert_eq!(sharded(&to, 0..0).await, messages);
    }
    soon(broker.stop()).await;
}
