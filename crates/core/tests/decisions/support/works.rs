//! What callers of the ledger may do at any time: effects, commits, outputs, and questions about all of them.

use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{
    Answer, BeginEffect, Commit, EffectAnswer, EffectInput, EffectList, EffectPart, EffectReceipt,
    EntityList, Expected, Fact, FinishEffect, Input, Named, NewBlob, NewLineage, OrderInput, OutputInput,
    OutputList, Query, Read, Receipt, RequestHash, RunList, Ticket, Urge, VersionsList,
};

use super::Draft;
use super::ledger::{appended, effect_identity, finishing, named, output, resolving, wish};
use super::world::{Asked, World, pick};

/// Keys of the effects.
pub(crate) const KEYS: [&str; 4] = ["k", "l", "m", "n"];
const RUNS: [&str; 3] = ["", "r", "s"];
const VERSIONS: [&str; 3] = ["v1", "v2", "v3"];

/// To which run a message belongs, if to any.
pub(super) fn a_lineage(number: u8) -> Option<Box<NewLineage>> {
    let run = RUNS[usize::from(number) % 3];
    let lineage = NewLineage {
        tenant: ["", "t"][usize::from(number % 8 / 4)].into(),
        run: run.into(),
        step: format!("s{}", number % 4),
        parent: "p".into(),
    };
    (!run.is_empty()).then(|| Box::new(lineage))
}

/// Whose something is.
fn a_tenant(number: u8) -> &'static str {
    ["", "t"][usize::from(number % 2)]
}

impl World {
    pub(super) fn work(&mut self, kind: u8, a: u8, b: u8, c: u8) {
        match kind {
            48..=52 => self.begin(a, b, c),
            53 | 54 => self.finish(a, b, c),
            55 if b >= 200 => {
                let Some(receipt) = self.a_lease(a, c) else { return };
                self.rig.ask(|ticket| {
                    Input::Effect(EffectInput::Release { ticket, receipt, uncertain: b.is_multiple_of(2) })
                });
            }
            55 => {
                let Some(receipt) = self.a_lease(a, c) else { return };
                let lease_ms = [None, Some(1), Some(900)][usize::from(b % 3)];
                self.rig.ask(|ticket| Input::Effect(EffectInput::Renew { ticket, receipt, lease_ms }));
            }
            56 => {
                let status = Status::ALL[usize::from(b % 5)];
                let mut resolve = resolving(KEYS[usize::from(a % 4)], status, ["x", "y"][usize::from(c % 2)]);
                resolve.seen = (c >= 128).then_some(u32::from(c % 4));
                let ticket = self.rig.ask(|ticket| Input::Effect(EffectInput::Resolve { ticket, resolve }));
                self.asked.insert(ticket, Asked::Nothing);
            }
            57..=59 => self.commit(a, b, c),
            60 if c < 8 => {
                let entity = Named::of(a_tenant(a), ["e", "f"][usize::from(b % 2)]);
                self.rig.ask(|ticket| Input::Order(OrderInput::ForgetEntity { ticket, entity }));
            }
            60 | 61 => self.manage_outputs(a, b, c),
            _ => {
                self.relocate_effects(a);
                self.look_around(b, c);
            }
        }
    }

    fn begin(&mut self, a: u8, b: u8, c: u8) {
        let caller = u64::from(c % 3);
        let ask = BeginEffect {
            request: RequestHash(u64::from(a / 64)),
            lease_ms: [None, Some(1), Some(300), Some(1500)][usize::from(b % 4)],
            ttl_ms: [None, Some(1), Some(500), Some(3000)][usize::from(b / 4 % 4)],
            on_lapse: if c >= 80 { OnLapse::Retry } else { OnLapse::Hold },
            attempts_max: [None, Some(1), Some(3)][usize::from(c / 3 % 3)],
            urge: [Urge::Begin, Urge::BeginOrReacquire, Urge::Reacquire][usize::from(b / 16 % 3)],
            wait_ms: if a.is_multiple_of(3) { u64::from(c) * 10 } else { 0 },
            caller,
            delivery: pick(&self.deliveries, a).filter(|_| b >= 128).map(|(delivery, _)| delivery.receipt),
            run: RUNS[usize::from(a / 4 % 3)].into(),
            whose: a_tenant(b).into(),
            expect: self.an_expectation(a_tenant(b), b, c),
            ..wish(KEYS[usize::from(a % 4)])
        };
        let ticket = self.rig.ask_begin(ask);
        self.asked.insert(ticket, Asked::Effect(caller));
        if c == 255 {
            self.rig.tell(Input::Forsake { ticket });
        }
    }

    /// What somebody expects of entities: mostly nothing, else mostly what is true.
    fn an_expectation(&self, tenant: &str, b: u8, c: u8) -> Vec<Expected> {
        let known = |entity: &str| self.rig.shard.state().entity_version(tenant, entity);
        let entities = ["e", "f"].iter().take(usize::from((b / 2 % 8).saturating_sub(5)));
        let entities = entities.map(|entity| Expected {
            entity: (*entity).to_owned(),
            version: known(entity) + u64::from(c.is_multiple_of(7)),
        });
        entities.collect()
    }

