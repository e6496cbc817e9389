//! One scrape: everything there is to say at one moment.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use driftq_engine::Counters;
use driftq_engine::core::Tally;
use driftq_engine::router::RouterCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Live, STATUSES, deliveries, engine, router, state};
use crate::http::Endpoint;
use crate::http::PRODUCE_REJECTIONS;

/// What a scrape reads.
#[derive(Debug)]
pub(crate) struct Scrape {
    pub(super) live: Arc<Live>,
    pub(super) counters: Counters,
    pub(super) ready: bool,
    pub(super) writable: bool,
    /// `None` if the shard did not answer.
    pub(super) tally: Option<Tally>,
    /// `None` if there is no router.
    pub(super) router: Option<RouterCounts>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let out = &mut encoder;
        gauge(out, "driftq_ready", "1 if requests are served", self.ready.into())?;
        gauge(out, "driftq_writable", "1 if new messages are taken", self.writable.into())?;
        counter(out, "driftq_log_lines_dropped", "Lines that stderr did not take", crate::log::dropped())?;
        self.produce_rejected(out)?;
        self.http(out)?;
        self.traces(out)?;
        engine::encode(out, &self.counters)?;
        self.router.as_ref().map_or(Ok(()), |counts| router::encode(out, counts))?;
        self.live.deliveries.get().map_or(Ok(()), |source| deliveries::encode(out, source))?;
        self.tally.as_ref().map_or(Ok(()), |tally| state::encode(out, tally))
    }
}

impl Scrape {
    fn produce_rejected(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut family =
            family(out, "produce_rejected", "Messages turned away for want of room", MetricType::Counter)?;
        for (reason, count) in PRODUCE_REJECTIONS.iter().zip(&self.live.produce_rejected) {
            let labels = [("reason", *reason)];
            ConstCounter::new(count.load(Relaxed)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn traces(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Spans that the collector of traces has taken";
        counter(out, "driftq_trace_spans_exported", help, self.live.traces.exported())?;
        let help = "Spans that were dropped, by reason: the collector costs nothing else";
        let mut family = family(out, "driftq_trace_spans_dropped", help, MetricType::Counter)?;
        for (reason, count) in self.live.traces.dropped() {
            ConstCounter::new(count).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }

    fn http(&self, out: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let read = |number: &AtomicU64| number.load(Relaxed);
        gauge(out, "driftq_http_connections", "Open connections", read(&self.live.connections))?;
        gauge(out, "driftq_http_streams", "Open consume streams", read(&self.live.streams))?;
        counter(
            out,
            "driftq_http_connections_accepted",
            "Connections",
            read(&self.live.connections_accepted),
        )?;
        counter(
            out,
            "driftq_http_stream_messages",
            "Messages handed to streams",
            read(&self.live.stream_messages),
        )?;
        let help =
            "Bytes of bodies, answers and lines that are held for clients and count for edge_bytes_max";
        gauge(out, "driftq_edge_bytes", help, read(&self.live.edge_bytes))?;
        let help = "Requests turned away because of edge_bytes_max";
        counter(out, "driftq_edge_refused", help, read(&self.live.edge_refused))?;
        let help = "Entries of the audit that were written";
        counter(out, "driftq_audit_entries", help, read(&self.live.audit_recorded))?;
        let help = "Refusals that the audit only counts, because there were too many at once";
        counter(out, "driftq_audit_suppressed", help, read(&self.live.audit_suppressed))?;
        let help = "Entries of the audit that could not be written";
        counter(out, "driftq_audit_lost", help, read(&self.live.audit_lost))?;
        let mut requests =
            family(out, "driftq_http_requests", "Requests by route and status", MetricType::Counter)?;
        for (endpoint, counts) in Endpoint::all().zip(&self.live.requests) {
            let route = endpoint.route();
            for (status, count) in STATUSES.iter().zip(counts).filter(|(_, count)| read(count) > 0) {
                let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
                let labels = [("route", &*route), ("status", &status)];
                ConstCounter::new(read(count)).encode(requests.encode_family(&labels)?)?;
            }
        }
        let help = "Time from a request's headers to its answer's; of a stream, to its beginning";
        let mut latencies = family(out, "driftq_http_request_seconds", help, MetricType::Histogram)?;
        for (endpoint, latency) in Endpoint::all().zip(&self.live.latency) {
            let (sum, buckets) = latency.read();
            let count = buckets.iter().map(|(_, count)| count).sum();
            if count > 0 {
                let labels = [("route", &*endpoint.route())];
                let mut metric = latencies.encode_family(&labels)?;
                metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }
}

/// A family of metrics that differ by their labels.
pub(super) fn family<'a>(
    out: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
    kind: MetricType,
) -> Result<MetricEncoder<'a>, Error> {
    out.encode_descriptor(name, help, None, kind)
}

/// A number that goes up and down.
pub(super) fn gauge(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), Error> {
    ConstGauge::new(level(value)).encode(family(out, name, help, MetricType::Gauge)?)
}

/// A number that only goes up. `_total` is added to its name.
pub(super) fn counter(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), Error> {
    ConstCounter::new(value).encode(family(out, name, help, MetricType::Counter)?)
}

/// Gauges are signed on the wire.
pub(super) fn level(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
