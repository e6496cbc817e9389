//! The readers of a group, and which of its partitions have something for them. None of it is remembered: a new
//! run of the shard builds it from the state.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::delivery::lane::Lane;
use crate::state::group::Progress;
use crate::state::partition::{Rank, Topic};
use crate::turn::timer::Spot;
use crate::words::action::Delivery;
use crate::words::id::{ConsumerId, Identity, Ticket, Time, Token, TopicId};
use crate::words::input::{LEASE_BYTES_MAX, Style};
use crate::words::receipt::Receipt;
use crate::words::settings::Settings;
use core::cmp::Reverse;

/// One open subscription.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) id: ConsumerId,
    pub(crate) owner: String,
    pub(crate) lease_ms: u64,
    /// Deliveries it can still take.
    pub(crate) credit: u32,
    /// Deliveries that it borrows and has not said to have written out.
    pub(crate) unwritten: u32,
    pub(crate) style: Style,
}

impl Consumer {
    const fn can_take(&self, unwritten_max: u32) -> bool {
        self.credit > 0 && self.unwritten < unwritten_max
    }
}

/// An asker that asked for messages once and waits for them.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pub(crate) owner: String,
    pub(crate) lease_ms: u64,
    pub(crate) max: usize,
    /// It waits until then.
    pub(crate) until: Time,
    /// Names the request.
    pub(crate) request: Option<Identity>,
    /// What it gets, while its deliveries are being gathered.
    pub(crate) gathered: Vec<Delivery>,
    /// Payload bytes of those.
    pub(crate) bytes: u64,
    /// Whether one of them supersedes a holder: the answer waits until that is durable.
    pub(crate) supersedes: bool,
}

impl Waiter {
    /// Whether a payload of this length would make its answer larger than an answer may be. The first one never does.
    pub(crate) fn is_full_for(&self, length: u32) -> bool {
        !self.gathered.is_empty() && self.bytes + u64::from(length) > LEASE_BYTES_MAX
    }
}

/// Owners of one group that are remembered to ask call by call.
const POLLERS_MAX: usize = 1_000;
/// An owner still counts as a reader for this long after its last call: between two calls nothing of it is here.
const POLLER_REST_MS: u64 = 5_000;

/// Messages of one group of which it is known when they were no longer set aside.
const FREED_MAX: usize = 1_000;

/// A group at work.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) topic: TopicId,
    pub(crate) consumers: Vec<Consumer>,
    /// Whose turn it is.
    pub(crate) turn: usize,
    /// Waiters for an answer, in the order in which they came.
    pub(crate) waiters: VecDeque<Waiter>,
    /// Whether a stream got the last delivery for which a waiter waited too.
    pub(crate) stream_had_it: bool,
    /// Answers to requests that can be asked again, the oldest first.
    pub(crate) answered: BTreeMap<Identity, Vec<Receipt>>,
    pub(crate) answered_order: VecDeque<Identity>,
    pub(crate) lanes: Vec<Lane>,
    /// Partitions that may have something to deliver.
    pub(crate) hot: BTreeSet<u32>,
    /// Partitions that have something, but whose window is full for every reader that could take it.
    pub(crate) full: BTreeSet<u32>,
    /// The partition after the one that delivered last.
    pub(crate) next_partition: u32,
    /// Streams whose credit a delivery takes until it is settled.
    pub(crate) loans: BTreeMap<(u32, u64), ConsumerId>,
    /// Identities that are being worked on, and by which message.
    pub(crate) running: BTreeMap<Identity, (u32, u64)>,
    /// Messages that wait because another one with the same identity is being worked on.
    pub(crate) aside: BTreeMap<Identity, Vec<(u32, Rank)>>,
    /// Messages whose last delivery was given back in this run of the shard, each of which the log may still show
    /// as on loan: the next delivery supersedes that one.
    /// When that was tells what it waits for since.
    pub(crate) given_back: BTreeMap<(u32, u64), Time>,
    /// Messages that were set aside and are to be looked at again, and since when. At most [`FREED_MAX`].
    pub(crate) freed: BTreeMap<(u32, u64), Time>,
    /// When deliveries were last stopped in this run of the shard, and when they went on.
    pub(crate) paused: (Time, Time),
    /// Deliveries on which their holder has not begun work, as its last heartbeat said.
    pub(crate) unbegun: BTreeMap<(u32, u64), Token>,
    /// How often the lapse of such a delivery did not count.
    pub(crate) spared: BTreeMap<(u32, u64), u8>,
    /// Whether dispatch stopped in the middle so that others get their turn.
    pub(crate) is_unfinished: bool,
    /// Whether a timer is set that goes on with it.
    pub(crate) goes_on: bool,
    /// Messages that are being turned into dead letters, each with the token of its burial.
    pub(crate) dying: BTreeMap<(u32, u64), Token>,
    /// Last sign of life.
    pub(crate) seen: Time,
    /// Owners that ask call by call, and when each was last known to wait. At most [`POLLERS_MAX`].
    pub(crate) pollers: BTreeMap<String, Time>,
    /// Whether a timer is set that checks if the group has been away for too long: one, however often readers come and
    /// go.
    pub(crate) watched: bool,
}

