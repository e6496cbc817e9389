//! What several parts need before they measure: topics, and messages to keep.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use driftq_api::v1::Created;
use serde_json::json;
use tempfile::TempDir;

use super::{
    Plan,
    load::{self, Length, Load},
    template::Template,
};
use driftq_cli::client::Client;

/// The topic of most rounds.
pub(super) const TOPIC: &str = "bench";

/// Connections and requests in flight per connection that fill a topic fast.
const FILL_CONNECTIONS: usize = 32;
const FILL_PIPELINE: usize = 16;

/// A fresh data directory.
pub(super) fn data_directory(plan: &Plan) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("driftq-bench-")
        .tempdir_in(&plan.dir)
        .with_context(|| format!("making a temporary directory in {}", plan.dir.display()))
}

pub(super) async fn create_topic(address: SocketAddr, name: &str, partitions: u32) -> Result<()> {
    let mut session = Client::new(&format!("http://{address}"))?.session();
    let _: Created<'static> = session
        .post("/v1/topics", &json!({"name": name, "partitions": partitions}))
        .await
        .map_err(|error| error.into_error())
        .with_context(|| format!("creating topic {name}"))?;
    Ok(())
}

/// Produces this many messages as fast as it goes.
pub(super) async fn fill(address: SocketAddr, topic: &str, payload: usize, messages: u64) -> Result<()> {
    let load = Load {
        address,
        connections: FILL_CONNECTIONS,
        pipeline: FILL_PIPELINE,
        templates: vec![Template::produce(address, topic, payload)],
        length: Length::Requests(messages),
    };
    load::run(load).await.with_context(|| format!("producing {messages} messages")).map(drop)
}
