//! Whether everything that a commit asks for can be done. Nothing is changed here.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::commit::Committing;
use crate::delivery::Deliveries;
use crate::ledger::Finished;
use crate::outbox::send::Mail;
use crate::state::output::record::{Cell, pointer_bytes};
use crate::turn::Turn;
use crate::turn::timer::Spot;
use crate::words::commit::{Commit, CommitPart, Refusal, Vouched};
use crate::words::draft::NewMessage;
use crate::words::effect::FinishEffect;
use crate::words::id::{Identity, RequestHash, TopicId};
use crate::words::output::{NewOutput, OUTPUT_LOCATION_BYTES_MAX, OutputAuthor, Read};
use crate::words::policy::RetryPolicy;
use crate::words::receipt::Receipt;
use crate::words::reject::{Overload, Reject};
use crate::words::route::validate_name;

/// Versions of datasets that one commit may say were read.
pub(crate) const READS_MAX: usize = 100;

/// What a commit comes down to.
pub(super) struct Plan {
    /// The deliveries to be acked, in order.
    pub(super) acks: Vec<Spot>,
    /// The effects to be ended, by their place in the commit; the others had already ended in just this way.
    pub(super) finishes: Vec<usize>,
    /// By whose authority pointers are moved: a delivery of this shard, or one that another shard vouches for.
    pub(super) author: Option<OutputAuthor>,
}

/// What the messages of a commit take, on top of what is there.
#[derive(Default)]
struct Load {
    lanes: BTreeMap<(TopicId, u32), (u64, u64)>,
    identities: BTreeMap<Identity, RequestHash>,
    policies: BTreeSet<RetryPolicy>,
    /// Messages and bytes that go to topics of a tenant.
    tenants: BTreeMap<Arc<str>, (u64, u64)>,
    /// What goes to other shards.
    mail: Mail,
}

impl Committing<'_> {
    /// What has to be done, or the first reason why it cannot be.
    pub(super) fn check_commit(&self, commit: &Commit) -> Result<Plan, Refusal> {
        let turn = &*self.turn;
        let mut acks = Vec::with_capacity(commit.acks.len());
        for (place, receipt) in commit.acks.iter().enumerate() {
            let spot = turn.may_act_for(receipt).map_err(|reject| (CommitPart::Ack(place), reject))?;
            acks.push(spot);
        }
        // Most have one.
        if acks.len() > 1 && acks.iter().collect::<BTreeSet<_>>().len() < acks.len() {
            return Err((CommitPart::Whole, Reject::Invalid("a token is there twice in ack")));
        }
        for (place, receipt) in commit.fences.iter().enumerate() {
            turn.may_act_for(receipt).map_err(|reject| (CommitPart::Fence(place), reject))?;
        }
        let finishes = turn.check_finishes(&commit.finishes)?;
        let fenced = !(acks.is_empty() && commit.fences.is_empty() && finishes.is_empty());
        let current = fenced || commit.vouched.is_some();
        if let Some(spent) = commit.finishes.first().filter(|_| !current && commit.is_more_than_endings()) {
            // Its lease has had its say: it cannot do more in the name of an effect that is over.
            let epoch = Some(spent.receipt.epoch);
            return Err((CommitPart::Effect(0), Reject::EffectStale(epoch)));
        }
        let whole = |reject| (CommitPart::Whole, reject);
        Turn::may_expect(&commit.tenant, &commit.expect).map_err(whole)?;
        check_reads(&commit.reads).map_err(whole)?;
        turn.check_expected(&commit.tenant, &commit.expect).map_err(|reject| match reject {
            Reject::EntityDiffers { place, .. } => (CommitPart::Expect(usize::from(place)), reject),
            _ => (CommitPart::Whole, reject),
        })?;
        self.deliveries.check_messages(turn, &commit.messages)?;
        turn.check_outputs(commit)?;
        let author = commit.acks.first().or_else(|| commit.fences.first()).and_then(|receipt| {
            let spot = turn.spot_of(receipt)?;
            let Receipt { topic, partition, offset, .. } = *receipt;
            Some(OutputAuthor { topic, partition, offset, attempt: turn.pending_attempts(spot) })
        });
        Ok(Plan { acks, finishes, author: author.or_else(|| commit.vouched?.author()) })
    }
}

