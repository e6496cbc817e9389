//! A message comes in: the produce gate, the limits, and the fact.

use crate::action::{Answer, Output};
use crate::fact::{Fact, MessageFact};
use crate::id::{Position, Ticket, Time, TopicId};
use crate::input::{NewMessage, Payload};
use crate::journal::{Haste, lifetime, refuse};
use crate::reject::{Overload, Reject};
use crate::shard::Shard;
use crate::slot::Found;
use crate::timer::Due;
use crate::upkeep::FORGET_SLACK_MS;

impl Shard {
    pub(crate) fn handle_produce(&mut self, ticket: Ticket, message: &NewMessage, out: &mut Output) {
        // Before any limit: what is stored is stored, however full the partition has become since.
        if let Some(identity) = &message.identity
            && let Some(first) = self.journal.state.stored.get(identity, self.now)
        {
            let answer =
                Answer::Produced { partition: first.partition, offset: first.offset, duplicate: true };
            return self.journal.reply(out, ticket, answer);
        }
        if let Err(reject) = self.may_produce(message) {
            return refuse(out, ticket, reject);
        }
        let identity =
            message.identity.map(|identity| (identity, lifetime(self.now, self.settings.idempotency_ttl_ms)));
        let offset = self.append(message.topic, message.partition, message, identity, out);
        self.enforce_bytes(message.topic, message.partition, out);
        let partition = message.partition;
        self.journal.reply(out, ticket, Answer::Produced { partition, offset, duplicate: false });
    }

    fn may_produce(&self, message: &NewMessage) -> Result<(), Reject> {
        let state = &self.journal.state;
        let topic = state.topic(message.topic).ok_or(Reject::TopicUnknown)?;
        let lane = topic.partitions.get(message.partition as usize).ok_or(Reject::PartitionOutOfRange)?;
        if message.deadline.is_some_and(|deadline| deadline <= self.now) {
            return Err(Reject::DeadlineExceeded);
        }
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        if lane.messages >= self.settings.partition_messages_max {
            return Err(Reject::Overloaded(Overload::PartitionMessages));
        }
        if lane.bytes.saturating_add(u64::from(message.payload.size)) > self.settings.partition_bytes_max {
            return Err(Reject::Overloaded(Overload::PartitionBytes));
        }
        let records = state.stored.len() as u64 + state.done_records;
        if message.identity.is_some() && records >= self.settings.idempotency_records_max {
            return Err(Reject::Overloaded(Overload::IdempotencyRecords));
        }
        if message.retry.is_some_and(|policy| !state.policies.has_room_for(policy)) {
            return Err(Reject::Overloaded(Overload::RetryPolicies));
        }
        Ok(())
    }

    /// Stores a message and gives its offset.
    pub(crate) fn append(
        &mut self,
        topic: TopicId,
        partition: u32,
        message: &NewMessage,
        identity: Option<(crate::id::Identity, Time)>,
        out: &mut Output,
    ) -> u64 {
        let state = &self.journal.state;
        let offset = state.topics[topic.0 as usize].next_offset;
        let next = state.stored.next_expiry();
        let first_to_go = identity.filter(|(_, until)| next.is_none_or(|next| *until < next));
        let fact = Fact::Appended(MessageFact {
            topic,
            partition,
            offset,
            at: self.now,
            size: message.payload.size,
            check: message.payload.check,
            retry: message.retry,
            identity,
            bytes: &message.payload.bytes,
        });
        self.journal.emit(Haste::Urgent, out, &fact);
        if let Some((_, until)) = first_to_go
            && until > self.now
        {
            self.timers.set(until.after_ms(FORGET_SLACK_MS), Due::Forget(None));
        }
        self.schedule_retention(topic, partition);
        offset
    }

    /// Writes a payload anew, if it still lies where it was read.
    pub(crate) fn handle_relocate(
        &mut self,
        (topic, partition, offset): (TopicId, u32, u64),
        from: Position,
        payload: &Payload,
        out: &mut Output,
    ) {
        let lane = self.journal.state.topic(topic).and_then(|topic| topic.partitions.get(partition as usize));
        let Some(lane) = lane else { return };
        let Found::Here(sequence) = lane.slots.find(offset) else { return };
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
