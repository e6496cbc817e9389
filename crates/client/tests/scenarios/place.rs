//! A server of a scenario's own, and the way to it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use driftq_client::testkit::Server;
use driftq_client::{Client, Failure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::support;

/// How the server is reached.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// By anybody, in the clear.
    Open,
    /// With TLS, and with a key that allows what scenarios need.
    Secured,
}

/// A server, and how it is reached.
pub(crate) struct Place {
    server: Server,
    access: Option<Access>,
}

/// What opens a server with TLS and keys.
struct Access {
    folder: TempDir,
    key: String,
}

/// TLS on both sides of what stands in between.
pub(crate) struct Ends {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) connector: TlsConnector,
    pub(crate) name: ServerName<'static>,
}

impl Place {
    pub(crate) async fn start(mode: Mode) -> Result<Self, Failure> {
        match mode {
            Mode::Open => Ok(Self { server: support::server().await?, access: None }),
            Mode::Secured => Self::secured().await,
        }
    }

    /// Certificates, a root key and a key below it, made with the commands that an operator would use.
    async fn secured() -> Result<Self, Failure> {
        let folder = TempDir::new()?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        command(&["tls", "dev", "--out", &path("tls")]).await?;
        let made = command(&["key", "create", "--root", "-o", "json", "--data", &path("data")]).await?;
        let root = secret(&serde_json::from_str(&made)?)?;
        std::fs::write(path("root"), &root)?;
        std::fs::set_permissions(path("root"), std::fs::Permissions::from_mode(0o600))?;
        let launch = support::launch()
            .flag("--keys=required")
            .flag(format!("--root-key-file={}", path("root")))
            .flag(format!("--tls-cert={}", path("tls/cert.pem")))
            .flag(format!("--tls-key={}", path("tls/key.pem")));
        let server = launch.start().await?;
        let mut place = Self { server, access: Some(Access { folder, key: root }) };
        let actions = ["produce", "consume", "effects", "outputs", "read", "read_payload", "manage"];
        let made =
            place.client(&place.url())?.post::<Value>("/v2/keys", &json!({"actions": actions})).await?;
        if let Some(access) = &mut place.access {
            access.key = secret(&made)?;
        }
        Ok(place)
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// A client of the server, or of what stands before it.
    pub(crate) fn client(&self, url: &str) -> Result<Client, Failure> {
        let builder = Client::builder().url(url);
        let builder = match &self.access {
            Some(access) => builder.key(&access.key).ca_file(access.file("ca.pem")),
            None => builder,
        };
        Ok(builder.build()?)
    }

    /// For one who stands before the server: the server's own certificate, and trust in it.
    pub(crate) fn ends(&self) -> Option<Ends> {
        let access = self.access.as_ref()?;
        let certificate = |name: &str| CertificateDer::from_pem_file(access.file(name)).unwrap();
        let provider = Arc::new(ring::default_provider());
        let own = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate("cert.pem")],
                PrivateKeyDer::from_pem_file(access.file("key.pem")).unwrap(),
            );
        let mut roots = RootCertStore::empty();
        roots.add(certificate("ca.pem")).unwrap();
        let trust = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Some(Ends {
            acceptor: TlsAcceptor::from(Arc::new(own.unwrap())),
            connector: TlsConnector::from(Arc::new(trust)),
            name: ServerName::try_from("127.0.0.1").unwrap(),
        })
    }
}

impl Access {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("tls").join(name)
    }
}

/// What a command prints.
async fn command(arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(support::program()).args(arguments).output().await?;
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The whole key, from the answer that shows it once.
fn secret(made: &Value) -> Result<String, Failure> {
    made["secret"].as_str().map(str::to_owned).ok_or_else(|| Failure::new(format!("no key in {made}")))
}
