//! Outbound deliveries: webhooks, HTTP calls and e-mails, each an effect.

pub mod address;
pub mod attempt;
pub mod breaker;
pub mod connect;
pub mod email;
pub mod endpoint;
pub mod request;
pub mod schedule;
pub mod send;
pub mod signature;
pub mod target;
mod watched;
