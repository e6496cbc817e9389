//! The real binary with its log in a PostgreSQL that is reached over TLS.

use std::io::Write as _;
use std::path::Path;

use driftq_testbed::Postgres;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::command::run;
use crate::compat::Client;
use crate::support::Server;

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

    fn database(&self, host: &str) -> Postgres {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new([host.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        Postgres::builder().tls(&certificate.pem(), &key.serialize_pem()).start().unwrap()
    }

    fn trusted_by(&self, url: &str, mode: &str) -> String {
        format!("{url}?sslmode={mode}&sslrootcert={}", self.file.path().display())
    }
}

#[test]
fn the_way_to_the_log_is_secured_and_checked() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let database = ours.database("127.0.0.1");
    let url = database.url();
    for mode in ["verify-full", "require"] {
        let server = Server::start(Path::new("/nonexistent"), &["--log", &ours.trusted_by(url, mode)]);
        let mut client = Client::connect(server.address);
        client.post_json("/v1/topics", &json!({"name": "t"}));
        assert_eq!(client.post_json("/v1/produce", &json!({"topic": "t", "value": mode})).status, 200);
        let plain = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl \
                     JOIN pg_stat_activity USING (pid) WHERE application_name = 'driftq-log'";
        let counts = database.psql(plain).unwrap();
        assert!(counts.ends_with("|0") && counts != "0|0", "{counts}");
    }
    let refused = |url: &str| {
        let ran = run(&["serve", "--listen", "127.0.0.1:0", "--log", url]).code(1);
        assert!(ran.stderr.contains("sslrootcert=FILE"), "{}", ran.stderr);
        ran.stderr
    };
    let said = refused(&theirs.trusted_by(url, "verify-full"));
    assert!(said.contains("UnknownIssuer"), "{said}");
    let said = refused(&format!("{url}?sslmode=require"));
    assert!(said.contains("UnknownIssuer"), "to encrypt is not enough: {said}");
    let said = refused(&ours.trusted_by(&url.replace("127.0.0.1", "localhost"), "verify-full"));
    assert!(said.contains("not valid for name"), "{said}");
}
