//! Commits whose parts live in several shards.
//!
//! One shard decides: the one that has the deliveries. What the others have to say is asked first, so that nearly every
//! refusal comes before anything is done. Then effects are ended and outputs moved where they live, each fenced there on
//! its own; and last the deciding shard acks and stores in one batch, with the messages for other shards as parcels. A
//! crash in between leaves a message that is not acked: whoever gets it next finds its effects ended, moves its outputs
//! again, and commits the rest.
//!
//! Whom to ask what, and what follows from the answers, is decided here; a shell carries the questions.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::words::commit::{Commit, CommitPart, CommitResult, Committed, Refusal, Vouched};
use crate::words::description::LeaseView;
use crate::words::draft::{NewMessage, Payload};
use crate::words::effect::{EffectReceipt, FinishEffect};
use crate::words::id::{Identity, ShardId};
use crate::words::output::{OutputAuthor, OutputDone};
use crate::words::receipt::Receipt;
use crate::words::reject::Reject;

/// Something to be asked of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// How a delivery stands.
    Lease(Receipt),
    /// Whether it could do this.
    Check(Commit),
    /// To do this.
    Do(Commit),
}

/// What a shard says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Question::Lease`].
    Lease(Result<LeaseView, Reject>),
    /// To the others.
    Commit(CommitResult),
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// These are to be asked, all at once.
    Ask(Vec<(ShardId, Question)>),
    /// It is over.
    Done(CommitResult),
}

/// A commit that several shards have a part in.
#[derive(Debug)]
pub struct Across {
    seat: ShardId,
    own: Share,
    others: BTreeMap<ShardId, Share>,
    outputs: Vec<Option<Moved>>,
    /// The lease of an effect in whose name more is done than ending it: the first one, if there is no delivery.
    rests_on: Option<EffectReceipt>,
    stage: Stage,
}

/// What became of an output, and where the one lies that stays if it was a duplicate.
type Moved = (OutputDone, Option<Arc<str>>);

/// What was asked last.
#[derive(Debug)]
enum Stage {
    Nothing,
    /// How the delivery stands in whose name all is done.
    Lease(CommitPart, Receipt),
    /// Whether it was done before: as it stands it is refused.
    Known(Refusal),
    /// Whether all could do their parts; the deciding shard before the others, if it was asked.
    Checked(bool),
    /// The others, to do their parts.
    Others(Vec<ShardId>),
    /// The deciding shard, to do its part.
    Own,
}

/// What one shard has to do.
#[derive(Debug, Default)]
struct Share {
    commit: Commit,
    /// Places of its fences, effects and outputs in the whole.
    fences: Vec<usize>,
    finishes: Vec<usize>,
    outputs: Vec<usize>,
    /// Messages that come as parcels, without their bytes, and their places.
    parcels: Vec<NewMessage>,
    parcel_places: Vec<usize>,
}

impl Commit {
    /// The shard that decides about it: where its deliveries are. If it has none, it is done in the name of an effect,
    /// which ends before anything else happens; so the deciding shard is another one, if there is more to do elsewhere.
    #[must_use]
    pub fn seat(&self) -> ShardId {
        let of_delivery = |receipt: &Receipt| receipt.topic.shard();
        let delivery = self.acks.first().or_else(|| self.fences.first()).map(of_delivery);
        let effect = || self.finishes.first().map(|finish| finish.receipt.shard());
        let message = || self.messages.first().map(|message| message.topic.shard());
        let outputs = || (!self.outputs.is_empty() || !self.expect.is_empty()).then_some(ShardId::HOME);
        delivery.or_else(outputs).or_else(effect).or_else(message).unwrap_or(ShardId::HOME)
    }

    /// Whether everything that it is about is in one shard.
    #[must_use]
    pub fn is_whole_in(&self, seat: ShardId) -> bool {
        let is_here = |receipt: &Receipt| receipt.topic.shard() == seat;
        self.acks.iter().chain(&self.fences).all(is_here)
            && self.finishes.iter().all(|finish| finish.receipt.shard() == seat)
            && self.messages.iter().all(|message| message.topic.shard() == seat)
            && (seat == ShardId::HOME || (self.outputs.is_empty() && self.expect.is_empty()))
    }

