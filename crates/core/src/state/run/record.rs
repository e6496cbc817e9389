//! What is remembered of runs.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::words::id::{Spotted, Time, TopicId};
use crate::words::letter::AttemptDescription;
use crate::words::output::OutputAuthor;
use crate::words::run::{How, Lineage};
use crate::words::scoped::Scoped;

/// Messages and effects that are listed for one run; the rest is only counted.
pub(crate) const RUN_ENTRIES_MAX: usize = 10_000;

/// Versions of datasets that are remembered for one message.
pub(crate) const STEP_READS_MAX: usize = 100;

/// A message or an effect of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Message(TopicId, u64),
    Effect(u64),
}

/// A workflow run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Whose it is; may be empty.
    pub(crate) tenant: Arc<str>,
    pub(crate) id: Arc<str>,
    pub(crate) started: Time,
    /// The newest thing that happened in it.
    pub(crate) touched: Time,
    /// In the order in which they came; [`Run::dropped`] came before the first.
    pub(crate) entries: VecDeque<Entry>,
    /// Entries that were dropped from the front.
    pub(crate) dropped: u64,
    pub(crate) messages: u64,
    /// Messages that are still kept for some group.
    pub(crate) open: u64,
    pub(crate) effects: u64,
    pub(crate) dead: u64,
    /// Messages and effects that came when the list was full.
    pub(crate) unlisted: u64,
}

/// A message of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) run: u64,
    pub(crate) partition: u32,
    pub(crate) at: Time,
    pub(crate) step: Box<str>,
    pub(crate) parent: Box<str>,
    /// Whether it is still kept for some group.
    pub(crate) open: bool,
    /// Groups that are done with it.
    pub(crate) ended: Vec<Ended>,
    /// Versions of datasets that were read for it: dataset and version.
    pub(crate) reads: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Where its pointers lie that no other has replaced. Not in a snapshot: it is read off the pointers, each of which
    /// knows its author, and so there are never more of these than of those.
    pub(crate) writes: BTreeSet<Write>,
}

/// Where a message has put a pointer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Write {
    pub(crate) tenant: Arc<str>,
    pub(crate) dataset: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) partition_key: Arc<str>,
}

/// How a message ended for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) group: Arc<str>,
    pub(crate) at: Time,
    pub(crate) how: How,
    pub(crate) attempts: u32,
    pub(crate) leased: Time,
    pub(crate) history: Vec<AttemptDescription>,
}

/// All runs of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// The number that the newest run got; none is zero.
    pub(crate) last: u64,
    pub(crate) runs: BTreeMap<u64, Run>,
    /// Numbers by tenant and name.
    pub(crate) names: Scoped<u64>,
    pub(crate) steps: BTreeMap<(TopicId, u64), Step>,
    /// Entries of all runs.
    pub(crate) entries: u64,
}

impl Runs {
    pub(crate) fn named(&self, tenant: &str, id: &str) -> Option<(u64, &Run)> {
        let number = *self.names.get(tenant, id)?;
        Some((number, self.runs.get(&number)?))
    }

    /// The run of that name, made if it is new.
    fn enter(&mut self, tenant: &str, id: &str, at: Time) -> u64 {
        if let Some(&number) = self.names.get(tenant, id) {
            return number;
        }
        self.last += 1;
        let last = self.last;
        self.names.enter(tenant, id, || last);
        let run = Run {
            tenant: tenant.into(),
            id: id.into(),
            started: at,
            touched: at,
            entries: VecDeque::new(),
            dropped: 0,
            messages: 0,
            open: 0,
            effects: 0,
            dead: 0,
            unlisted: 0,
        };
        self.runs.insert(self.last, run);
        self.last
    }

