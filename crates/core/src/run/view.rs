//! Runs as people see them.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::effect::EffectView;
use crate::run::fact::How;
use crate::run::record::{Ended, Entry, Run, Step};
use crate::state::group::Pending;
use crate::state::slot::Found;
use crate::turn::Turn;
use crate::words::description::AttemptDescription;
use crate::words::id::{Time, TopicId};
use crate::words::scoped::Named;

/// Which runs are wanted, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunList {
    /// Only those of this tenant; the empty one is one, too.
    pub tenant: Option<String>,
    /// Only runs with a smaller number.
    pub before: u64,
    /// How many at the most.
    pub limit: u32,
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Its number.
    pub number: u64,
    /// Whose it is; may be empty.
    pub tenant: Arc<str>,
    /// Its name.
    pub id: Arc<str>,
    /// When the first thing happened in it.
    pub started: Time,
    /// When the newest thing happened in it.
    pub touched: Time,
    /// Messages that belong to it.
    pub messages: u64,
    /// Those of them that are still kept for some group.
    pub open: u64,
    /// Effects that belong to it and are remembered.
    pub effects: u64,
    /// Dead letters that came of its messages.
    pub dead: u64,
    /// Messages and effects that are not listed: the list was full, or they were dropped for newer ones.
    pub unlisted: u64,
}

/// A stretch of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The run.
    pub summary: RunSummary,
    /// What belongs to it, in the order in which it came.
    pub entries: Vec<RunEntry>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// A message or an effect of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEntry {
    /// A message.
    Message(RunMessage),
    /// An effect.
    Effect(EffectView),
}

/// A message of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMessage {
    /// Its topic; empty if that is gone.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// When it was stored.
    pub at: Time,
    /// Its step; may be empty.
    pub step: String,
    /// The step that caused it; may be empty.
    pub parent: String,
    /// How each group stands to it.
    pub groups: Vec<RunGroup>,
    /// Versions of datasets that were read for it: dataset and version.
    pub reads: Vec<(Arc<str>, Arc<str>)>,
}

/// How a message of a run stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It waits for its first delivery, or for its turn.
    Waiting,
    /// It is on loan.
    Running,
    /// An attempt failed, and there will be another one.
    Retrying,
    /// It ended.
    Ended(How),
    /// It is gone, and the group had not ended it.
    Removed,
}

/// How a group stands to a message of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunGroup {
    /// The group's name; empty if no group has seen the message.
    pub group: Arc<str>,
    /// How it stands.
    pub state: RunState,
    /// Deliveries so far.
    pub attempts: u32,
    /// When the first of them began, as far as it is remembered.
    pub first_leased: Option<Time>,
    /// When the group was through with it.
    pub ended: Option<Time>,
    /// Attempts that failed, the last few.
    pub history: Vec<AttemptDescription>,
}

