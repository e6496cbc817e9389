//! The server's side: who it says it is, and whose certificates its clients may show. Both are read again when their
//! files change.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error, InconsistentKeys, RootCertStore, ServerConfig};

/// The one protocol that is spoken inside.
const ALPN: &[u8] = b"http/1.1";
/// Of a file's mode: readable by users who are neither its owner nor of its group.
const READABLE_BY_OTHERS: u32 = 0o004;

/// What the message about a file of authorities begins with.
const CLIENT_AUTHORITY: &str = "client authority";

/// Which file is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityFile {
    /// That of the server's certificate.
    Certificate,
    /// That of its private key.
    Key,
    /// That of the authorities of clients.
    ClientAuthority,
}

/// What is wrong with a file, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFlaw {
    /// The file.
    pub file: IdentityFile,
    /// In words that name it.
    pub why: String,
}

impl fmt::Display for IdentityFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for IdentityFlaw {}

impl IdentityFile {
    const fn flaw(self, why: String) -> IdentityFlaw {
        IdentityFlaw { file: self, why }
    }
}

/// A certificate with its key, perhaps the authority of the clients' certificates, and the files that all came from.
pub struct Identity {
    files: Files,
    /// How new connections begin.
    current: RwLock<TlsAcceptor>,
    /// What the files were like when they were last read, whether they were any good or not.
    seen: Mutex<Stamps>,
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// What tells that a file is another one: it cannot be had by reading, which would be done all the time.
type Stamp = Option<(SystemTime, u64, u64)>;
type Stamps = [Stamp; 3];

impl Identity {
    /// Reads the files. With a file of authorities, clients are asked for a certificate; they need not have one.
    ///
    /// # Errors
    /// If they are no certificate with its key, or no authority; the text names the file and what to do.
    pub fn load(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, IdentityFlaw> {
        let files = Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            client_ca: client_ca.map(Path::to_owned),
        };
        // Before they are read: what changes in between is read again.
        let seen = Mutex::new(files.stamps());
        let current = RwLock::new(files.acceptor()?);
        Ok(Self { files, current, seen })
    }

    /// Begins TLS with this identity as it is now, in versions 1.2 and 1.3.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again if they have changed since they were last read; says whether it did. Connections that are
    /// open stay as they are.
    ///
    /// # Errors
    /// If one of them is not what it should be any more; all that was read before stays.
    pub fn refresh(&self) -> Result<bool, IdentityFlaw> {
        let stamps = self.files.stamps();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == stamps {
            return Ok(false);
        }
        *seen = stamps;
        let fresh = self.files.acceptor()?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(true)
    }

    /// What is odd about the files and keeps nothing from working.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let path = &self.files.key;
        let mode = fs::metadata(path).ok()?.mode();
        (mode & READABLE_BY_OTHERS != 0).then(|| {
            let path = path.display();
            format!("every user of this machine may read the private key {path}; `chmod 600 {path}` keeps it to its owner")
        })
    }
}

impl Files {
    fn stamps(&self) -> Stamps {
        [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()].map(|path| {
            let metadata = fs::metadata(path?).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        })
    }

    fn acceptor(&self) -> Result<TlsAcceptor, IdentityFlaw> {
        let own = SingleCertAndKey::from(self.read()?);
        let clients = self.client_ca.as_deref().map(client_verifier).transpose();
        let clients = clients.map_err(|why| IdentityFile::ClientAuthority.flaw(why))?;
        let asks = clients.is_some();
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| IdentityFile::Certificate.flaw(format!("TLS: {error}")))?;
        let builder = match clients {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(own));
        config.alpn_protocols = vec![ALPN.to_vec()];
        if asks {
            // A session that is taken up again brings its certificate along, which nobody would look at any more.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn read(&self) -> Result<CertifiedKey, IdentityFlaw> {
        use IdentityFile::{Certificate, Key};
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let no_certificate = || {
            format!(
                "the certificate {certificate}: there is none in it; it must be PEM and have a line that reads \
                 -----BEGIN CERTIFICATE-----"
            )
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| {
                Certificate.flaw(flaw("certificate", &self.certificate, &error, no_certificate))
            })?;
        if chain.is_empty() {
            return Err(Certificate.flaw(no_certificate()));
        }
        let no_key = || {
            format!(
                "the private key {key}: there is none in it; it must be PEM, not encrypted, and have a line that \
                 reads -----BEGIN PRIVATE KEY-----"
            )
        };
        let private = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| Key.flaw(flaw("private key", &self.key, &error, no_key)))?;
        CertifiedKey::from_der(chain, private, &provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Key.flaw(format!(
                "the private key {key} is not that of the first certificate in {certificate}; name the two files \
                 that were made together, and put the server's own certificate first"
            )),
            Error::InvalidCertificate(error) => Certificate.flaw(format!(
                "the certificate {certificate} cannot be read ({error:?}); make or fetch it again"
            )),
            error => Key.flaw(format!(
                "the private key {key} cannot be used: {error}; RSA, ECDSA and Ed25519 keys can"
            )),
        })
    }
}

/// Takes certificates that the authorities in the file have signed, and clients without one.
fn client_verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let shown = path.display();
    let nothing = || {
        format!(
            "the {CLIENT_AUTHORITY} {shown}: there is no certificate in it; it must be PEM and have a line that reads \
             -----BEGIN CERTIFICATE-----"
        )
    };
    let unusable = |why: String| {
        format!(
            "the {CLIENT_AUTHORITY} {shown}: a certificate in it cannot be used ({why}); make or fetch it again"
        )
    };
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| flaw(CLIENT_AUTHORITY, path, &error, nothing))?;
    if found.is_empty() {
        return Err(nothing());
    }
    let mut roots = RootCertStore::empty();
    for certificate in found {
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| unusable(error.to_string()))
}

fn flaw(what: &str, path: &Path, error: &PemError, nothing: impl Fn() -> String) -> String {
    let path = path.display();
    match error {
        PemError::NoItemsFound => nothing(),
        PemError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("the {what} {path}: there is no such file; `driftq tls dev` makes one to try with")
        }
        PemError::Io(error) => {
            format!("the {what} {path} cannot be read: {error}; this user must be able to")
        }
        error => format!("the {what} {path} is no PEM: {error}; make or fetch it again"),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
