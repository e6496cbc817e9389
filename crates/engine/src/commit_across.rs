//! Commits whose parts live in several shards.
//!
//! One shard decides: the one that has the deliveries. What the others have to say is asked first, so that nearly every
//! refusal comes before anything is done. Then effects are ended and outputs moved where they live, each fenced there on
//! its own; and last the deciding shard acks and stores in one batch, with the messages for other shards as parcels. A
//! crash in between leaves a message that is not acked: whoever gets it next finds its effects ended, moves its outputs
//! again, and commits the rest.

use std::collections::BTreeMap;

use driftq_core::{
    Commit, CommitInput, CommitPart, Committed, FinishEffect, Identity, Input, NewMessage, OutputAuthor,
    OutputDone, Payload, Receipt, Reject, ShardId, Vouched,
};

use futures_util::future::{join, join_all};

use crate::broker::Broker;
use crate::commits::{CommitResult, commit_in, decided};
use crate::effect_request::EffectCall;
use crate::effects::{local, shard_of};
use crate::failure::Failure;
use crate::house::HOME;

/// Why a commit cannot be done.
type Refusal = (CommitPart, Reject);

/// What one shard has to do of a commit that another decides.
#[derive(Default)]
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

/// A commit, cut into what the deciding shard does and what others do.
struct Shares {
    own: Share,
    others: BTreeMap<ShardId, Share>,
}

impl Broker {
    /// The shard that decides about a commit: where its deliveries are. If it has none, it is done in the name of an effect,
    /// which ends before anything else happens; so the deciding shard is another one, if there is more to do elsewhere.
    pub(crate) fn seat_of(&self, commit: &Commit) -> ShardId {
        let of_delivery = |receipt: &Receipt| receipt.topic.shard();
        let delivery = commit.acks.first().or_else(|| commit.fences.first()).map(of_delivery);
        let effect = || commit.finishes.first().map(|finish| shard_of(finish.receipt));
        let message = || commit.messages.first().map(|message| message.topic.shard());
        let outputs = || (!commit.outputs.is_empty() || !commit.expect.is_empty()).then_some(HOME);
        delivery.or_else(outputs).or_else(effect).or_else(message).unwrap_or(HOME)
    }

    /// Whether everything that a commit is about is in one shard.
    pub(crate) fn is_whole_in(&self, seat: ShardId, commit: &Commit) -> bool {
        if self.shard_count() == 1 {
            return true;
        }
        let is_here = |receipt: &Receipt| receipt.topic.shard() == seat;
        commit.acks.iter().chain(&commit.fences).all(is_here)
            && commit.finishes.iter().all(|finish| shard_of(finish.receipt) == seat)
            && commit.messages.iter().all(|message| message.topic.shard() == seat)
            && (seat == HOME || (commit.outputs.is_empty() && commit.expect.is_empty()))
    }

    /// Does a commit whose parts are in several shards.
    pub(crate) async fn commit_across(&self, seat: ShardId, commit: Commit) -> Result<CommitResult, Failure> {
        let outputs = commit.outputs.len();
        let mut shares = match shares_of(seat, commit) {
            Ok(shares) => shares,
            Err(refused) => return Ok(Err(refused)),
        };
        if let Err(refused) = self.vouch(&mut shares).await
            && !self.is_done_already(seat, &shares.own.commit).await?
        {
            return Ok(Err(refused));
        }
        if let Err(refused) = self.ask_all(seat, &shares).await? {
            return Ok(Err(refused));
        }
        let mut done = Done { outputs: vec![None; outputs] };
        let to_be_done = shares.others.iter().filter(|(_, share)| share.is_to_be_done());
        let parts = to_be_done.map(|(shard, share)| async move {
            (share, commit_in(self.shard(*shard), share.commit.clone()).await)
        });
        for (share, result) in join_all(parts).await {
            match result? {
                Ok(committed) => done.note(share, &committed),
                Err((part, reject)) => return Ok(Err((share.whole(part), reject))),
            }
        }
        match commit_in(self.shard(seat), std::mem::take(&mut shares.own.commit)).await? {
            Ok(committed) => Ok(Ok(done.whole(&shares.own, committed))),
            Err((part, reject)) => Ok(Err((shares.own.whole(part), reject))),
        }
    }

