//! How a broker comes to life.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driftq_core::{ASIDE_FACTS_BYTES_MAX, SHARDS_MAX, ShardId};
use driftq_wal::{Disk, FRAME_BODY_BYTES_MAX, Options, RealDisk};

use crate::broker::Broker;
use crate::config::{Config, Storage};
use crate::decide::BATCH_BYTES_SOFT_MAX;
use crate::failure::StartError;
use crate::house::{HOME, House};
use crate::log::{self, FileLog, Log};
use crate::request::Recovery;
use crate::shared::Shared;
use crate::supervise::Starting;

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
    /// Starts a broker: opens the logs, recovers, and answers when requests are served. Blocks; not for a task.
    pub fn start(config: Config) -> Result<Started, StartError> {
        let storage = config.storage.clone();
        match &storage {
            Storage::Ephemeral => launch(config, |house, _| Ok(log::in_memory(house.config.segment_bytes))),
            Storage::Directory(path) => {
                let place = format!("the data directory {}", path.display());
                let shards = shards_of(&place, shards_in(path)?, config.shards)?;
                launch(Config { shards, ..config }, |house, shard| {
                    let path = shard_directory(path, shard);
                    let disk = RealDisk::create(&path).map_err(|source| StartError::Directory {
                        path: path.display().to_string(),
                        source,
                    })?;
                    Ok(on_disk(&house.config, disk))
                })
            }
            #[cfg(feature = "postgres")]
            Storage::Postgres(place) => {
                let log = |shard, bytes| log::PostgresLog::new(place.clone(), shard, bytes);
                let found = log(HOME, config.segment_bytes)?.shards()?;
                let shards = shards_of(&format!("the schema {}", place.schema), found, config.shards)?;
                launch(Config { shards, ..config }, |house, shard| log(shard, house.config.segment_bytes))
            }
            #[cfg(not(feature = "postgres"))]
            Storage::Postgres(_) => Err(StartError::Config(
                "this build keeps no log in PostgreSQL; build it with `cargo build --release --features full`",
            )),
            #[cfg(feature = "nats")]
            Storage::Nats(place) => {
                let log = |shard, bytes| log::NatsLog::new(place.clone(), shard, bytes);
                let found = log(HOME, config.segment_bytes)?.shards()?;
                let shards = shards_of("the log in NATS", found, config.shards)?;
                launch(Config { shards, ..config }, |house, shard| log(shard, house.config.segment_bytes))
            }
            #[cfg(not(feature = "nats"))]
            Storage::Nats(_) => Err(StartError::Config(
                "this build keeps no log in NATS; build it with `cargo build --release --features full`",
            )),
        }
    }

    /// Starts a broker with one shard on a disk of the caller's making, for tests that need one that fails.
    pub fn start_on<D: Disk>(config: Config, disk: D) -> Result<Started, StartError> {
        let mut disk = Some(disk);
        launch(Config { shards: 1, ..config }, |house, _| {
            let disk = disk.take().ok_or(StartError::Config("there is one disk for one shard"))?;
            Ok(on_disk(&house.config, disk))
        })
    }
}

fn on_disk<D: Disk>(config: &Config, disk: D) -> FileLog<D> {
    let reserve_bytes = u64::from(config.segment_bytes / 2);
    FileLog::new(disk, Options { segment_bytes: config.segment_bytes, reserve_bytes, ..Options::default() })
}

/// Starts all shards of a broker, the first one before the others: it says how tokens are sealed.
fn launch<L: Log>(
    mut config: Config,
    mut log: impl FnMut(&House, ShardId) -> Result<L, StartError>,
) -> Result<Started, StartError> {
    if config.message_bytes_max > MESSAGE_BYTES_MAX {
        return Err(StartError::Config("message_bytes_max must be at most 40 MiB"));
    }
    if config.input_queue_max == 0 || config.stream_credit == 0 {
        return Err(StartError::Config("input_queue_max and stream_credit must be at least 1"));
    }
    if config.shards > SHARDS_MAX {
        return Err(StartError::Config("there are at most 64 shards"));
    }
    if config.settings.seed == 0 {
        // Secret by default: no producer can then choose keys that collide or guess the jitter.
        config.settings.seed = Options::default().salt.rotate_left(17) | 1;
    }
    let count = config.shards.max(1);
    // One cache for all of them, as large as it was told to be.
    config.payload_cache_bytes /= usize::from(count);
    let data = match &config.storage {
        Storage::Ephemeral | Storage::Postgres(_) | Storage::Nats(_) => None,
        Storage::Directory(path) => Some(path.clone()),
    };
    let is_durable = config.storage != Storage::Ephemeral;
    let house = Arc::new(House::new(config));
    let shard = |number| Arc::new(Shared::new(ShardId(number), Arc::clone(&house), data.clone(), is_durable));
    let shards: Vec<Arc<Shared>> = (0..count).map(shard).collect();
    house.furnish(&shards);
    let (decide, mut recovery) = Starting::begin(Arc::clone(&shards[0]), log(&house, HOME)?)?.wait()?;
    let broker = Broker::new(Arc::clone(&house), shards, vec![decide]);
    let others = broker.shards()[1..].iter();
    // All of them before the first is waited for: they recover beside each other.
    let begun: Vec<_> = others
        .map(|shared| log(&house, shared.id).and_then(|log| Starting::begin(Arc::clone(shared), log)))
        .collect();
    let mut failed = None;
    for begun in begun {
        match begun.and_then(Starting::wait) {
            Ok((decide, found)) => {
                broker.join_later(decide);
                recovery = recovery.with(found);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if let Some(error) = failed {
        broker.end();
        return Err(error);
    }
    Ok(Started { broker, recovery })
}

/// Where the log of a shard lies: that of the first one where it always did.
pub(crate) fn shard_directory(data: &Path, shard: ShardId) -> PathBuf {
    if shard == HOME { data.to_path_buf() } else { data.join(format!("shard-{}", shard.0)) }
}

/// How many shards there are in a directory.
pub(crate) fn shards_in(data: &Path) -> Result<u8, StartError> {
    let is_there = |number: &u8| shard_directory(data, ShardId(*number)).is_dir();
    let last = (1..SHARDS_MAX).rev().find(is_there).unwrap_or(0);
    match (1..last).find(|number| !is_there(number)) {
        None => Ok(last + 1),
        Some(missing) => Err(StartError::Damaged(format!(
            "{} is missing, and there is a {}: put the directory back from a backup",
            shard_directory(data, ShardId(missing)).display(),
            shard_directory(data, ShardId(last)).display()
        ))),
    }
}

/// As many shards as are wanted, or as there are if nothing is said. What lies in a shard stays there: there can be more
/// of them later, but not fewer.
fn shards_of(place: &str, found: u8, wanted: u8) -> Result<u8, StartError> {
    if wanted > 0 && wanted < found {
        return Err(StartError::Shards { place: place.to_owned(), found, wanted });
    }
    Ok(wanted.max(found))
}
