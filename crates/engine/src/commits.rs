//! Commits and outputs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use driftq_core::{
    Answer, Commit, CommitInput, CommitPart, CommitResult, DatasetSummary, DatasetView, Description,
    Expected, Identity, Input, Named, NewOutput, OutputDone, OutputInput, OutputList, OutputPage, Query,
    Read, Receipt, Reject, ShardId, VersionsList,
};

use futures_util::future::join_all;

use crate::broker::{Broker, INTERRUPTED, unexpected};
use crate::effect_request::EffectEnd;
use crate::effects::finishing;
use crate::failure::Failure;
use crate::house::HOME;
use crate::locks::read;
use crate::request::{Draft, Produced};
use crate::routing::{Reservation, Reserved, Turn};
use crate::shared::Shared;

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

/// What is counted of a commit once it is done.
struct CommitTally {
    acks: u64,
    effects: u64,
    /// The topic that each message goes to.
    topics: Vec<Arc<str>>,
    /// The entities of which something is expected.
    expected: Vec<Expected>,
}

/// Commits that one shard is asked for together, and their places in the call.
#[derive(Default)]
struct Together {
    tallies: Vec<(usize, CommitTally)>,
    commits: Vec<Commit>,
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

/// Has one shard do a commit, all of which is there.
pub(crate) async fn commit_in(shard: &Shared, commit: Commit) -> Result<CommitResult, Failure> {
    let (bytes, commit) = (weight(&commit), Box::new(commit));
    let input = |ticket| Input::Commit(CommitInput::One { ticket, commit });
    decided(shard.ask(bytes, true, input).await?)
}

/// What a shard says about a commit, or about the question whether it could be done.
pub(crate) fn decided(answer: Answer) -> Result<CommitResult, Failure> {
    match answer {
        Answer::Committed(done) => Ok(Ok(done)),
        Answer::CommitRefused(part, reject) => Ok(Err((part, reject))),
        other => Err(unexpected(&other)),
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
        let (seat, tally) = (commit.seat(), CommitTally::of(&commit, topics));
        let result = if self.is_whole_in(seat, &commit) {
            commit_in(self.shard(seat), commit.localized()).await?
        } else {
            Box::pin(self.commit_across(commit)).await?
        };
        drop(reserved);
        self.committed(tally, result)
    }

    /// Does several commits, in one question to each shard; each is done whole or not at all, and has its own answer, in
    /// order.
    pub async fn commit_many(
        &self,
        calls: Vec<CommitCall<'_>>,
    ) -> Result<Vec<Result<Committed, Failure>>, Failure> {
        let (mut reserved, mut answers) = (Reserved::new(), Vec::with_capacity(calls.len()));
        let mut of_shards: BTreeMap<ShardId, Together> = BTreeMap::new();
        let mut across = Vec::new();
        for (place, mut call) in calls.into_iter().enumerate() {
            let interrupted = Failure::Unavailable(INTERRUPTED.into());
            answers.push(Err(interrupted));
            let (commit, topics) = match self.prepare_commit(&mut call, &mut reserved).await {
                Ok(prepared) => prepared,
                Err(failure) => {
                    answers[place] = Err(failure);
                    continue;
                }
            };
            let (seat, tally) = (commit.seat(), CommitTally::of(&commit, topics));
            if self.is_whole_in(seat, &commit) {
                let together = of_shards.entry(seat).or_default();
                together.tallies.push((place, tally));
                together.commits.push(commit.localized());
            } else {
                across.push(async move { (place, tally, self.commit_across(commit).await) });
            }
        }
        // All at once: each of them waits for several logs.
        for (place, tally, done) in join_all(across).await {
            answers[place] = done.and_then(|done| self.committed(tally, done));
        }
        for (shard, Together { tallies, commits }) in of_shards {
            let bytes = commits.iter().map(weight).sum();
            let input = |ticket| Input::Commit(CommitInput::Many { ticket, commits });
            let results = match self.shard(shard).ask(bytes, true, input).await? {
                Answer::CommittedMany(results) => results,
                other => return Err(unexpected(&other)),
            };
            for ((place, tally), result) in tallies.into_iter().zip(results) {
                answers[place] = self.committed(tally, result);
            }
        }
        drop(reserved);
        Ok(answers)
    }

    /// What became of one commit; counted.
    fn committed(&self, tally: CommitTally, result: CommitResult) -> Result<Committed, Failure> {
        let meters = &self.home().meters;
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
            let catalog = read(&self.house().catalog);
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
            name_ttl_ms: None,
            vouched: None,
        };
        Ok((commit, topics))
    }