/// Who takes a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    /// The first in line.
    Waiter,
    /// The stream at this place.
    Stream(usize),
}

/// How many deliveries of one partition may be on loan, by kind of reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) pushed: u32,
    pub(crate) borrowed: u32,
    /// To one stream and not written out.
    pub(crate) unwritten: u32,
    /// The topic has set one window for everything that is on loan. Otherwise only what was pushed counts for
    /// readers to whom messages are pushed: their window is small, and holders of tokens asked for a number.
    pub(crate) is_shared: bool,
}

impl Crew {
    /// A group without readers; lanes start at the given floors.
    pub(crate) fn new(topic: TopicId, floors: impl Iterator<Item = u64>, now: Time) -> Self {
        Self {
            topic,
            consumers: Vec::new(),
            turn: 0,
            waiters: VecDeque::new(),
            stream_had_it: false,
            answered: BTreeMap::new(),
            answered_order: VecDeque::new(),
            lanes: floors.map(|cursor| Lane { cursor, ..Lane::default() }).collect(),
            hot: BTreeSet::new(),
            full: BTreeSet::new(),
            next_partition: 0,
            loans: BTreeMap::new(),
            running: BTreeMap::new(),
            aside: BTreeMap::new(),
            given_back: BTreeMap::new(),
            freed: BTreeMap::new(),
            paused: (Time(0), Time(0)),
            unbegun: BTreeMap::new(),
            spared: BTreeMap::new(),
            is_unfinished: false,
            goes_on: false,
            dying: BTreeMap::new(),
            seen: now,
            pollers: BTreeMap::new(),
            watched: false,
        }
    }

    /// Who gets the next delivery of a partition in which the group has made `progress`: streams in turn, and waiters
    /// in the order in which they came; streams and waiters alternate.
    pub(crate) fn next_taker(&self, progress: &Progress, windows: Windows) -> Option<Taker> {
        let leased = progress.leased;
        let waiter = !self.waiters.is_empty() && leased < windows.borrowed;
        let count = self.consumers.len();
        let may = |consumer: &Consumer| {
            let (leased, window) = match consumer.style {
                Style::Pushed if windows.is_shared => (leased, windows.pushed),
                Style::Pushed => (progress.pushed, windows.pushed),
                Style::Borrowed => (leased, windows.borrowed),
            };
            consumer.can_take(windows.unwritten) && leased < window
        };
        let stream = (0..count).map(|step| (self.turn + step) % count).find(|&i| may(&self.consumers[i]));
        match stream {
            Some(_) if waiter && self.stream_had_it => Some(Taker::Waiter),
            Some(index) => Some(Taker::Stream(index)),
            None => waiter.then_some(Taker::Waiter),
        }
    }

    /// An owner asks, or was answered.
    pub(crate) fn note_poller(&mut self, owner: &str, now: Time) {
        if let Some(seen) = self.pollers.get_mut(owner) {
            *seen = now;
            return;
        }
        if self.pollers.len() >= POLLERS_MAX {
            self.pollers.retain(|_, seen| now.since_ms(*seen) < POLLER_REST_MS);
        }
        // Beyond that there are so many that one more or less does not matter.
        if self.pollers.len() < POLLERS_MAX {
            self.pollers.insert(owner.into(), now);
        }
    }

    /// Owners that asked call by call a moment ago.
    pub(crate) fn recent_pollers(&self, now: Time) -> impl Iterator<Item = &str> {
        let recent = self.pollers.iter().filter(move |(_, seen)| now.since_ms(**seen) < POLLER_REST_MS);
        recent.map(|(owner, _)| owner.as_str())
    }

    pub(crate) fn can_take(&self, unwritten_max: u32) -> bool {
        !self.waiters.is_empty() || self.consumers.iter().any(|consumer| consumer.can_take(unwritten_max))
    }

    /// Whether a message is being turned into a dead letter.
    pub(crate) fn is_dying(&self, spot: Spot) -> bool {
        self.dying.contains_key(&(spot.partition, spot.sequence))
    }

