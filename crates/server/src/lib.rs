//! The server: the HTTP edge around the broker, its configuration, its metrics, its log, and the router's brains.

pub mod config;
pub mod http;
pub mod log;
mod metrics;
pub mod router;
mod trace;

pub use metrics::{Deliveries, EndpointBreaker, EndpointSends, MetricFamily, metric_families};
