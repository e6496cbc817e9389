//! A message comes in: the produce gate, the limits, and the fact.

use crate::delivery::Deliveries;
use crate::log::fact::{Fact, MessageFact};
use crate::state::First;
use crate::state::partition::Topic;
use crate::state::slot::Lookup;
use crate::turn::Turn;
use crate::turn::journal::{Haste, lifetime};
use crate::turn::timer::{Due, FORGET_SLACK_MS};
use crate::words::action::{Action, Answer, Output};
use crate::words::draft::{NewLineage, NewMessage, Payload, Start};
use crate::words::id::{GroupId, Identity, NO_TOPIC, Position, RequestHash, Ticket, Time, TopicId};
use crate::words::policy::RetryPolicy;
use crate::words::receipt::Stored;
use crate::words::reject::{Overload, Reject};
use crate::words::settings::Settings;
use crate::words::topic::Order;

/// The highest priority.
pub const PRIORITY_MAX: u8 = 9;
/// No message is scheduled for later: what is beyond it would be one that never goes out.
const LAST_DUE: Time = Time(u64::MAX / 2);
/// Why a message is refused that would never go out.
const BEYOND_RETENTION: &str = "deliver_at and delay_ms must lie within the topic's retention_ms: the message would be dropped before it is due";
/// A reserved identity that no producer came back for is free again after this.
const RESERVATION_MS: u64 = 60_000;
/// Identities that may be reserved at once.
const RESERVATIONS_MAX: usize = 100_000;

impl Deliveries {
    pub(crate) fn handle_produce(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        message: &NewMessage,
        out: &mut Output,
    ) {
        match self.produce(turn, message, out) {
            Ok(stored) => turn.journal.reply(out, ticket, Answer::Produced(stored)),
            Err(reject) => turn.journal.refuse(out, ticket, reject),
        }
    }

    pub(crate) fn handle_produce_many(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        messages: &[NewMessage],
        out: &mut Output,
    ) {
        let results = messages.iter().map(|message| self.produce(turn, message, out)).collect();
        turn.journal.reply(out, ticket, Answer::ProducedMany(results));
    }

    fn produce(&mut self, turn: &mut Turn, message: &NewMessage, out: &mut Output) -> Result<Stored, Reject> {
        // Before any limit: what is stored is stored, however full the partition has become since.
        if let Some(identity) = &message.identity
            && let Some(first) = turn.stored_before(identity, message.request)?
        {
            return Ok(first);
        }
        self.may_produce(turn, message)?;
        Ok(self.store_anew(turn, message, out))
    }

    /// Stores a message that was found good, unless an earlier one with its identity stands for it.
    pub(crate) fn store_checked(
        &mut self,
        turn: &mut Turn,
        message: &NewMessage,
        out: &mut Output,
    ) -> Stored {
        let before = message.identity.and_then(|identity| turn.first_under(&identity));
        before.unwrap_or_else(|| self.store_anew(turn, message, out))
    }

    /// The same, whatever is known of its identity.
    pub(crate) fn store_anew(&mut self, turn: &mut Turn, message: &NewMessage, out: &mut Output) -> Stored {
        let until = lifetime(turn.now, turn.settings.idempotency_ttl_ms);
        let identity = message.identity.map(|identity| (identity, until));
        let offset = self.append(turn, message, identity, None, out);
        self.enforce_bytes(turn, message.topic, message.partition, out);
        Stored { topic: Some(message.topic), partition: message.partition, offset, duplicate: false }
    }

    /// Keeps an identity for a message that is still being routed.
    pub(crate) fn handle_reserve(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        identity: Identity,
        request: RequestHash,
        out: &mut Output,
    ) {
        let answer = match turn.stored_before(&identity, request) {
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
            // Held until the first one is durable, like any answer about it.
            Ok(Some(first)) => return turn.journal.reply(out, ticket, Answer::Produced(first)),
            Ok(None) if self.is_reserved(&identity) => Answer::Rejected(Reject::KeyInFlight),
            Ok(None) if self.reserved.len() >= RESERVATIONS_MAX => {
                Answer::Rejected(Reject::Overloaded(Overload::IdempotencyRecords))
            }
            Ok(None) => {
                let until = turn.now.after_ms(RESERVATION_MS);
                self.reserved.insert(identity, until);
                turn.timers.set(until, Due::Unreserve(identity));
                Answer::Reserved
            }
        };
        out.actions.push(Action::Reply { ticket, answer });
    }

