//! An export in a process of its own, which can be killed: this test program, started again.

use std::process::{Command, Output};
use std::time::Duration;

use driftq_client::Client;
use driftq_connect::export::{Export, Format, PartBounds, PlaceUrl, Selection, Step, Watch};
use serde::{Deserialize, Serialize};

/// Says what the child does.
const SPEC: &str = "DRIFTQ_TEST_EXPORT";
/// What the child prints before its manifest.
const DONE: &str = "MANIFEST ";
/// What the child prints before its error.
const FAILED: &str = "FAILED ";

/// An export, in words that fit an environment variable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) server: String,
    pub(crate) id: String,
    pub(crate) topic: String,
    pub(crate) format: Format,
    pub(crate) place: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) part_rows: u64,
    pub(crate) lease_ms: u64,
    pub(crate) wait_ms: u64,
    /// The step, as `Debug` writes it, behind which the process dies.
    pub(crate) dies_after: Option<String>,
}

impl Spec {
    pub(crate) fn new(server: &str, id: &str, topic: &str, place: &str) -> Self {
        Self {
            server: server.to_owned(),
            id: id.to_owned(),
            topic: topic.to_owned(),
            format: Format::Ndjson,
            place: place.to_owned(),
            endpoint: None,
            part_rows: 40,
            lease_ms: 60_000,
            wait_ms: 20_000,
            dies_after: None,
        }
    }

    pub(crate) fn export(&self) -> Export {
        let place = PlaceUrl::parse(&self.place, self.endpoint.as_deref()).expect("a place");
        let selection = Selection::Topic { topic: self.topic.clone(), partition: None, from: None, to: None };
        let parts = PartBounds { rows: self.part_rows, ..PartBounds::default() };
        let (lease, wait) = (Duration::from_millis(self.lease_ms), Duration::from_millis(self.wait_ms));
        Export { parts, lease, wait, ..Export::new(&self.id, selection, self.format, place) }
    }

    /// The child, not started yet.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("a test is a program"));
        command.args(["--exact", "child::export_of_another_test", "--ignored", "--nocapture"]);
        command.env(SPEC, serde_json::to_string(self).expect("texts and numbers are JSON"));
        command
    }
}

/// What a child said: the manifest, or why there is none.
pub(crate) fn said(output: &Output) -> Result<serde_json::Value, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let find = |prefix: &str| text.lines().find_map(|line| Some(line.split_once(prefix)?.1.to_owned()));
    if let Some(manifest) = find(DONE) {
        return Ok(serde_json::from_str(&manifest).expect("a manifest is JSON"));
    }
    Err(find(FAILED).unwrap_or_else(|| format!("it died: {}", String::from_utf8_lossy(&output.stderr))))
}

/// Dies behind a step, as `kill -9` would have it: nothing is cleaned up.
struct Mortal(Option<String>);

impl Watch for Mortal {
    fn step(&self, step: Step) {
        if self.0.as_deref() == Some(&*format!("{step:?}")) {
            std::process::abort();
        }
    }
}

#[tokio::test]
#[ignore = "started by other tests, as a process that they kill"]
async fn export_of_another_test() {
    let Ok(spec) = std::env::var(SPEC) else { return };
    let spec: Spec = serde_json::from_str(&spec).expect("another test wrote it");
    let client = Client::new(&spec.server).expect("a URL");
    let watch = Mortal(spec.dies_after.clone());
    match spec.export().run(&client, &watch, std::future::pending()).await {
        Ok(done) => {
            let manifest = serde_json::json!({"manifest": done.manifest, "location": done.location,
                "digest": done.digest, "is_replay": done.is_replay});
            println!("\n{DONE}{manifest}");
        }
        Err(error) => println!("\n{FAILED}{error}"),
    }
}
