//! The command line, used as people and scripts use it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it should be")]

#[path = "../support/command.rs"]
mod command;
mod config;
mod contexts;
mod demo;
mod desk;
mod dev;
mod effect_run;
mod effects;
mod export;
mod lifecycle;
mod manners;
mod native;
mod native_dlq;
mod native_lease;
mod papercuts;
mod report;
mod round_trip;
mod scenarios;
mod script;
#[path = "../support/secured.rs"]
mod secured;
#[path = "../support/stranger.rs"]
mod stranger;
#[path = "../support/mod.rs"]
mod support;
mod top;
mod trust;
mod work;
