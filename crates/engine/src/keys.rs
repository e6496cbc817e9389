//! Keys: who is let in, and what for.
//!
//! The shard decides about keys and remembers them. What it remembers lies in a ring that every request can look into
//! without asking it. A change is on the ring before its asker is answered: a key that was ended opens nothing from the
//! answer on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_core::{
    Answer, Description, Input, KEY_DEPTH_MAX, KeyId, KeyScope, KeyView, NewKey, OrderInput, Query, ShardId,
    TenantView, Ticket, Time,
};
use tokio::sync::{Mutex, watch};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;
use crate::house::HOME;
use crate::meter::Meter;

/// How soon a ring that may be out of date is read again.
const RING_PAUSE: Duration = Duration::from_millis(200);

/// The keys that are known, as requests look them up.
#[derive(Debug, Default)]
pub struct KeyRing {
    keys: HashMap<KeyId, HeldKey>,
    /// Meters of the tenants that may take only so much at a time.
    tenants: HashMap<String, Arc<Meter>>,
}

/// A key on the ring.
#[derive(Clone, Debug)]
pub struct HeldKey {
    /// The digest of its secret.
    pub digest: [u8; 32],
    /// What it allows.
    pub scope: Arc<KeyScope>,
    /// Until when.
    pub until: Time,
    /// The key at the head of its line, which hangs on none; itself, if it does not.
    pub head: KeyId,
    /// What it takes is counted on these: its own meter, those of the keys that it hangs on, and those of the tenants
    /// that it is bound to. Whoever has no limits has no meter.
    pub meters: Arc<[Arc<Meter>]>,
    /// What people wrote on it.
    pub note: Arc<str>,
}

impl HeldKey {
    /// Whether it opens anything at that time, which is asked for only if it matters.
    pub fn is_live(&self, now: impl FnOnce() -> Time) -> bool {
        self.until == Time::NEVER || self.until > now()
    }
}

impl KeyRing {
    /// A key that is known, whether it has ended or not.
    #[must_use]
    pub fn get(&self, key: KeyId) -> Option<&HeldKey> {
        self.keys.get(&key)
    }

    /// With the meters of the ring before, so that a change of keys gives nobody a second helping.
    fn of(views: Vec<KeyView>, limited: &[TenantView], before: &Self) -> Self {
        let now = Instant::now();
        let paced = limited.iter().filter(|view| view.limits.pace.any());
        let tenants: HashMap<String, Arc<Meter>> =
            paced.map(|view| (view.tenant.clone(), before.meter_of_tenant(view, now))).collect();
        let meters: HashMap<KeyId, Arc<Meter>> = views
            .iter()
            .filter(|view| view.scope.limits.any())
            .map(|view| (view.id, before.meter(view).unwrap_or_else(|| new_meter(view, now))))
            .collect();
        let parents: HashMap<KeyId, KeyId> =
            views.iter().filter_map(|view| Some((view.id, view.parent?))).collect();
        let held = |view: KeyView| {
            let bound_to = view.scope.tenants.iter().flatten();
            let line = || std::iter::successors(Some(view.id), |id| parents.get(id).copied()).take(LINE_MAX);
            let held = HeldKey {
                digest: view.digest,
                until: view.until,
                head: line().last().unwrap_or(view.id),
                meters: line()
                    .filter_map(|id| meters.get(&id).cloned())
                    .chain(bound_to.filter_map(|tenant| tenants.get(tenant).cloned()))
                    .collect(),
                scope: Arc::new(view.scope),
                note: view.note.into(),
            };
            (view.id, held)
        };
        Self { keys: views.into_iter().map(held).collect(), tenants }
    }

    fn meter_of_tenant(&self, view: &TenantView, now: Instant) -> Arc<Meter> {
        let own = self.tenants.get(&view.tenant).filter(|own| own.limits() == view.limits.pace);
        own.cloned().unwrap_or_else(|| Arc::new(Meter::new(view.limits.pace, now)))
    }

    /// The meter that a key had, if its limits are the same.
    fn meter(&self, view: &KeyView) -> Option<Arc<Meter>> {
        let own = self.keys.get(&view.id)?.meters.first()?;
        (self.keys[&view.id].scope.limits.any() && own.limits() == view.scope.limits).then(|| Arc::clone(own))
    }
}

