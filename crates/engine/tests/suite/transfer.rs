//! Logs taken elsewhere: what must not be taken for whole.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use driftq_engine::transfer::{Copy, CopyEnd, TransferError, migrate};
use driftq_engine::{Broker, Config, Storage};

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
    assert!(second.batches > first.batches && second.digest != first.digest && second.resumed == 0);
    filled(&two, 60..70).await;
    assert!(matches!(copied(&two).unwrap(), CopyEnd::Whole { messages: 70, .. }));
}
