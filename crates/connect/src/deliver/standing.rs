//! Since when an endpoint fails, kept by the server: a connector that is started anew goes on counting.
//!
//! An endpoint has an entity. Its version is odd while every send fails, and it was raised when that was noticed. So it
//! is written twice for each such time, however many connectors there are, and read once by each of them.

use std::borrow::Cow;
use std::time::Duration;

use driftq_client::wire::{Commit, Entity, Expected};
use driftq_client::{Client, Code, Error, Moment, escape};
use tokio::sync::Mutex;

use super::endpoint::Endpoint;
use super::event;

/// What the names of these entities begin with.
const ENTITY_PREFIX: &str = "endpoint.";
/// For how long every send must have failed before it is written down; a part of the time after which an endpoint is
/// disabled, if that is short. One failure among successes is not worth it.
const WRITTEN_AFTER_MAX: Duration = Duration::from_secs(60);
const WRITTEN_AFTER_PART: u32 = 100;

/// What is known of the entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// It was not read, or another connector has changed it since.
    #[default]
    Nothing,
    /// It says nothing about the endpoint as it is now.
    Working { version: u64 },
    /// Every send has failed since then.
    Failing { version: u64, since: Moment },
}

/// How one endpoint stands, across connectors and their ends.
#[derive(Debug, Default)]
pub(super) struct Standing(Mutex<Known>);

impl Standing {
    /// A send has failed, and in this process all have failed for so long. For how long have they failed in all?
    pub(super) async fn failed(&self, client: &Client, endpoint: &Endpoint, here: Duration) -> Duration {
        // Other sends to the endpoint do not wait for one that asks.
        let Ok(mut known) = self.0.try_lock() else { return here };
        let written_after = (endpoint.disable_after() / WRITTEN_AFTER_PART).min(WRITTEN_AFTER_MAX);
        let outcome = async {
            read(&mut known, client, endpoint).await?;
            if let Known::Working { version } = *known
                && here >= written_after
            {
                let mut version = raise(&mut known, client, endpoint, version).await?;
                // It was failing before the endpoint was changed, which is over.
                if version % 2 == 0 {
                    version = raise(&mut known, client, endpoint, version).await?;
                }
                *known = Known::Failing { version, since: event::now() };
            }
            Ok(())
        };
        tell(endpoint, outcome.await);
        match *known {
            Known::Failing { since, .. } => here.max(elapsed(since)),
            Known::Nothing | Known::Working { .. } => here,
        }
    }

    /// A send has arrived: whatever was, is over.
    pub(super) async fn succeeded(&self, client: &Client, endpoint: &Endpoint) {
        let Ok(mut known) = self.0.try_lock() else { return };
        let outcome = async {
            read(&mut known, client, endpoint).await?;
            if let Known::Failing { version, .. } = *known {
                let version = raise(&mut known, client, endpoint, version).await?;
                *known = Known::Working { version };
            }
            Ok(())
        };
        tell(endpoint, outcome.await);
    }
}

/// A delivery does not fail because this cannot be written down.
fn tell(endpoint: &Endpoint, outcome: Result<(), Error>) {
    match outcome {
        Ok(()) => {}
        // Another connector was quicker: it is read at the next send.
        Err(error) if error.code() == Some(Code::PreconditionFailed) => {}
        Err(error) => {
            tracing::warn!(
                endpoint = endpoint.name,
                %error,
                "since when it fails, or that it works again, is known to this process only"
            );
        }
    }
}

async fn read(known: &mut Known, client: &Client, endpoint: &Endpoint) -> Result<(), Error> {
    if *known == Known::Nothing {
        let entity: Entity<'static> =
            client.get(&format!("/v2/entities/{}", escape(&name(endpoint)))).await?;
        *known = judged(&entity, endpoint.changed_at);
    }
    Ok(())
}

/// What an entity says. What it said before the endpoint was changed or enabled does not count any more.
fn judged(entity: &Entity<'_>, changed_at: Option<Moment>) -> Known {
    let version = entity.version;
    match entity.raised_at {
        Some(since) if version % 2 == 1 && changed_at.is_none_or(|changed_at| changed_at <= since) => {
            Known::Failing { version, since }
        }
        _ => Known::Working { version },
    }
}

/// Raises the entity by one, if it still has this version, and says which it has then.
async fn raise(known: &mut Known, client: &Client, endpoint: &Endpoint, version: u64) -> Result<u64, Error> {
    // Until it is certain what became of it.
    *known = Known::Nothing;
    let expect = vec![Expected { entity: Cow::Owned(name(endpoint)), version }];
    client.commit(&Commit { expect, ..Commit::default() }).await?;
    Ok(version + 1)
}

fn name(endpoint: &Endpoint) -> String {
    format!("{ENTITY_PREFIX}{}", endpoint.name)
}

/// How long ago it was; no time at all if clocks differ.
fn elapsed(since: Moment) -> Duration {
    let (seconds, nanos) = since.parts();
    let since = Duration::new(u64::try_from(seconds).unwrap_or_default(), nanos);
    event::since_epoch().saturating_sub(since)
}
