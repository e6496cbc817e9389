//! The real binary on a real file system that runs full: a small tmpfs, which needs the right to mount one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::compat::{Client, Stream, address_of};
use crate::support::Server;
use serde_json::{Value, json};

/// Small segments, so that a small file system holds several.
const SEGMENT_BYTES: &str = "1MiB";
const DISK_BYTES: u64 = 12 << 20;
/// For a test that fills it many times.
const SMALLER_DISK_BYTES: u64 = DISK_BYTES / 2;
/// More than fits, so that the loop ends by a refusal and not by itself.
const MESSAGES_MAX: u32 = 100_000;

/// A mounted tmpfs, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where nobody may mount: the reason is printed.
    fn mount(at: &Path, bytes: u64) -> Option<Self> {
        let size = format!("size={bytes}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at.into())),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                println!("skipped: mounting a small file system needs root: {}", why.trim());
                None
            }
            Err(error) => {
                println!("skipped: mounting a small file system needs `mount`: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that a failed assertion left behind may still have files open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Produces until the broker refuses; gives the number of messages it took.
fn fill(client: &mut Client, value: &str) -> u32 {
    for taken in 0..MESSAGES_MAX {
        let reply =
            client.post_json("/v1/produce", &json!({"topic": "t", "value": format!("{taken} {value}")}));
        match reply.status {
            200 => {}
            503 => {
                let text = reply.text();
                assert!(text.contains("disk is full"), "a refusal says why: {text}");
                return taken;
            }
            other => panic!("message {taken} was answered {other}: {}", reply.text()),
        }
    }
    panic!("the disk never ran full");
}

#[test]
fn a_full_disk_refuses_messages_serves_acks_and_recovers_by_itself() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let Some(disk) = SmallDisk::mount(scratch.path(), DISK_BYTES) else { return };
    let data = disk.0.join("data");
    let arguments = ["--segment-bytes", SEGMENT_BYTES, "--in-flight-max", "64"];
    // Something else takes half of the disk, and will give it back.
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![1; DISK_BYTES as usize / 2]).expect("there is room for the ballast");
    let server = Server::start(&data, &arguments);
    let mut client = Client::connect(server.address);
    assert_eq!(client.post_json("/v1/topics", &json!({"name": "t"})).status, 201);

    let value = "x".repeat(1000);
    let taken = fill(&mut client, &value);
    assert!(taken > 100, "some messages fit: {taken}");

    // Reads and acks go on.
    let mut stream = Stream::open(server.address, "topic=t&group=g&owner=me&lease_ms=5000");
    for expected in 0..50 {
        let item = stream.item();
        assert!(
            item["value"].as_str().expect("text").starts_with(&format!("{expected} ")),
            "in order, none lost"
        );
        let ack = client.post(&format!("/v1/ack?topic=t&group=g&owner=me&{}", address_of(&item)));
        assert_eq!(ack.status, 204, "{}", ack.text());
    }
    assert_eq!(client.get("/v1/topics").status, 200);
    let full = client.get("/v2/readyz");
    let note = "the disk is full: new messages are refused until space returns";
    assert_eq!(
        (full.status, full.json()),
        (200, json!({"status": "ready", "note": note})),
        "acks are served"
    );
    let status = client.get("/v2/status").json();
    assert_eq!(
        (&status["ready"], &status["writable"]),
        (&json!(true), &json!(false)),
        "a monitor can see it"
    );

    // Space returns: without a restart, without a lost message.
    std::fs::remove_file(&ballast).expect("the ballast goes");
    let deadline = Instant::now() + Duration::from_secs(30);
    let late = json!({"topic": "t", "value": "late"});
    while client.post_json("/v1/produce", &late).status != 200 {
        assert!(Instant::now() < deadline, "it never recovers");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(stream);
    server.kill();
    let server = Server::start(&data, &arguments);
    let mut client = Client::connect(server.address);
    let mut stream = Stream::open(server.address, "topic=t&group=g&owner=me&lease_ms=600000");
    // What had been handed out before comes when its lease is over: behind some of the rest.
    let mut left: BTreeSet<_> = (50..taken).collect();
    let mut late = false;
    while !left.is_empty() || !late {
        let item = stream.item();
        let text = item["value"].as_str().expect("text");
        match text.split(' ').next().and_then(|number| number.parse().ok()) {
            Some(number) => assert!(left.remove(&number), "{number} was acked, or comes twice"),
            None => late = text == "late",
        }
        client.post(&format!("/v1/ack?topic=t&group=g&owner=me&{}", address_of(&item)));
    }
}

/// How often the disk is filled, emptied and the broker restarted.
const ROUNDS: u32 = 10;
/// Bytes of every message, besides its number.
const PADDING: usize = 300;
/// Messages that fit at the least, once all before them are acked: about half of the disk.
const TAKEN_MIN: usize = 5_000;
/// Messages leased and acked by one request.
const AT_ONCE: u32 = 100;
/// Messages produced by one request. A batch that is larger than an eighth of a segment would make its file grow, for
/// which there is no space.
const PRODUCED_AT_ONCE: u32 = 50;
/// How long a disk may take to have space again after the last ack.
const PATIENCE: Duration = Duration::from_secs(60);

/// Produces numbered messages from `from` on until the broker refuses, or refuses for the time being: all that was acked
/// must be there again. Gives the numbers that it took.
fn fill_numbered(client: &mut Client, from: u32) -> Vec<u32> {
    let padding = "x".repeat(PADDING);
    let mut taken = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    for first in (from..from + MESSAGES_MAX).step_by(PRODUCED_AT_ONCE as usize) {
        let numbers = first..first + PRODUCED_AT_ONCE;
        let batch: Vec<Value> = numbers.clone().map(|n| json!({"value": format!("{n} {padding}")})).collect();
        let reply = client.post_json("/v2/topics/t/messages", &json!(batch));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let results = reply.json();
        let results = results.as_array().expect("a result for each");
        let refused = results.iter().filter(|result| result["error"]["code"] == json!("DISK_FULL")).count();
        taken.extend(numbers.zip(results).filter(|(_, result)| result["error"].is_null()).map(|(n, _)| n));
        if refused > 0 {
            if taken.len() >= TAKEN_MIN {
                return taken;
            }
            assert!(
                Instant::now() < deadline,
                "only {} messages fit: the space never comes back",
                taken.len()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    panic!("the disk never runs full");
}

/// Leases and acks until `left` is empty. Not one request is refused.
fn work_off(client: &mut Client, group: &str, left: &mut BTreeSet<u32>) {
    while !left.is_empty() {
        let wanted = json!({"owner": "o", "max": AT_ONCE, "wait_ms": 1_000});
        let leased = client.post_json(&format!("/v2/topics/t/groups/{group}/lease"), &wanted);
        assert_eq!(leased.status, 200, "{group}, {} left: {}", left.len(), leased.text());
        let leased = leased.json();
        let mut tokens = Vec::new();
        for message in leased["messages"].as_array().expect("a list") {
            let text = message["value"].as_str().expect("text");
            let number = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
            assert!(left.remove(&number), "{group} got {number} twice, or too early");
            tokens.push(json!({"token": message["lease"]["token"]}));
        }
        if !tokens.is_empty() {
            let acked = client.post_json("/v2/leases/ack", &json!({"leases": tokens}));
            assert_eq!(acked.status, 200, "{group}, {} left: {}", left.len(), acked.text());
        }
    }
}

/// One group lags while two work. Their acks need the log, too, and free nothing as long as the third needs every
/// message: the broker must not run out of room for acks, or nothing would ever free the disk again.
#[test]
fn a_full_disk_with_a_group_that_lags_is_left_by_acks_alone() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let Some(disk) = SmallDisk::mount(scratch.path(), SMALLER_DISK_BYTES) else { return };
    let data = disk.0.join("data");
    let arguments = ["--segment-bytes", "256KiB", "--in-flight-max", "1000"];
    let mut server = Server::start(&data, &arguments);
    let mut client = Client::connect(server.address);
    assert_eq!(client.post_json("/v1/topics", &json!({"name": "t", "partitions": 2})).status, 201);
    let mut groups: Vec<(&str, BTreeSet<u32>)> = ["a", "b", "lagging"].map(|g| (g, BTreeSet::new())).into();
    for (group, _) in &groups {
        let leased = client.post_json(&format!("/v2/topics/t/groups/{group}/lease"), &json!({"owner": "o"}));
        assert_eq!(leased.status, 200, "the group exists from here on: {}", leased.text());
    }
    for round in 0..ROUNDS {
        let taken = fill_numbered(&mut client, round * MESSAGES_MAX);
        for (group, left) in &mut groups {
            left.extend(&taken);
            if *group == "lagging" {
                if round % 2 == 0 {
                    server.kill();
                } else {
                    server.signal("TERM");
                    assert!(server.wait().success());
                }
                server = Server::start(&data, &arguments);
                client = Client::connect(server.address);
            }
            work_off(&mut client, group, left);
        }
    }
}
