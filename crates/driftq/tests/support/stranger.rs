//! Something that answers and is no DriftQ server.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Answers every request with this page, for as long as the test runs.
pub(crate) fn stranger(status: &'static str, content_type: &'static str, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            std::thread::spawn(move || while answered(&stream, &answer).is_some() {});
        }
    });
    address
}

/// Reads one request and answers it; none if there is no more.
fn answered(stream: &TcpStream, answer: &str) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    (&*stream).write_all(answer.as_bytes()).ok()
}
