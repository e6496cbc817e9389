//! Exports that messages ask for, written by connectors.

use std::path::Path;
use std::time::Duration;

use driftq_client::wire::{EffectState, ExportRecord, ExportState, Exports, SelectionKind};
use driftq_client::{Client, Code};
use driftq_connect::config::File;
use driftq_connect::run::Connectors;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::{filled, served};

/// Whatever a test waits for happens by then.
const WITHIN: Duration = Duration::from_secs(30);
/// Until it is looked again.
const LOOK: Duration = Duration::from_millis(20);

/// A connector with the place `lake` in this folder.
fn connector(client: &Client, folder: &Path, more: &str) -> (watch::Sender<bool>, JoinHandle<()>) {
    let text = format!("[exports.places.lake]\nurl = {:?}\n{more}", folder.to_string_lossy());
    let connectors = Connectors::new(File::parse(&text).expect("a file")).expect("connectors");
    let (stop, client) = (watch::Sender::new(false), client.clone());
    let stopped = stop.subscribe();
    let running = tokio::spawn(async move { connectors.run(&client, stopped).await.expect("a clean end") });
    (stop, running)
}

async fn ask(client: &Client, body: &Value) -> Result<Value, driftq_client::Error> {
    client.post("/v2/exports", body).await
}

/// What becomes of an export.
async fn ended(client: &Client, id: &str) -> ExportRecord<'static> {
    let look = async {
        loop {
            let path = format!("/v2/exports?place=lake&export_id={id}");
            let page: Exports<'static> = client.get(&path).await.expect("a list");
            let record = page.exports.into_iter().next();
            if let Some(record) =
                record.filter(|found| matches!(found.state, ExportState::Done | ExportState::Failed))
            {
                return record;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(WITHIN, look).await.expect("an export ends")
}

/// Waits until the place is known.
async fn known(client: &Client) {
    let look = async {
        while client.topic("exports.lake").await.is_err() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(WITHIN, look).await.expect("a connector tells of its places");
}

#[tokio::test]
async fn a_connector_writes_what_is_asked_for_and_the_list_says_where() {
    let (_server, client) = served().await;
    filled(&client, "orders", 100).await;
    let spec = json!({"export_id": "orders-1", "place": "lake", "format": "csv",
        "selection": {"kind": "topic", "topic": "orders", "to": 40}});
    let unknown = ask(&client, &spec).await.unwrap_err();
    assert_eq!(unknown.code(), Some(Code::TopicUnknown), "no connector has told of the place");

    let folder = tempfile::tempdir().unwrap();
    let (stop, running) = connector(&client, folder.path(), "");
    known(&client).await;
    let taken = ask(&client, &spec).await.unwrap();
    assert_eq!((&taken["duplicate"], &taken["message"]["topic"]), (&json!(false), &json!("exports.lake")));
    assert_eq!(ask(&client, &spec).await.unwrap()["duplicate"], true);
    let other =
        json!({"export_id": "orders-1", "place": "lake", "selection": {"kind": "topic", "topic": "orders"}});
    assert_eq!(ask(&client, &other).await.unwrap_err().code(), Some(Code::KeyReused));

    let record = ended(&client, "orders-1").await;
    assert_eq!((record.state, record.parts, &*record.error), (ExportState::Done, Some(1), ""), "{record:?}");
    let location = record.location.expect("it is there");
    let manifest = std::fs::read(location.strip_prefix("file://").unwrap()).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["rows"], json!(record.rows));
    assert_eq!((record.rows, &manifest["format"]), (manifest["rows"].as_u64(), &json!("csv")));
    let pointed = crate::support::pointer(&client, "orders-1").await.expect("a pointer");
    assert_eq!(Some(pointed), record.digest.map(|digest| (location, digest)));
    let done: Exports<'static> = client.get("/v2/exports?place=lake&state=done").await.unwrap();
    let failed: Exports<'static> = client.get("/v2/exports?place=lake&state=failed").await.unwrap();
    assert_eq!((done.exports.len(), failed.exports.len()), (1, 0));
    stop.send_replace(true);
    running.await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_exported_fails_with_the_reason_and_is_not_tried_again() {
    let (_server, client) = served().await;
    let folder = tempfile::tempdir().unwrap();
    let (_stop, _running) = connector(&client, folder.path(), "");
    known(&client).await;
    for (id, selection, why) in [
        ("gone", json!({"kind": "topic", "topic": "gone"}), "topic"),
        (
            "elsewhere",
            json!({"kind": "query", "database": "shop", "statement": "SELECT 1"}),
            "exports.databases",
        ),
    ] {
        let spec = json!({"export_id": id, "place": "lake", "selection": selection});
        ask(&client, &spec).await.unwrap();
        let record = ended(&client, id).await;
        assert_eq!(record.state, ExportState::Failed);
        let letters: Value = client.get("/v2/dlq/exports.lake").await.unwrap();
        let told = letters["letters"].to_string();
        assert!(told.contains(why), "{id}: {told}");
    }
    // A message that a producer sends by itself is held to the same rules.
    client.produce("exports.lake", driftq_client::raw("{}")).await.unwrap();
    let look = async {
        while client.get::<Value>("/v2/dlq/exports.lake").await.unwrap()["letters"].as_array().unwrap().len()
            < 3
        {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(WITHIN, look).await.expect("it becomes a dead letter");
}

#[tokio::test]
async fn what_does_not_fit_together_is_refused_before_it_is_stored() {
    let (_server, client) = served().await;
    for (selection, why) in [
        (json!({"kind": "topic"}), "has a topic"),
        (json!({"kind": "run", "run_id": "r", "topic": "t"}), "has no topic"),
        (json!({"kind": "topic", "topic": "t", "from": 3, "to": 2}), "ends before"),
        (json!({"kind": "dataset", "dataset": "d"}), "name a version"),
        (json!({"kind": "dataset", "dataset": "d", "version": "v", "latest": true}), "not both"),
        (json!({"kind": "query", "database": "shop"}), "has a statement"),
    ] {
        let spec = json!({"export_id": "x", "place": "lake", "selection": selection});
        let told = ask(&client, &spec).await.unwrap_err().to_string();
        assert!(told.contains(why), "{selection}: {told}");
    }
    let spec = json!({"export_id": "../x", "place": "lake", "selection": {"kind": "effects"}});
    assert!(ask(&client, &spec).await.unwrap_err().to_string().contains("export_id"));
}

#[test]
fn the_words_of_the_wire_are_those_of_the_manifest() {
    let selection = driftq_client::wire::ExportSelection {
        kind: SelectionKind::Effects,
        state: Some(EffectState::Unknown),
        scope: Some("mail".to_owned()),
        ..serde_json::from_value(json!({"kind": "effects"})).unwrap()
    };
    let typed = driftq_connect::export::Selection::try_from(selection.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), serde_json::to_value(&selection).unwrap());
}
