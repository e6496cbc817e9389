//! Whole shards under simulated crashes, lapses, duplicates and reordering.
//!
//! The real core and the real log run on a disk that forgets ([`disk`]), driven by a shell that can be stopped
//! between any two steps ([`server`]), by clients that retry, repeat and come too late (`clients` in a [`world`]), and
//! watched by an oracle that knows only what clients know and, after a crash, what a reader finds ([`oracle`]).
//! Nothing here reads a clock or rolls dice: a seed is a story, and every story is told twice and must be the same.

mod asked;
mod books;
mod clients;
mod cluster;
mod commits;
pub mod disk;
mod effect_trials;
mod effects;
mod engine;
mod entities;
mod house;
mod operator;
pub mod oracle;
mod producers;
mod recovery;
pub mod rng;
pub mod run;
mod seat;
pub mod server;
mod store;
pub mod trace;
mod trials;
mod workers;
pub mod world;
