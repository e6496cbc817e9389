//! Calls whose answer must not get lost: they are made again until there is one.

use std::{
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use driftq_http::Patience;
use serde::{Serialize, de::DeserializeOwned};

use crate::client::{CallError, Session};

/// A lost answer is asked for again for this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Makes a call that is safe to repeat, again and again while the server is away or overloaded.
pub(super) async fn patiently<T: DeserializeOwned>(
    session: &mut Session,
    path: &str,
    body: &impl Serialize,
    wait_ms: u64,
) -> Result<T, CallError> {
    let retry = Patience::lasting(PATIENCE + Duration::from_millis(wait_ms));
    session.post_retrying(path, body, retry).await.0
}

/// A name for a call that nobody else has: the process and the moment are enough on one machine.
pub(super) fn fresh_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("cli-{}-{now:x}", process::id())
}
