//! Files that are flipped, cut or gone: a start refuses and names the file, or nothing acknowledged is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::common::{at, crash_image, soon, start, text, until, value};
use driftq_core::{Message, Reason};
use driftq_engine::{Broker, Config, Delivered, LeaseCall, StartError, Started};

/// Bytes flipped, spread over all files by their length.
const FLIPS: u64 = 400;
const MESSAGES: u64 = 120;
/// Small, so that the messages lie in several of them.
const SEGMENT_BYTES: u32 = 8 << 10;

fn config(dir: &Path) -> Config {
    let mut config = Config { segment_bytes: SEGMENT_BYTES, payload_cache_bytes: 0, ..at(dir) };
    config.settings.in_flight_max = 10_000;
    config
}

fn text_of(number: u64) -> String {
    format!("{number} {}", "v".repeat(200))
}

async fn produce(broker: &Broker, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(broker.produce("t", text(&text_of(number))).await.unwrap().offset, number);
    }
}

/// A log as a kill leaves it: most messages lie before its snapshot, some behind it.
async fn killed_log() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(config(dir.path()));
    broker.create_topic("t", 1).await.unwrap();
    assert!(lease(&broker, "t", 1).await.is_empty(), "the group exists from here on");
    produce(&broker, 0..MESSAGES * 3 / 4).await;
    soon(broker.stop()).await;
    let broker = start(config(dir.path()));
    produce(&broker, MESSAGES * 3 / 4..MESSAGES).await;
    let spares =
        || std::fs::read_dir(dir.path()).unwrap().filter(|e| is_spare(&e.as_ref().unwrap().path())).count();
    until("nothing is being made", async || spares() >= 4).await;
    let image = crash_image(dir.path());
    soon(broker.stop()).await;
    image
}

async fn lease(broker: &Broker, topic: &str, wait_ms: u64) -> Vec<Delivered> {
    let call = LeaseCall {
        topic: topic.into(),
        group: "g".into(),
        owner: "o".into(),
        max: 1_000,
        lease_ms: Some(600_000),
        wait_ms,
        request_id: None,
    };
    soon(broker.lease(call)).await.unwrap()
}

fn is_spare(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    name.starts_with("spare-") && name.ends_with(".seg")
}

/// The files whose bytes mean something.
fn files(dir: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = all
        .filter(|path| !is_spare(path) && !["LOCK", "reserve"].map(|name| dir.join(name)).contains(path))
        .collect();
    files.sort();
    files
}

/// What became of a log with one damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// The start refused and named the file.
    Refused,
    /// A torn tail was reported: the end of a log that was killed cannot be told from one.
    Torn,
    /// Some became dead letters that name the file.
    Lettered,
    /// The damage did not matter.
    Harmless,
}

/// Starts on a damaged copy; nothing that was acknowledged may be missing without a word.
async fn judge(image: &Path, damaged: &Path) -> Fate {
    let name = damaged.file_name().unwrap().to_string_lossy().into_owned();
    let Started { broker, recovery } = match Broker::start(config(image)) {
        Ok(started) => started,
        Err(StartError::Damaged(why) | StartError::Log(why)) => {
            assert!(why.contains(&name) || why.contains("seg-") || why.contains("snap-"), "{name}: {why}");
            return Fate::Refused;
        }
        Err(StartError::Facts { position, what }) => panic!("{name}: {position} {what}"),
        Err(other) => panic!("{name}: {other}"),
    };
    if let Some(torn) = &recovery.truncated {
        assert!(torn.contains(&name), "{name}: {torn}");
        soon(broker.stop()).await;
        return Fate::Torn;
    }
    let mut missing: BTreeSet<u64> = (0..MESSAGES).collect();
    for lent in lease(&broker, "t", 0).await {
        assert_eq!(value(&lent), text_of(lent.offset), "{name}");
        assert!(missing.remove(&lent.offset));
    }
    let fate = if missing.is_empty() { Fate::Harmless } else { Fate::Lettered };
    let letters =
        || async { broker.describe_topic("dlq.t").await.map_or(0, |topic| topic.partitions[0].messages) };
    until("what is missing is a dead letter", async || letters().await == missing.len() as u64).await;
    if fate == Fate::Lettered {
        for lent in lease(&broker, "dlq.t", 1_000).await {
            let message = Message::decode(&lent.payload).unwrap();
            let (_, letter) = message.from_dead_letter().expect("a dead letter");
            assert_eq!(letter.reason, Reason::PayloadDamaged.name());
            assert!(letter.last_error.contains(&name), "{name}: {}", letter.last_error);
            assert!(missing.remove(&letter.offset));
        }
        assert_eq!(missing, BTreeSet::new(), "{name}");
    }
    soon(broker.stop()).await;
    fate
}

#[tokio::test]
async fn a_flipped_byte_anywhere_is_refused_or_named_and_nothing_is_missing_without_a_word() {
    let log = killed_log().await;
    let files = files(log.path());
    let lengths: Vec<u64> = files.iter().map(|file| file.metadata().unwrap().len()).collect();
    let total: u64 = lengths.iter().sum();
    let mut fates = BTreeMap::<Fate, u32>::new();
    for n in 0..FLIPS {
        // Evenly over all bytes, with a step that has no factor in common with anything here.
        let mut place = (n * 2_654_435_761 + 12_345) % total;
        let file = lengths.iter().position(|length| {
            let here = place < *length;
            if !here {
                place -= length;
            }
            here
        });
        let image = crash_image(log.path());
        let damaged = image.path().join(files[file.unwrap()].file_name().unwrap());
        let mut bytes = std::fs::read(&damaged).unwrap();
        bytes[place as usize] ^= 1 << (n % 8);
        std::fs::write(&damaged, bytes).unwrap();
        *fates.entry(judge(image.path(), &damaged).await).or_default() += 1;
    }
    println!("{fates:?}");
    for fate in [Fate::Refused, Fate::Lettered, Fate::Harmless] {
        assert!(fates.contains_key(&fate), "every kind of damage was met: {fates:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_gone_or_cut_is_missed_at_the_start() {
    let log = killed_log().await;
    for file in files(log.path()) {
        let length = file.metadata().unwrap().len();
        for keep in [None, Some(0), Some(1), Some(64), Some(length / 2), Some(length - 1)] {
            let image = crash_image(log.path());
            let damaged = image.path().join(file.file_name().unwrap());
            match keep {
                None => std::fs::remove_file(&damaged).unwrap(),
                Some(keep) => {
                    let file = std::fs::OpenOptions::new().write(true).open(&damaged).unwrap();
                    file.set_len(keep).unwrap();
                }
            }
            let fate = judge(image.path(), &damaged).await;
            println!("{} kept {keep:?}: {fate:?}", file.file_name().unwrap().to_string_lossy());
        }
    }
}
