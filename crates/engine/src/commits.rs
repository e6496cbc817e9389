//! Commits, outputs and runs.

use std::borrow::Cow;
use std::sync::Arc;

use driftq_core::{
    Answer, Commit, CommitInput, CommitPart, DatasetSummary, DatasetView, Description, Expected, Identity,
    Input, Named, NewOutput, OutputDone, OutputInput, OutputList, OutputPage, Query, Read, Receipt, Reject,
    RunEntry, RunList, RunMessage, RunSummary, VersionsList,
};

use crate::broker::{Broker, INTERRUPTED, unexpected};
use crate::effect_request::{EffectEnd, SeenEffect};
use crate::effects::finishing;
use crate::failure::Failure;
use crate::locks::read;
use crate::request::{Draft, Produced};
use crate::routing::{Reservation, Reserved, Turn};

/// What is to happen together.
#[derive(Clone, Debug, Default)]
pub struct CommitCall<'a> {
    /// Names the commit, so that asking again gives the same answer.
    pub name: Option<Identity>,
    /// What it asks for, so that its name is not used for something else.
    pub request: driftq_core::RequestHash,
    /// Deliveries whose work is done.
    pub acks: Vec<Receipt>,
    /// Deliveries that must be current, and stay on loan.
    pub fences: Vec<Receipt>,
    /// Effects that ended.
    pub effects: Vec<(driftq_core::EffectReceipt, EffectEnd<'a>)>,
    /// Messages to be stored, with the topic that each was sent to.
    pub messages: Vec<(Cow<'a, str>, Draft<'a>)>,
    /// Pointers to be moved.
    pub outputs: Vec<NewOutput>,
    /// Versions of datasets that were read for the work.
    pub reads: Vec<Read>,
    /// Whose datasets and entities they are; may be empty.
    pub tenant: String,
    /// Only if entities have these versions.
    pub expect: Vec<Expected>,
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Whether it was done before.
    pub already: bool,
    /// Where its messages are.
    pub produced: Vec<Produced>,
    /// What became of its outputs.
    pub outputs: Vec<OutputDone>,
    /// Where each output that was a duplicate lies, in their order.
    pub kept: Vec<Arc<str>>,
}

/// A version of a dataset that readers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutOver {
    /// The version; `None` for nothing.
    pub current: Option<Arc<str>>,
    /// What they would see after a roll-back.
    pub previous: Option<Arc<str>>,
    /// Whether this call changed it.
    pub changed: bool,
}

/// A stretch of a run.
#[derive(Clone, Debug)]
pub struct RunSight {
    /// The run.
    pub summary: RunSummary,
    /// What belongs to it, in the order in which it came.
    pub entries: Vec<SeenEntry>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// A message or an effect of a run.
#[derive(Clone, Debug)]
pub enum SeenEntry {
    /// A message.
    Message(RunMessage),
    /// An effect.
    Effect(SeenEffect),
}

/// What is counted of a commit once it is done.
struct CommitTally {
    acks: u64,
    effects: u64,
    /// The topic that each message goes to.
    topics: Vec<Arc<str>>,
    /// The entities of which something is expected.
    expected: Vec<Expected>,
}

impl CommitTally {
    fn of(commit: &Commit, topics: Vec<Arc<str>>) -> Self {
        Self {
            acks: commit.acks.len() as u64,
            effects: commit.finishes.len() as u64,
            topics,
            expected: commit.expect.clone(),
        }
    }
}

/// What a commit weighs while it waits for its turn.
fn weight(commit: &Commit) -> usize {
    commit.messages.iter().map(|message| message.payload.bytes.len()).sum::<usize>()
        + commit.finishes.iter().map(|finish| finish.ending.bytes.len()).sum::<usize>()
        + commit.outputs.len() * size_of::<NewOutput>()
}

impl Broker {
    /// Does everything that a commit asks for, or none of it.
    pub async fn commit(&self, mut call: CommitCall<'_>) -> Result<Committed, Failure> {
        let mut reserved = Reserved::new();
        let (commit, topics) = self.prepare_commit(&mut call, &mut reserved).await?;
        let (bytes, tally) = (weight(&commit), CommitTally::of(&commit, topics));
        let answer = self
            .ask(bytes, true, |ticket| Input::Commit(CommitInput::One { ticket, commit: Box::new(commit) }))
            .await?;
        drop(reserved);
        match answer {
            Answer::Committed(done) => self.committed(tally, Ok(done)),
            Answer::CommitRefused(part, reject) => self.committed(tally, Err((part, reject))),
            other => Err(unexpected(&other)),
        }
    }