    /// Whether a shard could do its part now.
    async fn could(&self, shard: ShardId, commit: Commit) -> Result<CommitResult, Failure> {
        let commit = Box::new(commit);
        let input = |ticket| Input::Commit(CommitInput::Check { ticket, commit });
        decided(self.shard(shard).ask(0, true, input).await?)
    }

    /// Whether a commit of that name was done before.
    async fn is_done_already(&self, seat: ShardId, commit: &Commit) -> Result<bool, Failure> {
        let could = if commit.name.is_some() { Some(self.could(seat, commit.clone()).await?) } else { None };
        Ok(matches!(could, Some(Ok(Committed { already: true, .. }))))
    }

    /// Whether every shard could do its part now; asked all at once.
    async fn ask_all(&self, seat: ShardId, shares: &Shares) -> Result<Result<(), Refusal>, Failure> {
        let others = shares.others.iter().map(|(shard, share)| async move {
            let question = Commit { messages: share.parcels.clone(), ..share.commit.clone() };
            self.could(*shard, question)
                .await
                .map(|could| could.map_err(|(part, why)| (share.whole(part), why)))
        });
        let own = async {
            // If the others only get parcels, nothing is done before this shard looks at all of it.
            let is_first = shares.others.values().any(Share::is_to_be_done);
            if !is_first && shares.own.commit.name.is_none() {
                return Ok(Ok(Committed::default()));
            }
            self.could(seat, shares.own.commit.clone()).await
        };
        let (own, others) = join(own, join_all(others)).await;
        match own? {
            // It was done before, and what it was fenced by has moved on since: it is answered as it was.
            Ok(Committed { already: true, .. }) => return Ok(Ok(())),
            Ok(_) => {}
            Err((part, reject)) => return Ok(Err((shares.own.whole(part), reject))),
        }
        for other in others {
            if let Err(refused) = other? {
                return Ok(Err(refused));
            }
        }
        Ok(Ok(()))
    }

    /// Tells the shards in whose name they do their part.
    async fn vouch(&self, shares: &mut Shares) -> Result<(), Refusal> {
        let own = &shares.own.commit;
        let (part, receipt) = match (own.acks.first(), own.fences.first()) {
            (Some(receipt), _) => (CommitPart::Ack(0), *receipt),
            (None, Some(receipt)) => (CommitPart::Fence(shares.own.fences[0]), *receipt),
            (None, None) => return shares.vouch_by_effect(),
        };
        if shares.others.values().all(|share| share.commit.outputs.is_empty()) {
            return Ok(());
        }
        let lease = self.live_lease(receipt).await.map_err(|failure| match failure {
            Failure::Reject(reject) => (part, reject),
            _ => (part, Reject::LeaseStale(None)),
        })?;
        let Receipt { topic, partition, offset, .. } = receipt;
        let author = OutputAuthor { topic, partition, offset, attempt: lease.attempt };
        let vouched = Some(Vouched::Delivery(author));
        shares.others.values_mut().for_each(|share| share.commit.vouched = vouched);
        Ok(())
    }

    /// Whether a delivery is the newest one of its message, and its holder may act for it.
    pub(crate) async fn is_current(&self, receipt: Receipt) -> Result<(), Failure> {
        let question = Commit { fences: vec![receipt], ..Commit::default() };
        match self.could(receipt.topic.shard(), question).await? {
            Ok(_) => Ok(()),
            Err((_, reject)) => Err(Failure::Reject(reject)),
        }
    }

    /// Raises the entities that an effect expects something of, in whose shard it does not live: once, however often it
    /// is begun.
    pub(crate) async fn raise_for(&self, effect: Identity, call: &EffectCall<'_>) -> Result<(), Failure> {
        let raise = Commit {
            name: Some(Identity::of_parts(&[b"expected by an effect", &effect.0])),
            tenant: call.about.tenant.to_string(),
            expect: call.expect.clone(),
            ..Commit::default()
        };
        match commit_in(self.home(), raise).await? {
            Ok(_) => Ok(()),
            Err((_, reject)) => Err(Failure::refused(reject, &call.expect)),
        }
    }
}

