//! A collector of traces on loopback. It reads OTLP by the numbers of its fields, and shares no code with the server.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::compat::TIMEOUT;

/// A span as it came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) links: Vec<(String, String)>,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) failed: bool,
}

impl Span {
    pub(crate) fn millis(&self) -> u64 {
        (self.end - self.begin) / 1_000_000
    }

    pub(crate) fn says(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", |text| text)
    }
}

/// A field of a message: its number, and a number or bytes.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            return value;
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let size = match tag & 7 {
            0 => {
                fields.push((tag >> 3, Field::Number(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).unwrap(),
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (value, rest) = bytes.split_at(size);
        bytes = rest;
        let mut number = [0; 8];
        number[..size.min(8)].copy_from_slice(&value[..size.min(8)]);
        let is_fixed = tag & 7 != 2;
        let field = if is_fixed { Field::Number(u64::from_le_bytes(number)) } else { Field::Bytes(value) };
        fields.push((tag >> 3, field));
    }
    fields
}

/// The messages in a field.
fn inside(bytes: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(bytes).into_iter().filter_map(move |(found, field)| match field {
        Field::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn pair(bytes: &[u8]) -> (String, String) {
    let (key, value) = (inside(bytes, 1).next().unwrap(), inside(bytes, 2).next().unwrap());
    let value = match &fields(value)[0] {
        (1, Field::Bytes(bytes)) => text(bytes),
        (3, Field::Number(number)) => number.to_string(),
        (other, _) => panic!("a value of kind {other}"),
    };
    (text(key), value)
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span::default();
    for (number, field) in fields(bytes) {
        match (number, field) {
            (1, Field::Bytes(bytes)) => span.trace = hex(bytes),
            (2, Field::Bytes(bytes)) => span.id = hex(bytes),
            (4, Field::Bytes(bytes)) => span.parent = hex(bytes),
            (5, Field::Bytes(bytes)) => span.name = text(bytes),
            (6, Field::Number(kind)) => span.kind = kind,
            (7, Field::Number(begin)) => span.begin = begin,
            (8, Field::Number(end)) => span.end = end,
            (9, Field::Bytes(bytes)) => span.attributes.extend([pair(bytes)]),
            (13, Field::Bytes(bytes)) => {
                let part = |number| hex(inside(bytes, number).next().unwrap());
                span.links.push((part(1), part(2)));
            }
            (15, Field::Bytes(bytes)) => {
                span.failed = fields(bytes).iter().any(|field| matches!(field, (3, Field::Number(2))));
            }
            _ => {}
        }
    }
    span
}

/// The spans in the body of a call.
fn spans(body: &[u8]) -> Vec<Span> {
    let resources = inside(body, 1).collect::<Vec<_>>();
    for resource in &resources {
        let attributes: BTreeMap<_, _> = inside(inside(resource, 1).next().unwrap(), 1).map(pair).collect();
        assert_eq!(attributes["service.name"], "driftq");
    }
    let scopes = resources.into_iter().flat_map(|resource| inside(resource, 2));
    scopes.flat_map(|scope| inside(scope, 2).map(span).collect::<Vec<_>>()).collect()
}

/// A collector. Its thread ends with the test.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self { address: listener.local_addr().unwrap(), spans: Arc::default() };
        let spans = Arc::clone(&collector.spans);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let spans = Arc::clone(&spans);
                std::thread::spawn(move || serve(socket.unwrap(), &spans));
            }
        });
        collector
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far, once they are what was waited for.
    pub(crate) fn wait_for(&self, what: &str, is_there: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if is_there(&spans) {
                return spans;
            }
            assert!(Instant::now() < deadline, "{what} did not come: {spans:#?}");
            std::thread::yield_now();
        }
    }
}

/// Takes calls until the other end is gone.
fn serve(socket: TcpStream, spans: &Mutex<Vec<Span>>) {
    let mut socket = BufReader::new(socket);
    loop {
        let (mut length, mut line) = (0, String::new());
        if socket.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        assert!(line.starts_with("POST /v1/traces "), "{line}");
        let mut is_protobuf = false;
        while line.trim() != "" {
            line.clear();
            socket.read_line(&mut line).unwrap();
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            is_protobuf |= lower.trim() == "content-type: application/x-protobuf";
        }
        assert!(is_protobuf, "the body is to be protobuf");
        let mut body = vec![0; length];
        socket.read_exact(&mut body).unwrap();
        spans.lock().unwrap_or_else(PoisonError::into_inner).extend(self::spans(&body));
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        if socket.get_mut().write_all(answer).is_err() {
            return;
        }
    }
}
