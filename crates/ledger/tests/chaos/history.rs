//! What workers write down outside the ledger, so that somebody else can hold the ledger against it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::Mutex,
    time::SystemTime,
};

use driftq_ledger::{End, Moment, Outcome, words};
use serde::{Deserialize, Serialize};

/// How an effect ended, in words that can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) end: String,
    /// The payload of a success, the error of a failure.
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn new(end: End, text: &str) -> Self {
        Self { end: words::of_end(end).to_owned(), text: text.to_owned() }
    }

    pub(crate) fn of(outcome: &Outcome) -> Self {
        let payload = String::from_utf8_lossy(&outcome.response.payload).into_owned();
        Self::new(outcome.end, if outcome.end == End::Succeeded { &payload } else { &outcome.error })
    }

    pub(crate) fn is_retryable(&self) -> bool {
        self.end == words::of_end(End::FailedRetryable)
    }
}

/// What a worker that reported how an effect ended was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FinishResult {
    Committed,
    Stale,
}

/// One thing that happened to one key. Times are microseconds since 1970 by the one clock of this machine, which is
/// the database's, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fact {
    /// A worker was told to run it.
    Lent {
        record: i64,
        epoch: u32,
        attempt: u32,
        granted: i64,
        expires: i64,
        may_repeat: bool,
        attempts_max: Option<u32>,
    },
    /// The effect itself. It has happened as soon as this is on disk.
    Ran { epoch: u32 },
    /// A worker was told that it has until then.
    Renewed { epoch: u32, until: i64 },
    /// A worker is about to say how it ended.
    Saying { epoch: u32, answer: Answer },
    /// It said so, from this moment on, and was told this.
    Told { epoch: u32, answer: Answer, asked: i64, verdict: FinishResult },
    /// Somebody who saw this epoch is about to resolve it.
    Resolving { epoch: u32, answer: Answer },
    /// It did so.
    Resolved { epoch: u32, answer: Answer },
    /// Somebody who asked was told how it ended.
    Replayed { epoch: u32, answer: Answer },
    /// The ledger said something that it must not say whatever crashes.
    Odd { what: String },
}

/// A fact and the key that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) fact: Fact,
}

/// A file that one worker appends to.
pub(crate) struct Journal {
    file: Mutex<File>,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Mutex::new(OpenOptions::new().create(true).append(true).open(path)?) })
    }

    /// Writes a fact down; returns when it is on disk.
    pub(crate) fn write(&self, key: &str, fact: Fact) {
        let entry = Entry { key: key.to_owned(), fact };
        let line = serde_json::to_string(&entry).expect("a fact is JSON") + "\n";
        let mut file = self.file.lock().expect("nobody panics while writing");
        // One write: whoever is killed leaves whole lines behind.
        file.write_all(line.as_bytes()).expect("the disk takes a line");
        file.sync_data().expect("the disk keeps a line");
    }
}

/// Everything that was written down in a folder. Only the order within one file means something.
pub(crate) fn read(folder: &Path) -> io::Result<Vec<Entry>> {
    Ok(by_writer(folder)?.into_iter().flat_map(|(_, entries)| entries).collect())
}

/// The same, by who wrote it.
pub(crate) fn by_writer(folder: &Path) -> io::Result<Vec<(String, Vec<Entry>)>> {
    let mut writers = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        let text = fs::read_to_string(file.path())?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let entries = whole.lines().map(|line| serde_json::from_str(line).map_err(io::Error::other));
        writers.push((file.file_name().to_string_lossy().into_owned(), entries.collect::<io::Result<_>>()?));
    }
    Ok(writers)
}

pub(crate) fn now() -> i64 {
    Moment::from(SystemTime::now()).micros()
}
