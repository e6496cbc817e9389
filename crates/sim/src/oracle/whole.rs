//! A commit is seen whole or not at all, for ever, and asking again gives the same answer.

use driftq_core::{CommitPart, Committed, Identity, NewOutput, OutputDone, Overload, Reject, Stored, Time};

use super::outcome::Finishing;
use super::unchanged::Refused;
use super::view::ensure;
use super::{CheckResult, Oracle, Said};
use crate::effects::{End, Lease};
use crate::workers::Loan;

/// What a worker wants to happen together.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    /// Under which it can be asked for again.
    pub(crate) name: Option<Identity>,
    pub(crate) acks: Vec<Loan>,
    pub(crate) fences: Vec<Loan>,
    pub(crate) finishes: Vec<(Lease, End)>,
    /// Messages, by number.
    pub(crate) messages: Vec<u64>,
    pub(crate) outputs: Vec<NewOutput>,
    /// It is not asked for again after this.
    pub(crate) repeat_until: Time,
    /// It was handed over and not refused.
    pub(crate) taken: bool,
    pub(crate) done: Option<Done>,
}

/// What a commit did, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) stored: Vec<Stored>,
    pub(crate) outputs: Vec<OutputDone>,
    pub(crate) at: Time,
}

/// A commit that was handed over and not refused.
#[derive(Clone, Debug)]
pub(crate) struct Committing {
    /// Which.
    pub(crate) number: usize,
    pub(crate) at: Time,
    pub(crate) said: Vec<Said>,
    pub(crate) finishing: Vec<Finishing>,
    pub(crate) joined: u64,
    /// A delivery that is only to be current is not, for certain.
    pub(crate) stale_fence: bool,
}

impl Oracle {
    /// A commit was answered. True if it was done now, false if it was before.
    pub(crate) fn committed(&mut self, committing: &Committing, answer: &Committed) -> Result<bool, String> {
        let Committing { number, at, .. } = committing;
        let deed = self.deeds[*number].clone();
        let name = || format!("commit {number} at {at:?} was answered {answer:?}: {deed:?}");
        let kept = deed.done.as_ref().filter(|done| done.at.after_ms(self.commit_ttl_ms) > *at);
        if answer.already {
            let same =
                kept.is_some_and(|done| done.stored == answer.stored && done.outputs == answer.outputs);
            ensure(same, || format!("whole: it was not done like this before: {}", name()))?;
            return Ok(false);
        }
        ensure(kept.is_none(), || format!("whole: it was done before: {}", name()))?;
        let fits = (answer.stored.len(), answer.outputs.len()) == (deed.messages.len(), deed.outputs.len());
        ensure(fits, || format!("whole: {}", name()))?;
        ensure(!committing.stale_fence, || format!("stale: a delivery is not current: {}", name()))?;
        for finishing in &committing.finishing {
            self.finished_with(finishing).map_err(|why| format!("{why}: {}", name()))?;
        }
        for (output, done) in deed.outputs.iter().zip(&answer.outputs) {
            let sealed = self.outputs.is_sealed(output);
            let expected = self.outputs.put(output, *at);
            ensure(!sealed || expected == OutputDone::Duplicate, || {
                format!("sealed: {output:?} moved in a version that is sealed: {}", name())
            })?;
            ensure(expected == *done, || format!("outputs: {output:?} was {done:?}, not {expected:?}"))?;
        }
        let (stored, outputs) = (answer.stored.clone(), answer.outputs.clone());
        self.deeds[*number].done = Some(Done { stored, outputs, at: *at });
        Ok(true)
    }

    /// An effect ended together with other things.
    fn finished_with(&mut self, finishing: &Finishing) -> CheckResult {
        let Finishing { key, receipt, end, at, fenced } = finishing;
        let known = self.ledger.known.get_mut(key).filter(|known| known.receipt() == *receipt);
        let Some(known) = known else { return Err("stale: a lease is not the newest".into()) };
        if known.faded {
            // Whether it had ended before, and when, is not known: its time may be over at once.
            known.end(receipt.epoch, end, *at);
            known.ttl_ms = None;
        }
        if known.is_ended_as(end) {
            return Ok(());
        }
        ensure(!known.is_ended(), || format!("outcome: it changes: {known:?}"))?;
        ensure(!fenced, || format!("stale: the delivery of an effect is fenced off: {known:?}"))?;
        known.end(receipt.epoch, end, at.after_ms(known.ttl_ms.unwrap_or(0)));
        Ok(())
    }

    /// Whether a commit has no other authority than that of effects that had ended before.
    fn is_spent(&self, deed: &Deed, refused: Refused) -> bool {
        let ended = |(lease, end): &(Lease, End)| {
            let known = self.effect(lease.key).filter(|known| known.receipt() == lease.receipt);
            !refused.exact || known.is_some_and(|known| known.is_ended_as(end))
        };
        let more = !(deed.messages.is_empty() && deed.outputs.is_empty());
        more && deed.acks.is_empty() && deed.fences.is_empty() && deed.finishes.iter().all(ended)
    }

    /// A commit was refused.
    pub(crate) fn commit_refused(
        &self,
        number: usize,
        part: CommitPart,
        refused: Refused,
        now: Time,
    ) -> CheckResult {
        refused.check(&("commit", number, part))?;
        let deed = &self.deeds[number];
        let fits = match (part, refused.reject) {
            (CommitPart::Ack(place), Reject::LeaseStale(_) | Reject::LeaseUnknown) => {
                deed.acks.get(place).is_some_and(|loan| !self.is_current(loan, now))
            }
            (CommitPart::Fence(place), Reject::LeaseStale(_) | Reject::LeaseUnknown) => {
                deed.fences.get(place).is_some_and(|loan| !self.is_current(loan, now))
            }
            (CommitPart::Effect(0), Reject::EffectStale(_)) if self.is_spent(deed, refused) => true,
            (
                CommitPart::Effect(place),
                Reject::EffectStale(_) | Reject::EffectFenced | Reject::EffectDiffers,
            ) => {
                let Some((lease, end)) = deed.finishes.get(place) else { return Err("whole: a part".into()) };
                let finishing = Finishing {
                    key: lease.key,
                    receipt: lease.receipt,
                    end: end.clone(),
                    at: now,
                    fenced: false,
                };
                return self.finish_refused(&finishing, lease, refused, now);
            }
            (CommitPart::Produce(place), Reject::TopicUnknown) => deed
                .messages
                .get(place)
                .is_some_and(|id| self.sent.get(id).is_some_and(|sent| !self.is_alive(sent.topic))),
            (
                CommitPart::Produce(_),
                Reject::DiskFull | Reject::Overloaded(Overload::PartitionMessages | Overload::PartitionBytes),
            )
            | (CommitPart::Output(_), Reject::DiskFull) => true,
            (CommitPart::Output(place), Reject::VersionSealed) => {
                !refused.exact || self.outputs.is_sealed(&deed.outputs[place])
            }
            (CommitPart::Output(place), Reject::OutputModeDiffers) => {
                let among = deed.outputs.iter().enumerate().any(|(other, output)| {
                    let cell = |output: &NewOutput| {
                        (output.dataset.clone(), output.version.clone(), output.partition_key.clone())
                    };
                    let before = &deed.outputs[place];
                    other < place
                        && cell(output) == cell(before)
                        && output.dedupe_key.is_empty() != before.dedupe_key.is_empty()
                });
                !refused.exact || among || self.outputs.differs(&deed.outputs[place])
            }
            _ => false,
        };
        ensure(fits, || format!("whole: {part:?} of commit {number} was refused: {refused:?}: {deed:?}"))
    }
}
