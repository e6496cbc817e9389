//! Everything that facts make, and the one function that makes it.

pub(crate) mod audit;
pub(crate) mod beside;
pub(crate) mod commit;
pub(crate) mod definition;
pub(crate) mod descent;
pub(crate) mod effect;
pub(crate) mod entity;
pub(crate) mod fold;
pub(crate) mod gate;
pub(crate) mod group;
pub(crate) mod key;
pub(crate) mod outbox;
pub(crate) mod output;
mod owner;
pub(crate) mod partition;
pub(crate) mod policies;
pub(crate) mod ranges;
pub(crate) mod rewind;
pub(crate) mod run;
pub(crate) mod slot;
mod slot_bytes;
pub(crate) mod snapshot;
pub(crate) mod sorted;
pub(crate) mod spent;
pub(crate) mod table;
pub(crate) mod tenant;
pub(crate) mod version;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::log::delivery::{DeliveryFact, Place};
use crate::log::fact::Fact;
use crate::log::order::OrderFact;
use crate::state::audit::record::Audit;
use crate::state::commit::Commits;
use crate::state::definition::record::Definitions;
use crate::state::descent::Descent;
use crate::state::effect::record::Effects;
use crate::state::entity::record::Entities;
use crate::state::gate::Gate;
use crate::state::group::{Failure, Loan};
use crate::state::key::record::Keys;
use crate::state::outbox::record::Outbox;
use crate::state::output::record::Outputs;
use crate::state::partition::{Partition, Topic};
use crate::state::policies::Policies;
use crate::state::run::record::Runs;
use crate::state::spent::Spent;
use crate::state::tenant::record::Tenants;
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::id::{Position, RequestHash, ShardId, Time, TopicId};

/// Where the first message under an identity was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    /// [`NO_TOPIC`] in records from before it was written down.
    pub(crate) topic: TopicId,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    /// What it asked for, if the producer said so.
    pub(crate) request: RequestHash,
}

/// The state of a shard: a fold over its facts.
#[derive(Clone, Debug)]
pub struct State {
    /// Which of the broker's shards it is: part of the numbers of its topics.
    pub(crate) shard: ShardId,
    pub(crate) epoch: u64,
    /// The first of the runs, without a gap up to this one, that left leases as they were; zero if there is none.
    pub(crate) leases_kept_since: u64,
    /// The newest time that a fact of this run told.
    pub(crate) newest: Time,
    pub(crate) seed: u64,
    pub(crate) next_group: u32,
    /// By number: the nth topic of this shard lies at n, or did.
    pub(crate) topics: Vec<Option<Box<Topic>>>,
    pub(crate) names: BTreeMap<Arc<str>, TopicId>,
    /// The produce gate.
    pub(crate) stored: Gate<First>,
    pub(crate) policies: Policies,
    /// Payload bytes of messages kept, by the segment in which they lie.
    pub(crate) live: BTreeMap<u32, u64>,
    /// Identities remembered by all consume gates together.
    pub(crate) done_records: u64,
    /// Tokens by which a message was acked.
    pub(crate) acked: Spent,
    /// Tokens of the last attempt of a message that became a dead letter.
    pub(crate) buried: Spent,
    /// Tokens that leave the shard are sealed with it; zero until the first run has begun.
    pub(crate) secret: [u8; 32],
    /// The ledger.
    pub(crate) effects: Effects,
    pub(crate) commits: Commits,
    pub(crate) outputs: Outputs,
    pub(crate) runs: Runs,
    pub(crate) entities: Entities,
    pub(crate) keys: Keys,
    pub(crate) audit: Audit,
    pub(crate) tenants: Tenants,
    pub(crate) definitions: Definitions,
    pub(crate) outbox: Outbox,
    /// Kept messages by where they were born.
    pub(crate) descent: Descent,
    /// Partitions in which messages have become history since that was last looked at, and the first of those. Not part
    /// of the state proper: it says which history has to be checked against its limits.
    pub(crate) kept_anew: BTreeMap<(TopicId, u32), u64>,
}

