//! Receivers of a test's own, polite and otherwise.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// By when something must have come.
const WITHIN: Duration = Duration::from_secs(20);

/// A request, as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value)
    }
}

/// What a receiver does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These bytes, and then the connection is closed.
    Bytes(Vec<u8>),
    /// An answer that all is well, after some work.
    Busy(Duration),
    /// Nothing, and the connection stays open.
    Hang,
    /// A head whose bytes come one by one, and never end.
    Drip,
    /// A head, and a body whose bytes come one by one.
    DripBody,
    /// The connection is reset.
    Reset,
    /// A head, and more body than anyone wants.
    Endless,
}

/// An answer with a status.
pub(crate) fn status(status: u16) -> Reply {
    with(status, "")
}

/// An answer with a status and more headers, each with its line break.
pub(crate) fn with(status: u16, headers: &str) -> Reply {
    let text = format!("HTTP/1.1 {status} X\r\n{headers}content-length: 4\r\n\r\nbody");
    Reply::Bytes(text.into_bytes())
}

/// A receiver that remembers what came.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    count: watch::Receiver<usize>,
    poured: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// One on a free port. What it does depends on the request and on how many came before.
    pub(crate) async fn start(reply: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", reply).await
    }

    pub(crate) async fn start_at(
        address: &str,
        reply: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (received, (counted, count)) = (Arc::new(Mutex::new(Vec::new())), watch::channel(0));
        let (reply, book) = (Arc::new(reply), Arc::clone(&received));
        let poured: Arc<AtomicUsize> = Arc::default();
        let bytes = Arc::clone(&poured);
        let task = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (reply, book, counted) = (Arc::clone(&reply), Arc::clone(&book), counted.clone());
                let bytes = Arc::clone(&bytes);
                tokio::spawn(async move {
                    let Some(request) = read(&mut socket).await else { return };
                    let before = {
                        let mut book = book.lock().unwrap();
                        book.push(request.clone());
                        book.len() - 1
                    };
                    let reply = reply(&request, before);
                    counted.send_modify(|count| *count += 1);
                    answer(socket, reply, &bytes).await;
                });
            }
        });
        Self { address, received, count, poured, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// How many bytes of endless answers were taken from it.
    pub(crate) fn poured(&self) -> usize {
        self.poured.load(Ordering::Relaxed)
    }

    /// Waits until so many requests have come.
    pub(crate) async fn wait_for(&self, count: usize) {
        let mut counted = self.count.clone();
        let waited = timeout(WITHIN, counted.wait_for(|found| *found >= count)).await;
        assert!(waited.is_ok(), "{} of {count} requests came", self.received().len());
    }
}

/// Closes every connection as soon as it is there.
pub(crate) async fn closing() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    (address, task)
}

/// Reads one request with its body.
pub(crate) async fn read(socket: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if socket.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received { line, headers, body })
}

async fn answer(mut socket: TcpStream, reply: Reply, poured: &AtomicUsize) {
    match reply {
        Reply::Bytes(bytes) => {
            let _ = socket.write_all(&bytes).await;
            let _ = socket.shutdown().await;
        }
        Reply::Busy(work) => {
            tokio::time::sleep(work).await;
            let _ = socket.write_all(b"HTTP/1.1 204 X\r\n\r\n").await;
        }
        Reply::Hang => {
            let _ = socket.read(&mut [0]).await;
        }
        Reply::Drip => drip(socket, b"HTTP/1.1 200 OK\r\nx-slow: ").await,
        Reply::DripBody => drip(socket, b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await,
        Reply::Reset => socket.set_zero_linger().unwrap(),
        Reply::Endless => {
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n").await;
            pour(socket, poured).await;
        }
    }
}

/// One byte after the other, until the other side has enough.
async fn drip(mut socket: TcpStream, head: &[u8]) {
    let _ = socket.write_all(head).await;
    while socket.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// As much as the other side takes.
async fn pour(mut socket: TcpStream, poured: &AtomicUsize) {
    let chunk = vec![b'x'; 1 << 16];
    while socket.write_all(&chunk).await.is_ok() {
        poured.fetch_add(chunk.len(), Ordering::Relaxed);
    }
}