    /// Does several commits, in one question; each is done whole or not at all, and has its own answer, in order.
    pub async fn commit_many(
        &self,
        calls: Vec<CommitCall<'_>>,
    ) -> Result<Vec<Result<Committed, Failure>>, Failure> {
        let (mut reserved, mut commits, mut bytes) = (Reserved::new(), Vec::with_capacity(calls.len()), 0);
        let mut prepared = Vec::with_capacity(calls.len());
        for mut call in calls {
            match self.prepare_commit(&mut call, &mut reserved).await {
                Ok((commit, topics)) => {
                    prepared.push(Ok(CommitTally::of(&commit, topics)));
                    bytes += weight(&commit);
                    commits.push(commit);
                }
                Err(failure) => prepared.push(Err(failure)),
            }
        }
        let mut results = Vec::new();
        if !commits.is_empty() {
            match self.ask(bytes, true, |ticket| Input::Commit(CommitInput::Many { ticket, commits })).await?
            {
                Answer::CommittedMany(done) => results = done,
                other => return Err(unexpected(&other)),
            }
        }
        drop(reserved);
        let mut results = results.into_iter();
        let answers = prepared.into_iter().map(|prepared| {
            let interrupted = || Failure::Unavailable(INTERRUPTED.into());
            self.committed(prepared?, results.next().ok_or_else(interrupted)?)
        });
        Ok(answers.collect())
    }

    /// What became of one commit; counted.
    fn committed(
        &self,
        tally: CommitTally,
        result: Result<driftq_core::Committed, (CommitPart, Reject)>,
    ) -> Result<Committed, Failure> {
        let meters = &self.shared().meters;
        let done = result.map_err(|(part, reject)| {
            meters.commits_refused.one();
            Failure::Commit(part, Box::new(Failure::refused(reject, &tally.expected)))
        })?;
        if !done.already {
            meters.commits.one();
            meters.acked.add(tally.acks);
            meters.effects_finished.add(tally.effects);
        }
        let produced = tally.topics.into_iter().zip(done.stored);
        let produced = produced.map(|(name, stored)| self.placed(name, stored, done.already)).collect();
        Ok(Committed { already: done.already, produced, outputs: done.outputs, kept: done.kept })
    }

    /// Routes and encodes the messages of a commit; with the topics that they go to. What is `reserved` for them is given
    /// back when the call is over.
    async fn prepare_commit(
        &self,
        call: &mut CommitCall<'_>,
        reserved: &mut Reserved,
    ) -> Result<(Commit, Vec<Arc<str>>), Failure> {
        let refused = |place, failure| Failure::Commit(CommitPart::Produce(place), Box::new(failure));
        let mut kept: Vec<Option<Arc<Reservation>>> = Vec::with_capacity(call.messages.len());
        for (place, (topic, draft)) in call.messages.iter_mut().enumerate() {
            let mut reservation = None;
            if let Some(router) = self.router_for(topic) {
                for turn in self.route_all(router, topic, std::slice::from_mut(draft), reserved).await {
                    match turn {
                        Turn::Store(reserved) => reservation = reserved,
                        // Stored before: the shard will say so again.
                        Turn::Answered(Ok(_)) => {}
                        Turn::Answered(Err(failure)) => return Err(refused(place, failure)),
                    }
                }
            }
            kept.push(reservation);
        }
        let mut messages = Vec::with_capacity(call.messages.len());
        let mut topics = Vec::with_capacity(call.messages.len());
        {
            let catalog = read(&self.shared().catalog);
            for (place, (topic, draft)) in call.messages.iter().enumerate() {
                let (name, mut message) =
                    self.prepare(&catalog, topic, draft).map_err(|failure| refused(place, failure))?;
                crate::produce::take_reserved(&mut message, kept[place].as_deref());
                messages.push(message);
                topics.push(name);
            }
        }
        let commit = Commit {
            name: call.name,
            request: call.request,
            acks: std::mem::take(&mut call.acks),
            fences: std::mem::take(&mut call.fences),
            finishes: call.effects.iter().map(|(receipt, end)| finishing(*receipt, end)).collect(),
            messages,
            outputs: std::mem::take(&mut call.outputs),
            reads: std::mem::take(&mut call.reads),
            tenant: std::mem::take(&mut call.tenant),
            expect: std::mem::take(&mut call.expect),
        };
        Ok((commit, topics))
    }

    /// Where a message of a commit is; counted unless the commit was done before.
    fn placed(&self, name: Arc<str>, stored: driftq_core::Stored, already: bool) -> Produced {
        let topic = stored.topic.and_then(|topic| read(&self.shared().catalog).name(topic).cloned());
        let name = topic.unwrap_or(name);
        if already {
            let driftq_core::Stored { partition, offset, duplicate, .. } = stored;
            return Produced { topic: name, partition, offset, duplicate };
        }
        self.count(name, stored)
    }

