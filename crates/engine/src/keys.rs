//! Keys: who is let in, and what for.
//!
//! The shard decides about keys and remembers them. What it remembers lies in a ring that every request can look into
//! without asking it. A change is on the ring before its asker is answered: a key that was ended opens nothing from the
//! answer on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use driftq_core::{
    Answer, Description, Input, KeyId, KeyScope, KeyView, NewKey, OrderInput, Query, Ticket, Time,
};
use tokio::sync::{Mutex, watch};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;

/// How soon a ring that may be out of date is read again.
const RING_PAUSE: Duration = Duration::from_millis(200);

/// The keys that are known, as requests look them up.
#[derive(Debug, Default)]
pub struct KeyRing {
    keys: HashMap<KeyId, HeldKey>,
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
    /// What people wrote on it.
    pub note: Arc<str>,
}

impl KeyRing {
    /// A key that is known, whether it has ended or not.
    #[must_use]
    pub fn get(&self, key: KeyId) -> Option<&HeldKey> {
        self.keys.get(&key)
    }

    fn of(views: Vec<KeyView>) -> Self {
        let held = |view: KeyView| {
            let (digest, until) = (view.digest, view.until);
            let (scope, note) = (Arc::new(view.scope), view.note.into());
            (view.id, HeldKey { digest, scope, until, note })
        };
        Self { keys: views.into_iter().map(held).collect() }
    }
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
        self.shared().rings.ring.subscribe()
    }

    /// All keys.
    pub async fn keys(&self) -> Result<Vec<KeyView>, Failure> {
        match self.describe(Query::Keys).await? {
            Description::Keys(keys) => Ok(keys),
            other => Err(unexpected(&other)),
        }
    }

    /// Puts the keys that the shard remembers on the ring; until then it is empty.
    pub async fn load_keys(&self) -> Result<(), Failure> {
        let _changing = self.shared().rings.changing.lock().await;
        self.renew_ring().await
    }

    async fn renew_ring(&self) -> Result<(), Failure> {
        let ring = KeyRing::of(self.keys().await?);
        self.shared().rings.ring.send_replace(Arc::new(ring));
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
        let overlap = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
        let until = Time(self.shared().clock.now().0.saturating_add(overlap));
        self.change_key(move |ticket| OrderInput::ReplaceKey { ticket, old, new, digest, until }).await
    }

    /// Ends a key and what hangs on it.
    pub async fn end_key(&self, key: KeyId) -> Result<KeyView, Failure> {
        self.change_key(move |ticket| OrderInput::EndKey { ticket, key }).await
    }

    /// Detached from its asker: one that hangs up must not leave a change in the log that is not on the ring.
    async fn change_key(
        &self,
        order: impl FnOnce(Ticket) -> OrderInput + Send + 'static,
    ) -> Result<KeyView, Failure> {
        let broker = self.clone();
        let change = async move {
            let rings = &broker.shared().rings;
            let _changing = rings.changing.lock().await;
            let answer = broker.ask(0, true, |ticket| Input::Order(order(ticket))).await;
            // What failed may be in the log all the same: the ring is read again until it is known to be right.
            while let Err(failure) = broker.renew_ring().await {
                tracing::warn!(%failure, "the keys cannot be read again yet");
                if *broker.shared().stopping.borrow() {
                    break;
                }
                tokio::time::sleep(RING_PAUSE).await;
            }
            match answer? {
                Answer::Key(key) => Ok(key),
                other => Err(unexpected(&other)),
            }
        };
        tokio::spawn(change)
            .await
            .unwrap_or_else(|_| Err(Failure::Unavailable(crate::broker::INTERRUPTED.into())))
    }

    /// The shard's time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared().clock.now()
    }
}
