//! Workers that end several things at once, and readers of what comes out of it.

use driftq_core::{
    Answer, Commit, CommitInput, Committed, Description, EffectView, Identity, Input, NewOutput, Outcome,
    OutputInput, OutputList, Query, RequestHash, Time,
};

use crate::asked::Asked;
use crate::clients::Request;
use crate::effects::{End, Lease, effect_identity};
use crate::oracle::{CheckResult, Committing, Deed, Ordered, OutputOrder, Reading, Refused, Word};
use crate::server::PayloadRead;
use crate::workers::Loan;
use crate::world::World;

const DATASETS: [&str; 2] = ["bills", "totals"];
pub(crate) const VERSIONS: [&str; 3] = ["v1", "v2", "v3"];
/// How often a reader looks again for bytes that were moved.
pub(crate) const LOOKS: u32 = 3;
/// Keys of messages that commits store begin here: no other message has them.
const COMMIT_KEYS: u64 = 1_000_000;

impl World {
    /// Something happens to commits and outputs.
    pub(crate) fn run_commits(&mut self) -> CheckResult {
        match self.rng.below(16) {
            0..7 => self.compose_commit(),
            7 => {
                let named = self.oracle.deeds.len();
                if named > 0 {
                    let recent =
                        named - 1 - usize::try_from(self.rng.below(6)).expect("small").min(named - 1);
                    self.network.push(Request::Commit(recent));
                }
            }
            8..12 => return self.read_outputs(),
            12..15 => {
                let order = self.compose_order();
                self.network.push(Request::Order(order));
            }
            _ => return self.read_effects(),
        }
        Ok(())
    }

    fn compose_commit(&mut self) {
        let (mut acks, mut fences): (Vec<Loan>, Vec<Loan>) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.below(3) {
            acks.extend(self.rng.take(&mut self.loans));
        }
        if self.rng.chance(1, 6) && !self.loans.is_empty() {
            fences.push(self.rng.pick(&self.loans).clone());
        }
        // A holder comes too late.
        if self.rng.chance(1, 6) && !self.keepsakes.is_empty() {
            acks.push(self.rng.pick(&self.keepsakes).clone());
        }
        let mut finishes: Vec<(Lease, End)> = Vec::new();
        for _ in 0..self.rng.below(3) {
            let stale = self.rng.chance(1, 8);
            let leases = if stale { &mut self.old_leases } else { &mut self.leases };
            let lease = self.rng.take(leases);
            let known = |lease: &Lease| finishes.iter().any(|(other, _)| other.key == lease.key);
            if let Some(lease) = lease.filter(|lease| !known(lease)) {
                let end = self.compose_end();
                finishes.push((lease, end));
            }
        }
        let twice = acks
            .iter()
            .enumerate()
            .any(|(place, loan)| acks[..place].iter().any(|other| other.receipt == loan.receipt));
        let authorised = !acks.is_empty() || !fences.is_empty() || !finishes.is_empty();
        if twice || (!authorised && self.rng.chance(3, 4)) {
            return;
        }
        let messages: Vec<u64> = (0..self.rng.below(3)).filter_map(|_| self.compose_message()).collect();
        let count = if authorised { self.rng.below(4) } else { 0 };
        let outputs: Vec<NewOutput> = (0..count).map(|_| self.compose_output()).collect();
        if !authorised && messages.is_empty() {
            return;
        }
        let number = self.oracle.deeds.len();
        let name = self.rng.chance(7, 8).then(|| Identity::of("", "commit", &number.to_string()));
        let repeat_until = self.now.after_ms(self.settings.idempotency_ttl_ms / 2);
        let deed =
            Deed { name, acks, fences, finishes, messages, outputs, repeat_until, taken: false, done: None };
        self.oracle.deeds.push(deed);
        self.network.push(Request::Commit(number));
    }

    /// A message that only a commit stores.
    fn compose_message(&mut self) -> Option<u64> {
        let id = self.compose()?;
        let sent = self.oracle.sent.get_mut(&id)?;
        sent.key = Some(COMMIT_KEYS + id);
        sent.request = RequestHash::NONE;
        sent.retry_until = Time(0);
        Some(id)
    }

    fn compose_output(&mut self) -> NewOutput {
        self.calls += 1;
        let place = self.rng.below(4);
        // Two partitions are replaced, one is appended to, and for one both are tried.
        let append = place == 1 || (place == 2 && self.rng.chance(1, 4));
        let dedupe_key = if append { format!("d{}", self.rng.below(12)) } else { String::new() };
        NewOutput {
            dataset: (*self.rng.pick(&DATASETS)).into(),
            version: (*self.rng.pick(&VERSIONS)).into(),
            partition_key: format!("p{place}"),
            dedupe_key,
            location: format!("file {}", self.calls),
            digest: "digest".into(),
        }
    }