impl Turn {
    fn check_finishes(&self, finishes: &[FinishEffect]) -> Result<Vec<usize>, Refusal> {
        let mut known = BTreeSet::new();
        let mut written = Vec::with_capacity(finishes.len());
        for (place, finish) in finishes.iter().enumerate() {
            let refused = |reject| (CommitPart::Effect(place), reject);
            if finishes.len() > 1 && !known.insert(finish.receipt.number) {
                return Err(refused(Reject::Invalid("an effect is there twice")));
            }
            match self.may_finish(finish).map_err(refused)? {
                Finished::Commit => written.push(place),
                Finished::Already => {}
                Finished::Stale => return Err(refused(self.stale_effect(finish.receipt))),
            }
        }
        Ok(written)
    }

    fn check_outputs(&self, commit: &Commit) -> Result<(), Refusal> {
        if commit.outputs.is_empty() {
            return Ok(());
        }
        let is_held = !(commit.acks.is_empty() && commit.fences.is_empty());
        if !is_held && commit.finishes.is_empty() && commit.vouched.is_none() {
            let why =
                "outputs are moved by the current attempt only: give its token in ack, fence or effects";
            return Err((CommitPart::Whole, Reject::Invalid(why)));
        }
        if !self.roomy {
            return Err((CommitPart::Output(0), Reject::DiskFull));
        }
        let outputs = &self.journal.state.outputs;
        let (mut modes, mut costs) = (BTreeMap::new(), BTreeMap::new());
        let (mut pointers, mut bytes) = (outputs.pointers, outputs.bytes);
        for (place, output) in commit.outputs.iter().enumerate() {
            let refused = |reject| (CommitPart::Output(place), reject);
            check_names(output).map_err(refused)?;
            let NewOutput { dataset, version, partition_key, dedupe_key, location, digest } = output;
            let appends = !dedupe_key.is_empty();
            let cell = outputs.cell(&commit.tenant, dataset, version, partition_key);
            let key = (dataset, version, partition_key);
            // What was added before is there, even in a version that has been sealed since.
            let is_there = appends && cell.is_some_and(|cell| cell.find(dedupe_key).is_some());
            if !is_there && outputs.is_sealed(&commit.tenant, dataset, version) {
                return Err(refused(Reject::VersionSealed));
            }
            let mode = *modes.entry(key).or_insert_with(|| cell.map_or(appends, Cell::is_append));
            if mode != appends {
                return Err(refused(Reject::OutputModeDiffers));
            }
            let vouched = commit.vouched.and_then(Vouched::author);
            if let Some(newer) = vouched.filter(|_| !is_held).and_then(|by| overtaken(cell, by)) {
                return Err(refused(Reject::LeaseStale(Some(newer))));
            }
            let cost = pointer_bytes(dedupe_key, location, digest);
            let before = costs.get(&(key, dedupe_key)).copied();
            let before = before.or_else(|| cell.and_then(|cell| cell.bytes_of(dedupe_key)));
            // What was added before is not added again; what is replaced makes room for what replaces it.
            if appends && before.is_some() {
                continue;
            }
            pointers += u64::from(before.is_none());
            bytes = bytes + cost - before.unwrap_or(0);
            let full = pointers > self.settings.outputs_max || bytes > self.settings.output_bytes_max;
            if full && before.is_none_or(|before| before < cost) {
                return Err(refused(Reject::Limit("outputs: there are as many as are allowed")));
            }
            costs.insert((key, dedupe_key), cost);
        }
        Ok(())
    }
}

impl Deliveries {
    fn check_messages(&self, turn: &Turn, messages: &[NewMessage]) -> Result<(), Refusal> {
        let mut load = Load::default();
        for (place, message) in messages.iter().enumerate() {
            self.check_message(turn, message, &mut load)
                .map_err(|reject| (CommitPart::Produce(place), reject))?;
        }
        Ok(())
    }

