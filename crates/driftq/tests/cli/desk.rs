//! A server for one test, and what its commands say.

use crate::command::Ran;
use crate::support::Server;

pub(crate) fn server() -> (tempfile::TempDir, Server) {
    server_with(&[])
}

/// Its segments are small, so that a thousand of these tests do not fill the disk.
pub(crate) fn server_with(flags: &[&str]) -> (tempfile::TempDir, Server) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data.path().join("data"), &[&["--segment-bytes=1MiB"][..], flags].concat());
    (data, server)
}

/// It ended with this code, and this among its words.
#[track_caller]
pub(crate) fn says(ran: Ran, code: i32, text: &str) {
    let ran = ran.code(code);
    assert!(ran.stderr.contains(text), "{}", ran.stderr);
}
