//! The ledger on every store, behind every layer: one program, because each would link all of them again.
#![allow(clippy::unwrap_used, reason = "an error here is a failed test")]

mod cache;
mod cache_conformance;
mod cache_postgres;
mod cache_redis;
mod cache_twin;
mod duplicates;
mod example;
mod grpc;
mod guide;
mod http;
mod lost;
mod memory;
mod memory_model;
mod memory_store;
mod postgres;
mod postgres_deploys;
mod postgres_durable;
mod postgres_faults;
mod postgres_libraries;
mod postgres_migrations;
mod postgres_plans;
mod postgres_rows;
mod postgres_storage;
mod postgres_sweeps;
mod postgres_tls;
mod postgres_transactions;
mod postgres_waits;
mod run;
mod sealed;
mod support;
