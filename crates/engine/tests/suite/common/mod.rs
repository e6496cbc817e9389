//! What the tests of the engine share.
#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

pub(crate) mod faults;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use driftq_core::{Envelope, Message, RetryPolicy};
use driftq_engine::{AckRequest, Broker, Config, ConsumeRequest, Delivered, Started, Storage, Stream};

/// No test waits longer than this for anything; a test that is right never waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// A lease that does not lapse during a test.
pub(crate) const LONG_LEASE_MS: u64 = 600_000;

/// Small files, so that a test sees many of them.
pub(crate) fn config() -> Config {
    Config { segment_bytes: 256 << 10, ..Config::default() }
}

pub(crate) fn at(dir: &Path) -> Config {
    Config { storage: Storage::Directory(dir.to_path_buf()), ..config() }
}

pub(crate) fn start(config: Config) -> Broker {
    Broker::start(config).unwrap().broker
}

pub(crate) fn start_at(dir: &Path) -> Started {
    Broker::start(at(dir)).unwrap()
}

/// Waits for what must come.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it should have happened by now")
}

/// Asks again and again until the answer is yes. For things that have no signal of their own.
pub(crate) async fn until(what: &str, mut yes: impl AsyncFnMut() -> bool) {
    let asked = async {
        while !yes().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub(crate) fn text(value: &str) -> Message<'_> {
    Message { value: value.as_bytes().into(), ..Message::default() }
}

pub(crate) fn keyed<'a>(value: &'a str, idempotency_key: &'a str) -> Message<'a> {
    let envelope = Envelope { idempotency_key: idempotency_key.into(), ..Envelope::default() };
    Message { envelope: Some(Box::new(envelope)), ..text(value) }
}

pub(crate) fn mortal(value: &str, max_attempts: u32) -> Message<'_> {
    let retry_policy =
        Some(RetryPolicy { max_attempts, backoff_ms: 1, max_backoff_ms: 1, ..RetryPolicy::default() });
    let envelope = Envelope { retry_policy, ..Envelope::default() };
    Message { envelope: Some(Box::new(envelope)), ..text(value) }
}

pub(crate) fn reader(topic: &str, group: &str) -> ConsumeRequest {
    leased(topic, group, LONG_LEASE_MS)
}

pub(crate) fn leased(topic: &str, group: &str, lease_ms: u64) -> ConsumeRequest {
    ConsumeRequest { topic: topic.into(), group: group.into(), owner: "me".into(), lease_ms }
}

pub(crate) fn ack_of(topic: &str, group: &str, delivered: &Delivered) -> AckRequest {
    AckRequest {
        topic: topic.into(),
        group: group.into(),
        partition: delivered.partition,
        offset: delivered.offset,
        owner: "me".into(),
    }
}

pub(crate) fn value(delivered: &Delivered) -> String {
    let message = Message::decode(&delivered.payload).unwrap();
    String::from_utf8(message.value.into_owned()).unwrap()
}

/// The next message, confirmed as written out.
pub(crate) async fn next(stream: &mut Stream) -> Delivered {
    let delivered = soon(stream.next()).await.expect("the stream goes on");
    stream.written();
    delivered
}

/// What a killed process would leave behind: every byte written so far, synced or not.
pub(crate) fn crash_image(dir: &Path) -> tempfile::TempDir {
    let image = tempfile::tempdir().unwrap();
    copy_files(dir, image.path());
    image
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if entry.is_dir() {
            std::fs::create_dir(to.join(&name)).unwrap();
            copy_files(&entry, &to.join(name));
        } else {
            // A file may be renamed while the directory is copied.
            let _ = std::fs::copy(entry, to.join(name));
        }
    }
}

/// A broker on what a killed process would leave behind, although its keeper may be at work: a copy that the keeper
/// got in the way of is taken again.
pub(crate) async fn restart_killed(dir: &Path) -> (tempfile::TempDir, Started) {
    let mut restarted = None;
    until("a usable copy", async || {
        let image = crash_image(dir);
        restarted = Broker::start(at(image.path())).ok().map(|started| (image, started));
        restarted.is_some()
    })
    .await;
    restarted.unwrap()
}