/// Keys of one line.
const LINE_MAX: usize = KEY_DEPTH_MAX + 1;

fn new_meter(view: &KeyView, now: Instant) -> Arc<Meter> {
    Arc::new(Meter::new(view.scope.limits, now))
}

/// The ring, and the order in which it changes.
#[derive(Debug)]
pub(crate) struct Rings {
    ring: watch::Sender<Arc<KeyRing>>,
    /// Held from before a change is asked for until it is on the ring.
    changing: Mutex<()>,
}

impl Default for Rings {
    fn default() -> Self {
        Self { ring: watch::Sender::new(Arc::default()), changing: Mutex::default() }
    }
}

impl Broker {
    /// The keys as they are, and how they change.
    #[must_use]
    pub fn key_ring(&self) -> watch::Receiver<Arc<KeyRing>> {
        self.house().rings.ring.subscribe()
    }

    /// All keys.
    pub async fn keys(&self) -> Result<Vec<KeyView>, Failure> {
        match self.home().describe(Query::Keys).await? {
            Description::Keys(keys) => Ok(keys),
            other => Err(unexpected(&other)),
        }
    }

    /// Puts the keys that the shard remembers on the ring; until then it is empty.
    pub async fn load_keys(&self) -> Result<(), Failure> {
        let _changing = self.house().rings.changing.lock().await;
        self.renew_ring().await
    }

    async fn renew_ring(&self) -> Result<(), Failure> {
        let (keys, tenants) = (self.keys().await?, self.tenants().await?);
        let ring = &self.house().rings.ring;
        let renewed = KeyRing::of(keys, &tenants, &ring.borrow());
        ring.send_replace(Arc::new(renewed));
        Ok(())
    }

    /// Makes a key.
    pub async fn create_key(&self, key: NewKey) -> Result<KeyView, Failure> {
        self.change_key(move |ticket| OrderInput::CreateKey { ticket, key }).await
    }

    /// Puts a new key in the place of an old one, which goes on for `overlap`.
    pub async fn replace_key(
        &self,
        old: KeyId,
        (new, digest): (KeyId, [u8; 32]),
        overlap: Duration,
    ) -> Result<KeyView, Failure> {
        let overlap_ms = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
        self.change_key(move |ticket| OrderInput::ReplaceKey { ticket, old, new, digest, overlap_ms }).await
    }

    /// Ends a key and what hangs on it.
    pub async fn end_key(&self, key: KeyId) -> Result<KeyView, Failure> {
        self.change_key(move |ticket| OrderInput::EndKey { ticket, key }).await
    }

    async fn change_key(
        &self,
        order: impl FnOnce(Ticket) -> OrderInput + Send + 'static,
    ) -> Result<KeyView, Failure> {
        match self.change_ring(HOME, order).await? {
            Answer::Key(key) => Ok(key),
            other => Err(unexpected(&other)),
        }
    }

    /// Detached from its asker: one that hangs up must not leave a change in the log that is not on the ring.
    pub(crate) async fn change_ring(
        &self,
        shard: ShardId,
        order: impl FnOnce(Ticket) -> OrderInput + Send + 'static,
    ) -> Result<Answer, Failure> {
        let broker = self.clone();
        let change = async move {
            let rings = &broker.house().rings;
            let _changing = rings.changing.lock().await;
            let answer = broker.shard(shard).ask(0, true, |ticket| Input::Order(order(ticket))).await;
            // What failed may be in the log all the same: the ring is read again until it is known to be right.
            while let Err(failure) = broker.renew_ring().await {
                tracing::warn!(%failure, "the keys cannot be read again yet");
                if *broker.house().stopping.borrow() {
                    break;
                }
                tokio::time::sleep(RING_PAUSE).await;
            }
            answer
        };
        tokio::spawn(change)
            .await
            .unwrap_or_else(|_| Err(Failure::Unavailable(crate::broker::INTERRUPTED.into())))
    }

    /// The shard's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.home().clock.now()
    }
}