    fn compose_order(&mut self) -> OutputOrder {
        let dataset = (*self.rng.pick(&DATASETS)).to_string();
        let version = (*self.rng.pick(&VERSIONS)).to_string();
        match self.rng.below(8) {
            0..2 => {
                let expect = self.rng.chance(1, 3).then(|| (*self.rng.pick(&VERSIONS)).to_string());
                OutputOrder::CutOver { dataset, version, expect }
            }
            2..4 => OutputOrder::RollBack { dataset, from: version },
            4 => OutputOrder::Seal { dataset, version },
            _ => OutputOrder::Drop { dataset, version },
        }
    }

    /// A commit arrives, perhaps not for the first time.
    pub(crate) fn hand_commit(&mut self, number: usize) -> CheckResult {
        let deed = self.oracle.deeds[number].clone();
        let once = deed.taken && deed.name.is_none();
        let known = deed.messages.iter().all(|id| self.oracle.sent.contains_key(id));
        if self.server.is_none() || deed.repeat_until <= self.now || once || !known {
            return Ok(());
        }
        let receipts = |loans: &[Loan]| loans.iter().map(|loan| loan.receipt).collect();
        let commit = Commit {
            request: RequestHash::NONE,
            name: deed.name,
            acks: receipts(&deed.acks),
            fences: receipts(&deed.fences),
            finishes: deed.finishes.iter().map(|(lease, end)| end.finish(lease.receipt)).collect(),
            messages: deed.messages.iter().map(|id| self.new_message(*id, false)).collect(),
            outputs: deed.outputs.clone(),
            ..Commit::default()
        };
        let exact = self.is_quiet();
        let finishing = deed.finishes.iter().map(|(lease, end)| self.finishing(lease, end)).collect();
        let stale_fence = deed.fences.iter().any(|loan| self.oracle.is_stale(loan, self.now));
        let ticket = self.ticket(Asked::Nothing);
        let input = Input::Commit(CommitInput::One { ticket, commit: Box::new(commit) });
        let (actions, written) = self.hand_over(input);
        let refused = self.decided(&actions, ticket).find_map(|answer| match answer {
            Answer::CommitRefused(part, reject) => Some((*part, *reject)),
            _ => None,
        });
        if let Some((part, reject)) = refused {
            self.trace.note("refused", &(ticket, part, reject));
            self.foresee(&actions, ticket);
            self.oracle.commit_refused(number, part, Refused { reject, written, exact }, self.now)?;
            self.forget_unsent(&deed.messages);
            return Ok(());
        }
        let mut committing =
            Committing { number, at: self.now, said: Vec::new(), finishing, joined: 0, stale_fence };
        committing.joined = self.messages + 1;
        for loan in &deed.acks {
            committing.said.push(self.oracle.say(loan.receipt, &loan.group, Word::Ack, self.now));
        }
        for (lease, end) in &deed.finishes {
            self.oracle.outside.ending(lease.key, end, self.now);
        }
        for id in &deed.messages {
            self.oracle.offering(*id, false, self.now);
        }
        self.oracle.deeds[number].taken = true;
        self.expect(ticket, Asked::Commit(committing));
        self.execute(actions)
    }

    /// Messages that were never handed over to be stored never will be.
    fn forget_unsent(&mut self, messages: &[u64]) {
        for id in messages {
            if self.oracle.sent.get(id).is_some_and(|sent| !sent.handed) {
                self.oracle.sent.remove(id);
            }
        }
    }

    pub(crate) fn commit_answered(&mut self, committing: &Committing, answer: &Answer) -> CheckResult {
        let Answer::Committed(committed) = answer else {
            return Err(format!("answers: {committing:?} was answered with {answer:?}"));
        };
        let now_done = self.oracle.committed(committing, committed)?;
        self.counts.commits += u64::from(now_done);
        if now_done {
            let outcomes = vec![Outcome::Ok; committing.said.len()];
            self.settle_answered(&committing.said, committing.joined, &Answer::Settlements(outcomes))?;
        }
        self.commit_stored(committing.number, committed)
    }

    /// What a commit has stored is stored like anything else.
    fn commit_stored(&mut self, number: usize, committed: &Committed) -> CheckResult {
        let deed = &self.oracle.deeds[number];
        let (messages, at) = (deed.messages.clone(), deed.done.as_ref().map_or(self.now, |done| done.at));
        for (id, stored) in messages.iter().zip(&committed.stored) {
            if self.oracle.sent.get(id).is_some_and(|sent| sent.answered.is_none()) {
                self.counts.produced += 1;
                self.oracle.produced(*id, stored.offset, stored.duplicate, at, false)?;
            }
        }
        Ok(())
    }

