//! What the shards of one broker have in common, and which of them has what.
//!
//! A topic lives whole in one shard, with its groups and dead letters, and its number says in which. Where a new one goes
//! is decided by its name, or by its tenant, so that all of a tenant's topics are counted in one place. Effects go where
//! their scope went first: with the delivery that the first of them was begun for, so that what a handler does is decided
//! in one batch with its message. Everything else (keys, audit, definitions, datasets, entities) lives in the first shard.
//!
//! Nothing of this is written down apart: which shard has a topic, a tenant or a scope is read off the shards themselves
//! when they open, so that there is nothing that could contradict them.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, RwLock, Weak};

use driftq_core::{Catalog, Receipt, ShardId, State, short_hash};
use tokio::sync::{Mutex, Notify, watch};

use crate::config::Config;
use crate::dead_letters::PREFIX;
use crate::jobs::Jobs;
use crate::keys::Rings;
use crate::locks::{read, write};
use crate::scrape::Scraped;
use crate::seal::Seal;
use crate::shared::Shared;

/// The shard that has what belongs to no topic.
pub(crate) const HOME: ShardId = ShardId::HOME;
/// Scopes of effects that are remembered to live elsewhere than their name says; those beyond it live where it says.
const SCOPES_MAX: usize = 1_000_000;

pub(crate) struct House {
    pub(crate) config: Config,
    /// The topics that are durable, of all shards. A lock and not a copy per change: creating ten thousand topics one by
    /// one would otherwise copy fifty million entries. It is held for one lookup or one insert.
    pub(crate) catalog: RwLock<Catalog>,
    directory: RwLock<Directory>,
    /// All shards, in order; set once, before the first of them opens.
    shards: OnceLock<Vec<Weak<Shared>>>,
    /// Turns receipts into tokens and back.
    pub(crate) seal: Seal,
    /// Long work under way.
    pub(crate) jobs: Jobs,
    /// Keys as requests look them up.
    pub(crate) rings: Rings,
    /// The number of the newest entry of the audit of which this run knows.
    pub(crate) audited: watch::Sender<u64>,
    /// Counts the changes of definitions that were asked of this run.
    pub(crate) defined: watch::Sender<u64>,
    /// What the last scrape was told.
    pub(crate) scraped: Scraped,
    /// True as soon as the broker begins to stop.
    pub(crate) stopping: watch::Sender<bool>,
    /// Another server has the log.
    pub(crate) fenced: watch::Sender<bool>,
    /// Rung whenever a stream ends.
    pub(crate) stream_ended: Notify,
    /// Counts messages on their way in: those without a key are spread by it.
    pub(crate) turns: AtomicU64,
    /// Held while a topic is made: no two shards may get one of the same name.
    pub(crate) naming: Mutex<()>,
}

/// Where tenants and scopes live.
#[derive(Default)]
struct Directory {
    tenants: HashMap<Arc<str>, ShardId>,
    /// By the hashes of tenant and scope: two that meet by accident live together, and that is all.
    scopes: HashMap<(u32, u32), ShardId>,
}

