//! TLS with a real PostgreSQL.

use std::io::Write as _;

use driftq_testbed::Postgres;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::bed::{Bed, run_until};

const SINK: &str = "mode = \"append\"\ncolumns = [{ name = \"id\", from = \"/id\", type = \"bigint\" }]\n";

/// Somebody who signs certificates, and the file that says so.
fn authority(name: &str) -> (CertifiedIssuer<'static, KeyPair>, NamedTempFile) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(issuer.pem().as_bytes()).unwrap();
    (issuer, file)
}

#[tokio::test]
async fn a_sink_writes_over_tls_to_a_database_that_it_trusts_and_to_no_other() {
    let ((issuer, ours), (_, theirs)) = (authority("ours"), authority("theirs"));
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let postgres = Postgres::shareable().tls(&certificate.pem(), &key.serialize_pem()).start().unwrap();
    let mut bed = Bed::on(&postgres).await;
    let trusting = |file: &NamedTempFile| {
        format!("{}?sslmode=verify-full&sslrootcert={}", postgres.url(), file.path().display())
    };
    bed.url = trusting(&theirs);
    let error = bed.connectors(SINK).sinks()[0].check().await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");

    bed.url = trusting(&ours);
    let connectors = bed.connectors(SINK);
    connectors.migrate().await.unwrap();
    bed.produce_json((0..2_000).map(|id| json!({"id": id}))).await;
    run_until(&connectors, &bed.client, async {
        bed.idle().await;
        let secured = "SELECT count(*) > 0, bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                       WHERE application_name = 'driftq-connect'";
        assert_eq!(postgres.psql(secured).unwrap(), "t|t");
    })
    .await;
    let count = format!("SELECT count(*), count(DISTINCT id) FROM {}.orders", bed.schema);
    assert_eq!(postgres.psql(&count).unwrap(), "2000|2000");
}