    fn is_reserved(&self, identity: &Identity) -> bool {
        self.reserved.contains_key(identity)
    }

    pub(crate) fn unreserve(&mut self, turn: &mut Turn, identity: Identity) {
        if let Some(until) = self.reserved.remove(&identity) {
            turn.timers.cancel(until, Due::Unreserve(identity));
        }
    }

    pub(crate) fn may_produce(&self, turn: &Turn, message: &NewMessage) -> Result<(), Reject> {
        let topic = turn.journal.state.topic(message.topic).ok_or(Reject::TopicUnknown)?;
        if message.partition as usize >= topic.partitions.len() {
            return Err(Reject::PartitionOutOfRange);
        }
        if message.deadline.is_some_and(|deadline| deadline <= turn.now) {
            return Err(Reject::DeadlineExceeded);
        }
        let due = turn.due_of(message);
        let retention = topic.settings.retention_ms.or(turn.settings.retention_ms);
        if retention.is_some_and(|ms| due.is_some_and(|due| due >= turn.now.after_ms(ms))) {
            return Err(Reject::Invalid(BEYOND_RETENTION));
        }
        if message.priority > PRIORITY_MAX {
            return Err(Reject::Invalid("priority must be between 0 and 9"));
        }
        if message.identity.as_ref().is_some_and(|identity| self.is_reserved(identity) && !message.reserved) {
            return Err(Reject::KeyInFlight);
        }
        turn.may_hold(topic.tenant.as_deref(), (1, u64::from(message.payload.size)))?;
        turn.may_append(message)
    }

    /// Stores a message and returns its offset; `only` is the one group that is to get it.
    pub(crate) fn append(
        &mut self,
        turn: &mut Turn,
        message: &NewMessage,
        identity: Option<(Identity, Time)>,
        only: Option<GroupId>,
        out: &mut Output,
    ) -> u64 {
        let state = &turn.journal.state;
        let (topic, partition) = (message.topic, message.partition);
        let source = state.topic(topic).expect("whoever appends has looked the topic up");
        let (offset, order) = (source.next_offset, source.settings.order);
        // Whoever could be refused for a policy too many was refused before. What another shard has sent must be stored:
        // without its policy it is tried for ever, and that can be seen to; lost, it could not.
        let retry = turn.settings.retry_for(source, message);
        let retry = retry.filter(|policy| state.policies.has_room_for(*policy));
        let deadline = message.deadline.filter(|_| message.native && !source.is_dead_letter_topic());
        let sequence = source.partitions[partition as usize].slots.next();
        let next = state.stored.next_expiry();
        let first_to_go = identity.filter(|(_, until)| next.is_none_or(|next| *until < next));
        let due = turn.due_of(message);
        let lineage = message.lineage.as_deref().map(NewLineage::borrowed);
        if lineage.is_some() {
            turn.make_room_in_runs(out);
        }
        let fact = Fact::Appended(MessageFact {
            topic,
            partition,
            offset,
            at: turn.now,
            size: message.payload.size,
            check: message.payload.check,
            retry,
            identity,
            request: if identity.is_some() { message.request } else { RequestHash::NONE },
            key: message.key,
            priority: message.priority,
            due,
            only,
            lineage,
            origin: message.origin,
            deadline,
            bytes: &message.payload.bytes,
        });
        turn.journal.emit(Haste::Urgent, out, &fact);
        if let Some((_, until)) = first_to_go
            && until > turn.now
        {
            turn.timers.set(until.after_ms(FORGET_SLACK_MS), Due::Forget(None));
        }
        if due.is_some() || (message.priority > 0 && order == Order::Priority) {
            self.list_special(turn, topic, partition, sequence, due, out);
        }
        if let Some(deadline) = deadline {
            self.watch_deadline(turn, topic, partition, sequence, deadline);
        }
        if lineage.is_some() {
            turn.watch_run(turn.journal.state.runs.last);
        }
        self.schedule_retention(turn, topic, partition);
        offset
    }
}

