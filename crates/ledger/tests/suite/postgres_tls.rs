//! TLS with a real PostgreSQL.

use std::io::Write as _;

use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{Ledger, LedgerError};
use driftq_testbed::Postgres;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::NamedTempFile;

/// Somebody whose signature may be trusted.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: NamedTempFile,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(issuer.pem().as_bytes()).unwrap();
        Self { issuer, file }
    }

    /// A server with a certificate for this name.
    fn server(&self, name: &str) -> Postgres {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Postgres::shareable().tls(&certificate.pem(), &key.serialize_pem()).start().unwrap()
    }

    fn trusted_by(&self, url: &str) -> String {
        format!("{url}?sslmode=verify-full&sslrootcert={}", self.file.path().display())
    }
}

/// Whether a store reaches its database over TLS.
async fn is_secured(url: &str) -> bool {
    let store = PostgresStore::connect(url).unwrap();
    let client = store.pool().get().await.unwrap();
    let statement = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    client.query_one(statement, &[]).await.unwrap().get(0)
}

/// Why a store does not reach its database. At once: what is not trusted now is not trusted later.
async fn refusal(url: &str) -> String {
    let ledger = Ledger::new(PostgresStore::connect(url).unwrap());
    match ledger.stats().await {
        Err(LedgerError::Denied(why)) => why,
        other => panic!("{url} is refused, not {other:?}"),
    }
}

#[tokio::test]
async fn a_certificate_is_checked_by_authority_and_name() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let postgres = ours.server("127.0.0.1");
    let url = postgres.url();
    assert!(is_secured(&ours.trusted_by(url)).await);
    let store = PostgresStore::connect(&ours.trusted_by(url)).unwrap();
    store.migrate().await.unwrap();
    Ledger::new(store).stats().await.unwrap();

    let said = refusal(&theirs.trusted_by(url)).await;
    assert!(said.contains("UnknownIssuer"), "{said}");
    let said = refusal(&format!("{url}?sslmode=require")).await;
    assert!(said.contains("UnknownIssuer"), "to encrypt is not enough: {said}");
    let said = refusal(&ours.trusted_by(&url.replace("127.0.0.1", "localhost"))).await;
    assert!(said.contains("not valid for name"), "{said}");

    // Nothing asks for TLS.
    assert!(!is_secured(url).await);
    assert!(!is_secured(&format!("{url}?sslmode=disable")).await);
}

#[tokio::test]
async fn a_server_without_tls_is_not_talked_to_without_it() {
    let postgres = Postgres::shared().unwrap();
    let joint = if postgres.url().contains('?') { '&' } else { '?' };
    let said = refusal(&format!("{}{joint}sslmode=require", postgres.url())).await;
    assert!(said.contains("does not support TLS"), "{said}");
}

#[test]
fn authorities_that_cannot_be_read_are_refused_before_anything_is_connected() {
    let empty = NamedTempFile::new().unwrap();
    for file in [empty.path().display().to_string(), "/nowhere/ca.pem".to_owned()] {
        let url = format!("postgres://pay@db.invalid/pay?sslmode=verify-full&sslrootcert={file}");
        let Err(LedgerError::Invalid(why)) = PostgresStore::connect(&url).map(drop) else {
            panic!("{file} has no authorities");
        };
        assert!(why.contains(&file), "{why}");
    }
}