    /// The same, with its effects named as their shard names them.
    #[must_use]
    pub fn localized(mut self) -> Self {
        self.finishes.iter_mut().for_each(|finish| finish.receipt = finish.receipt.local());
        self
    }
}

impl Identity {
    /// The name of what a shard does of a commit of this name, which another shard decides.
    #[must_use]
    pub fn of_share(self, shard: ShardId) -> Self {
        Self::of_parts(&[b"share", &self.0, &[shard.0]])
    }
}

impl Across {
    /// Cuts a commit into what each shard has to do.
    ///
    /// # Errors
    /// If it cannot be cut.
    pub fn new(commit: Commit) -> Result<Self, Refusal> {
        let seat = commit.seat();
        if let Some(place) = commit.acks.iter().position(|receipt| receipt.topic.shard() != seat) {
            let why = "the deliveries of one commit live in one shard: ack this one by a commit of its own";
            return Err((CommitPart::Ack(place), Reject::Invalid(why)));
        }
        let has_delivery = !(commit.acks.is_empty() && commit.fences.is_empty());
        let rests_on = commit.finishes.first().map(|finish| finish.receipt);
        let rests_on = rests_on.filter(|_| !has_delivery && commit.is_more_than_endings());
        let Commit {
            name, request, acks, fences, finishes, messages, outputs, reads, tenant, expect, ..
        } = commit;
        let own = Commit { name, request, acks, reads, tenant: tenant.clone(), ..Commit::default() };
        let mut across = Self {
            seat,
            own: Share { commit: own, ..Share::default() },
            others: BTreeMap::new(),
            outputs: vec![None; outputs.len()],
            rests_on,
            stage: Stage::Nothing,
        };
        for (place, fence) in fences.into_iter().enumerate() {
            let share = across.share(fence.topic.shard());
            share.commit.fences.push(fence);
            share.fences.push(place);
        }
        for (place, finish) in finishes.into_iter().enumerate() {
            let share = across.share(finish.receipt.shard());
            share.commit.finishes.push(FinishEffect { receipt: finish.receipt.local(), ..finish });
            share.finishes.push(place);
        }
        for (place, message) in messages.into_iter().enumerate() {
            let to = message.topic.shard();
            if to != seat {
                let share = across.share(to);
                let payload = Payload { bytes: Vec::new(), ..message.payload };
                share.parcels.push(NewMessage { payload, lineage: None, ..message });
                share.parcel_places.push(place);
            }
            across.own.commit.messages.push(message);
        }
        for (place, output) in outputs.into_iter().enumerate() {
            let share = across.share(ShardId::HOME);
            share.commit.outputs.push(output);
            share.outputs.push(place);
        }
        if !expect.is_empty() {
            across.share(ShardId::HOME).commit.expect = expect;
        }
        for (shard, share) in &mut across.others {
            share.commit.tenant.clone_from(&tenant);
            share.commit.request = request;
            share.commit.name = name.map(|name| name.of_share(*shard));
        }
        Ok(across)
    }

    /// Goes on with what the shards said to what was asked last, in that order; with nothing at first.
    pub fn next(&mut self, replies: Vec<Reply>) -> Next {
        match core::mem::replace(&mut self.stage, Stage::Nothing) {
            Stage::Nothing => self.vouch(),
            Stage::Lease(part, receipt) => match replies.into_iter().next() {
                Some(Reply::Lease(Ok(lease))) => self.vouch_by_delivery(receipt, lease.attempt),
                Some(Reply::Lease(Err(reject))) => self.refuse((part, reject)),
                _ => Next::Done(Err(unanswered())),
            },
            // It was done before, and what it was fenced by has moved on since: it is answered as it was.
            Stage::Known(refusal) => match decided(replies).next() {
                Some(Ok(Committed { already: true, .. })) => self.check(),
                _ => Next::Done(Err(refusal)),
            },
            Stage::Checked(own) => self.checked(own, replies),
            Stage::Others(asked) => self.others_done(&asked, replies),
            Stage::Own => Next::Done(self.own_done(replies)),
        }
    }