    /// Where a message of a commit is; counted unless the commit was done before.
    fn placed(&self, name: Arc<str>, stored: driftq_core::Stored, already: bool) -> Produced {
        let topic = stored.topic.and_then(|topic| read(&self.house().catalog).name(topic).cloned());
        let name = topic.unwrap_or(name);
        if already {
            let driftq_core::Stored { partition, offset, duplicate, .. } = stored;
            return Produced { topic: name, partition, offset, duplicate };
        }
        self.count(name, stored)
    }

    /// What a commit did; `None` if none of that name is remembered.
    pub async fn committed_as(&self, name: Identity) -> Result<Option<Committed>, Failure> {
        for shard in self.shards() {
            let done = match shard.describe(Query::Commit(name)).await? {
                Description::Commit(done) => done,
                other => return Err(unexpected(&other)),
            };
            if let Some(mut done) = done {
                if done.outputs.is_empty() && shard.id != HOME {
                    done.outputs = self.outputs_of_share(name).await?;
                }
                let produced = done.stored.iter().map(|stored| self.placed(Arc::default(), *stored, true));
                return Ok(Some(Committed {
                    already: true,
                    produced: produced.collect(),
                    outputs: done.outputs,
                    kept: Vec::new(),
                }));
            }
        }
        Ok(None)
    }

    /// What became of the outputs of a commit that another shard than theirs has decided.
    async fn outputs_of_share(&self, name: Identity) -> Result<Vec<OutputDone>, Failure> {
        match self.home().describe(Query::Commit(name.of_share(HOME))).await? {
            Description::Commit(done) => Ok(done.map(|done| done.outputs).unwrap_or_default()),
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
        match self.home().ask(0, true, input).await? {
            Answer::CutOver { current, previous, changed } => Ok(CutOver { current, previous, changed }),
            other => Err(unexpected(&other)),
        }
    }

    /// Seals a version, whose pointers then no longer move; says whether that is new, and how many pointers it has.
    pub async fn seal_version(&self, dataset: Named, version: &str) -> Result<(bool, u64), Failure> {
        let version = version.to_owned();
        match self
            .home()
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
            .home()
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
        match self
            .home()
            .describe(Query::Datasets(tenant.to_owned(), after.map(str::to_owned), limit))
            .await?
        {
            Description::Datasets(datasets, more) => Ok((datasets, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// One dataset and some of its versions.
    pub async fn dataset(&self, list: VersionsList) -> Result<DatasetView, Failure> {
        match self.home().describe(Query::Dataset(list)).await? {
            Description::Dataset(dataset) => dataset.ok_or(Failure::Reject(Reject::OutputUnknown)),
            other => Err(unexpected(&other)),
        }
    }

    /// Some outputs of a version.
    pub async fn outputs(&self, list: OutputList) -> Result<OutputPage, Failure> {
        match self.home().describe(Query::Outputs(list)).await? {
            Description::Outputs(page) => {
                let mut page = page.ok_or(Failure::Reject(Reject::OutputUnknown))?;
                let catalog = read(&self.house().catalog);
                for output in &mut page.outputs {
                    let author = output.author.filter(|_| output.by.is_none());
                    let named = author.and_then(|by| Some((Arc::clone(catalog.name(by.topic)?), by)));
                    output.by = output
                        .by
                        .take()
                        .or_else(|| named.map(|(topic, by)| (topic, by.partition, by.offset, by.attempt)));
                }
                drop(catalog);
                Ok(page)
            }
            other => Err(unexpected(&other)),
        }
    }
}
