//! Runs: what belongs to one, whichever shards it has been through.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use driftq_core::{
    Description, Named, Query, Reject, RunEntry, RunList, RunMessage, RunPage, RunSummary, Time,
};

use crate::broker::{Broker, unexpected};
use crate::effect_request::SeenEffect;
use crate::effects::see_effect;
use crate::failure::Failure;
use crate::shared::Shared;

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

impl SeenEntry {
    /// When it began.
    const fn at(&self) -> Time {
        match self {
            Self::Message(message) => message.at,
            Self::Effect(effect) => effect.view.created,
        }
    }
}

impl Broker {
    /// Some runs, newest first, and where to go on.
    pub async fn runs(&self, list: RunList) -> Result<(Vec<RunSummary>, Option<u64>), Failure> {
        if let [only] = self.shards() {
            return runs_in(only, list).await;
        }
        self.runs_of_all(list).await
    }

    /// The runs of all shards, by when they began in the first of them. Each shard numbers the runs that it knows of, so
    /// the place in the list is a time.
    async fn runs_of_all(&self, list: RunList) -> Result<(Vec<RunSummary>, Option<u64>), Failure> {
        let began_before = (list.before < u64::MAX).then_some(Time(list.before));
        let (mut names, mut cut) = (BTreeSet::new(), None);
        for shard in self.shards() {
            let list = RunList { before: u64::MAX, began_before, ..list.clone() };
            let (runs, next) = runs_in(shard, list).await?;
            // What began earlier is not all known here: it is for the next page.
            cut = cut.max(runs.last().filter(|_| next.is_some()).map(|last| last.started));
            names.extend(runs.iter().map(|run| Named::of(&*run.tenant, &*run.id)));
        }
        let mut runs = Vec::with_capacity(names.len());
        for name in names {
            let whole = self.run_in_numbers(&name).await?;
            runs.extend(whole.filter(|run| cut.is_none_or(|cut| run.started >= cut)));
        }
        // Of those that began together, the one with the higher number in its first shard.
        runs.sort_by_key(|run| Reverse((run.started, run.number)));
        if let Some(last) = runs.get((list.limit as usize).saturating_sub(1)).map(|run| run.started) {
            // All that began at the same moment: the next page begins before it.
            runs.retain(|run| run.started >= last);
            cut = cut.max(Some(last));
        }
        Ok((runs, cut.map(|cut| cut.0)))
    }

    /// A run in numbers, those of all shards together.
    async fn run_in_numbers(&self, name: &Named) -> Result<Option<RunSummary>, Failure> {
        let mut whole: Option<RunSummary> = None;
        for shard in self.shards() {
            if let Some(page) = run_in(shard, name.clone(), 0, 0).await? {
                whole = Some(match whole {
                    None => page.summary,
                    Some(whole) => together(whole, &page.summary),
                });
            }
        }
        Ok(whole)
    }

    /// A stretch of a run, beginning with its `from`th entry. If there are several shards, those of one come after those
    /// of another, and the first byte of `from` says of which.
    pub async fn run(&self, id: Named, from: u64, limit: u32) -> Result<RunSight, Failure> {
        let summary = self.run_in_numbers(&id).await?.ok_or(Failure::Reject(Reject::RunUnknown))?;
        let mut sight = RunSight { summary, entries: Vec::new(), next: None };
        let first = usize::try_from(from >> ENTRY_BITS).unwrap_or(usize::MAX);
        for shard in self.shards().iter().skip(first) {
            let from = if usize::from(shard.id.0) == first { from & ENTRY_MASK } else { 0 };
            let room = (limit as usize).saturating_sub(sight.entries.len());
            let tag = u64::from(shard.id.0) << ENTRY_BITS;
            if room == 0 {
                sight.next = Some(tag);
                break;
            }
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            let Some(page) = run_in(shard, id.clone(), from, room).await? else { continue };
            for entry in page.entries {
                match entry {
                    RunEntry::Message(message) => sight.entries.push(SeenEntry::Message(message)),
                    RunEntry::Effect(effect) => {
                        if let Ok(seen) = see_effect(shard, effect).await {
                            sight.entries.push(SeenEntry::Effect(seen));
                        }
                    }
                }
            }
            if let Some(next) = page.next {
                sight.next = Some(tag | next);
                break;
            }
        }
        if self.shard_count() > 1 {
            sight.entries.sort_by_key(SeenEntry::at);
        }
        Ok(sight)
    }
}

/// Entries of a run are counted in each shard; the bits above say in which.
const ENTRY_BITS: u32 = 56;
const ENTRY_MASK: u64 = (1 << ENTRY_BITS) - 1;

async fn runs_in(shard: &Shared, list: RunList) -> Result<(Vec<RunSummary>, Option<u64>), Failure> {
    match shard.describe(Query::Runs(list)).await? {
        Description::Runs(runs, next) => Ok((runs, next)),
        other => Err(unexpected(&other)),
    }
}

async fn run_in(shard: &Shared, id: Named, from: u64, limit: u32) -> Result<Option<RunPage>, Failure> {
    match shard.describe(Query::Run(id, from, limit)).await? {
        Description::Run(page) => Ok(page),
        other => Err(unexpected(&other)),
    }
}

/// What happened of a run in two shards.
fn together(one: RunSummary, other: &RunSummary) -> RunSummary {
    RunSummary {
        started: one.started.min(other.started),
        touched: one.touched.max(other.touched),
        messages: one.messages + other.messages,
        open: one.open + other.open,
        effects: one.effects + other.effects,
        dead: one.dead + other.dead,
        unlisted: one.unlisted + other.unlisted,
        ..one
    }
}
