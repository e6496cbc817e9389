//! A group goes to another place of its topic.

use crate::delivery::Deliveries;
use crate::log::fact::Fact;
use crate::log::order::OrderFact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::Spot;
use crate::words::action::{Answer, Output};
use crate::words::id::{GroupId, Ticket, TopicId};
use crate::words::order::SeekTo;
use crate::words::reject::Reject;
use alloc::vec::Vec;

impl Deliveries {
    pub(crate) fn handle_seek(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        (id, name): (TopicId, &str),
        (only, to): (Option<u32>, SeekTo),
        out: &mut Output,
    ) {
        let group = match turn.may_seek(id, name, only) {
            Ok(group) => group,
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        let mut targets = Vec::new();
        let mut spots = Vec::new();
        if let Some(topic) = turn.journal.state.topic(id) {
            for (partition, lane) in (0_u32..).zip(&topic.partitions) {
                if only.is_some_and(|only| only != partition) {
                    continue;
                }
                let sequence = match to {
                    SeekTo::Earliest => lane.slots.base,
                    SeekTo::Latest => lane.slots.next(),
                    SeekTo::Offset(offset) => lane.sequence_at(offset),
                    SeekTo::Time(time) => lane.sequence_since(time),
                };
                let first = lane.slots.next_alive(sequence).and_then(|s| lane.slots.get(s));
                targets.push((partition, first.map_or(topic.next_offset, |slot| slot.offset)));
                let pending = topic.progress(group, partition).map(|progress| progress.pending.keys());
                spots.extend(pending.into_iter().flatten().map(|&sequence| Spot {
                    topic: id,
                    group,
                    partition,
                    sequence,
                }));
            }
        }
        // A holder of something at the old position holds nothing any more.
        for spot in spots {
            self.retire(turn, spot);
        }
        for (partition, from) in targets {
            let fact = Fact::Order(OrderFact::Sought { topic: id, group, partition, from });
            turn.journal.emit(Haste::Urgent, out, &fact);
        }
        self.prune_schedule(turn, id);
        self.rebuild_group(turn, id, group, out);
        self.watch_topic_deadlines(turn, id);
        let partitions = self.described_partitions(turn, id, group);
        turn.journal.reply(out, ticket, Answer::Sought(partitions));
        self.touch(group);
    }
}

impl Turn {
    fn may_seek(&self, id: TopicId, name: &str, only: Option<u32>) -> Result<GroupId, Reject> {
        let group = self.group_of(id, name)?;
        let partitions = self.journal.state.topic(id).map_or(0, |topic| topic.info().partitions);
        if only.is_some_and(|only| only >= partitions) {
            return Err(Reject::PartitionOutOfRange);
        }
        Ok(group)
    }
}
