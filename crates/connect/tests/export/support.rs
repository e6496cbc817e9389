//! What the tests share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use driftq_client::testkit::{Launch, Server};
use driftq_client::wire::{PartitionOutputs, TopicSpec};
use driftq_client::{Client, raw};
use driftq_connect::export::{Export, ExportError, Exported, Format, PlaceUrl, Selection, Silent};
use serde_json::Value;

/// The binary that was built with the test, which is in `deps` beside it.
fn beside() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    test.parent().and_then(Path::parent).expect("a test is in a folder").join("driftq")
}

/// A server with a client of it.
pub(crate) async fn served() -> (Server, Client) {
    let binary = std::env::var_os("DRIFTQ_BIN").map_or_else(beside, PathBuf::from);
    let server = Launch::default().binary(binary).start().await.expect("a server of the test's own");
    let client = server.client().expect("a URL that a server printed");
    (server, client)
}

/// A topic with so many messages, of which some are not UTF-8 and some have labels.
pub(crate) async fn filled(client: &Client, topic: &str, count: usize) {
    let spec = TopicSpec { partitions: Some(3), ..TopicSpec::default() };
    client.create_topic(topic, &spec).await.expect("a new topic");
    fill(client, topic, 0..count).await;
}

pub(crate) async fn fill(client: &Client, topic: &str, numbers: std::ops::Range<usize>) {
    let messages: Vec<_> = numbers
        .map(|number| {
            let value =
                if number % 7 == 3 { vec![0xff, 0xfe] } else { format!("value, \"{number}\"\n").into() };
            let message = raw(value).key(format!("key-{}", number % 5));
            if number % 2 == 0 { message.label("colour", "blue").run_id("run-1") } else { message }
        })
        .collect();
    for chunk in messages.chunks(500) {
        let stored = client.produce_all(topic, chunk.to_vec()).await.expect("room for messages");
        assert!(stored.iter().all(Result::is_ok), "{stored:?}");
    }
}

pub(crate) fn whole(topic: &str) -> Selection {
    Selection::Topic { topic: topic.to_owned(), partition: None, from: None, to: None }
}

pub(crate) fn into(folder: &Path, id: &str, selection: Selection, format: Format) -> Export {
    let place = PlaceUrl::parse(&folder.to_string_lossy(), None).expect("a path");
    Export::new(id, selection, format, place)
}

pub(crate) async fn run(export: &Export, client: &Client) -> Result<Exported, ExportError> {
    export.run(client, &Silent, std::future::pending()).await
}

/// The bytes of all parts, in order.
pub(crate) fn parts(folder: &Path, exported: &Exported) -> Vec<Vec<u8>> {
    let manifest = &exported.manifest;
    let read = |name: &str| std::fs::read(folder.join(&manifest.id).join(name)).expect("a part is there");
    manifest.parts.iter().map(|part| read(&part.name)).collect()
}

/// The rows of an export in lines.
pub(crate) fn lines(folder: &Path, exported: &Exported) -> Vec<Value> {
    let text = parts(folder, exported).concat();
    let text = String::from_utf8(text).expect("lines are text");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// What the pointer of an export names, if there is one.
pub(crate) async fn pointer(client: &Client, id: &str) -> Option<(String, String)> {
    let found = client.get::<PartitionOutputs<'static>>(&format!("/v2/outputs/exports/v1/{id}")).await;
    let output = found.ok()?.outputs.into_iter().next()?;
    Some((output.location.into_owned(), output.digest.into_owned()))
}

/// Names below a folder, and how long each file is.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is below").to_string_lossy().into_owned();
                all.insert(name, entry.metadata().expect("a file that is there").len());
            }
        }
    }
    all
}