    pub(crate) fn touch(&mut self, run: u64, at: Time) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.touched = run.touched.max(at);
        }
    }

    /// Lists an entry; false if the list is full.
    fn list(&mut self, number: u64, entry: Entry, at: Time) -> bool {
        self.touch(number, at);
        let Some(run) = self.runs.get_mut(&number) else { return false };
        if run.entries.len() >= RUN_ENTRIES_MAX {
            run.unlisted += 1;
            return false;
        }
        run.entries.push_back(entry);
        self.entries += 1;
        true
    }

    /// A message of a run was stored.
    pub(crate) fn note_message(&mut self, lineage: &Lineage<'_>, message: Spotted, at: Time) {
        let number = self.enter(lineage.tenant, lineage.run, at);
        let key = (message.topic, message.offset);
        let listed = self.list(number, Entry::Message(message.topic, message.offset), at);
        let Some(run) = self.runs.get_mut(&number) else { return };
        run.messages += 1;
        if !listed {
            return;
        }
        run.open += 1;
        let step = Step {
            run: number,
            partition: message.partition,
            at,
            step: lineage.step.into(),
            parent: lineage.parent.into(),
            open: true,
            ended: Vec::new(),
            reads: BTreeSet::new(),
            writes: BTreeSet::new(),
        };
        self.steps.insert(key, step);
    }

    /// An effect was begun: on behalf of a message of a run, or in a run that its caller names. Returns the run's
    /// number.
    pub(crate) fn note_effect(
        &mut self,
        message: Option<Spotted>,
        (tenant, run): (&str, &str),
        effect: u64,
        at: Time,
    ) -> u64 {
        let step = message.and_then(|message| self.steps.get(&(message.topic, message.offset)));
        let number = match step {
            Some(step) => step.run,
            None if run.is_empty() => return 0,
            None => self.enter(tenant, run, at),
        };
        self.list(number, Entry::Effect(effect), at);
        if let Some(run) = self.runs.get_mut(&number) {
            run.effects += 1;
        }
        number
    }

    /// The record of an effect is gone.
    pub(crate) fn forget_effect(&mut self, run: u64) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.effects = run.effects.saturating_sub(1);
        }
    }

    /// A group is done with a message.
    pub(crate) fn end_step(&mut self, topic: TopicId, offset: u64, ended: Ended) {
        let Some(step) = self.steps.get_mut(&(topic, offset)) else { return };
        if let Some(run) = self.runs.get_mut(&step.run) {
            run.touched = run.touched.max(ended.at);
            run.dead += u64::from(ended.how == How::Dead);
        }
        // A group that was sent back ends it again: the newest ending counts.
        step.ended.retain(|before| before.group != ended.group);
        step.ended.push(ended);
    }

    /// Versions of datasets were read for a message; beyond [`STEP_READS_MAX`] they are not listed.
    pub(crate) fn note_reads<'a>(
        &mut self,
        topic: TopicId,
        offset: u64,
        reads: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let Some(step) = self.steps.get_mut(&(topic, offset)) else { return };
        for (dataset, version) in reads {
            if step.reads.len() < STEP_READS_MAX {
                step.reads.insert((dataset.into(), version.into()));
            }
        }
    }

    /// The message of a step, if it is still listed, that moved a pointer.
    pub(crate) fn author(&mut self, by: Option<OutputAuthor>) -> Option<&mut Step> {
        let by = by.filter(|_| !self.steps.is_empty())?;
        self.steps.get_mut(&(by.topic, by.offset))
    }

    /// A message is not kept any more.
    pub(crate) fn close_step(&mut self, topic: TopicId, offset: u64) {
        // Nearly always: most messages belong to no run.
        if self.steps.is_empty() {
            return;
        }
        let Some(step) = self.steps.get_mut(&(topic, offset)) else { return };
        if step.open
            && let Some(run) = self.runs.get_mut(&step.run)
        {
            run.open -= 1;
        }
        step.open = false;
    }

    /// Drops entries of a run, the oldest first.
    pub(crate) fn forget(&mut self, number: u64, most: u32) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        for _ in 0..most {
            let Some(entry) = run.entries.pop_front() else { break };
            self.entries -= 1;
            run.dropped += 1;
            if let Entry::Message(topic, offset) = entry
                && let Some(step) = self.steps.remove(&(topic, offset))
            {
                run.open -= u64::from(step.open);
            }
        }
        if run.entries.is_empty()
            && let Some(run) = self.runs.remove(&number)
        {
            self.names.remove(&run.tenant, &run.id);
        }
    }
}
