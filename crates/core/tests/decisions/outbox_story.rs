//! Two shards that crash when they like, and an engine between them that loses, repeats and delays what it carries:
//! every parcel arrives once, those of one sender in their order, and nobody is told of a place that is not.

use crate::support::Draft;
use crate::support::ledger::named;
use crate::support::post::{Pair, RECEIVER, SENDER};
use driftq_core::{
    Action, Answer, Commit, Committed, Fact, Input, OutboxInput, Parcel, Settings, Stored, Ticket,
};
use std::collections::{BTreeMap, BTreeSet};

const STORIES: u64 = 300;
const STEPS: usize = 120;

/// A generator whose whole story is its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("it is small")
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// A request to the receiver, or an answer to the sender, that is on the line.
#[derive(Clone)]
enum Carried {
    Request { settled: u64, parcels: Vec<Parcel> },
    Answer(Vec<(u64, Stored)>),
}

struct Story {
    pair: Pair,
    chance: Chance,
    /// Commits in the order in which they were made.
    commits: Vec<Commit>,
    /// Who waits for which of them.
    asked: BTreeMap<Ticket, usize>,
    /// Commits of which it was said that they are done, and where their messages are.
    done: BTreeMap<usize, Committed>,
    /// Parcels that the sender wants to be sent and that have not been confirmed, in order.
    outgoing: BTreeMap<u64, Parcel>,
    line: Vec<Carried>,
    /// The newest parcel for which the receiver has answered.
    accepted: u64,
    /// Requests whose answers the receiver still owes.
    owed: BTreeMap<Ticket, Vec<u64>>,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut pair = Pair::new(&Settings::default());
        pair.here.snapshot_percent = chance.below(101);
        pair.there.snapshot_percent = chance.below(101);
        Self {
            pair,
            chance,
            commits: Vec::new(),
            asked: BTreeMap::new(),
            done: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            line: Vec::new(),
            accepted: 0,
            owed: BTreeMap::new(),
        }
    }

    /// A commit of its own, or one that was asked for before.
    fn commit(&mut self) {
        let known = self.commits.len();
        let which = if known > 0 && self.chance.percent(30) { self.chance.below(known) } else { known };
        if which == known {
            let count = 1 + self.chance.below(3);
            let messages = (0..count).map(|place| {
                let topic = if self.chance.percent(75) { self.pair.far } else { self.pair.near };
                Draft::to(topic).value(&format!("{which}.{place}")).message()
            });
            let messages = messages.collect();
            self.commits.push(named(&which.to_string(), Commit { messages, ..Commit::default() }));
        }
        let ticket = self.pair.here.ask_commit(self.commits[which].clone());
        self.asked.insert(ticket, which);
    }

    /// Hears what both shards say.
    fn listen(&mut self) {
        for action in std::mem::take(&mut self.pair.here.actions) {
            match action {
                Action::Post { to, parcel } => {
                    assert_eq!(to, RECEIVER);
                    let last = self.outgoing.last_key_value().map_or(0, |(number, _)| *number);
                    assert!(parcel.number > last, "in the order of their numbers");
                    self.outgoing.insert(parcel.number, parcel);
                }
                Action::Reply { ticket, answer: Answer::Committed(done) } => {
                    let which = self.asked.remove(&ticket).expect("somebody asked");
                    let before = self.done.entry(which).or_insert_with(|| done.clone());
                    assert_eq!(before.stored, done.stored, "the same commit is answered alike");
                }
                other => panic!("not expected of the sender: {other:?}"),
            }
        }
        for action in std::mem::take(&mut self.pair.there.actions) {
            let Action::Reply { ticket, answer: Answer::Received(stored) } = action else {
                panic!("not expected of the receiver: {action:?}")
            };
            let numbers = self.owed.remove(&ticket).expect("somebody asked");
            self.accepted = self.accepted.max(numbers.last().copied().unwrap_or(0));
            self.line.push(Carried::Answer(numbers.into_iter().zip(stored).collect()));
        }
    }

    /// Puts a request on the line: whatever was not answered yet, from the first on. It is the engine's part that no
    /// parcel overtakes one that was not received.
    fn send(&mut self) {
        let upto = self.outgoing.len().min(1 + self.chance.below(4));
        let parcels: Vec<Parcel> = self.outgoing.values().take(upto).cloned().collect();
        if !parcels.is_empty() {
            let settled = self.pair.here.shard.outbox_settled();
            self.line.push(Carried::Request { settled, parcels });
        }
    }

    /// Something that is on the line arrives, is lost, or arrives and will do so again.
    fn carry(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let which = self.chance.below(self.line.len());
        let carried =
            if self.chance.percent(30) { self.line[which].clone() } else { self.line.remove(which) };
        if self.chance.percent(20) {
            return;
        }
        match carried {
            Carried::Request { settled, parcels } => self.request(settled, parcels),
            Carried::Answer(stored) => {
                for (number, _) in &stored {
                    self.outgoing.remove(number);
                }
                self.pair.here.tell(Input::Outbox(OutboxInput::Posted { stored }));
            }
        }
    }

    fn request(&mut self, settled: u64, parcels: Vec<Parcel>) {
        let numbers = parcels.iter().map(|parcel| parcel.number).collect();
        let from = SENDER;
        let ticket = self
            .pair
            .there
            .ask(|ticket| Input::Outbox(OutboxInput::Receive { ticket, from, settled, parcels }));
        self.owed.insert(ticket, numbers);
    }

    fn crash_sender(&mut self) {
        self.asked.clear();
        self.outgoing.clear();
        let (synced, written) = (self.pair.here.log.synced, self.pair.here.write());
        let kept = synced + self.chance.below(written - synced + 1);
        self.pair.here.actions.clear();
        self.pair.here.crash_keeping(kept);
    }

    fn crash_receiver(&mut self) {
        self.owed.clear();
        let (synced, written) = (self.pair.there.log.synced, self.pair.there.write());
        let kept = synced + self.chance.below(written - synced + 1);
        self.pair.there.actions.clear();
        self.pair.there.crash_keeping(kept);
    }

    fn step(&mut self) {
        match self.chance.below(100) {
            0..25 => self.commit(),
            25..45 => self.send(),
            45..70 => self.carry(),
            70..78 => self.pair.here.sync(),
            78..86 => self.pair.there.sync(),
            86..90 => drop(self.pair.here.write()),
            90..94 => drop(self.pair.there.write()),
            94..97 => self.crash_sender(),
            _ => self.crash_receiver(),
        }
        self.listen();
    }

    /// From now on nothing is lost: whatever was promised comes true.
    fn settle(&mut self) {
        for which in 0..self.commits.len() {
            let ticket = self.pair.here.ask_commit(self.commits[which].clone());
            self.asked.insert(ticket, which);
        }
        while !self.asked.is_empty() || !self.outgoing.is_empty() {
            let before = (self.asked.len(), self.outgoing.len());
            self.pair.here.sync();
            self.pair.there.sync();
            self.listen();
            let parcels: Vec<Parcel> = self.outgoing.values().cloned().collect();
            self.request(self.pair.here.shard.outbox_settled(), parcels);
            self.pair.there.sync();
            self.listen();
            for carried in std::mem::take(&mut self.line) {
                if let Carried::Answer(stored) = carried {
                    stored.iter().for_each(|(number, _)| drop(self.outgoing.remove(number)));
                    self.pair.here.tell(Input::Outbox(OutboxInput::Posted { stored }));
                }
            }
            self.listen();
            assert!((self.asked.len(), self.outgoing.len()) < before, "it goes on");
        }
    }

    /// What the receiver has is what was committed, each once, and where the commits were told.
    fn judge(&mut self) {
        let mut wanted = BTreeMap::new();
        for (which, commit) in self.commits.iter().enumerate() {
            for (place, message) in commit.messages.iter().enumerate() {
                if message.topic == self.pair.far {
                    wanted.insert(format!("{which}.{place}"), self.done[&which].stored[place].offset);
                }
            }
        }
        let arrived = self.pair.arrived();
        let offsets: BTreeMap<String, u64> = arrived.iter().cloned().zip(0..).collect();
        assert_eq!(offsets.len(), arrived.len(), "each arrives once");
        assert_eq!(offsets, wanted, "each lies where it was told to lie");
        // Both in the order of their numbers, which is that of their offsets.
        let facts = self.pair.there.facts_since(0);
        let received = facts.iter().filter_map(|fact| match fact {
            Fact::Outbox(driftq_core::OutboxFact::Received { number, stored, .. }) => {
                Some((*number, stored.offset))
            }
            _ => None,
        });
        let received: Vec<(u64, u64)> = received.collect();
        let numbers: BTreeSet<u64> = received.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers.len(), received.len());
        assert!(received.is_sorted(), "in the order of the sender: {received:?}");
    }
}

#[test]
fn every_parcel_arrives_once_and_in_order_whoever_crashes() {
    let mut parcels = 0;
    for seed in 0..STORIES {
        let mut story = Story::new(seed);
        for _ in 0..STEPS {
            story.step();
        }
        story.settle();
        story.judge();
        for rig in [&mut story.pair.here, &mut story.pair.there] {
            rig.sync();
            let batches = rig.log.batches.len();
            let folded = rig.recovered(batches, batches / 2);
            assert!(folded.encode() == rig.shard.state().encode(), "seed {seed}: the facts are the state");
        }
        parcels += story.accepted.min(1);
    }
    assert!(parcels > STORIES / 2, "the stories tell something");
}
