//! What `/metrics` can say, as a table: made from what is scraped, so that it lists what there is.

use std::collections::BTreeMap;

use driftq_engine::core::Tally;
use driftq_engine::router::RouterCounts;
use driftq_engine::{Counters, Status};

use super::{Deliveries, Format, Metrics, encode};

/// A family of metrics, as `/metrics` declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricFamily {
    /// Its name.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// What it counts.
    pub help: String,
}

/// Every family that a server can have, with a router and connectors beside it, by name.
pub fn metric_families() -> Vec<MetricFamily> {
    let metrics = Metrics::default();
    metrics.also_tell(Deliveries::new(Vec::new));
    let status =
        Status { ready: true, writable: true, settles: true, durable: true, epoch: 1, why: None, data: None };
    let (tally, router) = (Some(Tally::default()), Some(RouterCounts::default()));
    let text = encode(Format::Text, &metrics, Counters::default(), &status, tally, router);
    let text = text.expect("texts take what is written");
    let told = |line: &str, word: &str| {
        let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
        Some((name.to_owned(), rest.to_owned()))
    };
    let helps: BTreeMap<_, _> = text.lines().filter_map(|line| told(line, "# HELP ")).collect();
    let kinds: BTreeMap<_, _> = text.lines().filter_map(|line| told(line, "# TYPE ")).collect();
    let families = kinds.into_iter().map(|(name, kind)| {
        let help = helps.get(&name).map_or("", |help| help.trim_end_matches('.')).to_owned();
        MetricFamily { name, kind, help }
    });
    families.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_in_the_table_and_says_what_it_counts() {
        let families = metric_families();
        for name in [
            "driftq_ready",
            "driftq_trace_spans_dropped_total",
            "consumer_lag",
            "driftq_delivery_sends_total",
        ] {
            assert!(families.iter().any(|family| family.name == name), "{name} in {families:?}");
        }
        for family in &families {
            assert!(!family.help.is_empty() && !family.kind.is_empty(), "{family:?}");
        }
    }
}
