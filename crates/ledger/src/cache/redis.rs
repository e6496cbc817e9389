//! Copies in Redis, for all processes of a service.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use super::{Cache, CacheError, Entry, Fetching, Reading};
use crate::Identity;

/// Most bytes that are read of a copy; what is longer was not written by this library.
pub const COPY_BYTES_MAX: usize = 4 << 20;
/// A connection that takes longer than this to make is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A command that Redis does not answer within this time is given up.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest pause between two tries to connect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Most commands that wait for one connection.
const COMMANDS_MAX: usize = 1024;

/// Copies in Redis. It connects when it is first asked, and again after a connection broke; a caller that asks
/// meanwhile is told so at once or within the patience of [`Cached`](super::Cached).
///
/// A copy ends in Redis by its expiry, and for a reader by the wall clock as well, so that a command that was delayed
/// before it was run keeps nothing for longer. A process that can write to this Redis can make up answers: let only
/// your services reach it.
pub struct RedisCache {
    connection: ConnectionManager,
    prefix: String,
}

impl RedisCache {
    /// On the Redis at this address. `prefix` begins every key; every table of records needs its own, or one service
    /// would answer from the copies of another.
    pub fn new(url: &str, prefix: impl Into<String>) -> Result<Self, CacheError> {
        let client = redis::Client::open(url).map_err(|error| CacheError(error.to_string()))?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_max_delay(RECONNECT_PAUSE_MAX)
            .set_pipeline_buffer_size(COMMANDS_MAX)
            .set_concurrency_limit(COMMANDS_MAX)
            .set_number_of_retries(1);
        let connection = ConnectionManager::new_lazy_with_config(client, config)
            .map_err(|error| CacheError(error.to_string()))?;
        Ok(Self { connection, prefix: prefix.into() })
    }

    /// Where the copy for this identity is. A hash, so that any identity fits and none runs into another.
    #[must_use]
    pub fn key(&self, identity: &Identity) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [identity.principal(), identity.method(), identity.key()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        format!("{}{}", self.prefix, hasher.finalize().to_hex())
    }

    async fn fetch(&self, identity: &Identity) -> Result<Option<Arc<Entry>>, CacheError> {
        let mut connection = self.connection.clone();
        // Reads no more than a copy can have, whatever lies under that key.
        let mut command = redis::cmd("GETRANGE");
        command.arg(self.key(identity)).arg(0).arg(COPY_BYTES_MAX);
        let bytes: Vec<u8> = command.query_async(&mut connection).await.map_err(|error| said(&error))?;
        Ok(Entry::from_bytes(&bytes, Reading::now()).map(Arc::new))
    }

    async fn store(&self, entry: &Entry) -> Result<(), CacheError> {
        let now = Reading::now();
        let millis = u64::try_from(entry.until.left(now).as_millis()).unwrap_or(u64::MAX);
        let Some(bytes) = entry.to_bytes(now).filter(|bytes| bytes.len() <= COPY_BYTES_MAX && millis > 0)
        else {
            return Ok(());
        };
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("SET");
        command.arg(self.key(&entry.identity)).arg(bytes).arg("PX").arg(millis);
        command.query_async::<()>(&mut connection).await.map_err(|error| said(&error))
    }
}

fn said(error: &redis::RedisError) -> CacheError {
    CacheError(error.to_string())
}

impl Cache for RedisCache {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn get<'a>(&'a self, identity: &'a Identity) -> Fetching<'a, Option<Arc<Entry>>> {
        Box::pin(self.fetch(identity))
    }

    fn put<'a>(&'a self, entry: &'a Arc<Entry>) -> Fetching<'a, ()> {
        Box::pin(self.store(entry))
    }
}
