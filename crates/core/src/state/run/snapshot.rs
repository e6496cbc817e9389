//! Runs as bytes, and back.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::state::group::HISTORY_MAX;
use crate::state::run::record::{Ended, Entry, RUN_ENTRIES_MAX, Run, Runs, STEP_READS_MAX, Step};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Time, TopicId};
use crate::words::letter::{AttemptDescription, put_attempts, take_attempts};
use crate::words::run::How;

impl Runs {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.last);
        out.put_length(self.runs.len());
        for (number, run) in &self.runs {
            out.put_u64(*number);
            out.put_text(&run.tenant);
            out.put_text(&run.id);
            for long in [
                run.started.0,
                run.touched.0,
                run.dropped,
                run.messages,
                run.open,
                run.effects,
                run.dead,
                run.unlisted,
            ] {
                out.put_u64(long);
            }
            out.put_length(run.entries.len());
            for entry in &run.entries {
                match entry {
                    Entry::Message(topic, offset) => {
                        out.put_u32(topic.0);
                        out.put_u64(*offset);
                    }
                    Entry::Effect(number) => {
                        out.put_u32(u32::MAX);
                        out.put_u64(*number);
                    }
                }
            }
        }
        out.put_length(self.steps.len());
        for ((topic, offset), step) in &self.steps {
            out.put_u32(topic.0);
            out.put_u64(*offset);
            put_step(out, step);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>, snapshot: u32) -> Result<Self, Malformed> {
        let mut runs = Self { last: take.u64()?, ..Self::default() };
        for _ in 0..take.count(80)? {
            let number = take.u64()?;
            let run = take_run(take, snapshot)?;
            let rises = runs.runs.last_key_value().is_none_or(|(last, _)| *last < number);
            let known = runs.names.get(&run.tenant, &run.id).is_some();
            runs.names.enter(&run.tenant, &run.id, || number);
            if !rises || known || number == 0 || number > runs.last || runs.last > u64::MAX / 4 {
                return Err(take.malformed());
            }
            runs.entries += run.entries.len() as u64;
            runs.runs.insert(number, run);
        }
        for _ in 0..take.count(45)? {
            let key = (TopicId(take.u32()?), take.u64()?);
            let step = take_step(take, snapshot)?;
            let known = runs.runs.contains_key(&step.run);
            if !known || runs.steps.insert(key, step).is_some() {
                return Err(take.malformed());
            }
        }
        // Every message is listed once, by its own run, and one that is kept is counted by it: else the count would go
        // below nothing one day.
        let mut listed = BTreeSet::new();
        for (number, run) in &runs.runs {
            for entry in &run.entries {
                if let Entry::Message(topic, offset) = *entry {
                    let own = runs.steps.get(&(topic, offset)).is_some_and(|step| step.run == *number);
                    if !own || !listed.insert((topic, offset)) {
                        return Err(take.malformed());
                    }
                }
            }
        }
        if listed.len() != runs.steps.len() {
            return Err(take.malformed());
        }
        let mut open = alloc::collections::BTreeMap::<u64, u64>::new();
        for step in runs.steps.values().filter(|step| step.open) {
            *open.entry(step.run).or_default() += 1;
        }
        if runs.runs.iter().any(|(number, run)| open.get(number).copied().unwrap_or(0) != run.open) {
            return Err(take.malformed());
        }
        Ok(runs)
    }
}

fn take_run(take: &mut Take<'_>, snapshot: u32) -> Result<Run, Malformed> {
    let mut run = Run {
        // Before, no run belonged to a tenant.
        tenant: if snapshot > 3 { take.shared()? } else { Arc::default() },
        id: take.shared()?,
        started: Time(take.u64()?),
        touched: Time(take.u64()?),
        dropped: take.u64()?,
        messages: take.u64()?,
        open: take.u64()?,
        effects: take.u64()?,
        dead: take.u64()?,
        unlisted: take.u64()?,
        entries: alloc::collections::VecDeque::new(),
    };
    let counted = [run.dropped, run.messages, run.effects, run.dead, run.unlisted];
    let count = take.count(12)?;
    if count > RUN_ENTRIES_MAX || counted.iter().any(|count| *count > u64::MAX / 2) {
        return Err(take.malformed());
    }
    for _ in 0..count {
        let (topic, number) = (take.u32()?, take.u64()?);
        let entry =
            if topic == u32::MAX { Entry::Effect(number) } else { Entry::Message(TopicId(topic), number) };
        run.entries.push_back(entry);
    }
    Ok(run)
}

fn put_step(out: &mut Vec<u8>, step: &Step) {
    out.put_u64(step.run);
    out.put_u32(step.partition);
    out.put_u64(step.at.0);
    out.put_u8(u8::from(step.open));
    out.put_text(&step.step);
    out.put_text(&step.parent);
    out.put_length(step.ended.len());
    for ended in &step.ended {
        out.put_text(&ended.group);
        out.put_u64(ended.at.0);
        out.put_u8(ended.how.byte());
        out.put_u32(ended.attempts);
        out.put_u64(ended.leased.0);
        let history: Vec<_> = ended.history.iter().map(AttemptDescription::borrowed).collect();
        put_attempts(out, &history);
    }
    out.put_length(step.reads.len());
    for (dataset, version) in &step.reads {
        out.put_text(dataset);
        out.put_text(version);
    }
}

fn take_step(take: &mut Take<'_>, snapshot: u32) -> Result<Step, Malformed> {
    let mut step = Step {
        run: take.u64()?,
        partition: take.u32()?,
        at: Time(take.u64()?),
        open: take.u8()? != 0,
        step: take.text()?.into(),
        parent: take.text()?.into(),
        ended: Vec::new(),
        reads: BTreeSet::new(),
        writes: BTreeSet::new(),
    };
    for _ in 0..take.count(29)? {
        let mut ended = Ended {
            group: take.shared()?,
            at: Time(take.u64()?),
            how: How::take(take)?,
            attempts: take.u32()?,
            leased: Time(take.u64()?),
            history: Vec::new(),
        };
        let history = take_attempts(take)?;
        if history.len() > HISTORY_MAX {
            return Err(take.malformed());
        }
        ended.history = history.iter().map(AttemptDescription::owned).collect();
        step.ended.push(ended);
    }
    for _ in 0..if snapshot > 3 { take.count(8)? } else { 0 } {
        step.reads.insert((take.shared()?, take.shared()?));
    }
    if step.reads.len() > STEP_READS_MAX {
        return Err(take.malformed());
    }
    Ok(step)
}
