//! Real servers for tests: PostgreSQL, PgBouncer, Redis, SeaweedFS and NATS, each in a folder and on a port of its own.
//!
//! A server ends with the value that stands for it, and also when the test process is killed: a guard process waits
//! for the other end of a pipe to close. Nothing that was not started here is ever stopped.

mod guard;
mod nats;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod program;
mod redis;
mod seaweed;

pub use nats::{NATS_VARIABLE, Nats};
pub use pgbouncer::PgBouncer;
pub use postgres::{Builder, Postgres, SHARED_VARIABLE};
pub use process::{pause, resume};
pub use redis::Redis;
pub use seaweed::{Seaweed, WEED_VARIABLE};