    /// Whether the group has a reader or a waiter.
    pub(crate) fn is_attended(&self) -> bool {
        !self.waiters.is_empty() || !self.consumers.is_empty()
    }

    /// The next partition in turn that may have something.
    pub(crate) fn next_hot(&self) -> Option<u32> {
        self.hot.range(self.next_partition..).next().or_else(|| self.hot.first()).copied()
    }

    /// A retry is due, since `due`.
    pub(crate) fn make_ready(&mut self, partition: u32, (priority, sequence): Rank, due: Time) {
        if let Some(lane) = self.lanes.get_mut(partition as usize) {
            lane.retries.insert(priority, due, sequence);
            self.hot.insert(partition);
        }
    }

    /// A message may be delivered that the cursor will not meet.
    pub(crate) fn make_fresh(&mut self, partition: u32, rank: Rank) {
        if let Some(lane) = self.lanes.get_mut(partition as usize) {
            lane.fresh.insert(rank);
            self.hot.insert(partition);
        }
    }

    /// Every partition may have something: a reader came.
    pub(crate) fn heat_all(&mut self) {
        self.hot = (0..u32::try_from(self.lanes.len()).expect("partitions are counted in u32")).collect();
        self.full.clear();
    }

    /// A partition has something, and its window is full.
    pub(crate) fn set_full(&mut self, partition: u32, now: Time) {
        self.hot.remove(&partition);
        self.full.insert(partition);
        if let Some(lane) = self.lanes.get_mut(partition as usize)
            && lane.full_since == Time(0)
        {
            lane.full_since = now;
        }
    }

    /// Partitions whose window was full for the readers that were there may have room for a new reader.
    pub(crate) fn heat_full(&mut self) {
        self.hot.append(&mut self.full);
    }

    /// A delivery is over, whatever comes next: its stream may take another one.
    pub(crate) fn end_loan(&mut self, partition: u32, sequence: u64) {
        let Some(id) = self.loans.remove(&(partition, sequence)) else { return };
        self.add_credit(id, 1);
    }

    /// A stream can take more. If it could take nothing, partitions that were full for all others may have room for it.
    pub(crate) fn add_credit(&mut self, id: ConsumerId, count: u32) {
        let Some(consumer) = self.consumers.iter_mut().find(|consumer| consumer.id == id) else { return };
        let was_out = consumer.credit == 0;
        consumer.credit = consumer.credit.saturating_add(count);
        if was_out {
            self.heat_full();
        }
    }

    /// A stream that borrows has written some of its deliveries out.
    pub(crate) fn on_written(&mut self, id: ConsumerId, count: u32, unwritten_max: u32) {
        let Some(consumer) = self.consumers.iter_mut().find(|consumer| consumer.id == id) else { return };
        let was_out = consumer.unwritten >= unwritten_max;
        consumer.unwritten = consumer.unwritten.saturating_sub(count);
        if was_out {
            self.heat_full();
        }
    }

    /// The group is done with a message: the next one of its key may go.
    pub(crate) fn finish_key(&mut self, partition: u32, sequence: u64, now: Time) {
        let next = self.lanes.get_mut(partition as usize).and_then(|lane| lane.keys.finish(sequence, now));
        if let Some(next) = next {
            // Where keys keep their order, priorities do not count.
            self.make_fresh(partition, (Reverse(0), next));
        }
    }

    /// No holder works on `identity` any more: what waited for it may be looked at again.
    pub(crate) fn finish_identity(&mut self, identity: Identity, partition: u32, sequence: u64, now: Time) {
        if self.running.get(&identity) == Some(&(partition, sequence)) {
            self.running.remove(&identity);
            for (partition, rank) in self.aside.remove(&identity).unwrap_or_default() {
                self.make_fresh(partition, rank);
                if self.freed.len() >= FREED_MAX {
                    self.freed.pop_first();
                }
                self.freed.insert((partition, rank.1), now);
            }
        }
    }

    pub(crate) fn set_aside(&mut self, identity: Identity, partition: u32, rank: Rank) {
        self.lanes[partition as usize].take(rank);
        self.aside.entry(identity).or_default().push((partition, rank));
    }
}

impl Settings {
    /// How many deliveries of one partition of a topic may be on loan.
    pub(crate) fn windows(&self, topic: &Topic) -> Windows {
        Windows {
            pushed: topic.settings.in_flight_max.unwrap_or(self.in_flight_max),
            borrowed: topic.settings.in_flight_max.unwrap_or(self.lease_in_flight_max),
            unwritten: self.stream_unwritten_max,
            is_shared: topic.settings.in_flight_max.is_some(),
        }
    }
}
