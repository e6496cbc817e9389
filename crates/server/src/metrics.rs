//! Numbers for Prometheus.
//!
//! What happens often is counted in plain atomics; families and label sets are put together only for a
//! scrape. The four names without a prefix are those of the first broker, and frozen.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use driftq_engine::core::Tally;
use driftq_engine::router::RouterCounts;
use driftq_engine::{Counters, Status};
use hyper::StatusCode;
use prometheus_client::registry::Registry;

use crate::http::{Endpoint, PRODUCE_REJECTIONS};
use crate::trace::Counts;

mod catalogue;
mod deliveries;
mod engine;
mod format;
mod latency;
mod router;
mod scrape;
mod state;

pub use catalogue::{MetricFamily, metric_families};
pub use deliveries::{Deliveries, EndpointBreaker, EndpointSends};
pub(crate) use format::Format;

use latency::Latency;
use scrape::Scrape;

/// Statuses that are counted one by one; anything else is counted under the last.
const STATUSES: [u16; 18] =
    [200, 201, 202, 204, 400, 404, 405, 408, 409, 413, 414, 415, 422, 429, 500, 503, 507, 0];

/// The live numbers of the HTTP edge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Live>);

#[derive(Debug)]
struct Live {
    /// By [`Endpoint::place`], then by place in [`STATUSES`].
    requests: Vec<[AtomicU64; STATUSES.len()]>,
    /// By [`Endpoint::place`].
    latency: Vec<Latency>,
    produce_rejected: [AtomicU64; PRODUCE_REJECTIONS.len()],
    connections: AtomicU64,
    connections_accepted: AtomicU64,
    streams: AtomicU64,
    stream_messages: AtomicU64,
    edge_bytes: AtomicU64,
    edge_refused: AtomicU64,
    audit_recorded: AtomicU64,
    audit_suppressed: AtomicU64,
    audit_lost: AtomicU64,
    traces: Arc<Counts>,
    /// What connectors in this process have sent, if there are any.
    deliveries: OnceLock<Deliveries>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            requests: (0..Endpoint::COUNT).map(|_| Default::default()).collect(),
            latency: (0..Endpoint::COUNT).map(|_| Latency::default()).collect(),
            produce_rejected: Default::default(),
            connections: AtomicU64::default(),
            connections_accepted: AtomicU64::default(),
            streams: AtomicU64::default(),
            stream_messages: AtomicU64::default(),
            edge_bytes: AtomicU64::default(),
            edge_refused: AtomicU64::default(),
            audit_recorded: AtomicU64::default(),
            audit_suppressed: AtomicU64::default(),
            audit_lost: AtomicU64::default(),
            traces: Arc::default(),
            deliveries: OnceLock::new(),
        }
    }
}