impl House {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            catalog: RwLock::new(Catalog::default()),
            directory: RwLock::default(),
            shards: OnceLock::new(),
            seal: Seal::default(),
            jobs: Jobs::default(),
            rings: Rings::default(),
            audited: watch::Sender::new(0),
            defined: watch::Sender::new(0),
            scraped: Scraped::default(),
            stopping: watch::Sender::new(false),
            fenced: watch::Sender::new(false),
            stream_ended: Notify::new(),
            turns: AtomicU64::new(0),
            naming: Mutex::default(),
        }
    }

    /// Whether there is such a shard.
    pub(crate) fn has(&self, shard: ShardId) -> bool {
        self.shards.get().is_some_and(|shards| usize::from(shard.0) < shards.len())
    }

    /// Tells the house of its shards, once.
    pub(crate) fn furnish(&self, shards: &[Arc<Shared>]) {
        let known = self.shards.set(shards.iter().map(Arc::downgrade).collect());
        assert!(known.is_ok(), "a house is furnished once");
    }

    /// A shard of the house, unless the broker is gone.
    pub(crate) fn shard(&self, id: ShardId) -> Option<Arc<Shared>> {
        self.shards.get()?.get(usize::from(id.0))?.upgrade()
    }

    /// Whether there is only one shard, which then has everything.
    fn is_single(&self) -> bool {
        self.shards.get().is_none_or(|shards| shards.len() == 1)
    }

    /// A shard has opened: what it has is known from now on.
    pub(crate) fn move_in(&self, id: ShardId, state: &State) {
        let mut catalog = write(&self.catalog);
        catalog.forget(id);
        state.topics().for_each(|topic| catalog.insert(topic));
        drop(catalog);
        if self.is_single() {
            return;
        }
        let mut directory = write(&self.directory);
        for tenant in state.tenants() {
            directory.tenants.entry(tenant.tenant.into()).or_insert(id);
        }
        for scope in state.effect_scopes() {
            directory.scopes.entry(scope).or_insert(id);
        }
    }

    /// Where a topic lives, or would if it were made now.
    pub(crate) fn place_topic(&self, name: &str, tenant: Option<&str>) -> ShardId {
        if self.is_single() {
            return HOME;
        }
        // With its dead letters, and they with it, whichever is made first.
        let own = name.strip_prefix(PREFIX).unwrap_or(name);
        {
            let catalog = read(&self.catalog);
            let known = [own, name, &format!("{PREFIX}{own}")].iter().find_map(|name| catalog.find(name));
            if let Some(known) = known {
                return known.id.shard();
            }
        }
        match tenant.filter(|tenant| !tenant.is_empty()) {
            Some(tenant) => self.place_tenant(tenant),
            None => self.by_name(own),
        }
    }

    /// Where what belongs to a tenant lives.
    pub(crate) fn place_tenant(&self, tenant: &str) -> ShardId {
        if self.is_single() {
            return HOME;
        }
        if let Some(known) = read(&self.directory).tenants.get(tenant) {
            return *known;
        }
        *write(&self.directory).tenants.entry(tenant.into()).or_insert_with(|| self.by_name(tenant))
    }

    /// Where the effects of a scope live, or would if the first of them were begun now.
    pub(crate) fn find_effect(&self, tenant: &str, scope: &str, delivery: Option<&Receipt>) -> ShardId {
        if self.is_single() {
            return HOME;
        }
        let directory = read(&self.directory);
        if let Some(known) = directory.scopes.get(&(short_hash(tenant), short_hash(scope))) {
            return *known;
        }
        // Its tenant's quota counts there.
        let of_tenant = directory.tenants.get(tenant).copied();
        let of_delivery = || delivery.map(|receipt| receipt.topic.shard());
        let has_room = directory.scopes.len() < SCOPES_MAX;
        of_tenant.or_else(of_delivery).filter(|_| has_room).unwrap_or_else(|| self.by_name(scope))
    }

    /// Where the effects of a scope live from now on.
    pub(crate) fn place_effect(&self, tenant: &str, scope: &str, delivery: Option<&Receipt>) -> ShardId {
        let place = self.find_effect(tenant, scope, delivery);
        if self.is_single() {
            return place;
        }
        let hashes = (short_hash(tenant), short_hash(scope));
        if read(&self.directory).scopes.get(&hashes) == Some(&place) {
            return place;
        }
        let mut directory = write(&self.directory);
        if directory.scopes.len() >= SCOPES_MAX {
            return directory.scopes.get(&hashes).copied().unwrap_or(place);
        }
        *directory.scopes.entry(hashes).or_insert(place)
    }

    /// The shard of a name that nothing else says anything about.
    fn by_name(&self, name: &str) -> ShardId {
        let shards = self.shards.get().map_or(1, Vec::len).max(1);
        let place = short_hash(name) as usize % shards;
        ShardId(u8::try_from(place).expect("there are fewer shards than a byte counts"))
    }
}
