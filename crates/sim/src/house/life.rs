//! One process: its shards, what passes between them, and what clients have asked of it.
//!
//! The way of a parcel and of a commit that several shards have a part in are the shell's affair and written down here
//! once more; in production they are `forwarder.rs` and `commit_across.rs` of the engine. What is carried is decided by
//! the core, there as here.

use std::collections::{BTreeMap, VecDeque};

use driftq_core::{
    Across, Action, Answer, Commit, CommitInput, CommitResult, Delivery, EffectAnswer, EffectReceipt, Input,
    Next, OutboxInput, Parcel, Question, Receipt, Reply, ShardId, Ticket, Time,
};

use crate::rng::Rng;
use crate::server::Server;

/// Parcels that go together.
const TOGETHER_MAX: u64 = 3;

/// A worker's task: a message that it holds, with an effect and a message that follows.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) chain: usize,
    pub(super) hop: usize,
    pub(super) value: u64,
    pub(super) receipt: Receipt,
    /// The lease under which its effect was run; none if it had been run before.
    pub(super) effect: Option<EffectReceipt>,
    /// What was committed, so that it can be said again if it has a name.
    pub(super) commit: Option<Commit>,
}

/// Who waits for an answer, and for which.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Produce(u64),
    Lease {
        chain: usize,
        hop: usize,
    },
    Begin(Box<Job>),
    Commit(Box<Job>),
    /// Part of a commit that several shards have a part in.
    Part {
        errand: u64,
        place: usize,
    },
    /// Parcels of another shard, so many.
    Parcels {
        from: usize,
        count: usize,
    },
}

/// What clients hear.
#[derive(Debug)]
pub(super) enum Heard {
    Produced(u64, driftq_core::Stored),
    Leased {
        shard: usize,
        chain: usize,
        hop: usize,
        deliveries: Vec<Delivery>,
    },
    Begun(Box<Job>, EffectAnswer),
    Committed(Box<Job>, CommitResult),
    /// The shard was given up before it answered.
    Unknown(Asked),
    /// It was refused, and nothing was done.
    Refused,
}

/// A commit that several shards have a part in, under way.
struct Errand {
    across: Across,
    replies: Vec<Option<Reply>>,
    job: Box<Job>,
}

pub(super) struct Life {
    pub(super) number: u64,
    /// Those that it knows to be lost to another process are gone.
    pub(super) shards: Vec<Option<Server>>,
    /// Parcels by sender and receiver, in the order of their numbers.
    outgoing: Vec<BTreeMap<usize, VecDeque<Parcel>>>,
    /// Inputs on their way to a shard.
    line: Vec<(usize, Input)>,
    asked: BTreeMap<Ticket, (usize, Asked)>,
    errands: BTreeMap<u64, Errand>,
    tickets: u64,
    pub(super) parcels: u64,
}

impl Life {
    pub(super) fn new(number: u64, shards: Vec<Server>) -> Self {
        Self {
            number,
            outgoing: vec![BTreeMap::new(); shards.len()],
            shards: shards.into_iter().map(Some).collect(),
            line: Vec::new(),
            asked: BTreeMap::new(),
            errands: BTreeMap::new(),
            tickets: 0,
            parcels: 0,
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        let still = |server: &Server| server.is_quiet();
        self.line.is_empty()
            && self.asked.is_empty()
            && self.outgoing.iter().all(|receivers| receivers.values().all(VecDeque::is_empty))
            && self.shards.iter().flatten().all(still)
    }

    /// Puts a question on its way.
    pub(super) fn ask(&mut self, shard: usize, asked: Asked, input: impl FnOnce(Ticket) -> Input) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asked.insert(ticket, (shard, asked));
        self.line.push((shard, input(ticket)));
    }

    /// Puts a commit on its way.
    pub(super) fn commit(&mut self, job: Box<Job>, commit: Commit, heard: &mut Vec<Heard>) {
        let seat = commit.seat();
        if commit.is_whole_in(seat) {
            let commit = Box::new(commit.localized());
            let input = |ticket| Input::Commit(CommitInput::One { ticket, commit });
            return self.ask(usize::from(seat.0), Asked::Commit(job), input);
        }
        match Across::new(commit) {
            Ok(across) => {
                self.tickets += 1;
                let number = self.tickets;
                self.errands.insert(number, Errand { across, replies: Vec::new(), job });
                self.go_on(number, heard);
            }
            Err(refused) => heard.push(Heard::Committed(job, Err(refused))),
        }
    }

    /// All that was asked for a commit is answered.
    fn go_on(&mut self, number: u64, heard: &mut Vec<Heard>) {
        let Some(mut errand) = self.errands.remove(&number) else { return };
        let replies = errand.replies.drain(..).flatten().collect();
        match errand.across.next(replies) {
            Next::Done(result) => heard.push(Heard::Committed(errand.job, result)),
            Next::Ask(asked) => {
                errand.replies = vec![None; asked.len()];
                self.errands.insert(number, errand);
                for (place, (shard, question)) in asked.into_iter().enumerate() {
                    let part = Asked::Part { errand: number, place };
                    self.ask(usize::from(shard.0), part, |ticket| match question {
                        Question::Check(commit) => {
                            Input::Commit(CommitInput::Check { ticket, commit: Box::new(commit) })
                        }
                        Question::Do(commit) => {
                            Input::Commit(CommitInput::One { ticket, commit: Box::new(commit) })
                        }
                        Question::Lease(receipt) => {
                            Input::Describe { ticket, query: driftq_core::Query::Lease(receipt) }
                        }
                    });
                }
            }
        }
    }