/// The name of what a shard does of a commit of that name, which another shard decides.
pub(crate) fn share_name(name: Identity, shard: ShardId) -> Identity {
    Identity::of_parts(&[b"share", &name.0, &[shard.0]])
}

/// Cuts a commit.
fn shares_of(seat: ShardId, commit: Commit) -> Result<Shares, Refusal> {
    if let Some(place) = commit.acks.iter().position(|receipt| receipt.topic.shard() != seat) {
        let why = "the deliveries of one commit live in one shard: ack this one by a commit of its own";
        return Err((CommitPart::Ack(place), Reject::Invalid(why)));
    }
    let Commit { name, request, acks, fences, finishes, messages, outputs, reads, tenant, expect, .. } =
        commit;
    let own = Commit { name, request, acks, reads, tenant: tenant.clone(), ..Commit::default() };
    let mut shares = Shares { own: Share { commit: own, ..Share::default() }, others: BTreeMap::new() };
    for (place, fence) in fences.into_iter().enumerate() {
        let share = shares.of(seat, fence.topic.shard());
        share.commit.fences.push(fence);
        share.fences.push(place);
    }
    for (place, finish) in finishes.into_iter().enumerate() {
        let share = shares.of(seat, shard_of(finish.receipt));
        share.commit.finishes.push(FinishEffect { receipt: local(finish.receipt), ..finish });
        share.finishes.push(place);
    }
    for (place, message) in messages.into_iter().enumerate() {
        let to = message.topic.shard();
        if to != seat {
            let share = shares.of(seat, to);
            let payload = Payload { bytes: Vec::new(), ..message.payload };
            share.parcels.push(NewMessage { payload, lineage: None, ..message });
            share.parcel_places.push(place);
        }
        shares.own.commit.messages.push(message);
    }
    for (place, output) in outputs.into_iter().enumerate() {
        let share = shares.of(seat, HOME);
        share.commit.outputs.push(output);
        share.outputs.push(place);
    }
    if !expect.is_empty() {
        shares.of(seat, HOME).commit.expect = expect;
    }
    for (shard, share) in &mut shares.others {
        share.commit.tenant.clone_from(&tenant);
        share.commit.request = request;
        share.commit.name = name.map(|name| share_name(name, *shard));
    }
    Ok(shares)
}

impl Shares {
    /// A commit without a delivery is done in the name of its effects, if it has any elsewhere. They end first; repeated
    /// after that, it would be refused, unless it has a name under which it is known.
    fn vouch_by_effect(&mut self) -> Result<(), Refusal> {
        let ends_elsewhere = self.others.values().any(|share| !share.commit.finishes.is_empty());
        if ends_elsewhere && self.own.commit.name.is_none() {
            let why =
                "a commit in the name of an effect that lives in another shard needs an Idempotency-Key";
            return Err((CommitPart::Whole, Reject::Invalid(why)));
        }
        self.own.commit.vouched = ends_elsewhere.then_some(Vouched::Effect);
        Ok(())
    }

    fn of(&mut self, seat: ShardId, shard: ShardId) -> &mut Share {
        if shard == seat { &mut self.own } else { self.others.entry(shard).or_default() }
    }
}

impl Share {
    /// Whether there is more to it than questions.
    fn is_to_be_done(&self) -> bool {
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
}

/// What was done so far.
struct Done {
    outputs: Vec<Option<(OutputDone, Option<std::sync::Arc<str>>)>>,
}

impl Done {
    /// Notes what one shard has done.
    fn note(&mut self, share: &Share, committed: &Committed) {
        let mut kept = committed.kept.iter().cloned();
        for (place, done) in share.outputs.iter().zip(&committed.outputs) {
            let location = if *done == OutputDone::Duplicate { kept.next() } else { None };
            self.outputs[*place] = Some((*done, location));
        }
    }

    /// What was done in all.
    fn whole(mut self, own: &Share, committed: Committed) -> Committed {
        self.note(own, &committed);
        let done = self.outputs.into_iter().flatten();
        let (outputs, kept): (Vec<_>, Vec<_>) = done.unzip();
        Committed { outputs, kept: kept.into_iter().flatten().collect(), ..committed }
    }
}