    /// A lease that was given, now and then a little wrong.
    fn a_lease(&self, a: u8, c: u8) -> Option<EffectReceipt> {
        let mut receipt = pick(&self.leases, a / 4)?.0;
        receipt.epoch += u32::from(c == 77);
        Some(receipt)
    }

    fn an_ending(&self, a: u8, b: u8, c: u8) -> Option<FinishEffect> {
        let status =
            [Status::Succeeded, Status::FailedFinal, Status::FailedRetryable, Status::FailedRetryable];
        let status = if b == 255 { Status::Unknown } else { status[usize::from(b % 4)] };
        // Too long for the limit, now and then.
        let text = "x".repeat(usize::from(c % 16) * 8);
        Some(finishing(self.a_lease(a, c)?, status, &text))
    }

    fn finish(&mut self, a: u8, b: u8, c: u8) {
        let Some(finish) = self.an_ending(a, b, c) else { return };
        let receipt = finish.receipt;
        let ticket = self.rig.ask(|ticket| Input::Effect(EffectInput::Finish { ticket, finish }));
        self.asked.insert(ticket, Asked::Finish(receipt));
    }

    fn commit(&mut self, a: u8, b: u8, c: u8) {
        let receipts = |from: u8, count: u8| -> Vec<Receipt> {
            (0..count)
                .filter_map(|step| Some(pick(&self.deliveries, from.wrapping_add(step))?.0.receipt))
                .collect()
        };
        let (acks, fences) = (receipts(a, b % 3), receipts(a / 2, b / 3 % 2));
        let finishes = (0..b / 6 % 2).filter_map(|step| self.an_ending(a.wrapping_add(step), b, c)).collect();
        let messages = (0..b / 12 % 3).filter_map(|step| {
            let mut draft = Draft::to(self.a_topic(a)?).partition(u32::from(a.wrapping_add(step) % 2));
            draft = if c >= 128 { draft.keyed(["k", "l"][usize::from(step % 2)]) } else { draft };
            draft.request = RequestHash(u64::from(c / 100));
            Some(driftq_core::NewMessage { lineage: a_lineage(a / 3), ..draft.message() })
        });
        let messages = messages.collect();
        let outputs = (0..b / 36 % 4).map(|step| {
            let (version, cell) = (VERSIONS[usize::from(c % 3)], ["p", "q"][usize::from(c / 3 % 2)]);
            // One cell is added to, the other one is replaced; now and then somebody mixes them up.
            if (cell == "q") == (c < 240) {
                appended(version, cell, &format!("{}", a.wrapping_add(step) % 5), "there")
            } else {
                output(version, cell, &"x".repeat(usize::from(a % 32) + 1))
            }
        });
        let outputs = outputs.collect();
        // The more is in it, the more often it is refused: some only move pointers, by the newest delivery.
        let commit = if a % 4 == 1 {
            Commit { fences: receipts(0, 1), outputs, ..Commit::default() }
        } else {
            let (tenant, reads) =
                (a_tenant(b).to_owned(), vec![Read { dataset: "d".into(), version: "v1".into() }]);
            let expect = self.an_expectation(&tenant, b, c);
            Commit { acks, fences, finishes, messages, outputs, tenant, reads, expect, ..Commit::default() }
        };
        let commit = if a.is_multiple_of(2) { named(KEYS[usize::from(c % 4)], commit) } else { commit };
        let epoch = self.rig.shard.state().epoch();
        let acked = commit
            .acks
            .iter()
            .filter(|receipt| receipt.token.epoch == epoch && !self.outmoved.contains(&receipt.token));
        let acked =
            acked.map(|receipt| (receipt.topic, receipt.group, receipt.partition, receipt.offset)).collect();
        let name = commit.name;
        let ticket = self.rig.ask_commit(commit);
        self.asked.insert(ticket, Asked::Commit { name, acked });
    }

    fn manage_outputs(&mut self, a: u8, b: u8, c: u8) {
        let dataset = Named::of(a_tenant(c), if a == 255 { "other" } else { "d" });
        let version = VERSIONS[usize::from(b % 3)].to_owned();
        let expect = (c >= 200).then(|| VERSIONS[usize::from(c % 3)].to_owned());
        self.rig.ask(|ticket| match a % 6 {
            0 if c < 60 => Input::Output(OutputInput::Seal { ticket, dataset, version }),
            0 => Input::Output(OutputInput::Drop { ticket, dataset, version }),
            1 => Input::Output(OutputInput::RollBack { ticket, dataset, from: version }),
            _ => Input::Output(OutputInput::CutOver { ticket, dataset, version, expect }),
        });
        if a % 6 == 2 {
            for from in VERSIONS.map(str::to_owned) {
                self.rig
                    .ask(|ticket| Input::Output(OutputInput::RollBack { ticket, dataset: "d".into(), from }));
            }
        }
    }

