//! How messages come to readers: the order of claims, leases, retries, dead letters, schedules.

pub(crate) mod bury;
pub(crate) mod crew;
pub(crate) mod deadline;
pub(crate) mod dispatch;
pub(crate) mod history;
pub(crate) mod lane;
pub(crate) mod lease;
pub(crate) mod produce;
pub(crate) mod readers;
pub(crate) mod regroup;
pub(crate) mod retry;
pub(crate) mod schedule;
pub(crate) mod settle;
pub(crate) mod sleepers;
pub(crate) mod sleeping;
pub(crate) mod unbegun;
pub(crate) mod upkeep;
pub(crate) mod verdict;
pub(crate) mod waited;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::delivery::crew::Crew;
use crate::delivery::sleepers::Sleepers;
use crate::turn::Turn;
use crate::words::action::Output;
use crate::words::id::{ConsumerId, GroupId, Identity, Position, Ticket, Time, Token, TopicId};

/// What [`Deliveries::scheduled`] holds: messages of one partition by due time.
pub(crate) type Schedule = BTreeSet<(Time, u64)>;

/// Everything that is under way between messages and readers. None of it is remembered: a new run of the shard builds
/// it from the state. Its fields are private to this module; other capabilities say what happened, for instance
/// [`Deliveries::ack`].
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// Every group of every topic, at work or not.
    crews: BTreeMap<GroupId, Crew>,
    /// Groups with at least one reader, by topic.
    active: BTreeMap<TopicId, BTreeSet<GroupId>>,
    /// The group of each reader.
    readers: BTreeMap<ConsumerId, GroupId>,
    /// End of this run's first fact: nothing is delivered before it is durable.
    opened: Position,
    /// Messages that may still be looked at for this input.
    steps: usize,
    /// How often dispatch stopped in the middle.
    turns: u64,
    /// Tokens handed out in this run.
    tokens: u64,
    /// Messages dead-lettered in this run, by source topic.
    dead_letters: BTreeMap<TopicId, u64>,
    /// Groups of the askers that wait for messages.
    waiting: BTreeMap<Ticket, GroupId>,
    /// Messages that are not due yet, by partition.
    scheduled: BTreeMap<(TopicId, u32), Schedule>,
    /// Messages that go on the groups' lists once everything below the position is durable.
    unlisted: VecDeque<(Position, TopicId, u32, u64)>,
    /// Identities of messages that are being routed, and until when they are kept.
    reserved: BTreeMap<Identity, Time>,
    /// Partitions that have a timer for retention: one each, however often they run empty and fill again.
    retaining: BTreeSet<(TopicId, u32)>,
    /// When a partition's history is looked at next: one timer each.
    trimming: BTreeMap<(TopicId, u32), Time>,
    /// Messages with a deadline that has not come yet, by partition.
    deadlines: BTreeMap<(TopicId, u32), Schedule>,
    /// Messages that wait for an effect.
    sleepers: Sleepers,
    /// Groups that may have something to deliver since this input; see [`Deliveries::touch`].
    touched: BTreeSet<GroupId>,
    /// Askers that asked with this input, or whose time is up with it.
    asking: Vec<(GroupId, Ticket, Time)>,
    /// Effects whose delivery this input has gone on without; see [`Deliveries::take_overtaken`].
    overtaken: Vec<u64>,
}

impl Deliveries {
    /// Begins a run: nothing is delivered before everything below `opened` is durable.
    pub(crate) fn open(&mut self, turn: &mut Turn, opened: Position, out: &mut Output) {
        self.opened = opened;
        self.rebuild_schedule(turn);
        self.rebuild_all(turn, out);
    }

    /// An input begins: `steps` messages may be looked at for it.
    pub(crate) const fn begin_turn(&mut self, steps: usize) {
        self.steps = steps;
    }

    /// Something happened to a group: whatever can be delivered to it now is delivered once, at the end of the input.
    pub(crate) fn touch(&mut self, group: GroupId) {
        self.touched.insert(group);
    }

    /// Something happened to every group of a topic.
    pub(crate) fn touch_topic(&mut self, turn: &Turn, topic: TopicId) {
        let groups = turn.journal.state.topic(topic).map(|topic| topic.groups.keys().copied());
        self.touched.extend(groups.into_iter().flatten());
    }

    /// An input ends: everything that it made ready is delivered, and askers that got nothing are settled.
    pub(crate) fn end_turn(&mut self, turn: &mut Turn, out: &mut Output) {
        while let Some(group) = self.touched.pop_first() {
            self.dispatch(turn, group, out);
        }
        self.answer_askers(turn, out);
        self.watch_history(turn);
    }

    /// Effects that were begun by deliveries which this input has superseded or buried. They are told at the end of the
    /// input: a waiter for one of them must not hear of it before the new holder does.
    pub(crate) fn take_overtaken(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.overtaken)
    }

    pub(crate) fn crew(&self, group: GroupId) -> Option<&Crew> {
        self.crews.get(&group)
    }

    /// How many messages of a topic were dead-lettered in this run.
    pub(crate) fn dead_letters_of(&self, topic: TopicId) -> u64 {
        self.dead_letters.get(&topic).copied().unwrap_or(0)
    }

    /// A token that was never handed out before: the epoch is this run's alone.
    const fn next_token(&mut self, turn: &Turn) -> Token {
        self.tokens += 1;
        Token { epoch: turn.journal.state.epoch, n: self.tokens }
    }

    /// A topic is about to go. Its groups are dismissed one by one.
    pub(crate) fn forget_topic(&mut self, topic: TopicId) {
        self.scheduled.retain(|(of, _), _| *of != topic);
        self.deadlines.retain(|(of, _), _| *of != topic);
        self.dead_letters.remove(&topic);
    }
}
