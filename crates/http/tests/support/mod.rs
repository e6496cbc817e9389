//! Servers on loopback: plain ones that follow a script, and ones that speak TLS.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use driftq_http::Options;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Long enough that only a server which never answers runs into it.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);

pub(crate) const OPTIONS: Options = Options::new(1024);

/// Somebody whose signature may be trusted.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: NamedTempFile,
}

fn written(pem: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(pem.as_bytes()).expect("it is written");
    file
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let file = written(&issuer.pem());
        Self { issuer, file }
    }

    /// Options that trust it.
    pub(crate) fn trusted(&self) -> Options {
        Options { ca_file: Some(self.file.path().to_owned()), ..OPTIONS }
    }
}

/// A certificate that signs itself, as a file to trust.
pub(crate) struct Itself(NamedTempFile);

impl Itself {
    pub(crate) fn trusted(&self) -> Options {
        Options { ca_file: Some(self.0.path().to_owned()), ..OPTIONS }
    }
}

pub(crate) async fn self_signed_server(name: &str) -> (Itself, u16) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let file = written(&made.cert.pem());
    (Itself(file), secure(made.cert.der().clone(), &made.signing_key).await)
}

/// A server with a certificate for this name.
pub(crate) async fn tls_server(authority: &Authority, name: &str) -> u16 {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new([name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &authority.issuer).expect("a certificate");
    secure(certificate.der().clone(), &key).await
}

async fn secure(certificate: CertificateDer<'static>, key: &KeyPair) -> u16 {
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they fit");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // Who does not trust it says so and leaves, which is its test's business.
                if let Ok(socket) = acceptor.accept(socket).await {
                    serve(socket, &mut |_| Some(answer("hello"))).await;
                }
            });
        }
    });
    port
}

/// A server that answers each request by the script, told how many came before on all connections; none closes the
/// connection without an answer.
pub(crate) async fn plain_server(script: impl Fn(usize) -> Option<String> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let (script, count) = (Arc::new(script), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (script, count) = (script.clone(), count.clone());
            tokio::spawn(async move {
                let mut next = |_| script(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
                serve(socket, &mut next).await;
            });
        }
    });
    port
}

pub(crate) fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn serve(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    next: &mut (impl FnMut(usize) -> Option<String> + Send),
) {
    let mut head = Vec::new();
    loop {
        let mut bytes = [0; 1024];
        match socket.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(count) => head.extend_from_slice(&bytes[..count]),
        }
        // Bytes that are no HTTP, such as those of TLS, are answered as well, as servers do.
        if !head.ends_with(b"\r\n\r\n") && head.first() != Some(&0x16) {
            continue;
        }
        head.clear();
        let Some(answer) = next(0) else { return };
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