impl Turn {
    pub(crate) fn list_runs(&self, list: &RunList) -> (Vec<RunSummary>, Option<u64>) {
        let limit = list.limit as usize;
        let of_tenant = |run: &Run| list.tenant.as_deref().is_none_or(|tenant| *run.tenant == *tenant);
        let runs = self.journal.state.runs.runs.range(..list.before).rev();
        let runs = runs.filter(|(_, run)| of_tenant(run));
        let mut found: Vec<_> = runs.take(limit + 1).map(|(number, run)| summary(*number, run)).collect();
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|run| run.number);
        (found, next)
    }

    /// A stretch of a run, beginning with its `from`th entry.
    pub(crate) fn describe_run(&self, id: &Named, from: u64, limit: u32) -> Option<RunPage> {
        let (number, run) = self.journal.state.runs.named(&id.tenant, &id.name)?;
        let skip = usize::try_from(from.saturating_sub(run.dropped)).unwrap_or(usize::MAX);
        let range = skip.min(run.entries.len())..;
        let entries: Vec<_> = run.entries.range(range).take(limit as usize).copied().collect();
        let last = run.dropped.max(from) + entries.len() as u64;
        let next = (last < run.dropped + run.entries.len() as u64).then_some(last);
        let entries = entries.into_iter().filter_map(|entry| self.describe_entry(entry)).collect();
        Some(RunPage { summary: summary(number, run), entries, next })
    }

    fn describe_entry(&self, entry: Entry) -> Option<RunEntry> {
        let state = &self.journal.state;
        match entry {
            Entry::Message(topic, offset) => {
                let step = state.runs.steps.get(&(topic, offset))?;
                Some(RunEntry::Message(self.describe_step(topic, offset, step)))
            }
            Entry::Effect(number) => {
                let effect = &state.effects.get(number)?;
                Some(RunEntry::Effect(self.view_effect(number, effect)))
            }
        }
    }

    fn describe_step(&self, id: TopicId, offset: u64, step: &Step) -> RunMessage {
        let topic = self.journal.state.topic(id);
        let mut groups: Vec<RunGroup> = step.ended.iter().map(ended_group).collect();
        if let Some(topic) = topic.filter(|_| step.open) {
            let lane = topic.partitions.get(step.partition as usize);
            let found = lane.map(|lane| lane.slots.find(offset));
            if let Some(Found::Here(sequence)) = found {
                let owing = topic.groups.values().filter(|group| {
                    group
                        .progress
                        .get(step.partition as usize)
                        .is_some_and(|progress| !progress.is_settled(sequence))
                });
                for group in owing {
                    // It was sent back, and owes again what it had ended.
                    groups.retain(|ended| ended.group != group.name);
                    let pending = group.progress[step.partition as usize].pending.get(&sequence);
                    groups.push(owing_group(Arc::clone(&group.name), pending));
                }
            }
        }
        if groups.is_empty() {
            let state = if step.open { RunState::Waiting } else { RunState::Removed };
            groups.push(RunGroup { state, ..owing_group(Arc::default(), None) });
        }
        RunMessage {
            topic: topic.map_or_else(Arc::default, |topic| Arc::clone(&topic.name)),
            partition: step.partition,
            offset,
            at: step.at,
            step: step.step.to_string(),
            parent: step.parent.to_string(),
            groups,
            reads: step.reads.iter().cloned().collect(),
        }
    }
}

fn summary(number: u64, run: &Run) -> RunSummary {
    RunSummary {
        number,
        tenant: Arc::clone(&run.tenant),
        id: Arc::clone(&run.id),
        started: run.started,
        touched: run.touched,
        messages: run.messages,
        open: run.open,
        effects: run.effects,
        dead: run.dead,
        unlisted: run.unlisted + run.dropped,
    }
}

fn ended_group(ended: &Ended) -> RunGroup {
    let leased = Some(ended.leased).filter(|leased| *leased > Time(0));
    RunGroup {
        group: Arc::clone(&ended.group),
        state: RunState::Ended(ended.how),
        attempts: ended.attempts,
        first_leased: ended.history.first().map(|attempt| attempt.leased).or(leased),
        ended: Some(ended.at),
        history: ended.history.clone(),
    }
}

fn owing_group(group: Arc<str>, pending: Option<&Pending>) -> RunGroup {
    let history = pending.map(|pending| pending.history.clone()).unwrap_or_default();
    let leased = pending.map(|pending| pending.leased_at).filter(|leased| *leased > Time(0));
    let on_loan = pending.is_some_and(|pending| pending.lease.is_some());
    let attempts = pending.map_or(0, |pending| pending.attempts);
    RunGroup {
        group,
        state: match (on_loan, attempts) {
            (true, _) => RunState::Running,
            (false, 0) => RunState::Waiting,
            (false, _) => RunState::Retrying,
        },
        attempts,
        first_leased: history.first().map(|attempt| attempt.leased).or(leased),
        ended: None,
        history,
    }
}
