//! Certificates of a test's own making.

use std::path::PathBuf;
use std::sync::Arc;

use driftq_tls::tokio_rustls::rustls::ServerConfig;
use driftq_tls::tokio_rustls::rustls::crypto::ring;
use driftq_tls::tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;

/// A server of this name, and the file that makes it trusted.
pub(crate) fn self_signed(name: &str, folder: &TempDir) -> (ServerConfig, PathBuf) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (config, file)
}
