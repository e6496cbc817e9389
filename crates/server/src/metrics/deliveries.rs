//! What the connectors in this process have sent, by endpoint and result, and which endpoints are left alone.

use std::fmt::{self, Error};
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::scrape::family;

/// Where the breaker of an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointBreaker {
    /// Deliveries are sent.
    Closed,
    /// They wait.
    Open,
    /// They wait for how one of them ends.
    HalfOpen,
}

/// Every state has a line of its own, so that a dashboard needs no table of numbers.
const STATES: [(EndpointBreaker, &str); 3] = [
    (EndpointBreaker::Closed, "closed"),
    (EndpointBreaker::Open, "open"),
    (EndpointBreaker::HalfOpen, "half_open"),
];

/// The sends to one endpoint, and how it stands.
#[derive(Clone, Debug)]
pub struct EndpointSends {
    /// Its name.
    pub endpoint: String,
    /// Sends that the receiver took.
    pub delivered: u64,
    /// Sends that it did not get, or did not take.
    pub failed: u64,
    /// Sends that it may have got.
    pub unknown: u64,
    /// Where its breaker stands.
    pub breaker: EndpointBreaker,
    /// Whether its deliveries wait until an operator enables it.
    pub is_disabled: bool,
}

/// Asks connectors in this process what they have sent.
#[derive(Clone)]
pub struct Deliveries(Arc<dyn Fn() -> Vec<EndpointSends> + Send + Sync>);

impl Deliveries {
    /// By a function that answers at once, with as many endpoints as there are.
    pub fn new(read: impl Fn() -> Vec<EndpointSends> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

impl fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deliveries(…)")
    }
}

pub(super) fn encode(out: &mut DescriptorEncoder<'_>, deliveries: &Deliveries) -> Result<(), Error> {
    let endpoints = (deliveries.0)();
    let help = "Sends of the connectors in this process, by endpoint and result";
    let mut sends = family(out, "driftq_delivery_sends", help, MetricType::Counter)?;
    for sent in &endpoints {
        let results = [("delivered", sent.delivered), ("failed", sent.failed), ("unknown", sent.unknown)];
        for (result, count) in results {
            let labels = [("endpoint", &*sent.endpoint), ("result", result)];
            ConstCounter::new(count).encode(sends.encode_family(&labels)?)?;
        }
    }
    let help = "1 for the state that the breaker of the endpoint is in";
    let mut breakers = family(out, "driftq_endpoint_breaker", help, MetricType::Gauge)?;
    for sent in &endpoints {
        for (state, name) in STATES {
            let labels = [("endpoint", &*sent.endpoint), ("state", name)];
            ConstGauge::new(i64::from(sent.breaker == state)).encode(breakers.encode_family(&labels)?)?;
        }
    }
    let help = "1 if deliveries to the endpoint wait until an operator enables it";
    let mut disabled = family(out, "driftq_endpoint_disabled", help, MetricType::Gauge)?;
    for sent in &endpoints {
        let labels = [("endpoint", &*sent.endpoint)];
        ConstGauge::new(i64::from(sent.is_disabled)).encode(disabled.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use driftq_engine::{Counters, Status};

    use super::*;
    use crate::metrics::{self, Format, Metrics};

    #[test]
    fn endpoints_are_told_by_result_state_and_whether_they_are_disabled() {
        let metrics = Metrics::default();
        let status = Status {
            ready: true,
            writable: true,
            settles: true,
            durable: true,
            epoch: 1,
            why: None,
            data: None,
        };
        let text =
            || metrics::encode(Format::Text, &metrics, Counters::default(), &status, None, None).unwrap();
        assert!(!text().contains("driftq_endpoint"), "a server without connectors says nothing of them");
        metrics.also_tell(Deliveries::new(|| {
            vec![EndpointSends {
                endpoint: "shop".to_owned(),
                delivered: 3,
                failed: 2,
                unknown: 1,
                breaker: EndpointBreaker::Open,
                is_disabled: true,
            }]
        }));
        let text = text();
        for line in [
            "# TYPE driftq_delivery_sends_total counter",
            "driftq_delivery_sends_total{endpoint=\"shop\",result=\"delivered\"} 3",
            "driftq_delivery_sends_total{endpoint=\"shop\",result=\"failed\"} 2",
            "driftq_delivery_sends_total{endpoint=\"shop\",result=\"unknown\"} 1",
            "driftq_endpoint_breaker{endpoint=\"shop\",state=\"closed\"} 0",
            "driftq_endpoint_breaker{endpoint=\"shop\",state=\"open\"} 1",
            "driftq_endpoint_disabled{endpoint=\"shop\"} 1",
        ] {
            assert!(text.lines().any(|candidate| candidate == line), "{line} in {text}");
        }
    }
}
