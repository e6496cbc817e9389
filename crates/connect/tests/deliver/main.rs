//! Deliveries, from a single signature to a connector that is killed again and again.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod addresses;
mod attempts;
mod bench;
mod dns;
mod flows;
mod kills;
mod listed;
mod mail_server;
mod mails;
mod rebinding;
mod receiver;
mod schedules;
mod secrets;
mod sending;
mod signatures;
mod standings;
mod targets;
mod tls;