    fn read_outputs(&mut self) -> CheckResult {
        let version = if self.rng.chance(1, 3) { "current" } else { *self.rng.pick(&VERSIONS) };
        let reading = Reading {
            dataset: (*self.rng.pick(&DATASETS)).into(),
            version: version.into(),
            limit: *self.rng.pick(&[2, 100]),
        };
        let list = OutputList {
            dataset: reading.dataset.clone().into(),
            version: reading.version.clone(),
            partition_key: None,
            from: None,
            limit: reading.limit,
        };
        let ticket = self.ticket(Asked::Outputs(reading));
        self.hand(Input::Describe { ticket, query: Query::Outputs(list) })
    }

    /// A reader looks at an effect.
    fn read_effects(&mut self) -> CheckResult {
        let key = self.rng.below(crate::effects::KEYS);
        self.look_at_effect(key, LOOKS)
    }

    pub(crate) fn look_at_effect(&mut self, key: u64, looks: u32) -> CheckResult {
        let ticket = self.ticket(Asked::Effect { key, at: self.now, looks });
        self.hand(Input::Describe { ticket, query: Query::Effect(effect_identity(key)) })
    }

    pub(crate) fn hand_order(&mut self, order: &OutputOrder) -> CheckResult {
        let exact = self.is_quiet();
        let ticket = self.ticket(Asked::Order(order.clone()));
        let input = match order.clone() {
            OutputOrder::CutOver { dataset, version, expect } => {
                Input::Output(OutputInput::CutOver { ticket, dataset: dataset.into(), version, expect })
            }
            OutputOrder::Seal { dataset, version } => {
                Input::Output(OutputInput::Seal { ticket, dataset: dataset.into(), version })
            }
            OutputOrder::RollBack { dataset, from } => {
                Input::Output(OutputInput::RollBack { ticket, dataset: dataset.into(), from })
            }
            OutputOrder::Drop { dataset, version } => {
                Input::Output(OutputInput::Drop { ticket, dataset: dataset.into(), version })
            }
        };
        let (actions, refused) = self.try_hand(ticket, input);
        if let Some((reject, written)) = refused {
            Refused { reject, written, exact }.check(order)?;
            return self.oracle.order_refused(order, reject, exact);
        }
        self.execute(actions)
    }

    /// The answer to a reader, or to an operator that ordered something about outputs.
    pub(crate) fn outputs_answered(&mut self, asked: &Asked, answer: &Answer) -> CheckResult {
        let text = |name: &Option<std::sync::Arc<str>>| name.as_ref().map(ToString::to_string);
        match (asked, answer) {
            (Asked::Outputs(reading), Answer::Described(Description::Outputs(page))) => {
                self.oracle.outputs_read(reading, page.as_ref())
            }
            (Asked::Effect { key, at, looks }, Answer::Described(Description::Effect(view))) => {
                self.oracle.effect_seen(*key, view.as_ref(), *at)?;
                view.as_ref().map_or(Ok(()), |view| self.read_effect(*key, view, *looks))
            }
            (Asked::Order(order), Answer::CutOver { current, previous, changed }) => {
                let (current, previous, changed) = (text(current), text(previous), *changed);
                self.oracle.outputs_ordered(order, &Ordered::Shown { current, previous, changed })
            }
            (Asked::Order(order), Answer::Sealed { changed, pointers }) => {
                let sealed = Ordered::Sealed { changed: *changed, pointers: *pointers };
                self.oracle.outputs_ordered(order, &sealed)
            }
            (Asked::Order(order), Answer::Removed(count)) => {
                self.oracle.outputs_ordered(order, &Ordered::Dropped(*count))
            }
            _ => Err(format!("answers: {asked:?} was answered with {answer:?}")),
        }
    }

    /// What the log keeps of an effect is what was said.
    pub(crate) fn read_effect(&mut self, key: u64, view: &EffectView, looks: u32) -> CheckResult {
        let Some(server) = &self.server else { return Ok(()) };
        let told = self.oracle.effect(key).and_then(|known| known.ending.clone());
        let about = driftq_core::About {
            scope: "effects".into(),
            key: key.to_string().into(),
            ..driftq_core::About::default()
        };
        let pieces = [(Some(view.about), Some(about.encode())), (view.ending, told)];
        for (blob, expected) in pieces {
            let Some(blob) = blob else { continue };
            match server.read(blob.position, blob.length, blob.check)? {
                PayloadRead::Payload(bytes) if Some(&bytes) == expected.as_ref() => {}
                PayloadRead::Payload(_) => {
                    return Err(format!("outcome: {blob:?} of effect {key} is another one"));
                }
                // While the answer waited for the disk, the bytes were moved: a reader that looks again finds them.
                PayloadRead::Gone if looks > 0 => return self.look_at_effect(key, looks - 1),
                PayloadRead::Gone => return Err(format!("outcome: {blob:?} of effect {key} is gone")),
                PayloadRead::Failed => {
                    self.server = None;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