    /// What a commit did; `None` if none of that name is remembered.
    pub async fn committed_as(&self, name: Identity) -> Result<Option<Committed>, Failure> {
        match self.describe(Query::Commit(name)).await? {
            Description::Commit(done) => Ok(done.map(|done| {
                let produced = done.stored.iter().map(|stored| self.placed(Arc::default(), *stored, true));
                Committed {
                    already: true,
                    produced: produced.collect(),
                    outputs: done.outputs,
                    kept: Vec::new(),
                }
            })),
            other => Err(unexpected(&other)),
        }
    }

    /// Shows readers of a dataset another version.
    pub async fn cut_over(
        &self,
        dataset: Named,
        version: &str,
        expect: Option<&str>,
    ) -> Result<CutOver, Failure> {
        let (version, expect) = (version.to_owned(), expect.map(str::to_owned));
        self.moved_over(|ticket| Input::Output(OutputInput::CutOver { ticket, dataset, version, expect }))
            .await
    }

    /// Shows readers of a dataset what they saw before the last cut-over.
    pub async fn roll_back(&self, dataset: Named, from: &str) -> Result<CutOver, Failure> {
        let from = from.to_owned();
        self.moved_over(|ticket| Input::Output(OutputInput::RollBack { ticket, dataset, from })).await
    }

    async fn moved_over(&self, input: impl FnOnce(driftq_core::Ticket) -> Input) -> Result<CutOver, Failure> {
        match self.ask(0, true, input).await? {
            Answer::CutOver { current, previous, changed } => Ok(CutOver { current, previous, changed }),
            other => Err(unexpected(&other)),
        }
    }

    /// Seals a version, whose pointers then no longer move; says whether that is new, and how many pointers it has.
    pub async fn seal_version(&self, dataset: Named, version: &str) -> Result<(bool, u64), Failure> {
        let version = version.to_owned();
        match self
            .ask(0, true, |ticket| Input::Output(OutputInput::Seal { ticket, dataset, version }))
            .await?
        {
            Answer::Sealed { changed, pointers } => Ok((changed, pointers)),
            other => Err(unexpected(&other)),
        }
    }

    /// Drops a version that readers do not see; says how many pointers it had.
    pub async fn drop_version(&self, dataset: Named, version: &str) -> Result<u64, Failure> {
        let version = version.to_owned();
        match self
            .ask(0, true, |ticket| Input::Output(OutputInput::Drop { ticket, dataset, version }))
            .await?
        {
            Answer::Removed(pointers) => Ok(pointers),
            other => Err(unexpected(&other)),
        }
    }

    /// Some datasets of a tenant by name, and whether there are more.
    pub async fn datasets(
        &self,
        tenant: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<DatasetSummary>, bool), Failure> {
        match self.describe(Query::Datasets(tenant.to_owned(), after.map(str::to_owned), limit)).await? {
            Description::Datasets(datasets, more) => Ok((datasets, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// One dataset and some of its versions.
    pub async fn dataset(&self, list: VersionsList) -> Result<DatasetView, Failure> {
        match self.describe(Query::Dataset(list)).await? {
            Description::Dataset(dataset) => dataset.ok_or(Failure::Reject(Reject::OutputUnknown)),
            other => Err(unexpected(&other)),
        }
    }

    /// Some outputs of a version.
    pub async fn outputs(&self, list: OutputList) -> Result<OutputPage, Failure> {
        match self.describe(Query::Outputs(list)).await? {
            Description::Outputs(page) => page.ok_or(Failure::Reject(Reject::OutputUnknown)),
            other => Err(unexpected(&other)),
        }
    }

    /// Some runs, newest first, and where to go on.
    pub async fn runs(&self, list: RunList) -> Result<(Vec<RunSummary>, Option<u64>), Failure> {
        match self.describe(Query::Runs(list)).await? {
            Description::Runs(runs, next) => Ok((runs, next)),
            other => Err(unexpected(&other)),
        }
    }

    /// A stretch of a run, beginning with its `from`th entry.
    pub async fn run(&self, id: Named, from: u64, limit: u32) -> Result<RunSight, Failure> {
        match self.describe(Query::Run(id, from, limit)).await? {
            Description::Run(None) => Err(Failure::Reject(Reject::RunUnknown)),
            Description::Run(Some(page)) => {
                let mut entries = Vec::with_capacity(page.entries.len());
                for entry in page.entries {
                    match entry {
                        RunEntry::Message(message) => entries.push(SeenEntry::Message(message)),
                        RunEntry::Effect(effect) => {
                            if let Ok(seen) = self.see_effect(effect).await {
                                entries.push(SeenEntry::Effect(seen));
                            }
                        }
                    }
                }
                Ok(RunSight { summary: page.summary, entries, next: page.next })
            }
            other => Err(unexpected(&other)),
        }
    }
}