impl Metrics {
    /// A request was answered, or its stream was opened.
    pub(crate) fn on_request(&self, endpoint: Endpoint, status: StatusCode, latency: Duration) {
        let place = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len() - 1);
        self.0.requests[endpoint.place()][place].fetch_add(1, Relaxed);
        self.0.latency[endpoint.place()].observe(latency);
    }

    /// A message was turned away; `reason` is a place in the list of reasons.
    pub(crate) fn on_produce_rejected(&self, reason: usize) {
        if let Some(counter) = self.0.produce_rejected.get(reason) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Counts a connection for as long as the guard lives.
    pub(crate) fn open_connection(&self) -> OpenConnection {
        self.0.connections.fetch_add(1, Relaxed);
        self.0.connections_accepted.fetch_add(1, Relaxed);
        OpenConnection(Arc::clone(&self.0))
    }

    /// Open connections, now.
    pub(crate) fn connections(&self) -> u64 {
        self.0.connections.load(Relaxed)
    }

    /// The edge holds more bytes for its peers.
    pub(crate) fn on_edge_bytes(&self, bytes: usize) {
        self.0.edge_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// The edge has let go of bytes.
    pub(crate) fn on_edge_bytes_back(&self, bytes: usize) {
        self.0.edge_bytes.fetch_sub(bytes as u64, Relaxed);
    }

    /// A request was turned away because the edge holds as much as it may.
    pub(crate) fn on_edge_refused(&self) {
        self.0.edge_refused.fetch_add(1, Relaxed);
    }

    /// An entry of the audit was written.
    pub(crate) fn on_audit_recorded(&self) {
        self.0.audit_recorded.fetch_add(1, Relaxed);
    }

    /// A refusal was counted without an entry of its own.
    pub(crate) fn on_audit_suppressed(&self) {
        self.0.audit_suppressed.fetch_add(1, Relaxed);
    }

    /// An entry of the audit could not be written.
    pub(crate) fn on_audit_lost(&self) {
        self.0.audit_lost.fetch_add(1, Relaxed);
    }

    /// What becomes of spans.
    pub(crate) fn traces(&self) -> Arc<Counts> {
        Arc::clone(&self.0.traces)
    }

    /// Tells of what connectors in this process have sent, too. Those that were named first stay.
    pub(crate) fn also_tell(&self, deliveries: Deliveries) {
        self.0.deliveries.get_or_init(|| deliveries);
    }

    #[cfg(test)]
    pub(crate) fn edge_bytes(&self) -> u64 {
        self.0.edge_bytes.load(Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn edge_refused(&self) -> u64 {
        self.0.edge_refused.load(Relaxed)
    }

    /// Counts a stream for as long as the guard lives, and says in the log when it ends.
    pub(crate) fn open_stream(&self, names: [&str; 3]) -> OpenStream {
        self.0.streams.fetch_add(1, Relaxed);
        OpenStream { live: Arc::clone(&self.0), names: names.map(str::to_owned), messages: 0 }
    }
}

/// A connection that is counted.
pub(crate) struct OpenConnection(Arc<Live>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// A stream that is counted.
pub(crate) struct OpenStream {
    live: Arc<Live>,
    names: [String; 3],
    messages: u64,
}

impl OpenStream {
    /// A message was handed to the connection.
    pub(crate) fn on_message(&mut self) {
        self.messages += 1;
        self.live.stream_messages.fetch_add(1, Relaxed);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.live.streams.fetch_sub(1, Relaxed);
        let [topic, group, owner] = &self.names;
        tracing::debug!(topic, group, owner, messages = self.messages, "a stream ended");
    }
}

/// Everything, as text.
pub(crate) fn encode(
    format: Format,
    metrics: &Metrics,
    counters: Counters,
    status: &Status,
    tally: Option<Tally>,
    router: Option<RouterCounts>,
) -> Result<String, std::fmt::Error> {
    let (ready, writable) = (status.ready, status.writable);
    let scrape = Scrape { live: Arc::clone(&metrics.0), counters, ready, writable, tally, router };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(match format {
        Format::OpenMetrics => text,
        Format::Text => format::as_text(&text),
    })
}

#[cfg(test)]
mod tests {
    use driftq_engine::core::{GroupTally, LaneTally, PartitionDescription, TopicDescription};
    use driftq_engine::router::BreakerState;

    use super::*;

    fn tally() -> Tally {
        Tally {
            topics: vec![TopicDescription {
                name: "t\"1".into(),
                dead_letters: 3,
                partitions: vec![PartitionDescription {
                    messages: 5,
                    bytes: 50,
                    ..PartitionDescription::default()
                }],
                ..TopicDescription::default()
            }],
            groups: vec![GroupTally {
                topic: "t".into(),
                name: "g".into(),
                consumers: 1,
                partitions: vec![LaneTally { lag: 4, in_flight: 2, retrying: 1 }],
            }],
            ..Tally::default()
        }
    }

    fn status() -> Status {
        Status { ready: true, writable: true, settles: true, durable: true, epoch: 1, why: None, data: None }
    }

    fn router() -> RouterCounts {
        RouterCounts {
            timed_out: 4,
            passed: 4,
            breaker: BreakerState::Open,
            breaker_opened: 1,
            routed: vec![("a\"b".to_owned(), 2), ("c".to_owned(), 1)],
            ..RouterCounts::default()
        }
    }

    #[test]
    fn the_router_is_told_by_outcome_verdict_state_and_label() {
        let text = encode(
            Format::OpenMetrics,
            &Metrics::default(),
            Counters::default(),
            &status(),
            None,
            Some(router()),
        )
        .unwrap();
        for line in [
            "driftq_router_calls_total{outcome=\"timed_out\"} 4",
            "driftq_router_calls_total{outcome=\"answered\"} 0",
            "driftq_router_messages_total{verdict=\"routed\"} 3",
            "driftq_router_messages_total{verdict=\"passed\"} 4",
            "driftq_router_routed_total{label=\"a\\\"b\"} 2",
            "driftq_router_breaker{state=\"closed\"} 0",
            "driftq_router_breaker{state=\"open\"} 1",
            "driftq_router_breaker_opened_total 1",
        ] {
            assert!(text.lines().any(|candidate| candidate == line), "{line} in {text}");
        }
        let without =
            encode(Format::OpenMetrics, &Metrics::default(), Counters::default(), &status(), None, None)
                .unwrap();
        assert!(!without.contains("driftq_router"), "{without}");
    }

    #[test]
    fn the_frozen_names_come_out_exactly() {
        let metrics = Metrics::default();
        metrics.on_produce_rejected(0);
        let text = encode(
            Format::OpenMetrics,
            &metrics,
            Counters::default(),
            &status(),
            Some(tally()),
            Some(router()),
        )
        .unwrap();
        for line in [
            "inflight_messages{topic=\"t\",group=\"g\",partition=\"0\"} 2",
            "consumer_lag{topic=\"t\",group=\"g\",partition=\"0\"} 4",
            "dlq_messages_total{topic=\"t\\\"1\",reason=\"max_attempts_reached\"} 3",
            "produce_rejected_total{reason=\"partition_buffer_full\"} 1",
        ] {
            assert!(text.lines().any(|candidate| candidate == line), "{line} in {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// Every family of the text format 0.0.4 is declared once, before its samples, under the name that they have.
    #[test]
    fn the_text_format_declares_what_it_holds() {
        let metrics = Metrics::default();
        metrics.on_request(Endpoint::Produce, StatusCode::OK, Duration::from_millis(3));
        let (tally, router) = (Some(tally()), Some(router()));
        let text = encode(Format::Text, &metrics, Counters::default(), &status(), tally, router).unwrap();
        let mut declared = std::collections::BTreeMap::new();
        for line in text.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                assert!(declared.insert(name, kind).is_none(), "{name} is declared twice");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            } else if !line.starts_with("# HELP ") {
                let sample = line.split(['{', ' ']).next().unwrap();
                let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| sample.strip_suffix(end));
                let of_histogram = histogram.is_some_and(|name| declared.get(name) == Some(&"histogram"));
                assert!(of_histogram || declared.contains_key(sample), "{line}");
            }
        }
        assert_eq!(declared["produce_rejected_total"], "counter");
        assert!(!text.contains("# EOF"), "{text}");
    }

    #[test]
    fn everything_else_is_prefixed_and_no_name_comes_twice() {
        let metrics = Metrics::default();
        metrics.on_request(Endpoint::Produce, StatusCode::OK, Duration::from_millis(3));
        metrics.on_request(Endpoint::Produce, StatusCode::IM_A_TEAPOT, Duration::from_secs(60));
        let text = encode(
            Format::OpenMetrics,
            &metrics,
            Counters::default(),
            &status(),
            Some(tally()),
            Some(router()),
        )
        .unwrap();
        let frozen = ["inflight_messages", "consumer_lag", "dlq_messages", "produce_rejected"];
        let mut seen = std::collections::BTreeSet::new();
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = name.split(' ').next().unwrap();
            assert!(frozen.contains(&name) || name.starts_with("driftq_"), "{name}");
            assert!(seen.insert(name.to_owned()), "{name} comes twice");
        }
        assert!(
            text.contains("driftq_http_requests_total{route=\"/v1/produce\",status=\"200\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("driftq_http_requests_total{route=\"/v1/produce\",status=\"other\"} 1"),
            "{text}"
        );
        assert!(text.contains("driftq_http_request_seconds_count{route=\"/v1/produce\"} 2"), "{text}");
        assert!(
            text.contains("driftq_http_request_seconds_bucket{le=\"+Inf\",route=\"/v1/produce\"} 2"),
            "{text}"
        );
    }

    #[test]
    fn guards_count_up_and_down() {
        let metrics = Metrics::default();
        let (connection, mut stream) = (metrics.open_connection(), metrics.open_stream(["t", "g", "o"]));
        stream.on_message();
        let text = encode(Format::OpenMetrics, &metrics, Counters::default(), &status(), None, None).unwrap();
        assert!(
            text.contains("driftq_http_connections 1") && text.contains("driftq_http_streams 1"),
            "{text}"
        );
        assert!(text.contains("driftq_http_stream_messages_total 1"), "{text}");
        drop((connection, stream));
        assert_eq!((metrics.connections(), metrics.0.streams.load(Relaxed)), (0, 0));
    }
}