    /// Whether there is room for one more message beside those before it.
    fn check_message(&self, turn: &Turn, message: &NewMessage, load: &mut Load) -> Result<(), Reject> {
        if turn.is_elsewhere(message) {
            return turn.may_send(message, &mut load.mail);
        }
        if let Some(identity) = &message.identity {
            if turn.stored_before(identity, message.request)?.is_some() {
                return Ok(());
            }
            // The first one stands for all of them.
            if let Some(request) = load.identities.get(identity) {
                return if request.agrees(message.request) { Ok(()) } else { Err(Reject::KeyReused) };
            }
        }
        self.may_produce(turn, message)?;
        let state = &turn.journal.state;
        // Where keys are not remembered, the next message under the same one is not known again.
        if let Some(identity) = message.identity.filter(|_| turn.settings.idempotency_ttl_ms > 0) {
            load.identities.insert(identity, message.request);
            let records = state.stored.len() as u64 + state.done_records + load.identities.len() as u64;
            if records > turn.settings.idempotency_records_max {
                return Err(Reject::Overloaded(Overload::IdempotencyRecords));
            }
        }
        let topic = state.topic(message.topic).ok_or(Reject::TopicUnknown)?;
        let lane = topic.partitions.get(message.partition as usize).ok_or(Reject::PartitionOutOfRange)?;
        let (messages, bytes) = load.lanes.entry((message.topic, message.partition)).or_default();
        *messages += 1;
        *bytes += u64::from(message.payload.size);
        let messages_max = topic.settings.messages_max.unwrap_or(turn.settings.partition_messages_max);
        if lane.messages + *messages > messages_max {
            return Err(Reject::Overloaded(Overload::PartitionMessages));
        }
        let bytes_max = topic.settings.bytes_max.unwrap_or(turn.settings.partition_bytes_max);
        if lane.bytes.saturating_add(*bytes) > bytes_max {
            return Err(Reject::Overloaded(Overload::PartitionBytes));
        }
        if let Some(tenant) = &topic.tenant {
            let (messages, bytes) = load.tenants.entry(Arc::clone(tenant)).or_default();
            *messages += 1;
            *bytes += u64::from(message.payload.size);
            turn.may_hold(Some(tenant), (*messages, *bytes))?;
        }
        if let Some(policy) = turn.settings.retry_for(topic, message) {
            load.policies.insert(policy);
            if !state.policies.has_room_for_all(&load.policies) {
                return Err(Reject::Overloaded(Overload::RetryPolicies));
            }
        }
        Ok(())
    }
}

/// The later attempt of the same message that has moved a pointer meanwhile, if one has. The shard that vouches for a
/// delivery found it current before this one was asked: what it found may have been overtaken on the way.
fn overtaken(cell: Option<&Cell>, by: OutputAuthor) -> Option<u32> {
    let Some(Cell::Replace(pointer)) = cell else { return None };
    let author = pointer.by?;
    let place = |author: OutputAuthor| (author.topic, author.partition, author.offset);
    (place(author) == place(by) && author.attempt > by.attempt).then_some(author.attempt)
}

fn check_reads(reads: &[Read]) -> Result<(), Reject> {
    if reads.len() > READS_MAX {
        return Err(Reject::Invalid("reads takes at most 100 versions"));
    }
    for Read { dataset, version } in reads {
        validate_name(dataset, "dataset names have 1 to 255 bytes")?;
        validate_name(version, "version names have 1 to 255 bytes")?;
    }
    Ok(())
}

fn check_names(output: &NewOutput) -> Result<(), Reject> {
    let NewOutput { dataset, version, partition_key, dedupe_key, location, digest } = output;
    validate_name(dataset, "dataset names have 1 to 255 bytes")?;
    validate_name(version, "version names have 1 to 255 bytes")?;
    validate_name(partition_key, "partition keys have 1 to 255 bytes")?;
    validate_name(digest, "digests have 1 to 255 bytes")?;
    if !dedupe_key.is_empty() {
        validate_name(dedupe_key, "dedupe keys have 1 to 255 bytes")?;
    }
    if location.is_empty() || location.len() > OUTPUT_LOCATION_BYTES_MAX {
        return Err(Reject::Invalid("locations have 1 to 2048 bytes"));
    }
    if version == "current" {
        return Err(Reject::Invalid("the version current is whatever is current: choose another name"));
    }
    Ok(())
}
