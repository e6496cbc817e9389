//! Runs as operators see them.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::state::group::Pending;
use crate::state::run::record::{Ended, Entry, Run, Step};
use crate::state::slot::Lookup;
use crate::turn::Turn;
use crate::words::id::{Time, TopicId};
use crate::words::output::OutputAuthor;
use crate::words::run::{RunEntry, RunGroup, RunList, RunMessage, RunOutput, RunPage, RunState, RunSummary};
use crate::words::scoped::Named;

/// Pointers of one message that a description lists.
const STEP_OUTPUTS_SHOWN_MAX: usize = 100;

impl Turn {
    pub(crate) fn list_runs(&self, list: &RunList) -> (Vec<RunSummary>, Option<u64>) {
        let limit = list.limit as usize;
        let of_tenant = |run: &Run| list.tenant.as_deref().is_none_or(|tenant| *run.tenant == *tenant);
        let runs = self.journal.state.runs.runs.range(..list.before).rev();
        let is_early = |run: &Run| list.began_before.is_none_or(|time| run.started < time);
        let runs = runs.filter(|(_, run)| of_tenant(run) && is_early(run));
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
            if let Some(Lookup::Here(sequence)) = found {
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
            outputs: self.outputs_of(id, offset, step),
        }
    }

    /// The pointers that a message has moved. Each of them is where its author noted it, or the note would be gone.
    fn outputs_of(&self, topic: TopicId, offset: u64, step: &Step) -> Vec<RunOutput> {
        let outputs = &self.journal.state.outputs;
        let moved = step.writes.iter().take(STEP_OUTPUTS_SHOWN_MAX);
        let described = moved.filter_map(|write| {
            let cell = outputs.cell(&write.tenant, &write.dataset, &write.version, &write.partition_key)?;
            let own = |by: &OutputAuthor| (by.topic, by.offset) == (topic, offset);
            let pointers = cell.pointers().iter().filter(|pointer| pointer.by.as_ref().is_some_and(own));
            Some(RunOutput {
                tenant: Arc::clone(&write.tenant),
                dataset: Arc::clone(&write.dataset),
                version: Arc::clone(&write.version),
                partition_key: Arc::clone(&write.partition_key),
                at: pointers.map(|pointer| pointer.at).max()?,
            })
        });
        described.collect()
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
        leased,
        owner: None,
        wait: None,
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
        leased,
        owner: pending.filter(|_| on_loan).map(|pending| Arc::clone(&pending.owner)),
        wait: None,
        ended: None,
        history,
    }
}
