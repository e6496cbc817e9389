//! A little HTTP server on loopback that does what a test tells it, the impossible included.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers with this status, these header lines and this body.
    Answer(u16, &'static str, String),
    /// Answers, and closes the connection without having said so.
    AnswerAndClose(String),
    /// Labels each message with its key and says that it takes this many at once.
    Label(usize),
    /// The same, with more in each decision.
    Decide(usize, Value),
    /// Answers with this, once a permit is there.
    AnswerAfter(Arc<Semaphore>, String),
    /// Reads the request and never answers.
    Hang,
    /// Reads the request and closes the connection.
    Close,
    /// Promises more than it sends, then closes.
    Half,
    /// Sends a head without end.
    FloodHead,
    /// Sends a body without end.
    FloodBody,
    /// Announces a body larger than any memory, and sends some of it.
    Announce,
    /// Sends something that is not HTTP.
    Garbage,
    /// Something else every few requests: mostly good, then in turn all that is bad.
    Fickle,
    /// Begins an answer and goes on a byte at a time, when nobody else has anything to do, for ever.
    Drip,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    act: Mutex<Act>,
    requests: Mutex<Vec<Value>>,
    connections: Mutex<Vec<JoinHandle<()>>>,
}

impl Server {
    pub(crate) async fn start(act: Act) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), act).await
    }

    pub(crate) async fn start_at(address: SocketAddr, act: Act) -> Self {
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let address = listener.local_addr().expect("the listener is bound");
        let shared = Arc::new(Shared {
            act: Mutex::new(act),
            requests: Mutex::default(),
            connections: Mutex::default(),
        });
        let task = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    let connection = tokio::spawn(Arc::clone(&shared).serve(socket));
                    shared.connections.lock().expect("not poisoned").push(connection);
                }
            }
        });
        Self { address, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/route", self.address)
    }

    pub(crate) fn act(&self, act: Act) {
        *self.shared.act.lock().expect("not poisoned") = act;
    }

    /// Bodies of all requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().expect("not poisoned").clone()
    }

    /// Connections that were ever accepted.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.lock().expect("not poisoned").len()
    }

    /// Dies with all its connections.
    pub(crate) async fn die(self) -> SocketAddr {
        self.task.abort();
        drop(self.task.await);
        let connections = std::mem::take(&mut *self.shared.connections.lock().expect("not poisoned"));
        for connection in connections {
            connection.abort();
            drop(connection.await);
        }
        self.address
    }

    /// Waits until all connections so far are over.
    pub(crate) async fn connections_ended(&self) {
        let connections = std::mem::take(&mut *self.shared.connections.lock().expect("not poisoned"));
        for connection in connections {
            connection.await.expect("a connection does not panic");
        }
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, mut socket: TcpStream) {
        while let Some(request) = read_request(&mut socket).await {
            let number = {
                let mut requests = self.requests.lock().expect("not poisoned");
                requests.push(request.clone());
                requests.len()
            };
            let act = match self.act.lock().expect("not poisoned").clone() {
                Act::Fickle => fickle(number),
                act => act,
            };
            if !perform(&mut socket, act, &request).await {
                return;
            }
        }
    }
}

/// What a fickle brain does with this request.
fn fickle(number: usize) -> Act {
    let bad = [Act::FloodBody, Act::Garbage, Act::Hang, Act::Close, Act::Half, Act::FloodHead];
    if number.is_multiple_of(4) { bad[number / 4 % bad.len()].clone() } else { Act::Label(1) }
}

/// Whether the connection goes on.
async fn perform(socket: &mut TcpStream, act: Act, request: &Value) -> bool {
    match act {
        Act::Answer(status, head, body) => answer(socket, status, head, &body).await,
        Act::AnswerAndClose(body) => {
            answer(socket, 200, "", &body).await;
            false
        }
        Act::Label(batch_max) => decide(socket, batch_max, &Value::Null, request).await,
        Act::Decide(batch_max, more) => decide(socket, batch_max, &more, request).await,
        Act::AnswerAfter(gate, body) => {
            gate.acquire().await.expect("the gate stays").forget();
            answer(socket, 200, "", &body).await
        }
        Act::Hang => wait_for_end(socket).await,
        Act::Close => false,
        Act::Half => {
            send(socket, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"label\":").await;
            false
        }
        Act::FloodHead => {
            flood(socket, b"HTTP/1.1 200 OK\r\n", b"X-Noise: aaaaaaaaaaaaaaaaaaaaaaaa\r\n").await
        }
        Act::FloodBody => {
            let chunk = [b"1000\r\n".to_vec(), vec![b' '; 0x1000], b"\r\n".to_vec()].concat();
            flood(socket, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &chunk).await
        }
        Act::Announce => {
            send(socket, b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999\r\n\r\n    ").await;
            wait_for_end(socket).await
        }
        Act::Fickle => unreachable!("it has become something else"),
        Act::Garbage => {
            send(socket, b"\x16\x03\x01 this is not the protocol you are looking for\r\n\r\n").await;
            wait_for_end(socket).await
        }
        Act::Drip => {
            send(socket, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await;
            while send(socket, b" ").await {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            false
        }
    }
}

/// Labels each message with its key, and says more if there is more to say.
async fn decide(socket: &mut TcpStream, batch_max: usize, more: &Value, request: &Value) -> bool {
    let decision = |message: &Value| {
        let mut decision = serde_json::json!({"label": message["key"]});
        for (name, value) in more.as_object().into_iter().flatten() {
            decision[name] = value.clone();
        }
        decision
    };
    let body = match request.get("messages").and_then(Value::as_array) {
        Some(messages) => {
            serde_json::json!({"decisions": messages.iter().map(decision).collect::<Vec<_>>()}).to_string()
        }
        None => decision(&request["message"]).to_string(),
    };
    answer(socket, 200, &format!("DriftQ-Batch-Max: {batch_max}\r\n"), &body).await
}

async fn answer(socket: &mut TcpStream, status: u16, head: &str, body: &str) -> bool {
    let text = format!("HTTP/1.1 {status} X\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
    send(socket, text.as_bytes()).await
}

async fn flood(socket: &mut TcpStream, head: &[u8], noise: &[u8]) -> bool {
    send(socket, head).await;
    while send(socket, noise).await {}
    false
}

async fn send(socket: &mut TcpStream, bytes: &[u8]) -> bool {
    socket.write_all(bytes).await.is_ok()
}

/// Nothing more is said until the other side has had enough.
async fn wait_for_end(socket: &mut TcpStream) -> bool {
    let mut buffer = [0; 1024];
    while matches!(socket.read(&mut buffer).await, Ok(count) if count > 0) {}
    false
}

/// The body of the next request; none at the end of the connection.
async fn read_request(socket: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let body_at = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..body_at]).to_lowercase();
    assert!(head.starts_with("post /route http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nhost: 127.0.0.1:"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let length: usize = length.trim().parse().expect("a number");
    while bytes.len() < body_at + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(serde_json::from_slice(&bytes[body_at..body_at + length]).expect("the question is JSON"))
}
