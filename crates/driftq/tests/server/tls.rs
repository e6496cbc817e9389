//! TLS on the real binary: a certificate of an own authority, replaced while requests are under way.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use driftq_client::Client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::command::{run, run_with};
use crate::compat::TIMEOUT;
use crate::support::{Server, driftq};

/// An authority and what it signed, in a directory.
pub(crate) struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let made = Self { directory: tempfile::tempdir().unwrap() };
        made.install(&made.authority("first"));
        made
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// An authority, and a file of this name to trust it by.
    pub(crate) fn authority(&self, name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(self.path(name), authority.pem()).unwrap();
        authority
    }

    /// The server's files anew, one after the other.
    pub(crate) fn install(&self, authority: &CertifiedIssuer<'static, KeyPair>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, authority).unwrap();
        fs::write(self.path("cert.pem"), certificate.pem()).unwrap();
        fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
    }

    pub(crate) fn tls_arguments(&self) -> [String; 2] {
        let option = |flag: &str, name: &str| format!("--{flag}={}", self.path(name).display());
        [option("tls-cert", "cert.pem"), option("tls-key", "key.pem")]
    }

    fn arguments(&self) -> [String; 3] {
        let [certificate, key] = self.tls_arguments();
        ["--ephemeral".to_owned(), certificate, key]
    }

    /// How another server than ours begins TLS with these files.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let chain = vec![CertificateDer::from_pem_file(self.path("cert.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(self.path("key.pem")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()))
    }

    pub(crate) fn serve(&self, more: &[&str]) -> Server {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Server::start(&self.path("data"), &arguments)
    }
}

