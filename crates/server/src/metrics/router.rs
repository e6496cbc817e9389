//! The router's numbers: calls by outcome, messages by what became of them, and what the breaker does.

use std::fmt::Error;

use driftq_engine::router::{BreakerState, RouterCounts};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::scrape::{counter, family, gauge};

/// Every state has a line of its own, so that a dashboard needs no table of numbers.
const STATES: [(BreakerState, &str); 3] =
    [(BreakerState::Closed, "closed"), (BreakerState::Open, "open"), (BreakerState::HalfOpen, "half_open")];

pub(super) fn encode(out: &mut DescriptorEncoder<'_>, counts: &RouterCounts) -> Result<(), Error> {
    let calls = [
        ("answered", counts.answered),
        ("failed", counts.failed),
        ("timed_out", counts.timed_out),
        ("nonsense", counts.nonsense),
        ("abandoned", counts.abandoned),
    ];
    by_label(out, ["driftq_router_calls", "Questions that ended, by outcome", "outcome"], &calls)?;
    let routed = counts.routed.iter().map(|(_, count)| count).sum();
    let verdicts = [
        ("routed", routed),
        ("no_opinion", counts.no_opinion),
        ("passed", counts.passed),
        ("rejected", counts.rejected),
    ];
    by_label(out, ["driftq_router_messages", "Messages asked about, by verdict", "verdict"], &verdicts)?;
    let reasons = [
        ("breaker_open", counts.refused_by_breaker),
        ("too_many_calls", counts.refused_by_limit),
        ("misdirected", counts.misdirected),
    ];
    let help = "Messages that the router did not decide about although no question failed, by reason";
    by_label(out, ["driftq_router_undecided", help, "reason"], &reasons)?;
    let labels: Vec<(&str, u64)> = counts.routed.iter().map(|(label, count)| (&**label, *count)).collect();
    by_label(out, ["driftq_router_routed", "Messages routed, by label", "label"], &labels)?;
    let cache = [("hit", counts.cache_hits), ("miss", counts.cache_misses)];
    by_label(out, ["driftq_router_cache", "Messages looked up in the cache, by result", "result"], &cache)?;
    gauge(out, "driftq_router_cache_entries", "Decisions remembered", counts.cache_entries)?;
    gauge(out, "driftq_router_calls_in_flight", "Questions under way", counts.in_flight)?;
    counter(out, "driftq_router_breaker_opened", "Times the breaker opened", counts.breaker_opened)?;
    let mut states =
        family(out, "driftq_router_breaker", "1 for the state the breaker is in", MetricType::Gauge)?;
    for (state, name) in STATES {
        let is_now = i64::from(counts.breaker == state);
        ConstGauge::new(is_now).encode(states.encode_family(&[("state", name)])?)?;
    }
    Ok(())
}

/// One family of counters that differ by one label.
fn by_label(
    out: &mut DescriptorEncoder<'_>,
    [name, help, label]: [&str; 3],
    counts: &[(&str, u64)],
) -> Result<(), Error> {
    let mut lines = family(out, name, help, MetricType::Counter)?;
    for (value, count) in counts {
        ConstCounter::new(*count).encode(lines.encode_family(&[(label, *value)])?)?;
    }
    Ok(())
}
