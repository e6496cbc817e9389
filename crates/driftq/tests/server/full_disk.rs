//! The real binary on a real file system that runs full: a small tmpfs, which needs the right to mount one.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compat::{Client, Stream, address_of};
use crate::support::Server;
use serde_json::json;

/// Small segments, so that a small file system holds several.
const SEGMENT_BYTES: &str = "1MiB";
const DISK_BYTES: u64 = 12 << 20;
/// More than fits, so that the loop ends by a refusal and not by itself.
const MESSAGES_MAX: u32 = 100_000;

/// A mounted tmpfs, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where nobody may mount: the reason is printed.
    fn mount(at: &Path) -> Option<Self> {
        let size = format!("size={DISK_BYTES}");
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
    let Some(disk) = SmallDisk::mount(scratch.path()) else { return };
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
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let late = json!({"topic": "t", "value": "late"});
    while client.post_json("/v1/produce", &late).status != 200 {
        assert!(std::time::Instant::now() < deadline, "it never recovers");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(stream);
    server.kill();
    let server = Server::start(&data, &arguments);
    let mut client = Client::connect(server.address);
    let mut stream = Stream::open(server.address, "topic=t&group=g&owner=me&lease_ms=600000");
    // What had been handed out before comes when its lease is over: behind some of the rest.
    let mut left: std::collections::BTreeSet<_> = (50..taken).collect();
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
