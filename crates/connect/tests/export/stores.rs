//! Object stores: one that works, and one that takes conditions and ignores them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use driftq_connect::export::Format;
use driftq_testbed::Seaweed;
use driftq_tls::tokio_rustls::TlsAcceptor;
use driftq_tls::tokio_rustls::rustls::ServerConfig;
use driftq_tls::tokio_rustls::rustls::crypto::ring;
use driftq_tls::tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::child::{Spec, said};
use crate::support::{filled, into, pointer, run, served, whole};

/// Credentials come from the environment, which belongs to a process: so these run in one of their own.
fn with_credentials(spec: &Spec) -> Command {
    let mut command = spec.command();
    for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
        command.env_remove(name);
    }
    command
        .env("AWS_ACCESS_KEY_ID", "any")
        .env("AWS_SECRET_ACCESS_KEY", "any")
        .env("AWS_REGION", "us-east-1");
    command
}

async fn ran_beside(spec: Spec) -> Result<serde_json::Value, String> {
    tokio::task::spawn_blocking(move || said(&with_credentials(&spec).output().unwrap())).await.unwrap()
}

#[tokio::test]
async fn an_s3_store_gets_the_same_files_once() {
    let weed = match Seaweed::program() {
        Ok(_) => tokio::task::spawn_blocking(|| Seaweed::start("exports").unwrap()).await.unwrap(),
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let (server, client) = served().await;
    filled(&client, "orders", 100).await;
    let mut spec = Spec::new(&server.url(), "stored", "orders", "s3://exports/some/prefix");
    (spec.endpoint, spec.format, spec.lease_ms) = (Some(weed.endpoint()), Format::Parquet, 1_000);
    // Dies when everything is placed and nothing is visible; the next one finds the parts.
    for step in ["Placed(1)", "Described"] {
        spec.dies_after = Some(step.to_owned());
        assert!(ran_beside(spec.clone()).await.unwrap_err().starts_with("it died"));
        assert_eq!(pointer(&client, "stored").await, None);
    }
    spec.dies_after = None;
    let done = ran_beside(spec.clone()).await.unwrap();
    let location = done["location"].as_str().unwrap().to_owned();
    assert!(location.starts_with("s3://exports/some/prefix/stored/manifest-"), "{location}");
    assert_eq!(pointer(&client, "stored").await.map(|(location, _)| location), Some(location));
    let again = ran_beside(spec.clone()).await.unwrap();
    assert_eq!((&again["is_replay"], &again["manifest"]), (&true.into(), &done["manifest"]));
    // The same selection in a folder is the same bytes, so the same digests.
    let folder = TempDir::new().unwrap();
    let mut local = into(folder.path(), "stored-here", whole("orders"), Format::Parquet);
    local.parts.rows = spec.part_rows;
    let local = run(&local, &client).await.unwrap();
    assert_eq!(serde_json::to_value(&local.manifest.parts).unwrap(), done["manifest"]["parts"]);
    // A bucket that is not there is refused in words, and the lease given up.
    spec.place = "s3://missing".to_owned();
    spec.id = "missing".to_owned();
    let refused = ran_beside(spec).await.unwrap_err();
    assert!(refused.starts_with("s3://missing: "), "{refused}");
}

/// Says yes to everything, whatever the condition.
async fn careless(mut socket: impl AsyncRead + AsyncWrite + Unpin) {
    let mut request = [0; 4096];
    // Each request is small, and answered as soon as it comes.
    while let Ok(1..) = socket.read(&mut request).await {
        let answer = "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\n\r\n";
        if socket.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let store = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(careless(socket));
        }
    });
    let (server, client) = served().await;
    filled(&client, "orders", 10).await;
    let mut spec = Spec::new(&server.url(), "careless", "orders", "s3://exports");
    spec.endpoint = Some(endpoint);
    let refused = ran_beside(spec.clone()).await.unwrap_err();
    assert!(refused.contains("s3://exports ignores conditions"), "{refused}");
    assert_eq!(pointer(&client, "careless").await, None);
    store.abort();
    // It was refused before it began, so the id is free for the export that was meant.
    let folder = TempDir::new().unwrap();
    spec.place = folder.path().to_string_lossy().into_owned();
    spec.endpoint = None;
    let done = ran_beside(spec).await.unwrap();
    assert_eq!((&done["is_replay"], &done["manifest"]["rows"]), (&false.into(), &10.into()));
}

#[tokio::test]
async fn a_store_is_reached_by_tls_if_it_is_trusted() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = TempDir::new().unwrap();
    let trusted = folder.path().join("trusted.pem");
    std::fs::write(&trusted, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(socket) = acceptor.accept(socket).await {
                    careless(socket).await;
                }
            });
        }
    });
    let (server, client) = served().await;
    filled(&client, "orders", 10).await;
    let mut spec = Spec::new(&server.url(), "by-tls", "orders", "s3://exports");
    spec.endpoint = Some(endpoint);
    let refused = |trusted: Option<PathBuf>| {
        let spec = spec.clone();
        let run = tokio::task::spawn_blocking(move || {
            let mut command = with_credentials(&spec);
            command.env_remove("SSL_CERT_DIR").env_remove("SSL_CERT_FILE");
            if let Some(file) = trusted {
                command.env("SSL_CERT_FILE", file);
            }
            said(&command.output().unwrap()).unwrap_err()
        });
        async { run.await.unwrap() }
    };
    let words = refused(Some(trusted)).await;
    assert!(words.contains("ignores conditions"), "it was reached: {words}");
    // Not trusted is said at once, and not after minutes of trying.
    let words = refused(None).await;
    assert!(words.contains("invalid peer certificate"), "{words}");
}
