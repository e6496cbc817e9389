//! Clients that show a certificate act as the key that it stands for, on the real binary.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use driftq_testbed::Postgres;
use driftq_tls::tokio_rustls::rustls::crypto::ring;
use driftq_tls::tokio_rustls::rustls::pki_types::pem::PemObject as _;
use driftq_tls::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use driftq_tls::tokio_rustls::rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
};
use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, KeyPair, SanType, date_time_ymd};
use serde_json::{Value, json};

use crate::command::run;
use crate::compat::TIMEOUT;
use crate::support::{Server, driftq};
use crate::tls::Certificates;

type Authority = CertifiedIssuer<'static, KeyPair>;

/// A client's certificate with its key.
type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A server that asks for keys and for certificates of an authority of their own; `billing` may produce to `orders`.
struct World {
    certificates: Certificates,
    authority: Authority,
    server: Server,
    log: BufReader<std::process::ChildStderr>,
    root: String,
    /// The id of the key that `billing` stands for.
    id: String,
}

impl World {
    fn start() -> Self {
        let certificates = Certificates::new();
        let authority = certificates.authority("clients");
        let data = certificates.path("data");
        let made = run(&["key", "create", "--root", "-o", "json", "--data", data.to_str().unwrap()]).ok();
        let root = made.json()["secret"].as_str().unwrap().to_owned();
        let start = |more: &[String]| {
            let mut arguments = certificates.tls_arguments().to_vec();
            arguments.extend(["--keys=required".to_owned(), "--log-level=info".to_owned()]);
            arguments.extend_from_slice(more);
            let mut command = driftq();
            command.stderr(Stdio::piped());
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            Server::start_by(command, &data, &arguments)
        };
        // A key has an id once it is made.
        let before = start(&[]);
        let mut client = Http::open(before.address, &config(&certificates.path("first"), None)).unwrap();
        for topic in ["orders", "mail"] {
            assert_eq!(client.call(Some(&root), "PUT", &format!("/v2/topics/{topic}"), Some("{}")).0, 201);
        }
        let spec = json!({"actions": ["produce", "consume"], "topics": ["orders"], "note": "the shop"});
        let (status, made) = client.call(Some(&root), "POST", "/v2/keys", Some(&spec.to_string()));
        assert_eq!(status, 201, "{made}");
        let id = made["key"]["id"].as_str().unwrap().to_owned();
        before.kill();
        let mut server = start(&[
            format!("--tls-client-ca={}", certificates.path("clients").display()),
            format!("--tls-client=Billing={id}"),
            format!("--tls-client=spiffe://shop/stock=0123456789abcdef,later={id}"),
        ]);
        let log = BufReader::new(server.take_log());
        Self { certificates, authority, server, log, root, id }
    }

    fn config(&self, shown: Option<&Shown>) -> Arc<ClientConfig> {
        config(&self.certificates.path("first"), shown)
    }

    fn open(&self, shown: Option<&Shown>) -> Http {
        self.try_open(shown).expect("the handshake is done")
    }

    /// A connection on which a request was answered; what came in its place if it was refused.
    fn try_open(&self, shown: Option<&Shown>) -> Result<Http, String> {
        Http::open(self.server.address, &self.config(shown))
    }

    fn revoke(&self) {
        let path = format!("/v2/keys/{}", self.id);
        let (status, ended) = self.open(None).call(Some(&self.root), "DELETE", &path, None);
        assert_eq!((status, &ended["live"]), (200, &json!(false)));
    }

    /// Reads the log up to a line with these words.
    fn await_log(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended before {words:?}");
        }
        line
    }
}

fn params(name: SanType) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![name];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn signed(params: &CertificateParams, authority: &Authority) -> Shown {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

/// A certificate with a DNS name.
fn named(name: &str, authority: &Authority) -> Shown {
    signed(&params(SanType::DnsName(name.try_into().unwrap())), authority)
}

fn config(trusted: &Path, shown: Option<&Shown>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match shown {
        Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap(),
        None => builder.with_no_client_auth(),
    })
}

