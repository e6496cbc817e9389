//! Messages that a router is asked about before they are stored.
//!
//! While it is asked, the identity of a message is kept for it in the shard: a second one with the same identity is
//! refused, and one that was stored before is answered without asking.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use driftq_core::{Answer, Identity, Input, Keyless, Message, RequestHash, named_topic, route, validate};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;
use crate::locks::read;
use crate::produce::identity;
use crate::request::{Draft, Produced};
use crate::router::{RouterHook, Ruling};
use crate::shared::Shared;

/// What became of a message before it was stored.
pub(crate) enum Turn {
    /// It is to be stored, under its reserved identity if it has one.
    Store(Option<Arc<Reservation>>),
    /// It is answered already.
    Answered(Result<Produced, Failure>),
}

/// The identities that one call keeps: a second message under one of them, in the same call, is not in its own way but
/// a duplicate of the first.
pub(crate) type Reserved = BTreeMap<Identity, Arc<Reservation>>;

/// An identity that is kept for the messages of one call; given back when this goes.
pub(crate) struct Reservation {
    shards: Vec<Arc<Shared>>,
    pub(crate) identity: Identity,
}

/// What became of the wish to keep an identity.
enum Kept {
    /// It is kept.
    New(Reservation),
    /// There is a message under it.
    Stored(driftq_core::Stored),
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for shard in &self.shards {
            shard.inbox.input(Input::Unreserve { identity: self.identity });
        }
    }
}

impl Broker {
    /// The router, if it wants to be asked about messages to a topic.
    pub(crate) fn router_for(&self, topic: &str) -> Option<&Arc<RouterHook>> {
        self.house().config.router.as_ref().filter(|router| router.is_asked_about(topic))
    }

    /// The router that is configured.
    #[must_use]
    pub fn router(&self) -> Option<&Arc<RouterHook>> {
        self.house().config.router.as_ref()
    }

    /// How many partitions a topic has, as routers are told.
    pub fn partitions_of(&self, topic: &str) -> Option<u32> {
        read(&self.house().catalog).find(topic).map(|topic| topic.partitions)
    }

    /// The topic and partition that a message to `topic` would be stored in, as it stands.
    pub fn destination(&self, topic: &str, message: &Message<'_>) -> Result<(Arc<str>, u32), Failure> {
        validate(message).map_err(Failure::Reject)?;
        let catalog = read(&self.house().catalog);
        let turn = self.house().turns.load(Relaxed);
        let placed = route(&catalog, topic, message, (Keyless::Spread, turn));
        let (info, partition) = placed.map_err(Failure::Reject)?;
        Ok((Arc::clone(&info.name), partition))
    }

    /// Asks the router about messages to one topic and does what it says; one turn per message, in order.
    pub(crate) async fn route_all(
        &self,
        router: &RouterHook,
        topic: &str,
        drafts: &mut [Draft<'_>],
        reserved: &mut Reserved,
    ) -> Vec<Turn> {
        let mut turns = Vec::with_capacity(drafts.len());
        // Whose it is does not depend on where a router sends it.
        self.adopt_all(topic, drafts);
        for draft in drafts.iter() {
            turns.push(match validate(&draft.message) {
                Err(reject) => Turn::Answered(Err(Failure::Reject(reject))),
                Ok(()) => self.reserve(topic, draft, reserved).await,
            });
        }
        let asked: Vec<usize> =
            (0..turns.len()).filter(|place| matches!(turns[*place], Turn::Store(_))).collect();
        let rulings = {
            let messages: Vec<&Message<'_>> = asked.iter().map(|place| &drafts[*place].message).collect();
            router.route(topic, &messages, &|name| self.partitions_of(name)).await
        };
        for (place, ruling) in asked.into_iter().zip(rulings) {
            match ruling {
                Ruling::Unrouted => {}
                Ruling::Routed(decision) => decision.apply(&mut drafts[place].message),
                Ruling::Refused(why) => {
                    turns[place] = Turn::Answered(Err(Failure::Router(format!("the router: {why}"))));
                }
            }
        }
        turns
    }

    /// Gives messages that name no tenant that of the topic to which their producer sends them.
    fn adopt_all(&self, topic: &str, drafts: &mut [Draft<'_>]) {
        let catalog = read(&self.house().catalog);
        for message in drafts.iter_mut().map(|draft| &mut draft.message) {
            let named = catalog.find(named_topic(topic, message.envelope.as_deref()));
            if let Some(info) = named {
                // A message of another tenant is refused when it is stored, if that is where it comes to lie.
                let _ = info.adopt(message);
            }
        }
    }

    async fn reserve(&self, topic: &str, draft: &Draft<'_>, reserved: &mut Reserved) -> Turn {
        let identity = identity(&read(&self.house().catalog), topic, draft.message.envelope.as_deref());
        let Some(identity) = identity else { return Turn::Store(None) };
        if let Some(reservation) = reserved.get(&identity) {
            return Turn::Store(Some(Arc::clone(reservation)));
        }
        match self.ask_to_reserve(identity, draft.request).await {
            Ok(Kept::New(reservation)) => {
                let reservation = Arc::new(reservation);
                reserved.insert(identity, Arc::clone(&reservation));
                Turn::Store(Some(reservation))
            }
            Ok(Kept::Stored(first)) => Turn::Answered(Ok(self.counted(topic, first))),
            Err(failure) => Turn::Answered(Err(failure)),
        }
    }

    /// Keeps an identity in every shard: which of them the message goes to is for the router to say, and the first one
    /// under the identity may have gone to any.
    async fn ask_to_reserve(&self, identity: Identity, request: RequestHash) -> Result<Kept, Failure> {
        let mut reservation = Reservation { shards: Vec::with_capacity(self.shard_count()), identity };
        for shard in self.shards() {
            match shard.ask(0, true, |ticket| Input::Reserve { ticket, identity, request }).await? {
                Answer::Reserved => reservation.shards.push(Arc::clone(shard)),
                Answer::Produced(first) => return Ok(Kept::Stored(first)),
                other => return Err(unexpected(&other)),
            }
        }
        Ok(Kept::New(reservation))
    }

    fn counted(&self, topic: &str, first: driftq_core::Stored) -> Produced {
        self.count(Arc::from(topic), first)
    }
}
