//! The requests whose cost is told apart: single messages, and bodies of many.

use std::net::SocketAddr;

use super::{Plan, load::Load, template::Template};

/// Messages of one NDJSON body, and connections that send such bodies.
const BATCH: usize = 100;
const BATCH_CONNECTIONS: usize = 16;

/// One kind of request.
pub(super) struct RequestKind {
    pub(super) name: String,
    connections: usize,
    content_type: &'static str,
    body: String,
}

impl RequestKind {
    /// One message on each of so many connections, and many messages on some.
    pub(super) fn all(plan: &Plan, connections: &[usize]) -> Vec<Self> {
        let message = format!("{{\"value\":\"{}\"}}", "x".repeat(plan.payload));
        let batch = Self {
            name: format!("produce, NDJSON × {BATCH}, {BATCH_CONNECTIONS} connections"),
            connections: BATCH_CONNECTIONS,
            content_type: "application/x-ndjson",
            body: format!("{message}\n").repeat(BATCH),
        };
        let single = |connections: &usize| Self {
            name: format!("produce, {connections} connection(s)"),
            connections: *connections,
            content_type: "application/json",
            body: message.clone(),
        };
        connections.iter().map(single).chain([batch]).collect()
    }

    /// A round of them, to these topics in turn.
    pub(super) fn load<'a>(
        &self,
        plan: &Plan,
        address: SocketAddr,
        topics: impl IntoIterator<Item = &'a str>,
    ) -> Load {
        let template = |topic: &str| {
            let path = format!("/v2/topics/{topic}/messages");
            Template::request(address, "POST", &path, self.content_type, &self.body)
        };
        let templates = topics.into_iter().map(template).collect();
        Load { address, connections: self.connections, pipeline: 1, templates, length: plan.length }
    }
}