impl Turn {
    /// The first message under an identity, if there is one and it asked for the same.
    pub(crate) fn stored_before(
        &self,
        identity: &Identity,
        request: RequestHash,
    ) -> Result<Option<Stored>, Reject> {
        let Some(first) = self.first_of(identity) else { return Ok(None) };
        if !first.request.agrees(request) {
            return Err(Reject::KeyReused);
        }
        Ok(self.first_under(identity))
    }

    /// What the gate knows of an identity. A message that went with its topic is forgotten with it: a topic created
    /// again under its name begins with nothing, even if the identity is that of another topic, from which messages are
    /// routed.
    fn first_of(&self, identity: &Identity) -> Option<First> {
        let state = &self.journal.state;
        let first = state.stored.get(identity, self.now)?;
        (first.topic == NO_TOPIC || state.topic(first.topic).is_some()).then_some(first)
    }

    /// The first message under an identity, whatever it asked for.
    pub(crate) fn first_under(&self, identity: &Identity) -> Option<Stored> {
        let first = self.first_of(identity)?;
        let topic = Some(first.topic).filter(|topic| *topic != NO_TOPIC);
        Some(Stored { topic, partition: first.partition, offset: first.offset, duplicate: true })
    }

    /// Whether there is room for a message: in its partition, among the identities, on the disk.
    pub(crate) fn may_append(&self, message: &NewMessage) -> Result<(), Reject> {
        let state = &self.journal.state;
        let topic = state.topic(message.topic).ok_or(Reject::TopicUnknown)?;
        let lane = topic.partitions.get(message.partition as usize).ok_or(Reject::PartitionOutOfRange)?;
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        let messages_max = topic.settings.messages_max.unwrap_or(self.settings.partition_messages_max);
        if lane.messages >= messages_max {
            return Err(Reject::Overloaded(Overload::PartitionMessages));
        }
        let bytes_max = topic.settings.bytes_max.unwrap_or(self.settings.partition_bytes_max);
        if lane.bytes.saturating_add(u64::from(message.payload.size)) > bytes_max {
            return Err(Reject::Overloaded(Overload::PartitionBytes));
        }
        let records = state.stored.len() as u64 + state.done_records;
        if message.identity.is_some() && records >= self.settings.idempotency_records_max {
            return Err(Reject::Overloaded(Overload::IdempotencyRecords));
        }
        let retry = self.settings.retry_for(topic, message);
        if retry.is_some_and(|policy| !state.policies.has_room_for(policy)) {
            return Err(Reject::Overloaded(Overload::RetryPolicies));
        }
        Ok(())
    }

    /// When a message may go out for the first time, if that is not now.
    fn due_of(&self, message: &NewMessage) -> Option<Time> {
        let due = match message.start {
            Start::Now => None,
            Start::At(due) => Some(due.min(LAST_DUE)),
            Start::After(ms) => Some(self.now.after_ms(ms).min(LAST_DUE)),
        };
        due.filter(|due| *due > self.now)
    }

    /// Writes a payload again, if it still lies where it was read.
    pub(crate) fn handle_relocate(
        &mut self,
        (topic, partition, offset): (TopicId, u32, u64),
        from: Position,
        payload: &Payload,
        out: &mut Output,
    ) {
        let Some(lane) = self.journal.state.lane(topic, partition) else { return };
        let Lookup::Here(sequence) = lane.slots.find(offset) else { return };
        let in_place = lane.slots.get(sequence).is_some_and(|slot| {
            slot.position == from
                && slot.check == payload.check
                && slot.length as usize == payload.bytes.len()
                && self.roomy
        });
        if in_place {
            let fact = Fact::Moved { topic, partition, offset, bytes: &payload.bytes };
            self.journal.emit(Haste::Urgent, out, &fact);
        }
    }
}

impl Settings {
    /// The policy that a message is stored with: its own, its topic's, or the server's. A dead letter never dies again.
    pub(crate) fn retry_for(&self, topic: &Topic, message: &NewMessage) -> Option<RetryPolicy> {
        let default = (message.native && self.retry != RetryPolicy::default()).then_some(self.retry);
        message.retry.or(topic.settings.retry).or(default).filter(|_| !topic.is_dead_letter_topic())
    }
}
