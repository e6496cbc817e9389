//! Object stores: one that works, and one that takes conditions and ignores them.

use driftq_connect::export::Format;
use driftq_testbed::Seaweed;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::child::{Spec, said};
use crate::support::{filled, into, pointer, run, served, whole};

/// Credentials come from the environment, which belongs to a process: so these run in one of their own.
fn ran(spec: &Spec) -> Result<serde_json::Value, String> {
    let mut command = spec.command();
    for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
        command.env_remove(name);
    }
    command
        .env("AWS_ACCESS_KEY_ID", "any")
        .env("AWS_SECRET_ACCESS_KEY", "any")
        .env("AWS_REGION", "us-east-1");
    said(&command.output().unwrap())
}

async fn ran_beside(spec: Spec) -> Result<serde_json::Value, String> {
    tokio::task::spawn_blocking(move || ran(&spec)).await.unwrap()
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

#[tokio::test]
async fn a_store_that_ignores_conditions_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let careless = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                // Each request is small, and answered as soon as it comes.
                while let Ok(1..) = socket.read(&mut request).await {
                    let answer = "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\n\r\n";
                    if socket.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let (server, client) = served().await;
    filled(&client, "orders", 10).await;
    let mut spec = Spec::new(&server.url(), "careless", "orders", "s3://exports");
    spec.endpoint = Some(endpoint);
    let refused = ran_beside(spec.clone()).await.unwrap_err();
    assert!(refused.contains("s3://exports ignores conditions"), "{refused}");
    assert_eq!(pointer(&client, "careless").await, None);
    careless.abort();
    // It was refused before it began, so the id is free for the export that was meant.
    let folder = TempDir::new().unwrap();
    spec.place = folder.path().to_string_lossy().into_owned();
    spec.endpoint = None;
    let done = ran_beside(spec).await.unwrap();
    assert_eq!((&done["is_replay"], &done["manifest"]["rows"]), (&false.into(), &10.into()));
}