    /// Something that is on its way arrives.
    pub(super) fn carry(
        &mut self,
        rng: &mut Rng,
        now: Time,
        heard: &mut Vec<Heard>,
    ) -> Option<(usize, Input)> {
        let (shard, input) = rng.take(&mut self.line)?;
        let told = (shard, input.clone());
        let server = self.shards.get_mut(shard)?.as_mut()?;
        let actions = server.handle(now, input);
        self.hear(shard, actions, heard);
        Some(told)
    }

    /// Does what a shard wants done.
    pub(super) fn hear(&mut self, shard: usize, actions: Vec<Action>, heard: &mut Vec<Heard>) {
        for action in actions {
            match action {
                Action::Post { to, parcel } => {
                    self.parcels += 1;
                    self.outgoing[shard].entry(usize::from(to.0)).or_default().push_back(parcel);
                }
                Action::Reply { ticket, answer } => {
                    if let Some((_, asked)) = self.asked.remove(&ticket) {
                        self.answered(shard, asked, answer, heard);
                    }
                }
                Action::Fetch(_)
                | Action::Deliver { .. }
                | Action::Publish(_)
                | Action::Unpublish(_)
                | Action::Close { .. } => {}
            }
        }
    }

    fn answered(&mut self, shard: usize, asked: Asked, answer: Answer, heard: &mut Vec<Heard>) {
        let part = |answer: Answer| match answer {
            Answer::Committed(done) => Some(Reply::Commit(Ok(done))),
            Answer::CommitRefused(part, reject) => Some(Reply::Commit(Err((part, reject)))),
            Answer::Described(driftq_core::Description::Lease(lease)) => Some(Reply::Lease(lease)),
            _ => None,
        };
        match (asked, answer) {
            (Asked::Produce(value), Answer::Produced(stored)) => heard.push(Heard::Produced(value, stored)),
            (Asked::Lease { chain, hop }, Answer::Leased(deliveries)) => {
                heard.push(Heard::Leased { shard, chain, hop, deliveries });
            }
            (Asked::Begin(mut job), Answer::Effect(answer)) => {
                if let EffectAnswer::Execute(lease) = &answer {
                    let shard = ShardId(u8::try_from(shard).expect("few shards"));
                    job.effect = Some(lease.receipt.sent_from(shard));
                }
                heard.push(Heard::Begun(job, answer));
            }
            (Asked::Commit(job), Answer::Committed(done)) => heard.push(Heard::Committed(job, Ok(done))),
            (Asked::Commit(job), Answer::CommitRefused(part, reject)) => {
                heard.push(Heard::Committed(job, Err((part, reject))));
            }
            (Asked::Part { errand, place }, answer) => {
                let Some(waits) = self.errands.get_mut(&errand) else { return };
                let Some(reply) = part(answer) else { return self.give_up(errand, heard) };
                waits.replies[place] = Some(reply);
                if waits.replies.iter().all(Option::is_some) {
                    self.go_on(errand, heard);
                }
            }
            (Asked::Parcels { from, count }, Answer::Received(stored)) => {
                let Some(waiting) = self.outgoing[from].get_mut(&shard) else { return };
                let arrived = waiting.drain(..count).map(|parcel| parcel.number).zip(stored).collect();
                self.line.push((from, Input::Outbox(OutboxInput::Posted { stored: arrived })));
            }
            // They are sent again.
            (Asked::Parcels { .. }, _) => {}
            _ => heard.push(Heard::Refused),
        }
    }

    fn give_up(&mut self, errand: u64, heard: &mut Vec<Heard>) {
        if let Some(errand) = self.errands.remove(&errand) {
            heard.push(Heard::Unknown(Asked::Commit(errand.job)));
        }
    }

    /// Brings parcels on their way: one lot at a time from one shard to another.
    pub(super) fn forward(&mut self, rng: &mut Rng) {
        for from in 0..self.outgoing.len() {
            let receivers: Vec<usize> = self.outgoing[from].keys().copied().collect();
            for to in receivers {
                let is_asked = self.asked.values().any(|(shard, asked)| {
                    *shard == to && matches!(asked, Asked::Parcels { from: sender, .. } if *sender == from)
                });
                let Some(settled) = self.shards[from].as_ref().map(Server::outbox_settled) else { continue };
                let many = usize::try_from(1 + rng.below(TOGETHER_MAX)).expect("small");
                let parcels: Vec<Parcel> = self.outgoing[from][&to].iter().take(many).cloned().collect();
                if is_asked || parcels.is_empty() || self.shards[to].is_none() {
                    continue;
                }
                let (count, sender) = (parcels.len(), ShardId(u8::try_from(from).expect("few shards")));
                self.ask(to, Asked::Parcels { from, count }, |ticket| {
                    Input::Outbox(OutboxInput::Receive { ticket, from: sender, settled, parcels })
                });
            }
        }
    }

    /// A shard is given up: whatever was on its way to it, or waited for it, is told so.
    pub(super) fn end(&mut self, shard: usize, heard: &mut Vec<Heard>) {
        self.shards[shard] = None;
        self.line.retain(|(to, _)| *to != shard);
        self.outgoing[shard].clear();
        // Nobody waits for the answers that its forwarder would have got.
        self.asked.retain(|_, (_, asked)| !matches!(asked, Asked::Parcels { from, .. } if *from == shard));
        let (lost, kept) = std::mem::take(&mut self.asked).into_iter().partition(|(_, (to, _))| *to == shard);
        self.asked = kept;
        let lost: BTreeMap<Ticket, (usize, Asked)> = lost;
        for (_, asked) in lost.into_values() {
            match asked {
                Asked::Part { errand, .. } => self.give_up(errand, heard),
                Asked::Parcels { .. } => {}
                asked => heard.push(Heard::Unknown(asked)),
            }
        }
    }
}