    /// Finds out in whose name the other shards do their parts.
    fn vouch(&mut self) -> Next {
        let own = &self.own.commit;
        let (part, receipt) = match (own.acks.first(), own.fences.first()) {
            (Some(receipt), _) => (CommitPart::Ack(0), *receipt),
            (None, Some(receipt)) => (CommitPart::Fence(self.own.fences[0]), *receipt),
            (None, None) => return self.vouch_by_effect(),
        };
        if self.others.values().all(|share| share.commit.outputs.is_empty()) {
            self.others.values_mut().for_each(|share| share.commit.vouched = Some(Vouched::Fence));
            return self.check();
        }
        self.stage = Stage::Lease(part, receipt);
        Next::Ask(vec![(self.seat, Question::Lease(receipt))])
    }

    fn vouch_by_delivery(&mut self, receipt: Receipt, attempt: u32) -> Next {
        let Receipt { topic, partition, offset, .. } = receipt;
        let author = OutputAuthor { topic, partition, offset, attempt };
        let vouched = Some(Vouched::Delivery(author));
        self.others.values_mut().for_each(|share| share.commit.vouched = vouched);
        self.check()
    }

    /// A commit without a delivery is done in the name of its effects, if it has any elsewhere. They end first; repeated
    /// after that, it would be refused, unless it has a name under which it is known.
    fn vouch_by_effect(&mut self) -> Next {
        let ends_elsewhere = self.others.values().any(|share| !share.commit.finishes.is_empty());
        if ends_elsewhere && self.own.commit.name.is_none() {
            let why =
                "a commit in the name of an effect that lives in another shard needs an Idempotency-Key";
            return Next::Done(Err((CommitPart::Whole, Reject::Invalid(why))));
        }
        self.own.commit.vouched = ends_elsewhere.then_some(Vouched::Effect);
        self.check()
    }

    /// Refuses it, unless it was done before.
    fn refuse(&mut self, refusal: Refusal) -> Next {
        if self.own.commit.name.is_none() {
            return Next::Done(Err(refusal));
        }
        self.stage = Stage::Known(refusal);
        Next::Ask(vec![(self.seat, Question::Check(self.own.commit.clone()))])
    }

    /// Asks every shard whether it could do its part now.
    fn check(&mut self) -> Next {
        // If the others only get parcels, nothing is done before the deciding shard looks at all of it.
        let own = self.others.values().any(Share::is_to_be_done) || self.own.commit.name.is_some();
        self.stage = Stage::Checked(own);
        let first = own.then(|| (self.seat, Question::Check(self.own.commit.clone())));
        let others = self.others.iter().map(|(shard, share)| {
            let question = Commit { messages: share.parcels.clone(), ..share.commit.clone() };
            (*shard, Question::Check(question))
        });
        Next::Ask(first.into_iter().chain(others).collect())
    }

    fn checked(&mut self, own: bool, replies: Vec<Reply>) -> Next {
        let (mut replies, mut refusals) = (decided(replies), Vec::new());
        let mut ends = false;
        if own {
            match replies.next() {
                // What it was fenced by may have moved on since.
                Some(Ok(Committed { already: true, .. })) => return self.ask_others(),
                Some(Ok(said)) => ends = said.ends,
                Some(Err((part, reject))) => {
                    ends = !self.own.commit.finishes.is_empty();
                    refusals.push((self.own.whole(part), reject));
                }
                None => return Next::Done(Err(unanswered())),
            }
        }
        for share in self.others.values() {
            match replies.next() {
                // Done before under this name: what is missing is done now.
                Some(Ok(said)) => ends |= said.ends || (said.already && !share.commit.finishes.is_empty()),
                Some(Err((part, reject))) => {
                    ends |= !share.commit.finishes.is_empty();
                    refusals.push((share.whole(part), reject));
                }
                None => return Next::Done(Err(unanswered())),
            }
        }
        // A shard that refuses has said what it has against its effects. If the deciding shard was not asked, all effects
        // are its own, and it looks at them when it does its part.
        if let Some(lease) = self.rests_on.filter(|_| own && !ends) {
            refusals.push(spent(lease));
        }
        // The one that a single shard would have come upon first.
        if let Some(refusal) = refusals.into_iter().min_by_key(|(part, _)| part.turn()) {
            return Next::Done(Err(refusal));
        }
        drop(replies);
        self.ask_others()
    }

