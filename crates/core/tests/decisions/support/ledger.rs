//! What callers of the ledger do most: effects, commits, outputs and runs.

use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{
    About, Answer, BeginEffect, Commit, CommitInput, CommitPart, Committed, Delivery, Description,
    EffectAnswer, EffectFact, EffectInput, EffectLease, EffectList, EffectPage, EffectReceipt, EffectView,
    Ending, Fact, FinishEffect, Identity, Input, NewBlob, NewLineage, NewMessage, NewOutput, OutputList,
    OutputPage, Query, Reject, RequestHash, ResolveEffect, RunPage, Ticket, Urge,
};

use super::{Draft, LEASE_MS, Rig, check};

/// How long outcomes are remembered, unless a test says otherwise.
pub(crate) const TTL_MS: u64 = 100_000;

pub(crate) fn blob(bytes: &[u8]) -> NewBlob {
    NewBlob { bytes: bytes.to_vec(), check: check(bytes) }
}

pub(crate) fn effect_identity(key: &str) -> Identity {
    Identity::of("tenant", "scope", key)
}

/// Somebody who asks for an effect, for the first time and patiently enough to be told at once.
pub(crate) fn wish(key: &str) -> BeginEffect {
    let about = About { scope: "scope".into(), key: key.into(), ..About::default() };
    BeginEffect {
        identity: effect_identity(key),
        tenant: 1,
        scope: 2,
        about: blob(&about.encode()),
        lease_ms: Some(LEASE_MS),
        ttl_ms: Some(TTL_MS),
        ..BeginEffect::default()
    }
}

/// The same for an effect that may be repeated.
pub(crate) fn repeatable(key: &str) -> BeginEffect {
    BeginEffect { on_lapse: OnLapse::Retry, ..wish(key) }
}

pub(crate) fn requesting(ask: BeginEffect, request: &str) -> BeginEffect {
    BeginEffect { request: RequestHash::of(request.as_bytes()), ..ask }
}

pub(crate) fn waiting(ask: BeginEffect, wait_ms: u64) -> BeginEffect {
    BeginEffect { wait_ms, ..ask }
}

pub(crate) fn eager(ask: BeginEffect) -> BeginEffect {
    BeginEffect { urge: Urge::BeginOrReacquire, ..ask }
}

pub(crate) fn tied(ask: BeginEffect, delivery: &Delivery) -> BeginEffect {
    BeginEffect { delivery: Some(delivery.receipt), ..ask }
}

/// Bytes of an ending that says `text`, and what tells it from others.
pub(crate) fn ending(text: &str) -> (NewBlob, u64) {
    let bytes = Ending { body: Some(text.as_bytes().into()), ..Ending::default() }.encode();
    let digest = Ending::digest(&bytes);
    (blob(&bytes), digest)
}

pub(crate) fn finishing(receipt: EffectReceipt, status: Status, text: &str) -> FinishEffect {
    let (ending, digest) = ending(text);
    FinishEffect { receipt, status, ending, digest }
}

pub(crate) fn resolving(key: &str, status: Status, text: &str) -> ResolveEffect {
    let (ending, digest) = ending(text);
    ResolveEffect { identity: effect_identity(key), seen: None, status, ending, digest }
}

pub(crate) fn output(version: &str, partition_key: &str, location: &str) -> NewOutput {
    NewOutput {
        dataset: "d".into(),
        version: version.into(),
        partition_key: partition_key.into(),
        dedupe_key: String::new(),
        location: location.into(),
        digest: "sha".into(),
    }
}

pub(crate) fn appended(version: &str, partition_key: &str, dedupe_key: &str, location: &str) -> NewOutput {
    NewOutput { dedupe_key: dedupe_key.into(), ..output(version, partition_key, location) }
}

pub(crate) fn named(name: &str, commit: Commit) -> Commit {
    Commit { name: Some(Identity::of("", "commit", name)), ..commit }
}

/// A message of a run.
pub(crate) fn in_run(draft: &Draft, run: &str, step: &str) -> NewMessage {
    let lineage =
        NewLineage { tenant: String::new(), run: run.into(), step: step.into(), parent: String::new() };
    NewMessage { lineage: Some(Box::new(lineage)), ..draft.message() }
}

pub(crate) fn rejected(reject: Reject) -> Answer {
    Answer::Rejected(reject)
}

impl Rig {
    pub(crate) fn ask_begin(&mut self, ask: BeginEffect) -> Ticket {
        self.ask(|ticket| Input::Effect(EffectInput::Begin { ticket, ask: Box::new(ask) }))
    }

    /// Asks and syncs.
    pub(crate) fn try_begin(&mut self, ask: BeginEffect) -> Answer {
        self.ask_durably(|ticket| Input::Effect(EffectInput::Begin { ticket, ask: Box::new(ask) }))
    }

    pub(crate) fn begin(&mut self, ask: BeginEffect) -> EffectAnswer {
        match self.try_begin(ask) {
            Answer::Effect(answer) => answer,
            other => panic!("not an effect: {other:?}"),
        }
    }

    /// The lease that somebody gets who asks now.
    pub(crate) fn executes(&mut self, ask: BeginEffect) -> EffectLease {
        match self.begin(ask) {
            EffectAnswer::Execute(lease) => lease,
            other => panic!("not to be executed: {other:?}"),
        }
    }

