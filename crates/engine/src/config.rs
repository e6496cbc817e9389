//! The knobs of the engine, with every default in one place.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use driftq_core::Settings;

use crate::log::{NatsPlace, PostgresPlace};
use crate::router::RouterHook;

/// Where the log lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In memory: gone with the process.
    Ephemeral,
    /// In a directory that belongs to this broker alone.
    Directory(PathBuf),
    /// In a PostgreSQL database, where another server can take it over.
    Postgres(PostgresPlace),
    /// In a stream of NATS JetStream, where another server can take it over.
    Nats(NatsPlace),
}

/// Who writes a sealed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Always the log thread: the next batch is decided while this one is synced.
    Thread,
    /// Always the decide thread: fewest wake-ups, nothing is decided during a sync.
    Inline,
    /// The decide thread when nothing else waits for it, the log thread otherwise.
    Adaptive,
}

/// Everything the engine can be told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the log lives.
    pub storage: Storage,
    /// How many shards there are; zero: as many as there were.
    pub shards: u8,
    /// The limits and times of every shard.
    pub settings: Settings,
    /// Size of one segment file of the log.
    pub segment_bytes: u32,
    /// A snapshot is made after this many bytes of log, or after as many as the one before has if that is more; of a log
    /// that takes longer to read than one on a disk, after as much as takes as long.
    pub snapshot_every_bytes: u64,
    /// Newest payloads kept in memory for readers at the tail; an eighth of it again serves readers of old ones.
    pub payload_cache_bytes: usize,
    /// Requests that may wait for the decide thread.
    pub input_queue_max: usize,
    /// Payload bytes of requests that may wait for the decide thread.
    pub input_queue_bytes_max: usize,
    /// Deliveries under way to one stream and not yet written out.
    pub stream_credit: u32,
    /// Largest encoded message; a larger one is refused.
    pub message_bytes_max: usize,
    /// Who writes a sealed batch.
    pub commit: WriteMode,
    /// How long a graceful stop waits for open streams to end.
    pub stop_grace: Duration,
    /// Asked about messages before they are stored.
    pub router: Option<Arc<RouterHook>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            storage: Storage::Ephemeral,
            shards: 0,
            settings: Settings::default(),
            segment_bytes: 32 << 20,
            snapshot_every_bytes: 256 << 20,
            payload_cache_bytes: 16 << 20,
            input_queue_max: 8_192,
            input_queue_bytes_max: 64 << 20,
            stream_credit: 32,
            message_bytes_max: 16 << 20,
            commit: WriteMode::Adaptive,
            stop_grace: Duration::from_secs(5),
            router: None,
        }
    }
}
