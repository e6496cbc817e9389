//! The books of the ledger, kept a second time and the slow way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use driftq_core::ledger::Status;
use driftq_core::{
    Answer, Description, EffectFact, EffectPart, Fact, Identity, Input, OutputFact, Position, Query, RunFact,
    RunList, Tally, TopicId,
};

use super::Rig;

/// A segment, and how many bytes lie there.
type Bytes = (u32, u64);

struct Effect {
    identity: Identity,
    status: Status,
    about: Bytes,
    ending: Option<Bytes>,
    run: u64,
}

#[derive(Default)]
struct Run {
    tenant: String,
    name: String,
    messages: u64,
    entries: VecDeque<Option<(TopicId, u64)>>,
}

#[derive(Default)]
pub(super) struct Books {
    effects: BTreeMap<u64, Effect>,
    /// Tenant, dataset, version, cell and key.
    pointers: BTreeSet<[String; 5]>,
    runs: BTreeMap<u64, Run>,
    last_run: u64,
}

impl Books {
    pub(super) fn apply(&mut self, end: Position, fact: &Fact<'_>) {
        match *fact {
            Fact::Appended(message) => {
                if let Some(lineage) = message.lineage {
                    let run = self.enter((lineage.tenant, lineage.run));
                    let run = self.runs.get_mut(&run).expect("just entered");
                    run.messages += 1;
                    run.entries.push_back(Some((message.topic, message.offset)));
                }
            }
            Fact::Effect(ref fact) => self.on_effect(end.segment(), fact),
            Fact::Run(RunFact::Forgotten { run, most }) => {
                let Some(known) = self.runs.get_mut(&run) else { return };
                for _ in 0..most {
                    known.entries.pop_front();
                }
                self.runs.retain(|_, run| !run.entries.is_empty());
            }
            Fact::Output(OutputFact::Moved {
                tenant, dataset, version, partition_key, dedupe_key, ..
            }) => {
                self.pointers
                    .insert([tenant, dataset, version, partition_key, dedupe_key].map(str::to_owned));
            }
            Fact::Output(OutputFact::Dropped { tenant, dataset, version }) => {
                self.pointers.retain(|pointer| pointer[..3] != [tenant, dataset, version]);
            }
            _ => {}
        }
    }

    fn enter(&mut self, (tenant, name): (&str, &str)) -> u64 {
        let same = |run: &Run| (&*run.tenant, &*run.name) == (tenant, name);
        if let Some((number, _)) = self.runs.iter().find(|(_, run)| same(run)) {
            return *number;
        }
        self.last_run += 1;
        self.runs.insert(self.last_run, Run { tenant: tenant.into(), name: name.into(), ..Run::default() });
        self.last_run
    }

    fn on_effect(&mut self, segment: u32, fact: &EffectFact<'_>) {
        let lies = |bytes: &[u8]| (segment, bytes.len() as u64);
        match *fact {
            EffectFact::Begun(begun) => {
                self.effects.retain(|_, effect| effect.identity != begun.identity);
                let message = begun.lent.tie.map(|tie| (tie.topic, tie.offset));
                let holds = |run: &&u64| {
                    message.is_some() && self.runs[*run].entries.iter().any(|entry| *entry == message)
                };
                let run = match self.runs.keys().find(holds) {
                    Some(run) => *run,
                    None if begun.run.is_empty() => 0,
                    None => self.enter((begun.whose, begun.run)),
                };
                if let Some(run) = self.runs.get_mut(&run) {
                    run.entries.push_back(None);
                }
                let (identity, about) = (begun.identity, lies(begun.bytes));
                let effect = Effect { identity, status: Status::InProgress, about, ending: None, run };
                assert!(self.effects.insert(begun.number, effect).is_none(), "a number was used twice");
            }
            EffectFact::Taken { number, .. } => self.effect(number).status = Status::InProgress,
            EffectFact::Renewed { number, .. } => {
                let effect = self.effect(number);
                assert!([Status::InProgress, Status::Unknown].contains(&effect.status), "over, and renewed");
                effect.status = Status::InProgress;
            }
            EffectFact::Ended(ended) => {
                let effect = self.effect(ended.number);
                assert!(!effect.status.is_final(), "what is final changed");
                effect.status = ended.status;
                effect.ending = Some(lies(ended.bytes));
            }
            EffectFact::Lapsed { number, .. } => {
                let effect = self.effect(number);
                assert_eq!(effect.status, Status::InProgress);
                effect.status = Status::Unknown;
            }
            EffectFact::Released { number, .. } => {
                let effect = self.effect(number);
                assert!([Status::InProgress, Status::Unknown].contains(&effect.status), "over, and released");
                effect.status = Status::InProgress;
            }
            EffectFact::Swept { numbers } => {
                for number in numbers.as_chunks::<8>().0 {
                    let gone = self.effects.remove(&u64::from_le_bytes(*number));
                    let gone = gone.expect("what is swept is known");
                    assert_ne!(gone.status, Status::Unknown, "what may have happened was forgotten");
                }
            }
            EffectFact::Moved { number, part, bytes } => match part {
                EffectPart::About => self.effect(number).about = lies(bytes),
                EffectPart::Ending => self.effect(number).ending = Some(lies(bytes)),
            },
        }
    }

    fn effect(&mut self, number: u64) -> &mut Effect {
        self.effects.get_mut(&number).expect("the effect is known")
    }

    /// Adds what effects keep in the log.
    pub(super) fn add_live(&self, live: &mut BTreeMap<u32, u64>) {
        let pieces = self.effects.values().flat_map(|effect| [Some(effect.about), effect.ending]);
        for (segment, bytes) in pieces.flatten().filter(|(_, bytes)| *bytes > 0) {
            *live.entry(segment).or_insert(0) += bytes;
        }
    }

    /// Compares the books with what the shard says; `kept` tells whether a message is kept.
    pub(super) fn audit(&self, rig: &mut Rig, tally: &Tally, kept: impl Fn((TopicId, u64)) -> bool) {
        let count = |status| self.effects.values().filter(|effect| effect.status == status).count() as u64;
        let effects = tally.effects;
        assert_eq!(effects.records, self.effects.len() as u64);
        assert_eq!(effects.in_progress, count(Status::InProgress));
        assert_eq!(effects.failed_retryable, count(Status::FailedRetryable));
        assert_eq!(effects.unknown, count(Status::Unknown));
        assert_eq!(tally.outputs, self.pointers.len() as u64);
        assert_eq!(tally.runs, self.runs.len() as u64);
        let list = RunList { tenant: None, before: u64::MAX, began_before: None, limit: 1000 };
        let ticket = rig.ask(|ticket| Input::Describe { ticket, query: Query::Runs(list) });
        // It waits for the disk, as everything about the ledger does.
        let Some(Answer::Described(Description::Runs(runs, None))) = rig.answer(ticket) else { return };
        for summary in runs {
            let run = &self.runs[&summary.number];
            let open = run.entries.iter().flatten().filter(|message| kept(**message)).count();
            let effects = self.effects.values().filter(|effect| effect.run == summary.number).count();
            let told = (&*summary.tenant, &*summary.id, summary.messages, summary.open, summary.effects);
            assert_eq!(told, (&*run.tenant, &*run.name, run.messages, open as u64, effects as u64));
        }
    }
}
