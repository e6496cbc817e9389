//! The connector: a worker for each endpoint, so that one that hangs delays only itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_client::{Client, Error, LEASE, Worker};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::address::Allowed;
use super::connect::Connections;
use super::counts::Counts;
use super::endpoint::Endpoint;
use super::lane::{Common, Lane};
use super::source::Endpoints;
use super::target::Resolver;
use super::{event, flow};
use crate::secret::SealingKey;

/// Until a worker that ended by itself is started again.
const RESTART_AFTER: Duration = Duration::from_secs(5);
/// How much longer than a send a worker that is stopping waits for it.
const DRAIN_MARGIN: Duration = Duration::from_secs(5);

/// How a connector works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where deliveries may go beyond the public Internet.
    pub allowed: Allowed,
    /// Who is asked for addresses.
    pub resolver: Resolver,
    /// Authorities to trust on top of those of the system.
    pub ca_file: Option<PathBuf>,
    /// The key that sealed secrets open with.
    pub key: Option<SealingKey>,
    /// Its name, for people to read; a unique one if not given.
    pub owner: Option<String>,
    /// How long a delivery is on loan unless it is extended: how long it waits if this process dies.
    pub lease: Duration,
    /// Where sends are counted.
    pub counts: Counts,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allowed: Allowed::default(),
            resolver: Resolver::System,
            ca_file: None,
            key: None,
            owner: None,
            lease: LEASE,
            counts: Counts::default(),
        }
    }
}

/// Makes the deliveries of a server's endpoints. Any number of them may run.
#[must_use = "a connector does nothing until it is run"]
#[derive(Debug)]
pub struct Connector {
    common: Arc<Common>,
    stop: watch::Sender<bool>,
}

/// Tells a connector to end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ConnectorStopper(watch::Sender<bool>);

impl ConnectorStopper {
    /// No more is borrowed, and what is being sent may end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Connector {
    /// A connector of this server.
    ///
    /// # Errors
    /// If the file of authorities cannot be read, or the system has no randomness.
    pub fn new(client: &Client, endpoints: Endpoints, settings: Settings) -> Result<Self, Error> {
        let Settings { allowed, resolver, ca_file, key, owner, lease, counts } = settings;
        let connections = Connections::new(allowed, resolver, ca_file.as_deref()).map_err(Error::Invalid)?;
        let owner = match owner {
            Some(owner) => owner,
            None => {
                let number = getrandom::u32().map_err(|error| Error::Invalid(error.to_string()))?;
                format!("deliver-{}-{number:08x}", std::process::id())
            }
        };
        let (client, since) = (client.clone(), Instant::now());
        let common = Common { client, endpoints, connections, key, owner, lease, counts, since };
        Ok(Self { common: Arc::new(common), stop: watch::Sender::new(false) })
    }

    /// A handle that stops it from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> ConnectorStopper {
        ConnectorStopper(self.stop.clone())
    }

    /// Works until it is told to stop, and what was being sent has ended. A server that is away is waited for.
    pub async fn run(self) {
        event::prepare(&self.common.client).await;
        let mut list = self.common.endpoints.watch();
        let mut stopped = self.stop.subscribe();
        let mut kept: BTreeMap<String, watch::Sender<Option<Endpoint>>> = BTreeMap::new();
        let mut keepers = JoinSet::new();
        loop {
            let endpoints = tokio::select! {
                endpoints = list.next(&self.common.client) => endpoints,
                _ = stopped.wait_for(|is_stopped| *is_stopped) => break,
                // A name whose keeper has ended may come back.
                Some(_) = keepers.join_next(), if !keepers.is_empty() => continue,
            };
            self.common.counts.serve(&endpoints);
            let names: Vec<&str> = endpoints.iter().map(|endpoint| &*endpoint.name).collect();
            kept.retain(|name, wanted| {
                let is_listed = names.contains(&&**name);
                if !is_listed {
                    wanted.send_replace(None);
                }
                is_listed
            });
            for endpoint in endpoints {
                let wanted = kept.entry(endpoint.name.clone()).or_insert_with(|| {
                    let wanted = watch::Sender::new(None);
                    keepers.spawn(keep(Arc::clone(&self.common), wanted.subscribe(), endpoint.name.clone()));
                    wanted
                });
                let new = Some(endpoint);
                wanted.send_if_modified(|current| {
                    let is_new = *current != new;
                    *current = new.clone();
                    is_new
                });
            }
        }
        // What is no longer wanted ends.
        drop(kept);
        while keepers.join_next().await.is_some() {}
    }
}

/// Runs the worker of one endpoint, with the settings that are wanted now, until it is no longer wanted.
async fn keep(common: Arc<Common>, mut wanted: watch::Receiver<Option<Endpoint>>, name: String) {
    let mut is_first = true;
    loop {
        let endpoint = wanted.borrow_and_update().clone();
        match endpoint {
            Some(endpoint) if endpoint.is_enabled() => {
                let lane = Arc::new(Lane::new(&common, endpoint, wanted.clone()));
                if !work(&lane, &mut wanted).await {
                    return;
                }
            }
            None if !is_first => return,
            _ => {
                if wanted.changed().await.is_err() {
                    return;
                }
            }
        }
        is_first = false;
        tracing::debug!(endpoint = name, "its settings have changed, or its worker has ended");
    }
}

/// Works until the settings change; false if it is over.
async fn work(lane: &Arc<Lane>, wanted: &mut watch::Receiver<Option<Endpoint>>) -> bool {
    let worker = worker(lane);
    let stopper = worker.stopper();
    let mut run = std::pin::pin!(worker.run());
    let ended = tokio::select! {
        ended = &mut run => ended,
        changed = wanted.changed() => {
            stopper.stop();
            if let Err(error) = run.await {
                tracing::warn!(endpoint = lane.endpoint.name, %error, "its worker ended badly");
            }
            return changed.is_ok();
        }
    };
    if let Err(error) = ended {
        tracing::error!(endpoint = lane.endpoint.name, %error, "its deliveries wait; they are tried again soon");
    }
    tokio::select! {
        () = sleep(RESTART_AFTER) => true,
        changed = wanted.changed() => changed.is_ok(),
    }
}

fn worker(lane: &Arc<Lane>) -> Worker {
    let (endpoint, common) = (&lane.endpoint, &lane.common);
    let mut worker = Worker::new(&common.client, endpoint.group())
        .owner(&*common.owner)
        .concurrency(endpoint.concurrency())
        .lease(common.lease)
        .drain_timeout(endpoint.timeout() + DRAIN_MARGIN)
        .signals(false);
    if endpoint.ordered {
        worker = worker.prefetch(0);
    }
    let topics: BTreeSet<String> = endpoint.topics.iter().cloned().chain([endpoint.topic()]).collect();
    for topic in topics {
        let lane = Arc::clone(lane);
        worker = worker.handle_raw(topic, move |_, context| {
            let lane = Arc::clone(&lane);
            async move { flow::deliver(&lane, &context).await }
        });
    }
    worker
}
