//! The engine with real threads and real files: one program, because each would link the engine again.

mod broker;
mod browsers;
mod common;
mod damaged;
mod effects;
mod faults;
mod flips;
mod router_batch;
mod router_brain;
mod router_hook;
mod space;
mod streams;
mod tools;
