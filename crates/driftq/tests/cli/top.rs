//! `driftq top` against a real server: one frame, every event, and a terminal.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::desk::server;

/// Far longer than a frame takes.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn one_frame_tells_what_waits() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders", "--partitions", "1"]).ok();
    server.run(&["produce", "orders", "one"]).ok();
    server.run(&["lease", "take", "orders", "billing", "-o", "ndjson"]).ok();
    let frame = server.run(&["top", "--once"]).ok().stdout;
    let line = frame.lines().find(|line| line.starts_with("orders")).unwrap_or_else(|| panic!("{frame}"));
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[..3], ["orders", "1", "1"], "waiting and in flight: {frame}");
    assert!(frame.contains("dead letters 0") && frame.contains("unknown 0"), "{frame}");
    let event = server.run(&["top", "--once", "-o", "json"]).ok().json();
    assert_eq!(event["sample"]["in_flight"], 1, "{event}");
    // A script that forgot --once is not left with a screen of escapes.
    let refused = server.run(&["top"]).code(2);
    assert!(refused.stderr.contains("--once"), "{}", refused.stderr);
}

#[test]
fn a_terminal_gets_frames_and_its_screen_back() {
    let (_data, server) = server();
    server.run(&["topic", "create", "orders", "--partitions", "1"]).ok();
    let program = env!("CARGO_BIN_EXE_driftq");
    let top = format!("stty rows 30 cols 120; exec {program} top --server {}", server.url());
    let mut script = Command::new("script");
    script
        .args(["-qefc", &top, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut script = script.spawn().expect("util-linux has script");
    let (mut screen, (tell, told)) = (script.stdout.take().unwrap(), mpsc::channel());
    std::thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            if tell.send(String::from_utf8_lossy(&bytes[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    let mut shown = String::new();
    let mut until = |text: &str| {
        let end = loop {
            if let Some(at) = shown.find(text) {
                break at + text.len();
            }
            shown.push_str(
                &told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {text:?} in {shown:?}")),
            );
        };
        // What came in the same piece is for the next.
        shown.drain(..end);
    };
    until("\x1b[?1049h");
    until("orders");
    server.run(&["produce", "orders", "one"]).ok();
    server.run(&["lease", "take", "orders", "billing", "-o", "ndjson"]).ok();
    until("in flight 1");
    // Ctrl-C, as a person types it.
    std::io::Write::write_all(script.stdin.as_mut().unwrap(), b"\x03").unwrap();
    until("\x1b[?1049l");
    script.wait().unwrap();
}
