//! A server with TLS and keys under load, whose certificate is replaced and one of whose keys is revoked meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use driftq_client::{Client, Code, Error, json};
use serde_json::{Value, json as value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

use crate::command::run;
use crate::compat::TIMEOUT;
use crate::support::Server;
use crate::tls::{Certificates, connector, runtime};

/// Clients of the key that stays; every other one makes a connection for each request.
const CLIENTS: usize = 8;
/// Requests that each of them gets answered between one event and the next.
const REQUESTS_BETWEEN: usize = 10;
/// Requests of the key that is gone, after it is gone.
const REFUSED_MIN: usize = 20;
/// What has not ended by then hangs.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A server, and whom to trust before its certificate is replaced and afterwards.
struct World {
    certificates: Certificates,
    server: Server,
    trust: PathBuf,
    root: String,
}

impl World {
    fn start() -> Self {
        let certificates = Certificates::new();
        let data = certificates.path("root").display().to_string();
        let made = run(&["key", "create", "--root", "-o", "json", "--data", &data]).ok().json();
        let root = made["secret"].as_str().unwrap().to_owned();
        let file = certificates.path("root.key");
        fs::write(&file, &root).unwrap();
        let trust = certificates.path("both");
        let file = format!("--root-key-file={}", file.display());
        let server = certificates.serve(&["--keys=required", &file]);
        Self { certificates, server, trust, root }
    }

    /// Gives up at the first failure.
    fn client(&self, key: &str) -> Client {
        client(&self.server.url(), &self.trust, key)
    }

    /// A connection of its own, and the certificate that it was shown.
    async fn connect(&self) -> (TlsStream<TcpStream>, CertificateDer<'static>) {
        let connector = connector(&self.trust);
        let tcp = TcpStream::connect(self.server.address).await.unwrap();
        let stream = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), tcp).await.unwrap();
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        (stream, shown)
    }

    /// What the server's file holds.
    fn installed(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.certificates.path("cert.pem")).unwrap()
    }

    /// Sends a request that is not answered to its end soon; what comes until then, and when that was.
    async fn wait(&self, request: String) -> JoinHandle<(String, Instant)> {
        let (mut stream, _) = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        tokio::spawn(async move {
            let mut came = Vec::new();
            // A connection that just goes away ends it as well.
            let _ = stream.read_to_end(&mut came).await;
            (String::from_utf8(came).unwrap(), Instant::now())
        })
    }
}

fn client(url: &str, trust: &Path, key: &str) -> Client {
    Client::builder().url(url).ca_file(trust).key(key).patience(Duration::ZERO).build().unwrap()
}

/// A client that produces without pause until it is told to end.
struct Load {
    answered: Arc<AtomicUsize>,
    task: JoinHandle<Result<(), Error>>,
}

impl Load {
    fn start(world: &World, key: &str, stays: bool, is_over: &Arc<AtomicBool>) -> Self {
        let (url, trust, key) = (world.server.url(), world.trust.clone(), key.to_owned());
        let (answered, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::clone(is_over));
        let count = Arc::clone(&answered);
        let task = tokio::spawn(async move {
            let mut own = client(&url, &trust, &key);
            while !is_over.load(Ordering::SeqCst) {
                own.produce("orders", json(&"a")).await?;
                count.fetch_add(1, Ordering::SeqCst);
                if !stays {
                    own = client(&url, &trust, &key);
                }
            }
            Ok(())
        });
        Self { answered, task }
    }
}

