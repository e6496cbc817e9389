//! How the server starts, stops and refuses to start.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::command::run;
use crate::support::Server;
use serde_json::Value;

const SMALL: &str = "--segment-bytes=1MiB";

fn start(data: &Path) -> Server {
    Server::start(data, &[SMALL])
}

/// Opens a stream and reads nothing of it beyond its head.
fn open_stream(server: &Server, topic: &str, group: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).unwrap();
    let path = format!("/v1/consume?topic={topic}&group={group}&owner=o&lease_ms=600000");
    socket.write_all(format!("GET {path} HTTP/1.1\r\nhost: t\r\n\r\n").as_bytes()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(socket.read(&mut byte).unwrap(), 1, "the stream ended in its head");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    socket
}

#[test]
fn the_start_says_what_it_found_and_what_it_promises() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("data");
    let server = start(&path);
    for part in [
        "driftq ",
        path.to_str().unwrap(),
        "synced to disk",
        "0 message(s)",
        "listening on http://127.0.0.1:",
    ] {
        assert!(server.banner.contains(part), "no `{part}` in {}", server.banner);
    }
    server.run(&["topic", "create", "t"]).ok();
    server.run(&["produce", "t", "v"]).ok();
    server.kill();
    assert!(start(&path).banner.contains("1 message(s), 1 topic(s)"));
    let memory = Server::start(&path, &["--ephemeral"]);
    assert!(
        memory.banner.contains("in memory") && memory.banner.contains("0 message(s)"),
        "{}",
        memory.banner
    );
}

#[test]
fn sigterm_ends_streams_cleanly_and_leaves_nothing_to_replay() {
    for signal in ["TERM", "INT"] {
        let data = tempfile::tempdir().unwrap();
        let server = start(data.path());
        server.run(&["topic", "create", "t"]).ok();
        server.run(&["produce", "t", "v"]).ok();
        let mut stream = open_stream(&server, "t", "g");
        server.signal(signal);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("0\r\n\r\n"), "the stream was cut: {rest:?}");
        assert_eq!(server.wait().code(), Some(0), "after SIG{signal}");
        let again = start(data.path());
        assert!(
            again.banner.contains("1 message(s)") && again.banner.contains("(0B of log replayed"),
            "{}",
            again.banner
        );
    }
}

/// Large messages to a reader that reads nothing: some are in its socket, the others are still with the server.
fn stall(server: &Server) -> TcpStream {
    server.run(&["topic", "create", "big"]).ok();
    let lines = format!("{}\n", "x".repeat(1 << 20)).repeat(30);
    server.run_piped(&["produce", "big", "--concurrency", "4"], &lines).ok();
    let stream = open_stream(server, "big", "g");
    std::thread::sleep(Duration::from_millis(500));
    stream
}

#[test]
fn what_was_never_sent_uses_no_attempt() {
    let data = tempfile::tempdir().unwrap();
    let flags = ["--in-flight-max=100", "--drain-timeout-ms=300", "--stop-grace-ms=300"];
    let server = Server::start(data.path(), &flags);
    let stalled = stall(&server);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    drop(stalled);
    let server = Server::start(data.path(), &flags);
    let items =
        server.run(&["consume", "big", "-g", "g", "--max", "30", "--ack", "--timeout", "5s"]).ok().lines();
    let attempts: Vec<u64> = items.iter().map(|item: &Value| item["attempts"].as_u64().unwrap()).collect();
    // The credit of a stream is 32: all had been handed out. What had left the server stays on loan to its reader; the
    // rest comes again, and its attempt did not count.
    assert!((10..=30).contains(&attempts.len()), "{attempts:?}");
    assert!(attempts.iter().all(|attempt| *attempt == 1), "{attempts:?}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &["--in-flight-max=100", "--drain-timeout-ms=20s"]);
    let stalled = stall(&server);
    server.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(143));
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(stalled);
    assert!(start(data.path()).banner.contains("30 message(s)"));
}

#[test]
fn two_servers_do_not_share_a_directory_or_an_address() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path());
    let ran = run(&["serve", "--listen", "127.0.0.1:0", "--data", data.path().to_str().unwrap()]).code(8);
    assert!(ran.stderr.contains("in use") && ran.stderr.contains("--data"), "{}", ran.stderr);
    let listen = server.address.to_string();
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("data");
    let ran = run(&["serve", "--listen", &listen, "--data", path.to_str().unwrap()]).code(11);
    assert!(ran.stderr.contains("--listen"), "{}", ran.stderr);
    assert!(!path.exists(), "nothing is touched when the address is taken");
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    // Permissions do not stop the administrator, a directory where a file should be stops everybody.
    std::fs::create_dir(data.path().join("LOCK")).unwrap();
    let ran = run(&["serve", "--listen", "127.0.0.1:0", "--data", path]).code(1);
    assert!(ran.stderr.contains(path) && ran.stderr.contains("--data"), "{}", ran.stderr);
}