/// Groups of one topic that the counters of a slot can tell apart; settings stay below it.
pub(crate) const GROUPS_PER_TOPIC_MAX: usize = 60_000;
/// Partitions of one topic, whatever the settings say: a bound on what a line of history can ask for.
pub(crate) const PARTITIONS_MAX: u32 = 1 << 16;

impl State {
    /// The state before anything happened.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            shard: ShardId(0),
            epoch: 0,
            leases_kept_since: 0,
            newest: Time(0),
            seed,
            next_group: 0,
            topics: Vec::new(),
            names: BTreeMap::new(),
            stored: Gate::new(seed),
            policies: Policies::default(),
            live: BTreeMap::new(),
            done_records: 0,
            acked: Spent::default(),
            buried: Spent::default(),
            secret: [0; 32],
            effects: Effects::new(seed),
            commits: Commits::new(seed),
            outputs: Outputs::default(),
            runs: Runs::default(),
            entities: Entities::default(),
            keys: Keys::default(),
            audit: Audit::default(),
            tenants: Tenants::default(),
            definitions: Definitions::default(),
            outbox: Outbox::default(),
            descent: Descent::default(),
            kept_anew: BTreeMap::new(),
        }
    }

    /// Which of the broker's shards it is. A log that does not say so is that of the first one.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// The run of the shard that wrote the last facts.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Folds one batch; `base` is the position of its first byte.
    pub fn apply_batch(&mut self, base: Position, batch: &[u8]) -> Result<(), Malformed> {
        Fact::each(base, batch, |end, fact| self.apply(end, &fact))
    }

    /// Changes the state by one fact that ends at `end`. The only way in which it ever changes.
    pub(crate) fn apply(&mut self, end: Position, fact: &Fact<'_>) -> Result<(), Malformed> {
        self.newest = self.newest.max(fact.told_at().unwrap_or_default());
        match *fact {
            Fact::Opened { epoch, at, keeps_leases } => self.on_opened(epoch, at, keeps_leases),
            Fact::Keyed { secret } => {
                self.secret = secret;
                Ok(())
            }
            Fact::TopicCreated { topic, partitions, at, name, scoped, tenant } => {
                self.on_topic_created((topic, partitions, scoped), at, name, tenant)
            }
            Fact::Appended(message) => self.on_appended(end, &message),
            Fact::GroupCreated { topic, group, at, name } => self.on_group_created(topic, group, at, name),
            Fact::Delivery(place, ref fact) => self.on_delivery(place, fact),
            Fact::Order(ref fact) => self.on_order(fact),
            Fact::GroupExpired { topic, group } => self.on_group_expired(topic, group),
            Fact::Expired { topic, partition, below } => self.on_expired(topic, partition, below),
            Fact::Trimmed { topic, partition, below } => self.on_trimmed(topic, partition, below),
            Fact::Forgotten { group, upto, most } => self.on_forgotten(group, upto, most),
            Fact::Moved { topic, partition, offset, bytes } => {
                self.on_moved(end, topic, partition, offset, bytes.len())
            }
            Fact::Effect(ref fact) => self.on_effect(end, fact),
            Fact::Run(ref fact) => self.on_run(fact),
            Fact::Output(ref fact) => self.on_output(fact),
            Fact::Commit(ref fact) => self.commits.apply(fact, |number| self.outbox.get(number).is_some()),
            Fact::Entity(ref fact) => self.on_entity(fact),
            Fact::Key(ref fact) => self.on_key(fact),
            Fact::Audit(ref fact) => self.audit.apply(fact),
            Fact::Tenant(ref fact) => self.on_tenant(fact),
            Fact::Definition(ref fact) => self.definitions.apply(fact),
            Fact::Outbox(ref fact) => self.on_outbox(fact),
        }
    }

    fn on_delivery(&mut self, place: Place, fact: &DeliveryFact<'_>) -> Result<(), Malformed> {
        match *fact {
            DeliveryFact::Leased { token, attempt, at, expires, owner, style } => {
                let (progress, sequence) = self.unsettled(place)?;
                progress.lease(sequence, Loan { token, attempt, at, expires, owner, style });
                Ok(())
            }
            DeliveryFact::Extended { expires } => {
                let (progress, sequence) = self.unsettled(place)?;
                if progress.extend(sequence, expires) { Ok(()) } else { Err(CONTRADICTION) }
            }
            DeliveryFact::Failed { at, retry_at, nacked, dead, error } => {
                let (progress, sequence) = self.unsettled(place)?;
                let failure = Failure { at, retry_at, nacked, dead, error };
                if progress.fail(sequence, failure) { Ok(()) } else { Err(CONTRADICTION) }
            }
            DeliveryFact::Released => {
                let (progress, sequence) = self.unsettled(place)?;
                progress.release(sequence);
                Ok(())
            }
            DeliveryFact::Snoozed { at, until } => {
                let (progress, sequence) = self.unsettled(place)?;
                if progress.snooze(sequence, at, until, 0) { Ok(()) } else { Err(CONTRADICTION) }
            }
            DeliveryFact::SnoozedFor { at, until, effect } => {
                let (progress, sequence) = self.unsettled(place)?;
                if progress.snooze(sequence, at, until, effect) { Ok(()) } else { Err(CONTRADICTION) }
            }
            DeliveryFact::Hurried { at } => {
                let (progress, sequence) = self.unsettled(place)?;
                if progress.hurry(sequence, at) { Ok(()) } else { Err(CONTRADICTION) }
            }
            DeliveryFact::Acked { remembered, token } => {
                self.acked.insert(token);
                self.on_settled(place, remembered)
            }
            DeliveryFact::Retired { dead } => self.on_retired(place, dead),
        }
    }

    fn on_order(&mut self, fact: &OrderFact) -> Result<(), Malformed> {
        match *fact {
            OrderFact::Configured { topic, settings } => {
                self.topic_mut(topic)?.settings = settings;
                Ok(())
            }
            OrderFact::TopicDeleted { topic } => self.on_topic_deleted(topic),
            OrderFact::Paused { topic, group, since } => self.on_paused(topic, group, since),
            OrderFact::Cancelled { topic, partition, offset } => self.on_cancelled(topic, partition, offset),
            OrderFact::Removed { topic, partition, offset } => self.on_removed(topic, partition, offset),
            OrderFact::Sought { topic, group, partition, from } => {
                self.on_sought(topic, group, partition, from)
            }
        }
    }

    /// Where a topic lies among [`State::topics`]; `None` if it is another shard's.
    pub(crate) fn place_of(&self, id: TopicId) -> Option<usize> {
        (id.shard() == self.shard).then_some(id.index())
    }

    /// The topic of that number, unless it is gone.
    pub(crate) fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(self.place_of(id)?)?.as_deref()
    }

    pub(crate) fn topic_mut(&mut self, id: TopicId) -> Result<&mut Topic, Malformed> {
        let place = self.place_of(id).ok_or(CONTRADICTION)?;
        self.topics.get_mut(place).and_then(Option::as_deref_mut).ok_or(CONTRADICTION)
    }

    pub(crate) fn topic_named(&self, name: &str) -> Option<&Topic> {
        self.topic(*self.names.get(name)?)
    }

    /// Topics that exist, in the order of their creation.
    pub(crate) fn each_topic(&self) -> impl Iterator<Item = &Topic> {
        self.topics.iter().flatten().map(|topic| &**topic)
    }

    /// The partition, if topic and partition exist.
    pub(crate) fn lane(&self, topic: TopicId, partition: u32) -> Option<&Partition> {
        self.topic(topic)?.partitions.get(partition as usize)
    }

    /// Whose effects of which scopes there are, as [`short_hash`](crate::short_hash) has it. Looks at every record.
    #[must_use]
    pub fn effect_scopes(&self) -> BTreeSet<(u32, u32)> {
        self.effects.scopes()
    }

    /// The secret with which tokens are sealed.
    #[must_use]
    pub const fn secret(&self) -> &[u8; 32] {
        &self.secret
    }
}