/// How a client begins TLS that trusts the authorities in this file alone.
pub(crate) fn connector(trust: &Path) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(trust).unwrap() {
        roots.add(authority.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn client(server: &Server, authority: &Path) -> Client {
    Client::builder().url(server.url()).ca_file(authority).build().unwrap()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn is_answered(server: &Server, authority: &Path) -> bool {
    client(server, authority).get::<serde_json::Value>("/v2/healthz").await.is_ok()
}

#[test]
fn clients_that_trust_the_authority_are_served_and_others_are_told() {
    let certificates = Certificates::new();
    let server = certificates.serve(&[]);
    assert!(server.url().starts_with("https://"), "{}", server.banner);
    assert!(runtime().block_on(is_answered(&server, &certificates.path("first"))));
    let trust = certificates.path("first");
    let variables = [("SSL_CERT_FILE", trust.to_str().unwrap()), ("DRIFTQ_SERVER", &*server.url())];
    run_with(&variables, &["topic", "create", "parcels"]).ok();
    run_with(&variables, &["produce", "parcels", "ring twice"]).ok();
    assert!(run_with(&variables, &["topic", "list"]).ok().stdout.contains("parcels"));
    assert!(server.run(&["topic", "list"]).stderr.contains("SSL_CERT_FILE"));
    let plain = format!("http://{}", server.address);
    let ran = run_with(&[("DRIFTQ_SERVER", &plain)], &["topic", "list"]);
    assert!(ran.code != 0 && ran.stderr.contains("https"), "{}", ran.stderr);
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn a_certificate_is_replaced_under_load_without_a_failed_request() {
    let certificates = Certificates::new();
    let server = certificates.serve(&[]);
    let next = certificates.authority("second");
    let (first, second) = (certificates.path("first"), certificates.path("second"));
    // Trusts what is before and what comes after, as one who rolls authorities over does.
    let both = certificates.path("both");
    fs::write(&both, [fs::read(&first).unwrap(), fs::read(&second).unwrap()].concat()).unwrap();
    let answered = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let ended = Arc::new(AtomicBool::new(false));
    runtime().block_on(async {
        assert!(is_answered(&server, &first).await);
        // One on a connection that stays, and one that makes a new connection every time.
        let loads: Vec<_> = [true, false]
            .into_iter()
            .zip(&answered)
            .map(|(stays, answered)| {
                let (answered, ended) = (Arc::clone(answered), Arc::clone(&ended));
                let fresh = {
                    let (url, both) = (server.url(), both.clone());
                    move || Client::builder().url(&*url).ca_file(&both).build().unwrap()
                };
                tokio::spawn(async move {
                    let mut client = fresh();
                    while !ended.load(Ordering::SeqCst) {
                        client
                            .get::<serde_json::Value>("/v2/healthz")
                            .await
                            .expect("every request is answered");
                        answered.fetch_add(1, Ordering::SeqCst);
                        if !stays {
                            client = fresh();
                        }
                    }
                })
            })
            .collect();
        certificates.install(&next);
        server.signal("HUP");
        let deadline = Instant::now() + TIMEOUT;
        while !is_answered(&server, &second).await {
            assert!(Instant::now() < deadline, "the new certificate is not shown");
        }
        assert!(!is_answered(&server, &first).await, "the old one is gone");
        for (load, answered) in loads.iter().zip(&answered) {
            let before = answered.load(Ordering::SeqCst);
            while answered.load(Ordering::SeqCst) < before + 10 {
                assert!(Instant::now() < deadline && !load.is_finished(), "the load goes on");
                tokio::task::yield_now().await;
            }
        }
        ended.store(true, Ordering::SeqCst);
        for load in loads {
            load.await.unwrap();
        }
    });
}

#[test]
fn a_handshake_has_the_time_of_a_head() {
    let certificates = Certificates::new();
    let server = certificates.serve(&["--head-timeout-ms=200"]);
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(TIMEOUT)).unwrap();
    silent.write_all(&[0x16, 0x03]).unwrap();
    let begun = Instant::now();
    assert_eq!(silent.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed without a word");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn files_that_are_no_certificate_are_named() {
    let certificates = Certificates::new();
    let other = Certificates::new();
    let path = |name: &str| certificates.path(name).display().to_string();
    let (cert, key, stranger) =
        (path("cert.pem"), path("key.pem"), other.path("key.pem").display().to_string());
    fs::write(certificates.path("text"), "hello").unwrap();
    let (text, absent) = (path("text"), path("absent"));
    for (arguments, words) in [
        (vec!["--tls-cert", &cert], "--tls-key"),
        (vec!["--tls-key", &key], "--tls-cert"),
        (vec!["--tls-cert", &absent, "--tls-key", &key], "no such file"),
        (vec!["--tls-cert", &cert, "--tls-key", &absent], "no such file"),
        (vec!["--tls-cert", &text, "--tls-key", &key], "BEGIN CERTIFICATE"),
        (vec!["--tls-cert", &cert, "--tls-key", &text], "BEGIN PRIVATE KEY"),
        (vec!["--tls-cert", &cert, "--tls-key", &stranger], "is not that of"),
    ] {
        let ran = run(&[&["config", "check"], &*arguments].concat()).code(9);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
        let named =
            arguments.iter().filter(|word| word.starts_with('/')).any(|file| ran.stderr.contains(file));
        assert!(named || arguments.len() == 2, "{arguments:?}: {}", ran.stderr);
    }
    let permit = |mode: &str| {
        let status = std::process::Command::new("chmod").args([mode, &key]).status().unwrap();
        assert!(status.success());
        run(&["config", "check", "--tls-cert", &cert, "--tls-key", &key]).ok().stderr
    };
    assert!(permit("644").contains("chmod 600"));
    assert!(!permit("600").contains("chmod 600"));
}

#[test]
fn a_broken_new_certificate_is_told_in_the_log() {
    let certificates = Certificates::new();
    let arguments = certificates.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = driftq();
    command.stderr(Stdio::piped());
    let mut server = Server::start_by(command, &certificates.path("data"), &arguments);
    let mut log = std::io::BufReader::new(server.take_log());
    assert!(runtime().block_on(is_answered(&server, &certificates.path("first"))));
    fs::write(certificates.path("cert.pem"), "no PEM").unwrap();
    server.signal("HUP");
    let mut line = String::new();
    while !line.contains("the certificate in use stays") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut log, &mut line).unwrap() > 0, "the log ended");
    }
    assert!(line.contains("cert.pem"), "{line}");
    assert!(runtime().block_on(is_answered(&server, &certificates.path("first"))));
}

#[test]
fn certificates_to_try_with_are_made_once_and_work() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("tls");
    let arguments = ["tls", "dev", "--out", out.to_str().unwrap(), "--name", "broker.lan"];
    let ran = run(&arguments).ok();
    assert!(ran.stdout.contains("--tls-cert") && ran.stdout.contains("--ca-file"), "{}", ran.stdout);
    let path = |name: &str| out.join(name);
    assert_eq!(fs::metadata(path("key.pem")).unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::read(path("key.pem")).unwrap();
    assert!(run(&arguments).code(2).stderr.contains("not overwritten"));
    assert_eq!(fs::read(path("key.pem")).unwrap(), before);
    let option = |flag: &str, name: &str| format!("--{flag}={}", path(name).display());
    let (cert, key) = (option("tls-cert", "cert.pem"), option("tls-key", "key.pem"));
    let server = Server::start(&directory.path().join("data"), &["--ephemeral", &cert, &key]);
    assert!(runtime().block_on(is_answered(&server, &path("ca.pem"))));
}