#[test]
fn a_crowd_of_idle_peers_does_not_take_the_files_of_the_log() {
    let data = tempfile::tempdir().unwrap();
    let mut few = std::process::Command::new("sh");
    few.args(["-c", r#"ulimit -n 64 && exec "$0" "$@""#, env!("CARGO_BIN_EXE_driftq")]);
    let server = Server::start_by(few, data.path(), &["--segment-bytes=64KiB"]);
    server.run(&["topic", "create", "t"]).ok();
    let mut client = TcpStream::connect(server.address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let body = format!(r#"{{"topic":"t","value":"{}"}}"#, "x".repeat(4 << 10));
    let request =
        format!("POST /v1/produce HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut produce = || {
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 1024];
        let length = client.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    assert!(produce().starts_with("HTTP/1.1 200"));
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(300));
    // Several segments: each has to be made, opened and named.
    for _ in 0..60 {
        let answer = produce();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    drop(crowd);
    let topic = server.run(&["topic", "describe", "t", "-o", "json"]).ok().json();
    assert_eq!(topic["messages"], 61);
}

/// The first segment file of a data directory.
fn segment(data: &Path) -> std::path::PathBuf {
    let ran = run(&["wal", "inspect", "--data", data.to_str().unwrap(), "-o", "json"]).ok().json();
    let rows = ran["found"].as_array().unwrap().clone();
    let row = rows.into_iter().find(|row| row["kind"] == "segment").expect("a segment");
    data.join(row["file"].as_str().unwrap())
}

#[test]
fn the_log_can_be_looked_at() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    run(&["wal", "inspect", "--data", "/no/such/directory"]).code(4);
    let empty = run(&["wal", "inspect", "--data", path, "-o", "json"]).ok().json();
    assert_eq!(empty["outlook"], "empty");
    let server = start(data.path());
    server.run(&["topic", "create", "orders"]).ok();
    server.run(&["produce", "orders", "v"]).ok();
    let busy = run(&["wal", "inspect", "--data", path]).ok();
    assert!(busy.stderr.contains("a server is using"), "{}", busy.stderr);
    run(&["wal", "repair", "--data", path, "--dry-run"]).code(8);
    server.kill();
    let sound = run(&["wal", "inspect", "--data", path]).ok().stdout;
    assert!(sound.contains("segment") && sound.contains("batches"), "{sound}");
    let facts = run(&["wal", "inspect", "--data", path, "--facts", "-o", "ndjson"]).ok().stdout;
    assert!(facts.contains("orders") && facts.contains("stored at"), "{facts}");
    run(&["wal", "inspect", "--data", path, "--segment", "1"]).ok();
    let missing = run(&["wal", "inspect", "--data", path, "--segment", "99"]).code(4);
    assert!(missing.stderr.contains("no segment 99"), "{}", missing.stderr);
    run(&["wal", "repair", "--data", path]).code(2);
    assert!(run(&["wal", "repair", "--data", path, "--dry-run"]).ok().stdout.contains("nothing to repair"));
}

#[test]
fn a_damaged_log_is_refused_explained_and_repaired() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let server = start(data.path());
    server.run(&["topic", "create", "t"]).ok();
    for number in 0..20 {
        server.run(&["produce", "t", &format!("message-{number}-of-twenty")]).ok();
    }
    server.kill();
    let file = segment(data.path());
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes
        .windows(12)
        .position(|window| window == b"message-10-o")
        .expect("payloads are stored as they are");
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();

    let refused = run(&["serve", "--listen", "127.0.0.1:0", "--data", path]).code(7);
    for part in ["wal inspect", "wal repair", file.file_name().unwrap().to_str().unwrap()] {
        assert!(refused.stderr.contains(part), "no `{part}` in {}", refused.stderr);
    }
    run(&["wal", "inspect", "--data", path]).code(7);
    let plan = run(&["wal", "repair", "--data", path, "--dry-run", "-o", "json"]).ok().json();
    assert_eq!(plan["applied"], false);
    run(&["wal", "inspect", "--data", path]).code(7);
    let plan = run(&["wal", "repair", "--data", path, "--dry-run"]).ok().stdout;
    assert!(plan.contains("is damaged at byte") && !plan.contains("wal inspect"), "{plan}");
    let done = run(&["wal", "repair", "--data", path, "--yes", "-o", "json"]).ok().json();
    assert!(!done["damage"].to_string().contains("Nothing was changed"), "{done}");
    assert_eq!(done["applied"], true);
    let kept = done["cuts"][0]["kept_in"].as_str().expect("what is cut is kept");
    assert!(data.path().join(kept).exists());
    let server = start(data.path());
    assert!(server.banner.contains("10 message(s)"), "{}", server.banner);
}
