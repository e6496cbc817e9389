//! Faults of our own are told as such: clients retry 5xx, and give up on 4xx.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::compat::{Client, Reply, Stream, TIMEOUT};

/// A server whose writes can be made to fail while it runs: the limit on file sizes holds for files that are open,
/// too, and the signal that comes with it is ignored from before the start.
struct Fragile {
    child: Child,
    address: std::net::SocketAddr,
}

impl Fragile {
    fn start(data: &std::path::Path) -> Self {
        let script = "trap '' XFSZ; exec \"$0\" serve --listen 127.0.0.1:0 --log-level off --data \"$1\" \
                      --segment-bytes 256KiB";
        let mut child = Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_driftq")])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let address = lines.map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("listening on http://")?;
            address.trim().parse().ok()
        });
        Self { child, address: address.expect("the server says where it listens") }
    }

    /// Bounds how far files may be written.
    fn limit_files(&self, bytes: &str) {
        let status = Command::new("prlimit")
            .args([&format!("--pid={}", self.child.id()), &format!("--fsize={bytes}:unlimited")])
            .status()
            .expect("prlimit runs: it is a part of util-linux");
        assert!(status.success());
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Spares of the log that are made ahead.
const SPARES: usize = 4;

/// Files that are made ahead could not be made any more, which looks like a full disk: no write is then tried at all.
fn wait_for_spares(data: &std::path::Path) {
    let deadline = Instant::now() + TIMEOUT;
    let is_spare = |name: &str| name.starts_with("spare-") && name.ends_with(".seg");
    let spares = || {
        let names = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| is_spare(&name.to_string_lossy())).count()
    };
    while spares() < SPARES {
        assert!(Instant::now() < deadline, "{} spares", spares());
        std::thread::yield_now();
    }
}

/// The broker notices by itself, a moment after the first refusal.
fn wait_for_readiness(client: &mut Client, status: u16) -> Reply {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answer = client.get("/v2/readyz");
        if answer.status == status {
            return answer;
        }
        assert!(Instant::now() < deadline, "still {}", answer.text());
        std::thread::yield_now();
    }
}

#[test]
fn a_log_that_cannot_be_written_is_never_the_clients_fault() {
    let data = tempfile::tempdir().unwrap();
    let server = Fragile::start(data.path());
    let mut client = Client::connect(server.address);
    assert_eq!(client.post("/v1/topics?name=t").status, 201);
    client.produce("t", "", "before");
    wait_for_spares(data.path());
    server.limit_files("1");
    for path in ["/v1/produce?topic=t&value=v", "/v1/topics?name=u"] {
        let answer = client.post(path);
        answer.assert_error_part(503, "UNAVAILABLE", "");
    }
    assert_eq!(client.get("/v1/healthz").status, 200, "it lives");
    let ready = wait_for_readiness(&mut client, 503).json();
    assert_eq!((&ready["code"], &ready["retryable"]), (&json!("UNAVAILABLE"), &json!(true)));
    server.limit_files("unlimited");
    wait_for_readiness(&mut client, 200);
    client.produce("t", "", "after");
    let mut stream = Stream::open(server.address, "topic=t&group=g&owner=o&lease_ms=60000");
    assert_eq!((&stream.item()["value"], &stream.item()["value"]), (&json!("before"), &json!("after")));
}
