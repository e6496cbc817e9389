//! The server, seen from its sockets: the frozen dialect, its edges, a full disk, a router beside it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it should be")]

mod audit;
mod backup;
mod bench_tls;
mod broken_answers;
mod client_certificates;
mod cluster;
#[path = "../support/command.rs"]
mod command;
mod compat;
mod compat_answers;
mod compat_delivery;
mod compat_edge;
mod compat_fault;
mod compat_foreign;
mod compat_requests;
mod compat_stream;
mod compat_v2_read;
mod connect_beside;
mod credentials;
mod deliveries;
mod door;
mod edge_budget;
mod full_disk;
mod keys;
mod log_lost;
mod migrate;
mod nats_log;
mod ops;
mod otlp;
mod postgres_failover;
mod postgres_log;
mod postgres_tls;
mod quotas;
mod revoked_under_load;
#[path = "../../../server/tests/router_brain/mod.rs"]
mod router_brain;
mod router_load;
mod router_rules;
mod router_serve;
mod router_tls;
mod router_world;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod tenant_limits;
mod tenants;
mod tls;
mod traces;
