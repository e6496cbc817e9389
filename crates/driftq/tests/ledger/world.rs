//! What tests of the ledger share: a server with its ledger, and a stand-in between them that loses answers.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use driftq_ledger::remote::RemoteStore;
use driftq_ledger::{Begin, Decision, Identity, Lease, Ledger, Record, RequestHash, Terms};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::support::Server;

/// What is waited for comes within this time, or never.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of one's own, with a folder that goes away with it.
pub(crate) fn server() -> (tempfile::TempDir, Server) {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(&data.path().join("data"), &["--segment-bytes=1MiB"]);
    (data, server)
}

pub(crate) fn ledger(url: &str) -> Ledger {
    Ledger::new(RemoteStore::new(url).expect("a good URL"))
}

pub(crate) fn identity(key: &str) -> Identity {
    Identity::new("ann", "pay", key).expect("a good identity")
}

pub(crate) fn hash() -> RequestHash {
    RequestHash::of_bytes(b"charge 5")
}

/// On terms that no test outlives.
pub(crate) fn begin(key: &str) -> Begin {
    Begin::new(identity(key), hash()).terms(Terms::default().lease(Duration::from_secs(3600)))
}

#[track_caller]
pub(crate) fn lease(decision: Decision) -> Lease {
    match decision {
        Decision::Execute(lease) => lease,
        other => panic!("not to be executed: {other:?}"),
    }
}

/// Looks again and again until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Looks at a record again and again until it is so.
pub(crate) async fn until_it(ledger: &Ledger, identity: &Identity, is_so: fn(Option<Record>) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so(ledger.get(identity).await.expect("the store answers")) {
        assert!(Instant::now() < deadline, "waited too long for {identity}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Passes requests on to a server, and loses as many answers as it is told to.
pub(crate) struct Relay {
    pub(crate) url: String,
    to_lose: Arc<AtomicUsize>,
    lost: Arc<AtomicUsize>,
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let (to_lose, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let relay = Self { url, to_lose: Arc::clone(&to_lose), lost: Arc::clone(&lost) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, Arc::clone(&to_lose), Arc::clone(&lost)));
            }
        });
        relay
    }

    /// The next so many answers are lost: the server has said yes, and nobody hears it.
    pub(crate) fn lose(&self, answers: usize) {
        self.to_lose.store(answers, SeqCst);
    }

    pub(crate) fn lost(&self) -> usize {
        self.lost.load(SeqCst)
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, to_lose: Arc<AtomicUsize>, lost: Arc<AtomicUsize>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => match read {
                Ok(bytes) if bytes > 0 && server.write_all(&asked[..bytes]).await.is_ok() => {}
                _ => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(bytes) if bytes > 0 => {
                    let is_lost = to_lose.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
                    if is_lost {
                        lost.fetch_add(1, SeqCst);
                        return;
                    }
                    if client.write_all(&answered[..bytes]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}

/// Answers every request with the same bytes and closes; with none, keeps silent and the connection open.
pub(crate) async fn parrot(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move {
        let mut silent = Vec::new();
        while let Ok((mut client, _)) = listener.accept().await {
            if answer.is_empty() {
                silent.push(client);
                continue;
            }
            tokio::spawn(async move {
                let mut asked = [0; 4096];
                // Whatever it asks, and however the connection ends.
                drop(client.read(&mut asked).await);
                drop(client.write_all(answer).await);
                drop(client.shutdown().await);
            });
        }
    });
    url
}

/// How many wait for somebody else's effect, by the server's own metrics.
pub(crate) async fn waiting_at(server: SocketAddr) -> u64 {
    let mut socket = TcpStream::connect(server).await.expect("the server listens");
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("the server reads");
    let mut text = String::new();
    socket.read_to_string(&mut text).await.expect("the server answers");
    let line = text.lines().find_map(|line| line.strip_prefix("driftq_effects_waiting "));
    line.expect("there is such a metric").parse().expect("a number")
}