    /// Finishes and syncs.
    pub(crate) fn try_finish(&mut self, finish: FinishEffect) -> Answer {
        self.ask_durably(|ticket| Input::Effect(EffectInput::Finish { ticket, finish }))
    }

    pub(crate) fn finish(&mut self, lease: EffectLease, status: Status, text: &str) -> Answer {
        self.try_finish(finishing(lease.receipt, status, text))
    }

    pub(crate) fn renew(&mut self, receipt: EffectReceipt, lease_ms: Option<u64>) -> Answer {
        self.ask_durably(|ticket| Input::Effect(EffectInput::Renew { ticket, receipt, lease_ms }))
    }

    pub(crate) fn resolve(&mut self, resolve: ResolveEffect) -> Answer {
        self.ask_durably(|ticket| Input::Effect(EffectInput::Resolve { ticket, resolve }))
    }

    /// What the ledger says about a key, once it is durable.
    pub(crate) fn effect(&mut self, key: &str) -> Option<EffectView> {
        let query = Query::Effect(effect_identity(key));
        match self.ask_durably(|ticket| Input::Describe { ticket, query }) {
            Answer::Described(Description::Effect(view)) => view,
            other => panic!("not an effect: {other:?}"),
        }
    }

    /// How an effect stands; it must be known.
    pub(crate) fn status(&mut self, key: &str) -> Status {
        self.effect(key).expect("the ledger knows it").status
    }

    pub(crate) fn effects(&mut self, list: EffectList) -> EffectPage {
        match self.ask_durably(|ticket| Input::Describe { ticket, query: Query::Effects(list) }) {
            Answer::Described(Description::Effects(page)) => page,
            other => panic!("not effects: {other:?}"),
        }
    }

    /// The text that an effect ended with, read from the log.
    pub(crate) fn outcome(&self, view: &EffectView) -> String {
        let blob = view.ending.expect("it ended");
        let bytes = self.log.read(blob.position, blob.length).expect("an ending can be read");
        assert_eq!(check(bytes), blob.check);
        let ending = Ending::decode(bytes).expect("an ending is one");
        String::from_utf8(ending.body.expect("it has a body").into_owned()).expect("it is a text")
    }

    pub(crate) fn ask_commit(&mut self, commit: Commit) -> Ticket {
        self.ask(|ticket| Input::Commit(CommitInput::One { ticket, commit: Box::new(commit) }))
    }

    /// Commits and syncs.
    pub(crate) fn try_commit(&mut self, commit: Commit) -> Answer {
        self.ask_durably(|ticket| Input::Commit(CommitInput::One { ticket, commit: Box::new(commit) }))
    }

    pub(crate) fn commit(&mut self, commit: Commit) -> Committed {
        match self.try_commit(commit) {
            Answer::Committed(done) => done,
            other => panic!("not committed: {other:?}"),
        }
    }

    /// A commit that must change nothing, and why it did not.
    pub(crate) fn refused(&mut self, commit: Commit) -> (CommitPart, Reject) {
        self.sync();
        let (before, batches) = (self.snapshot(), self.log.batches.len());
        let ticket = self.ask_commit(commit);
        assert_eq!(self.write(), batches, "a refusal wrote something");
        assert!(self.snapshot() == before, "a refusal changed something");
        match self.answer(ticket) {
            Some(Answer::CommitRefused(part, reject)) => (part, reject),
            other => panic!("not refused at once: {other:?}"),
        }
    }

    /// Some outputs of a version of dataset `d`.
    pub(crate) fn outputs(&mut self, version: &str) -> Option<OutputPage> {
        self.output_page(OutputList {
            dataset: "d".into(),
            version: version.into(),
            partition_key: None,
            from: None,
            limit: 100,
        })
    }

    pub(crate) fn output_page(&mut self, list: OutputList) -> Option<OutputPage> {
        match self.ask_durably(|ticket| Input::Describe { ticket, query: Query::Outputs(list) }) {
            Answer::Described(Description::Outputs(page)) => page,
            other => panic!("not outputs: {other:?}"),
        }
    }

    pub(crate) fn run_page(&mut self, run: &str, from: u64, limit: u32) -> Option<RunPage> {
        let query = Query::Run(run.into(), from, limit);
        match self.ask_durably(|ticket| Input::Describe { ticket, query }) {
            Answer::Described(Description::Run(page)) => page,
            other => panic!("not a run: {other:?}"),
        }
    }

    /// Produces a message of a run and syncs; the offset.
    pub(crate) fn produce_in_run(&mut self, draft: &Draft, run: &str, step: &str) -> u64 {
        let message = in_run(draft, run, step);
        match self.ask_durably(|ticket| Input::Produce { ticket, message }) {
            Answer::Produced(stored) => stored.offset,
            other => panic!("not produced: {other:?}"),
        }
    }

    /// Facts about effects since `mark` batches were written.
    pub(crate) fn effect_facts_since(&mut self, mark: usize) -> Vec<EffectFact<'_>> {
        self.write();
        let facts = self.facts_since(mark).into_iter();
        facts.filter_map(|fact| if let Fact::Effect(fact) = fact { Some(fact) } else { None }).collect()
    }
}