    fn relocate_effects(&mut self, a: u8) {
        let segment = self.rig.shard.state().live_bytes().keys().nth(usize::from(a % 3)).copied();
        let pieces = segment.map(|segment| self.rig.shard.state().effects_pinned_in(segment, 3));
        for piece in pieces.unwrap_or_default() {
            let Some(bytes) = self.rig.log.read(piece.blob.position, piece.blob.length) else { continue };
            let copy = NewBlob { bytes: bytes.to_vec(), check: piece.blob.check };
            let (number, part, from) = (piece.number, piece.part, piece.blob.position);
            self.rig.tell(Input::Effect(EffectInput::Relocate { number, part, from, copy }));
        }
        let copy = NewBlob::default();
        let from = driftq_core::Position(0);
        self.rig.tell(Input::Effect(EffectInput::Relocate {
            number: u64::from(a),
            part: EffectPart::Ending,
            from,
            copy,
        }));
    }

    /// Every question must have an answer.
    fn look_around(&mut self, b: u8, c: u8) {
        let (version, limit) = (VERSIONS[usize::from(b % 3)].to_owned(), u32::from(c % 4));
        let dataset = || Named::of(a_tenant(b), "d");
        let queries = [
            Query::Effect(effect_identity(KEYS[usize::from(b % 4)])),
            Query::Effects(EffectList {
                after: u64::from(b % 8),
                limit,
                status: (c >= 128).then_some(Status::ALL[usize::from(c % 5)]),
                ..EffectList::default()
            }),
            Query::Datasets(a_tenant(b).into(), None, limit),
            Query::Dataset(VersionsList { dataset: dataset(), after: None, limit }),
            Query::Outputs(OutputList {
                dataset: dataset(),
                version: if c >= 200 { "current".into() } else { version },
                partition_key: (b >= 128).then(|| "q".into()),
                from: c.is_multiple_of(5).then(|| ("q".into(), u64::from(b % 4))),
                limit,
            }),
            Query::Runs(RunList {
                tenant: (c >= 128).then(|| a_tenant(b).into()),
                before: u64::from(b),
                began_before: None,
                limit,
            }),
            Query::Run(Named::of(a_tenant(c), RUNS[1 + usize::from(b % 2)]), u64::from(c % 16), limit),
            Query::Entity(Named::of("t", "e")),
            Query::Commit(named(KEYS[usize::from(b % 4)], Commit::default()).name.unwrap_or_default()),
            Query::Entities(EntityList {
                tenant: String::new(),
                after: (b >= 128).then(|| "e".into()),
                limit,
            }),
        ];
        for query in queries {
            self.rig.ask(|ticket| Input::Describe { ticket, query });
        }
    }

    /// Holds what the ledger says against what it said before.
    pub(super) fn hear_work(&mut self, ticket: Ticket, asked: Asked, answer: &Answer) {
        match (asked, answer) {
            (Asked::Effect(caller), Answer::Effect(EffectAnswer::Execute(lease))) => {
                let known = self.leases.iter().find(|(receipt, _)| *receipt == lease.receipt);
                let may = known.is_none_or(|(_, before)| caller != 0 && *before == caller);
                assert!(may, "{lease:?} was handed out twice, now to {ticket:?}");
                self.leases.push((lease.receipt, caller));
            }
            (Asked::Finish(receipt), Answer::EffectEnded { .. }) => {
                self.ended.insert(receipt);
            }
            (Asked::Commit { name, acked }, Answer::Committed(done)) => {
                self.committed.extend(name);
                self.stored.extend(done.stored.iter().filter_map(|s| Some((s.topic?, s.offset))));
                if !done.already {
                    self.acked.extend(acked);
                }
            }
            _ => {}
        }
    }

    /// Whatever was promised must be among what is kept.
    pub(super) fn check_promises(&self, kept: usize) {
        let (mut leases, mut ended, mut commits) = (Vec::new(), Vec::new(), Vec::new());
        for batch in &self.rig.log.batches[..kept] {
            for fact in batch.facts() {
                use driftq_core::{CommitFact, EffectFact};
                match fact {
                    Fact::Effect(EffectFact::Begun(begun)) => {
                        leases.push(EffectReceipt { number: begun.number, epoch: begun.lent.epoch });
                    }
                    Fact::Effect(EffectFact::Taken { number, lent }) => {
                        leases.push(EffectReceipt { number, epoch: lent.epoch });
                    }
                    Fact::Effect(EffectFact::Ended(fact)) => {
                        ended.push(EffectReceipt { number: fact.number, epoch: fact.epoch });
                    }
                    Fact::Commit(CommitFact::Done { name, .. }) => commits.push(name),
                    _ => {}
                }
            }
        }
        assert!(self.leases.iter().all(|(receipt, _)| leases.contains(receipt)), "a lease was lost");
        assert!(self.ended.iter().all(|receipt| ended.contains(receipt)), "an outcome was lost");
        assert!(self.committed.iter().all(|name| commits.contains(name)), "a commit was lost");
    }
}
