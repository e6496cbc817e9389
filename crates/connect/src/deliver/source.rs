//! Where the list of endpoints comes from, and who is told that one is disabled.

use std::time::Duration;

use driftq_client::wire::{self, EndpointSwitch};
use driftq_client::{Client, Error, escape};
use tokio::sync::watch;
use tokio::time::sleep;

use super::endpoint::{Disabled, Endpoint, State};
use super::event;

/// How long the server may wait for a change before it answers that there is none.
const POLL_MS: u64 = 20_000;
/// Most endpoints that one connector serves: each has a worker of its own.
const ENDPOINTS_MAX: usize = 1000;
/// Until a list that could not be had is asked for again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The endpoints that a connector serves.
#[derive(Clone, Debug)]
pub enum Endpoints {
    /// Those of the server, with every change.
    Server,
    /// Those that were given.
    Given(watch::Sender<Vec<Endpoint>>),
}

impl Endpoints {
    /// These, until others are set.
    #[must_use]
    pub fn given(endpoints: Vec<Endpoint>) -> Self {
        Self::Given(watch::Sender::new(endpoints))
    }

    /// Stops deliveries to an endpoint, wherever its settings are kept.
    pub(super) async fn disable(
        &self,
        client: &Client,
        endpoint: &Endpoint,
        reason: &str,
        by: &str,
    ) -> Result<(), Error> {
        match self {
            Self::Server => {
                // One that was changed since is not the one that failed.
                let expect_version = Some(endpoint.version);
                let disable = EndpointSwitch { reason: reason.to_owned(), by: by.to_owned(), expect_version };
                let path = format!("/v2/endpoints/{}/disable", escape(&endpoint.name));
                client.post::<wire::Endpoint>(&path, &disable).await.map(drop)
            }
            Self::Given(list) => {
                let (reason, by, at) = (reason.to_owned(), by.to_owned(), event::now());
                list.send_modify(|list| {
                    for found in list.iter_mut().filter(|found| found.name == endpoint.name) {
                        found.state = State::Disabled;
                        found.disabled = Some(Disabled { reason: reason.clone(), by: by.clone(), at });
                    }
                });
                Ok(())
            }
        }
    }

    pub(super) fn watch(&self) -> Watch {
        match self {
            Self::Server => Watch::Server { revision: None },
            Self::Given(list) => Watch::Given { list: list.subscribe(), is_new: true },
        }
    }
}

/// Waits for changes of the list.
pub(super) enum Watch {
    Server { revision: Option<u64> },
    Given { list: watch::Receiver<Vec<Endpoint>>, is_new: bool },
}

impl Watch {
    /// The list, and from the second time on: the next one. It may be dropped at any point.
    pub(super) async fn next(&mut self, client: &Client) -> Vec<Endpoint> {
        match self {
            Self::Server { revision } => changed(client, revision).await,
            Self::Given { list, is_new } => {
                if !*is_new && list.changed().await.is_err() {
                    // Whoever gave it is gone: it does not change any more.
                    return std::future::pending().await;
                }
                *is_new = false;
                list.borrow_and_update().clone()
            }
        }
    }
}

async fn changed(client: &Client, revision: &mut Option<u64>) -> Vec<Endpoint> {
    loop {
        let path = match revision {
            Some(revision) => format!("/v2/endpoints?revision={revision}&wait_ms={POLL_MS}"),
            None => "/v2/endpoints".to_owned(),
        };
        match list(client, path).await {
            Ok((endpoints, found)) if *revision != Some(found) => {
                *revision = Some(found);
                return endpoints;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "the endpoints could not be listed; those that are known go on");
                sleep(AGAIN_AFTER).await;
            }
        }
    }
}

/// All pages of the list. One that changes meanwhile has the revision of its first page, and is asked for again soon.
async fn list(client: &Client, path: String) -> Result<(Vec<Endpoint>, u64), Error> {
    let wire::Endpoints { mut endpoints, revision, mut cursor } = client.get(&path).await?;
    while let Some(after) = cursor {
        let page: wire::Endpoints = client.get(&format!("/v2/endpoints?cursor={}", escape(&after))).await?;
        endpoints.extend(page.endpoints);
        cursor = page.cursor;
        if endpoints.len() > ENDPOINTS_MAX {
            tracing::error!("there are more than {ENDPOINTS_MAX} endpoints; the rest of them are not served");
            endpoints.truncate(ENDPOINTS_MAX);
            break;
        }
    }
    Ok((endpoints.into_iter().map(Endpoint::from).collect(), revision))
}
