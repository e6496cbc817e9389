//! The shard's side of runs: endings are noted, and old runs are dropped.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::log::delivery::Place;
use crate::log::fact::Fact;
use crate::log::run::RunFact;
use crate::state::State;
use crate::state::group::HISTORY_MAX;
use crate::state::run::record::Ended;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, Spot};
use crate::words::action::Output;
use crate::words::codec::{CONTRADICTION, Malformed, Put, Take};
use crate::words::id::TopicId;
use crate::words::letter::{AttemptDescription, put_attempts, take_attempts};
use crate::words::output::Read;
use crate::words::run::How;

/// Endings noted in one batch have their histories up to this many bytes of facts: a call may end thousands of messages
/// with sixteen long errors each, and all of it has to fit into one frame of the log.
pub(crate) const HISTORIES_FACTS_BYTES_MAX: usize = 16 << 20;
/// Entries dropped by one fact: few enough that no other input waits noticeably.
const FORGOTTEN_PER_FACT_MAX: u32 = 256;

impl Turn {
    /// Notes how a message of a run ended for a group. Called while its delivery is still known.
    pub(crate) fn note_ending(&mut self, spot: Spot, how: How, out: &mut Output) {
        // Nearly always: most messages belong to no run.
        if self.journal.state.runs.steps.is_empty() {
            return;
        }
        let Some(offset) = self.offset_of(spot) else { return };
        if !self.journal.state.runs.steps.contains_key(&(spot.topic, offset)) {
            return;
        }
        // What a group has ended stays as it ended: a cancellation is for those that still owe it.
        let progress = self.members(spot).and_then(|group| group.progress.get(spot.partition as usize));
        if progress.is_none_or(|progress| progress.is_settled(spot.sequence)) {
            return;
        }
        let pending = self.pending(spot);
        let (attempts, leased) =
            pending.map_or((0, crate::words::id::Time(0)), |pending| (pending.attempts, pending.leased_at));
        let told = pending.filter(|_| out.facts.len() < HISTORIES_FACTS_BYTES_MAX);
        let history = told.map_or(&[][..], |pending| &pending.history);
        let history: Vec<_> = history.iter().map(AttemptDescription::borrowed).collect();
        let mut bytes = Vec::new();
        put_attempts(&mut bytes, &history);
        let place = Place { topic: spot.topic, group: spot.group, partition: spot.partition, offset };
        let fact = RunFact::StepEnded { place, at: self.now, how, attempts, leased, history: &bytes };
        // It rides with the fact that ends the message.
        self.journal.emit(Haste::Lazy, out, &Fact::Run(fact));
    }

    /// Notes which versions of datasets were read for a message of a run.
    pub(crate) fn note_reads(&mut self, topic: TopicId, offset: u64, reads: &[Read], out: &mut Output) {
        if reads.is_empty() || !self.journal.state.runs.steps.contains_key(&(topic, offset)) {
            return;
        }
        let mut bytes = Vec::new();
        for Read { dataset, version } in reads {
            bytes.put_text(dataset);
            bytes.put_text(version);
        }
        let fact = RunFact::Read { topic, offset, at: self.now, reads: &bytes };
        self.journal.emit(Haste::Urgent, out, &Fact::Run(fact));
    }

    /// Sets the timers of runs at the start of a run of the shard.
    pub(crate) fn schedule_runs(&mut self) {
        let runs: Vec<u64> = self.journal.state.runs.runs.keys().copied().collect();
        for run in runs {
            self.set_run_timer(run);
        }
    }

    /// A run may be new: it has a timer from now on.
    pub(crate) fn watch_run(&mut self, run: u64) {
        if run > self.runs_watched {
            self.runs_watched = run;
            self.set_run_timer(run);
        }
    }

    fn set_run_timer(&mut self, number: u64) {
        self.runs_watched = self.runs_watched.max(number);
        if let Some(run) = self.journal.state.runs.runs.get(&number) {
            let at = run.touched.after_ms(self.settings.run_ttl_ms).max(self.now);
            self.timers.set(at, Due::RunOld(number));
        }
    }

    /// A run may have been quiet for long enough.
    pub(crate) fn on_run_old(&mut self, number: u64, out: &mut Output) {
        let Some(run) = self.journal.state.runs.runs.get(&number) else { return };
        if run.touched.after_ms(self.settings.run_ttl_ms) <= self.now {
            self.forget_run(number, out);
        }
        self.set_run_timer(number);
    }

    fn forget_run(&mut self, run: u64, out: &mut Output) {
        let fact = RunFact::Forgotten { run, most: FORGOTTEN_PER_FACT_MAX };
        self.journal.emit(Haste::Lazy, out, &Fact::Run(fact));
    }

    /// Makes room for another entry, at the cost of the oldest run.
    pub(crate) fn make_room_in_runs(&mut self, out: &mut Output) {
        let runs = &self.journal.state.runs;
        if runs.entries >= self.settings.run_entries_max
            && let Some(&oldest) = runs.runs.keys().next()
        {
            self.forget_run(oldest, out);
        }
    }
}

impl State {
    pub(crate) fn on_run(&mut self, fact: &RunFact<'_>) -> Result<(), Malformed> {
        match *fact {
            RunFact::StepEnded { place, at, how, attempts, leased, history } => {
                let topic = self.topic(place.topic).ok_or(CONTRADICTION)?;
                let group = Arc::clone(&topic.groups.get(&place.group).ok_or(CONTRADICTION)?.name);
                let mut take = Take::new(history, "attempts of a step");
                let history = take_attempts(&mut take)?;
                take.done()?;
                if history.len() > HISTORY_MAX {
                    return Err(CONTRADICTION);
                }
                let history = history.iter().map(AttemptDescription::owned).collect();
                let ended = Ended { group, at, how, attempts, leased, history };
                self.runs.end_step(place.topic, place.offset, ended);
            }
            RunFact::Read { topic, offset, at, reads } => {
                let mut take = Take::new(reads, "versions that were read");
                let mut read = Vec::new();
                while take.remaining() > 0 {
                    read.push((take.text()?, take.text()?));
                }
                self.runs.note_reads(topic, offset, read.into_iter());
                let run = self.runs.steps.get(&(topic, offset)).map_or(0, |step| step.run);
                self.runs.touch(run, at);
            }
            RunFact::Forgotten { run, most } => self.runs.forget(run, most),
        }
        Ok(())
    }
}