    /// Has the others do their parts.
    fn ask_others(&mut self) -> Next {
        let to_be_done = self.others.iter().filter(|(_, share)| share.is_to_be_done());
        let asked: Vec<_> =
            to_be_done.map(|(shard, share)| (*shard, Question::Do(share.commit.clone()))).collect();
        if asked.is_empty() {
            return self.ask_own();
        }
        self.stage = Stage::Others(asked.iter().map(|(shard, _)| *shard).collect());
        Next::Ask(asked)
    }

    fn others_done(&mut self, asked: &[ShardId], replies: Vec<Reply>) -> Next {
        let (mut replies, mut ended) = (decided(replies), false);
        for shard in asked {
            let Some(share) = self.others.get(shard) else { continue };
            match replies.next() {
                Some(Ok(committed)) => {
                    ended |= committed.ends || (committed.already && !share.commit.finishes.is_empty());
                    share.note(&committed, &mut self.outputs);
                }
                Some(Err((part, reject))) => return Next::Done(Err((share.whole(part), reject))),
                None => return Next::Done(Err(unanswered())),
            }
        }
        drop(replies);
        // Another commit in the name of the same lease came first.
        if let Some(lease) = self.rests_on.filter(|_| !ended && self.own.commit.vouched.is_some()) {
            if self.own.commit.finishes.is_empty() {
                return Next::Done(Err(spent(lease)));
            }
            self.own.commit.vouched = None;
        }
        self.ask_own()
    }

    /// Last of all, the deciding shard.
    fn ask_own(&mut self) -> Next {
        self.stage = Stage::Own;
        Next::Ask(vec![(self.seat, Question::Do(core::mem::take(&mut self.own.commit)))])
    }

    fn own_done(&mut self, replies: Vec<Reply>) -> CommitResult {
        let committed = match decided(replies).next() {
            Some(Ok(committed)) => committed,
            Some(Err((part, reject))) => return Err((self.own.whole(part), reject)),
            None => return Err(unanswered()),
        };
        self.own.note(&committed, &mut self.outputs);
        let (outputs, kept): (Vec<_>, Vec<_>) = self.outputs.drain(..).flatten().unzip();
        Ok(Committed { outputs, kept: kept.into_iter().flatten().collect(), ..committed })
    }

    fn share(&mut self, shard: ShardId) -> &mut Share {
        if shard == self.seat { &mut self.own } else { self.others.entry(shard).or_default() }
    }
}

/// What shards said about commits.
fn decided(replies: Vec<Reply>) -> impl Iterator<Item = CommitResult> {
    replies.into_iter().filter_map(|reply| match reply {
        Reply::Commit(result) => Some(result),
        Reply::Lease(_) => None,
    })
}

/// The lease of an effect has had its say, as it would have in one shard.
const fn spent(lease: EffectReceipt) -> Refusal {
    (CommitPart::Effect(0), Reject::EffectStale(Some(lease.epoch)))
}

/// A shell that leaves a question out is a fault of ours.
const fn unanswered() -> Refusal {
    (CommitPart::Whole, Reject::Invalid("internal fault: a shard was not asked"))
}

impl Share {
    /// Whether there is more to it than questions.
    const fn is_to_be_done(&self) -> bool {
        let Commit { finishes, outputs, expect, .. } = &self.commit;
        !(finishes.is_empty() && outputs.is_empty() && expect.is_empty())
    }

    /// A part of it, as the whole counts.
    fn whole(&self, part: CommitPart) -> CommitPart {
        let place = |places: &[usize], place: usize| places.get(place).copied().unwrap_or(place);
        match part {
            CommitPart::Fence(at) => CommitPart::Fence(place(&self.fences, at)),
            CommitPart::Effect(at) => CommitPart::Effect(place(&self.finishes, at)),
            CommitPart::Output(at) => CommitPart::Output(place(&self.outputs, at)),
            CommitPart::Produce(at) => CommitPart::Produce(place(&self.parcel_places, at)),
            CommitPart::Ack(_) | CommitPart::Expect(_) | CommitPart::Whole => part,
        }
    }

    /// Notes what became of its outputs.
    fn note(&self, committed: &Committed, outputs: &mut [Option<Moved>]) {
        let mut kept = committed.kept.iter().cloned();
        for (place, done) in self.outputs.iter().zip(&committed.outputs) {
            let location = if *done == OutputDone::Duplicate { kept.next() } else { None };
            outputs[*place] = Some((*done, location));
        }
    }
}
