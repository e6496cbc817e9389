//! HTTP by hand for the compatibility tests: what counts here is which bytes come, in which pieces, and when.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Server;

/// An answer that takes longer is none.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A server of one test, and its data.
pub(crate) struct Broker {
    pub(crate) server: Server,
    pub(crate) data: tempfile::TempDir,
}

impl Broker {
    /// In memory, which is all that most rows need.
    pub(crate) fn ephemeral(arguments: &[&str]) -> Self {
        Self::durable(&[&["--ephemeral"], arguments].concat())
    }

    pub(crate) fn durable(arguments: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        Self { server: Server::start(data.path(), arguments), data }
    }

    /// `kill -9`, then the next life on the same data.
    pub(crate) fn kill_and_restart(self, arguments: &[&str]) -> Self {
        let Self { server, data } = self;
        server.kill();
        Self { server: Server::start(data.path(), arguments), data }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// A connection and a topic, to begin with.
    pub(crate) fn client_with_topic(&self, topic: &str, partitions: u32) -> Client {
        let mut client = self.client();
        let answer = client.post(&format!("/v1/topics?name={topic}&partitions={partitions}"));
        assert_eq!(answer.status, 201, "{}", answer.text());
        client
    }

    pub(crate) fn stream(&self, query: &str) -> Stream {
        Stream::open(self.address(), query)
    }

    /// Asks until the answer is the expected one: the signal for whatever happens inside the broker on its own.
    pub(crate) fn wait_for(&self, path: &str, what: &str, is_there: impl Fn(&Value) -> bool) -> Value {
        let (mut client, deadline) = (self.client(), Instant::now() + TIMEOUT);
        loop {
            let answer = client.get(path);
            let value = answer.try_json().unwrap_or_default();
            if answer.status == 200 && is_there(&value) {
                return value;
            }
            assert!(Instant::now() < deadline, "{what} did not happen: {}", answer.text());
            std::thread::yield_now();
        }
    }
}

/// One keep-alive connection.
pub(crate) struct Client {
    pub(crate) socket: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { socket: BufReader::new(socket) }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.call("GET", path, &[], None)
    }

    /// Without a body.
    pub(crate) fn post(&mut self, path: &str) -> Reply {
        self.call("POST", path, &[], None)
    }

    pub(crate) fn post_json(&mut self, path: &str, body: &Value) -> Reply {
        self.call("POST", path, &[("content-type", "application/json")], Some(body.to_string().as_bytes()))
    }

    pub(crate) fn put_json(&mut self, path: &str, body: &Value) -> Reply {
        self.call("PUT", path, &[("content-type", "application/json")], Some(body.to_string().as_bytes()))
    }

    pub(crate) fn post_text(&mut self, path: &str, body: &str) -> Reply {
        self.call("POST", path, &[], Some(body.as_bytes()))
    }

    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Reply {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.send(bytes);
        self.reply_to(method)
    }

    /// Produces a plain message, which must succeed.
    pub(crate) fn produce(&mut self, topic: &str, key: &str, value: &str) {
        let answer =
            self.post_json("/v1/produce", &serde_json::json!({"topic": topic, "key": key, "value": value}));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.reply_to("GET")
    }

    fn reply_to(&mut self, method: &str) -> Reply {
        let (status, headers) = self.head();
        let mut reply = Reply { status, headers, body: Vec::new() };
        if method == "HEAD" || matches!(status, 100 | 204) {
            return reply;
        }
        let length = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        reply.body = vec![0; length];
        self.socket.read_exact(&mut reply.body).unwrap();
        reply
    }

    fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let status = self.line();
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return (code.unwrap_or_else(|| panic!("no status in {status:?}")), headers);
            }
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.socket.read_line(&mut line).unwrap() > 0, "the connection ended");
        assert!(line.ends_with("\r\n"), "{line:?}");
        line.truncate(line.len() - 2);
        line
    }

    /// Whether the server closes the connection now, without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.socket.read(&mut [0; 1]), Ok(0))
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }

    pub(crate) fn json(&self) -> Value {
        self.try_json().unwrap_or_else(|| panic!("no JSON: {}", self.text()))
    }

    pub(crate) fn try_json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Checks that it is a `/v1` error, word by word.
    #[track_caller]
    pub(crate) fn assert_error(&self, status: u16, code: &str, message: &str) {
        self.assert_error_part(status, code, message);
        assert_eq!(self.json()["message"], message, "{}", self.text());
    }

    /// The same, of which only a part of the message is known.
    #[track_caller]
    pub(crate) fn assert_error_part(&self, status: u16, code: &str, part: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json; charset=utf-8"));
        let body = self.json();
        assert_eq!(body["error"], code, "{body}");
        assert!(body["message"].as_str().unwrap().contains(part), "{body} has no {part:?}");
        let fields: Vec<_> = body.as_object().unwrap().keys().collect();
        let expected: &[&str] = if status == 429 {
            &["error", "message", "reason", "retry_after_ms"]
        } else {
            &["error", "message"]
        };
        assert_eq!(fields, expected, "{body}");
    }
}

/// A consume stream, chunk by chunk.
pub(crate) struct Stream {
    pub(crate) client: Client,
    pub(crate) headers: Vec<(String, String)>,
    /// What has come behind the last line: a server that passes a stream on cuts it as it comes.
    rest: String,
}

impl Stream {
    /// Opens it and waits for the headers.
    pub(crate) fn open(address: SocketAddr, query: &str) -> Self {
        let mut client = Client::connect(address);
        client.send(format!("GET /v1/consume?{query} HTTP/1.1\r\nhost: test\r\n\r\n"));
        Self::opened(client)
    }

    /// The stream whose request was sent on this connection.
    pub(crate) fn opened(mut client: Client) -> Self {
        let (status, headers) = client.head();
        assert_eq!(status, 200);
        Self { client, headers, rest: String::new() }
    }

    /// The next chunk; `None` when the stream ends as it should.
    pub(crate) fn chunk(&mut self) -> Option<String> {
        let size = usize::from_str_radix(&self.client.line(), 16).unwrap();
        let mut bytes = vec![0; size + 2];
        self.client.socket.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes[size..], b"\r\n");
        bytes.truncate(size);
        (size > 0).then(|| String::from_utf8(bytes).unwrap())
    }

    /// The next message as it came; heartbeats are passed over.
    pub(crate) fn line(&mut self) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            while let Some(end) = self.rest.find('\n') {
                let line: String = self.rest.drain(..=end).collect();
                if line != "\n" {
                    return line;
                }
            }
            assert!(Instant::now() < deadline, "nothing but heartbeats came");
            let chunk = self.chunk().expect("the stream goes on");
            self.rest.push_str(&chunk);
        }
    }

    pub(crate) fn item(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Whether nothing but heartbeats comes for this long.
    pub(crate) fn is_silent_for(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            self.client.socket.get_ref().set_read_timeout(Some(left)).unwrap();
            let pending = self.client.socket.fill_buf().map(<[u8]>::len);
            self.client.socket.get_ref().set_read_timeout(Some(TIMEOUT)).unwrap();
            match pending {
                Ok(0) => panic!("the stream ended"),
                Ok(_) if self.chunk().as_deref() == Some("\n") => {}
                Ok(_) => return false,
                Err(_) => return true,
            }
        }
    }
}

/// The address of an item, as a query.
pub(crate) fn address_of(item: &Value) -> String {
    format!("partition={}&offset={}", item["partition"], item["offset"])
}
