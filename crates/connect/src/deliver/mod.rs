//! Outbound deliveries: webhooks, HTTP calls and e-mails, each an effect.
//!
//! What is decided is in [`address`], [`target`], [`signature`], [`schedule`] and [`breaker`], without clock and network;
//! [`send`] and [`email`] carry one attempt out and say what is certain about it; `flow` makes an effect of it, and
//! [`worker`] runs a worker for each endpoint.

pub mod address;
pub mod attempt;
pub mod breaker;
mod config;
pub mod connect;
mod counts;
pub mod email;
pub mod endpoint;
pub mod event;
mod flow;
mod lane;
pub mod request;
pub mod schedule;
pub mod send;
pub mod signature;
pub mod source;
mod standing;
pub mod target;
mod watched;
pub mod worker;

pub use config::DeliveriesConfig;
pub use counts::{Counts, EndpointCounts};
pub use endpoint::Endpoint;
pub use source::Endpoints;
pub use worker::{Connector, ConnectorStopper, Settings};
