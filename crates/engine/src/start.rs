//! How a broker comes to life.

use std::sync::Arc;

use driftq_core::ASIDE_FACTS_BYTES_MAX;
use driftq_wal::{Disk, FRAME_BODY_BYTES_MAX, Options, RealDisk};

use crate::broker::Broker;
use crate::config::{Config, Storage};
use crate::decide::BATCH_BYTES_SOFT_MAX;
use crate::failure::StartError;
use crate::log::{self, FileLog, Log};
use crate::request::Recovery;
use crate::shared::Shared;
use crate::supervise;

/// A batch holds what is left of its soft limit and one message more, and must fit one frame of the log.
const MESSAGE_BYTES_MAX: usize = FRAME_BODY_BYTES_MAX as usize / 2;
const _: () = assert!(
    BATCH_BYTES_SOFT_MAX + MESSAGE_BYTES_MAX + ASIDE_FACTS_BYTES_MAX <= FRAME_BODY_BYTES_MAX as usize
);
// The refusal names it.
const _: () = assert!(MESSAGE_BYTES_MAX == 40 << 20);

/// A broker that serves, and what it found.
pub struct Started {
    /// The handle.
    pub broker: Broker,
    /// What it found.
    pub recovery: Recovery,
}

impl Broker {
    /// Starts a broker: opens the log, recovers, and answers when requests are served. Blocks; not for a task.
    pub fn start(config: Config) -> Result<Started, StartError> {
        match config.storage.clone() {
            Storage::Ephemeral => {
                let log = log::in_memory(config.segment_bytes);
                launch(config, log)
            }
            Storage::Directory(path) => {
                let disk = RealDisk::create(&path)
                    .map_err(|source| StartError::Directory { path: path.display().to_string(), source })?;
                Self::start_on(config, disk)
            }
            #[cfg(feature = "postgres")]
            Storage::Postgres(place) => {
                let log = log::PostgresLog::new(place, config.segment_bytes)?;
                launch(config, log)
            }
            #[cfg(not(feature = "postgres"))]
            Storage::Postgres(_) => Err(StartError::Config(
                "this build keeps no log in PostgreSQL; build it with `cargo build --release --features full`",
            )),
            #[cfg(feature = "nats")]
            Storage::Nats(place) => {
                let log = log::NatsLog::new(place, config.segment_bytes)?;
                launch(config, log)
            }
            #[cfg(not(feature = "nats"))]
            Storage::Nats(_) => Err(StartError::Config(
                "this build keeps no log in NATS; build it with `cargo build --release --features full`",
            )),
        }
    }

    /// Starts a broker on a disk of the caller's making, for tests that need one that fails.
    pub fn start_on<D: Disk>(config: Config, disk: D) -> Result<Started, StartError> {
        let reserve_bytes = u64::from(config.segment_bytes / 2);
        let options = Options { segment_bytes: config.segment_bytes, reserve_bytes, ..Options::default() };
        launch(config, FileLog::new(disk, options))
    }
}

fn launch<L: Log>(mut config: Config, log: L) -> Result<Started, StartError> {
    if config.message_bytes_max > MESSAGE_BYTES_MAX {
        return Err(StartError::Config("message_bytes_max must be at most 40 MiB"));
    }
    if config.input_queue_max == 0 || config.stream_credit == 0 {
        return Err(StartError::Config("input_queue_max and stream_credit must be at least 1"));
    }
    if config.settings.seed == 0 {
        // Secret by default: no producer can then choose keys that collide or guess the jitter.
        config.settings.seed = Options::default().salt.rotate_left(17) | 1;
    }
    let data = match &config.storage {
        Storage::Ephemeral | Storage::Postgres(_) | Storage::Nats(_) => None,
        Storage::Directory(path) => Some(path.clone()),
    };
    let is_durable = config.storage != Storage::Ephemeral;
    let shared = Arc::new(Shared::new(config, data, is_durable));
    let (broker, recovery) = supervise::start(shared, log)?;
    Ok(Started { broker, recovery })
}