/// One connection that is kept.
struct Http {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

impl Http {
    /// With an answer: a server refuses a certificate after the client thinks that all is done.
    fn open(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<Self, String> {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let name = "localhost".try_into().unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut opened = Self { stream: BufReader::new(StreamOwned::new(connection, socket)) };
        let asked = opened.try_call(&[], "GET", "/v2/healthz", None);
        asked.map_err(|error| error.to_string()).map(|_| opened)
    }

    fn send(
        &mut self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: &str,
    ) -> std::io::Result<()> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            request
                .push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        let stream = self.stream.get_mut();
        stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
        stream.flush()
    }

    fn head(&mut self) -> std::io::Result<(u16, usize)> {
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if status == 0 {
                status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
            } else if line.is_empty() {
                return Ok((status, length));
            } else if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
    }

    fn try_call(
        &mut self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> std::io::Result<(u16, Value)> {
        self.send(headers, method, path, body.unwrap_or_default())?;
        let (status, length) = self.head()?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    fn call(&mut self, key: Option<&str>, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        let shown = key.map(|key| format!("Bearer {key}"));
        let headers: Vec<_> = shown.iter().map(|shown| ("authorization", shown.as_str())).collect();
        self.try_call(&headers, method, path, body).unwrap()
    }

    /// Without a key.
    fn produce(&mut self, topic: &str) -> (u16, Value) {
        self.call(None, "POST", &format!("/v2/topics/{topic}/messages"), Some(r#"{"value":"v"}"#))
    }
}

#[track_caller]
fn assert_unauthenticated((status, answer): &(u16, Value), words: &str) {
    assert_eq!((*status, &answer["code"]), (401, &json!("UNAUTHENTICATED")), "{answer}");
    assert!(answer.to_string().contains(words), "{answer} has no {words:?}");
}

#[test]
fn a_certificate_acts_as_its_key_and_no_more() {
    let mut world = World::start();
    let told = world.await_log("mapped to a key that is not known");
    assert!(told.contains("spiffe://shop/stock") && told.contains("0123456789abcdef"), "{told}");
    let mut billing = world.open(Some(&named("billing", &world.authority)));
    assert_eq!(billing.produce("orders").0, 201);
    let (status, refused) = billing.produce("mail");
    assert_eq!((status, &refused["code"]), (403, &json!("FORBIDDEN")), "{refused}");
    assert_eq!(billing.call(None, "GET", "/v2/keys", None).0, 403);
    // The audit knows it as the key.
    let root = Some(world.root.as_str());
    let (_, audit) = world.open(None).call(root, "GET", "/v2/audit", None);
    let entries = audit["entries"].as_array().unwrap_or_else(|| panic!("{audit}"));
    let entry = entries.iter().find(|entry| entry["action"] == "list_keys").unwrap();
    assert_eq!(entry["actor"], format!("key:{}", world.id), "{entry}");
    assert_eq!(entry["note"], "the shop");
    // What is in the header counts, for better and for worse.
    assert_eq!(billing.call(root, "GET", "/v2/keys", None).0, 200);
    assert_unauthenticated(&billing.call(Some("dq_1"), "GET", "/v2/topics/orders", None), "no key of DriftQ");
    // A browser shows its certificate for anybody's page.
    let foreign = billing.try_call(&[("sec-fetch-site", "cross-site")], "GET", "/v2/topics", None).unwrap();
    assert_eq!((foreign.0, &foreign.1["code"]), (403, &json!("FOREIGN_ORIGIN")));
    // Clients without a certificate are welcome, with a key.
    let mut bare = world.open(None);
    assert_eq!(bare.call(root, "GET", "/v2/keys", None).0, 200);
    assert_unauthenticated(&bare.produce("orders"), "shows no key");
}

#[test]
fn a_certificate_counts_on_every_server_of_a_cluster() {
    let database = Postgres::start().unwrap();
    let certificates = Certificates::new();
    let authority = certificates.authority("clients");
    let data = certificates.path("data");
    let made = run(&["key", "create", "--root", "-o", "json", "--data", data.to_str().unwrap()]).ok();
    let root = made.json()["secret"].as_str().unwrap().to_owned();
    fs::write(certificates.path("root"), &root).unwrap();
    let start = |more: &[String]| {
        let mut arguments = certificates.tls_arguments().to_vec();
        arguments.extend([
            "--keys=required".to_owned(),
            format!("--root-key-file={}", certificates.path("root").display()),
            format!("--log={}", database.url()),
            "--node-url=https://127.0.0.1:0".to_owned(),
        ]);
        arguments.extend_from_slice(more);
        let mut command = driftq();
        command.env("SSL_CERT_FILE", certificates.path("first"));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Server::start_by(command, Path::new("/nonexistent/driftq-data"), &arguments)
    };
    let open = |server: &Server, shown: Option<&Shown>| {
        Http::open(server.address, &config(&certificates.path("first"), shown))
            .expect("the handshake is done")
    };
    let before = start(&[]);
    assert_eq!(open(&before, None).call(Some(&root), "PUT", "/v2/topics/orders", Some("{}")).0, 201);
    let spec = json!({"actions": ["produce"], "topics": ["orders"]}).to_string();
    let (_, made) = open(&before, None).call(Some(&root), "POST", "/v2/keys", Some(&spec));
    let id = made["key"]["id"].as_str().unwrap().to_owned();
    before.kill();
    let mapped = [
        format!("--tls-client-ca={}", certificates.path("clients").display()),
        format!("--tls-client=billing={id}"),
    ];
    let nodes = [start(&mapped), start(&mapped)];
    // Waits until one serves, and until both know which.
    for node in &nodes {
        assert_eq!(open(node, None).call(Some(&root), "GET", "/v2/topics/orders", None).0, 200);
    }
    let billing = named("billing", &authority);
    for node in &nodes {
        assert_eq!(open(node, Some(&billing)).produce("orders").0, 201);
        assert_unauthenticated(&open(node, None).produce("orders"), "shows no key");
        let mail = named("mail", &authority);
        assert_unauthenticated(&open(node, Some(&mail)).produce("orders"), "stands for none");
    }
}

#[test]
fn a_certificate_that_stands_for_nothing_is_no_credential() {
    let world = World::start();
    let mut stranger = world.open(Some(&named("mail.example.com", &world.authority)));
    assert_unauthenticated(&stranger.produce("orders"), "--tls-client mail.example.com=KEY_ID");
    assert_eq!(stranger.call(Some(&world.root), "GET", "/v2/keys", None).0, 200);
    let nameless = params(SanType::IpAddress("192.0.2.7".parse().unwrap()));
    let mut nameless = world.open(Some(&signed(&nameless, &world.authority)));
    assert_unauthenticated(&nameless.produce("orders"), "has no name");
    // Mapped, to a key that nobody has made.
    let stock = params(SanType::URI("spiffe://shop/stock".try_into().unwrap()));
    let mut stock = world.open(Some(&signed(&stock, &world.authority)));
    assert_unauthenticated(&stock.produce("orders"), "spiffe://shop/stock");
    // The second name of a certificate is none of its names.
    let mut two = params(SanType::DnsName("mail".try_into().unwrap()));
    two.subject_alt_names.push(SanType::DnsName("billing".try_into().unwrap()));
    assert_unauthenticated(&world.open(Some(&signed(&two, &world.authority))).produce("orders"), "`mail`");
}

#[test]
fn a_key_that_ends_ends_on_connections_that_stay() {
    let world = World::start();
    let shown = named("billing", &world.authority);
    let (mut kept, mut stream, mut wait) =
        (world.open(Some(&shown)), world.open(Some(&shown)), world.open(Some(&shown)));
    assert_eq!(kept.produce("orders").0, 201);
    stream.send(&[], "GET", "/v1/consume?topic=orders&group=streams&owner=o", "").unwrap();
    assert_eq!(stream.head().unwrap().0, 200);
    let mut first = String::new();
    while !first.contains("\"value\"") {
        first.clear();
        assert!(stream.stream.read_line(&mut first).unwrap() > 0, "the message comes");
    }
    // The stream has the one message, so that the same group has to wait for another.
    wait.send(&[], "POST", "/v2/topics/orders/groups/streams/lease", r#"{"owner":"o","wait_ms":20000}"#)
        .unwrap();
    world.revoke();
    assert_eq!(wait.head().unwrap().0, 401);
    assert_unauthenticated(&kept.produce("orders"), "has ended");
    let mut rest = String::new();
    while rest.trim_end() != "0" {
        rest.clear();
        assert!(stream.stream.read_line(&mut rest).unwrap() > 0, "the stream ends as it should");
    }
    assert_unauthenticated(&world.open(Some(&shown)).produce("orders"), "`billing`");
}

#[test]
fn foreign_and_expired_certificates_fail_the_handshake_and_the_log_says_why() {
    let mut world = World::start();
    let foreign = named("billing", &world.certificates.authority("foreign"));
    assert!(world.try_open(Some(&foreign)).is_err());
    assert!(world.await_log("certificate of a client was refused").contains("UnknownIssuer"));
    let mut past = params(SanType::DnsName("billing".try_into().unwrap()));
    (past.not_before, past.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    assert!(world.try_open(Some(&signed(&past, &world.authority))).is_err());
    assert!(world.await_log("certificate of a client was refused").contains("expired"));
    // One that is for servers is not for clients.
    let mut other = params(SanType::DnsName("billing".try_into().unwrap()));
    other.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    assert!(world.try_open(Some(&signed(&other, &world.authority))).is_err());
    assert!(world.try_open(Some(&named("billing", &world.authority))).is_ok());
}

#[test]
fn every_connection_shows_its_certificate_anew() {
    let world = World::start();
    let config = world.config(Some(&named("billing", &world.authority)));
    for _ in 0..3 {
        let mut client = Http::open(world.server.address, &config).unwrap();
        assert_eq!(client.produce("orders").0, 201);
        assert_eq!(client.stream.get_ref().conn.handshake_kind(), Some(HandshakeKind::Full));
    }
}

#[test]
fn an_authority_that_is_replaced_counts_for_new_connections() {
    let mut world = World::start();
    let (old, path) = (named("billing", &world.authority), world.certificates.path("clients"));
    let mut kept = world.open(Some(&old));
    let next = world.certificates.authority("next");
    let new = named("billing", &next);
    assert!(world.try_open(Some(&new)).is_err());
    fs::write(&path, fs::read(world.certificates.path("next")).unwrap()).unwrap();
    world.server.signal("HUP");
    let deadline = Instant::now() + TIMEOUT;
    while world.try_open(Some(&new)).is_err() {
        assert!(Instant::now() < deadline, "the new authority does not count");
    }
    assert_eq!(world.open(Some(&new)).produce("orders").0, 201);
    assert!(world.try_open(Some(&old)).is_err(), "the old authority is gone");
    assert_eq!(kept.produce("orders").0, 201, "what is open stays");
    fs::write(&path, "no PEM").unwrap();
    world.server.signal("HUP");
    let line = world.await_log("the certificate in use stays");
    assert!(line.contains(path.to_str().unwrap()) && line.contains("client authority"), "{line}");
    assert_eq!(world.open(Some(&new)).produce("orders").0, 201);
}

#[test]
fn mistakes_are_named_with_the_option_and_the_next_step() {
    let certificates = Certificates::new();
    let path = |name: &str| certificates.path(name).display().to_string();
    let root = path("root");
    let made = run(&["key", "create", "--root", "-o", "json", "--data", &path("data")]).ok().json();
    fs::write(&root, made["secret"].as_str().unwrap()).unwrap();
    fs::write(certificates.path("text"), "hello").unwrap();
    let own = certificates.tls_arguments();
    let tls: Vec<&str> = own.iter().map(String::as_str).collect();
    let keys = ["--keys=required", "--root-key-file", &root];
    let guarded = [&*tls, &keys].concat();
    let (authority, text, absent) = (path("first"), path("text"), path("absent"));
    let map = "--tls-client=billing=5f0c2a91b3d4e687";
    let check = |arguments: &[&str]| run(&[&["config", "check"], arguments].concat());
    for (arguments, place, words) in [
        ([&*guarded, &["--tls-client-ca", &absent]].concat(), "--tls-client-ca", "no such file"),
        ([&*guarded, &["--tls-client-ca", &text]].concat(), "--tls-client-ca", "BEGIN CERTIFICATE"),
        ([&*guarded, &[map]].concat(), "--tls-client", "--tls-client-ca"),
        ([&keys[..], &["--tls-client-ca", &authority, map]].concat(), "--tls-client-ca", "--tls-cert"),
        ([&*tls, &["--tls-client-ca", &authority, map]].concat(), "--tls-client-ca", "--keys required"),
        (vec!["--tls-client=billing=root"], "--tls-client", "driftq key list"),
        (vec!["--tls-client=billing"], "--tls-client", "NAME=KEY_ID"),
        (vec!["--tls-client=a=5f0c2a91b3d4e687,A=0123456789abcdef"], "--tls-client", "two keys"),
    ] {
        let ran = check(&arguments).code(9);
        assert!(ran.stderr.contains(&format!("\n  {place}: ")), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
    let file = path("driftq.toml");
    let list = r#"tls_client = ["billing=5f0c2a91b3d4e687", "spiffe://shop/stock=0123456789abcdef"]"#;
    fs::write(&file, format!("{list}\ntls_client_ca = {authority:?}\n")).unwrap();
    let ran = check(&[&*guarded, &["--config", &file]].concat()).ok();
    assert!(
        ran.stdout.contains("billing=5f0c2a91b3d4e687,spiffe://shop/stock=0123456789abcdef"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_certificate_to_try_with_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("tls");
    let (path, data) = (|name: &str| out.join(name), directory.path().join("data"));
    let arguments = ["tls", "dev", "--out", out.to_str().unwrap(), "--client", "billing"];
    let ran = run(&arguments).ok();
    assert!(
        ran.stdout.contains("--tls-client billing=KEY_ID") && ran.stdout.contains("--cert"),
        "{}",
        ran.stdout
    );
    run(&["key", "create", "--root", "-o", "json", "--data", data.to_str().unwrap()]).ok();
    let option = |flag: &str, name: &str| format!("--{flag}={}", path(name).display());
    let (cert, key, ca) =
        (option("tls-cert", "cert.pem"), option("tls-key", "key.pem"), option("tls-client-ca", "ca.pem"));
    let server =
        Server::start(&data, &["--keys=required", &cert, &key, &ca, "--tls-client=billing=5f0c2a91b3d4e687"]);
    let read = |certificate: &str, key: &str| {
        let chain = CertificateDer::from_pem_file(path(certificate)).unwrap();
        (vec![chain], PrivateKeyDer::from_pem_file(path(key)).unwrap())
    };
    let shown = read("client.pem", "client-key.pem");
    let mut client = Http::open(server.address, &config(&path("ca.pem"), Some(&shown))).unwrap();
    assert_unauthenticated(&client.produce("orders"), "the certificate `billing` stands is not known");
    // The server's own certificate is of the same authority, and none of a client.
    let own = read("cert.pem", "key.pem");
    assert!(Http::open(server.address, &config(&path("ca.pem"), Some(&own))).is_err());
}