/// Waits until each of them has had some more answers.
async fn go_on(loads: &[Load], when: &str) {
    let deadline = Instant::now() + TIMEOUT;
    for load in loads {
        let before = load.answered.load(Ordering::SeqCst);
        while load.answered.load(Ordering::SeqCst) < before + REQUESTS_BETWEEN {
            assert!(!load.task.is_finished(), "a request failed {when}");
            assert!(Instant::now() < deadline, "the load does not go on {when}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A request of the key that is revoked: when it was begun, when it was answered, and what with.
struct Tried {
    begun: Instant,
    ended: Instant,
    outcome: Result<(), Error>,
}

/// Produces until it is told to end, whatever is answered; the second part counts refusals.
fn try_on(world: &World, key: &str, is_over: &Arc<AtomicBool>) -> (JoinHandle<Vec<Tried>>, Arc<AtomicUsize>) {
    let (own, is_over) = (world.client(key), Arc::clone(is_over));
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    let task = tokio::spawn(async move {
        let mut all = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            let begun = Instant::now();
            let outcome = own.produce("orders", json(&"b")).await.map(drop);
            count.fetch_add(usize::from(outcome.is_err()), Ordering::SeqCst);
            all.push(Tried { begun, ended: Instant::now(), outcome });
        }
        all
    });
    (task, refused)
}

#[test]
fn certificates_are_replaced_and_a_key_is_revoked_under_load() {
    let world = World::start();
    let next = world.certificates.authority("second");
    let both = ["first", "second"].map(|name| fs::read(world.certificates.path(name)).unwrap());
    fs::write(&world.trust, both.concat()).unwrap();
    runtime().block_on(async {
        let root = world.client(&world.root);
        let mut keys = Vec::new();
        for topic in ["orders", "mail"] {
            root.create_topic(topic, &Default::default()).await.unwrap();
            let made: Value =
                root.post("/v2/keys", &value!({"actions": ["produce", "consume"]})).await.unwrap();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            keys.push((text(&made["secret"]), text(&made["key"]["id"])));
        }
        let [(stays, _), (goes, goes_id)] = &keys[..] else { panic!("two keys") };

        let is_over = Arc::new(AtomicBool::new(false));
        let loads: Vec<Load> =
            (0..CLIENTS).map(|place| Load::start(&world, stays, place % 2 == 0, &is_over)).collect();
        let (trying, refused) = try_on(&world, goes, &is_over);
        let shown = format!("host: x\r\nauthorization: Bearer {goes}\r\nconnection: close\r\n");
        let stream = format!("GET /v1/consume?topic=mail&group=stream&owner=o HTTP/1.1\r\n{shown}\r\n");
        let body = r#"{"owner":"o","wait_ms":60000}"#;
        let poll = format!(
            "POST /v2/topics/mail/groups/poll/lease HTTP/1.1\r\n{shown}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (stream, poll) = (world.wait(stream).await, world.wait(poll).await);
        for group in ["stream", "poll"] {
            let deadline = Instant::now() + TIMEOUT;
            // A wait is known to have begun when the group has its reader.
            while root.group("mail", group).await.is_err() {
                assert!(Instant::now() < deadline, "{group} does not begin");
            }
        }
        go_on(&loads, "at first").await;

        let before = world.connect().await.1;
        assert_eq!(before, world.installed());
        world.certificates.install(&next);
        world.server.signal("HUP");
        let deadline = Instant::now() + TIMEOUT;
        while world.connect().await.1 != world.installed() {
            assert!(Instant::now() < deadline, "the new certificate is not shown");
        }
        assert_ne!(before, world.installed());
        go_on(&loads, "with the new certificate").await;
        assert!(!stream.is_finished() && !poll.is_finished(), "what is open stays open");

        let asked = Instant::now();
        let ended: Value = root.delete(&format!("/v2/keys/{goes_id}")).await.unwrap();
        let answered = Instant::now();
        assert_eq!(ended["live"], false);
        let (stream, stream_ended) = timeout(ENDS_WITHIN, stream).await.expect("the stream ends").unwrap();
        let (poll, poll_ended) = timeout(ENDS_WITHIN, poll).await.expect("the poll ends").unwrap();
        assert!(stream.starts_with("HTTP/1.1 200 ") && stream.ends_with("0\r\n\r\n"), "{stream}");
        assert!(poll.starts_with("HTTP/1.1 401 "), "{poll}");
        let deadline = Instant::now() + TIMEOUT;
        // Some may have been refused before the answer came.
        let refused_then = refused.load(Ordering::SeqCst);
        while refused.load(Ordering::SeqCst) < refused_then + REFUSED_MIN {
            assert!(Instant::now() < deadline, "the key that is gone is not refused");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        go_on(&loads, "with one key less").await;

        is_over.store(true, Ordering::SeqCst);
        let mut sent = 0;
        for load in loads {
            load.task.await.unwrap().expect("no request of the key that stays fails");
            sent += load.answered.load(Ordering::SeqCst);
        }
        let tried = trying.await.unwrap();
        for Tried { begun, ended, outcome } in &tried {
            match outcome {
                Ok(()) => assert!(*begun < answered, "let in {:?} after the answer", *begun - answered),
                Err(error) => {
                    assert_eq!(error.code(), Some(Code::Unauthenticated), "{error}");
                    assert!(*ended > asked, "refused before it was revoked");
                }
            }
        }
        let millis = |at: Instant| at.saturating_duration_since(answered).as_millis();
        println!(
            "{sent} requests of the key that stays; {} of the other, {} of them refused; revoked in {} ms, after the answer the stream ended in {} ms and the poll in {} ms",
            tried.len(),
            tried.iter().filter(|tried| tried.outcome.is_err()).count(),
            (answered - asked).as_millis(),
            millis(stream_ended),
            millis(poll_ended),
        );
    });
}
