//! The fenced commit: acks, outcomes of effects, messages and output pointers, all or nothing.
//!
//! All of it is looked at first; nothing is written unless everything will be. What is written goes into one batch of
//! the log, which is whole or never happened.

pub(crate) mod across;
pub(crate) mod check;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::effect::desk::EffectDesk;
use crate::log::commit::{CommitFact, Results};
use crate::log::fact::Fact;
use crate::log::output::OutputFact;
use crate::outbox::desk::{OutboxDesk, Seat};
use crate::turn::Turn;
use crate::turn::journal::{Haste, lifetime};
use crate::turn::timer::{Due, FORGET_SLACK_MS};
use crate::words::action::{Action, Answer, Output};
use crate::words::commit::{
    COMMIT_PARTS_PER_CALL_MAX, COMMITS_PER_CALL_MAX, Commit, CommitInput, CommitPart, Committed, Refusal,
};
use crate::words::draft::NewMessage;
use crate::words::id::{GroupId, Identity, Ticket, Time};
use crate::words::output::{NewOutput, OutputAuthor, OutputDone};
use crate::words::receipt::Stored;
use crate::words::reject::{Overload, Reject};

/// Commits forgotten by one fact.
const FORGOTTEN_PER_FACT_MAX: u32 = 256;

/// Commits at work: the one place that may touch deliveries and effects together.
pub(crate) struct Committing<'a> {
    pub(crate) turn: &'a mut Turn,
    pub(crate) deliveries: &'a mut Deliveries,
    pub(crate) effects: &'a mut EffectDesk,
    pub(crate) outbox: &'a mut OutboxDesk,
}

/// What commits leave to others.
#[derive(Default)]
struct Aftermath {
    /// Effects that ended.
    ended: Vec<u64>,
    /// Groups that settled something.
    groups: BTreeSet<GroupId>,
    /// Parcels that are on their way, and where the answer is to say where their messages lie.
    away: Vec<(u64, Seat)>,
}

impl Aftermath {
    /// The answer waits for the parcels of the commit in this place.
    fn wait_for(&mut self, commit: usize, away: &BTreeMap<u64, usize>) {
        self.away.extend(away.iter().map(|(number, message)| (*number, (commit, *message))));
    }
}

impl Committing<'_> {
    pub(crate) fn handle(&mut self, input: CommitInput, out: &mut Output) {
        match input {
            CommitInput::One { ticket, commit } => self.handle_commit(ticket, &commit, out),
            CommitInput::Check { ticket, commit } => self.handle_check(ticket, &commit, out),
            CommitInput::Many { ticket, commits } => self.handle_commits(ticket, &commits, out),
        }
    }

    fn handle_commit(&mut self, ticket: Ticket, commit: &Commit, out: &mut Output) {
        let mut after = Aftermath::default();
        let result = self.commit((0, commit), &mut after, out);
        self.answer(ticket, result, &after.away, out);
        self.follow(after, out);
    }

    /// Looks at everything, as for a commit, and does nothing.
    fn handle_check(&mut self, ticket: Ticket, commit: &Commit, out: &mut Output) {
        let mut after = Aftermath::default();
        let before = self.done_before((0, commit), &mut after).transpose();
        let checked = || {
            let plan = self.check_commit(commit)?;
            Ok(Committed { ends: !plan.finishes.is_empty(), ..Committed::default() })
        };
        let result = before.unwrap_or_else(checked);
        self.answer(ticket, result, &after.away, out);
    }

    /// Says what a commit did, once that is durable and its messages have arrived where they go.
    fn answer(
        &mut self,
        ticket: Ticket,
        result: Result<Committed, Refusal>,
        away: &[(u64, Seat)],
        out: &mut Output,
    ) {
        match result {
            Ok(done) if !away.is_empty() => self.outbox.wait(ticket, Answer::Committed(done), away),
            Ok(done) => self.turn.journal.reply(out, ticket, Answer::Committed(done)),
            Err((part, reject)) => self.turn.refuse_commit(ticket, part, reject, out),
        }
    }

    /// Does commits one after the other, each whole or not at all. They are answered together, when all of them are
    /// durable and all of their messages have arrived.
    fn handle_commits(&mut self, ticket: Ticket, commits: &[Commit], out: &mut Output) {
        let parts: usize = commits.iter().map(Commit::parts).sum();
        if commits.len() > COMMITS_PER_CALL_MAX || parts > COMMIT_PARTS_PER_CALL_MAX {
            let why = "a call takes at most 1000 commits, with 10000 parts in all";
            return self.turn.journal.refuse(out, ticket, Reject::Invalid(why));
        }
        let mut after = Aftermath::default();
        let results = commits.iter().enumerate().map(|commit| self.commit(commit, &mut after, out)).collect();
        let answer = Answer::CommittedMany(results);
        if after.away.is_empty() {
            self.turn.journal.reply(out, ticket, answer);
        } else {
            self.outbox.wait(ticket, answer, &after.away);
        }
        self.follow(after, out);
    }

    /// What a commit of this name did, if one is remembered.
    fn done_before(
        &self,
        (place, commit): (usize, &Commit),
        after: &mut Aftermath,
    ) -> Result<Option<Committed>, Refusal> {
        let before = commit.name.and_then(|name| self.turn.journal.state.commits.get(&name, self.turn.now));
        let Some((request, before)) = before else { return Ok(None) };
        if !request.agrees(commit.request) {
            return Err((CommitPart::Whole, Reject::KeyReused));
        }
        if !before.away.is_empty() && self.outbox.is_full() {
            return Err((CommitPart::Whole, Reject::Overloaded(Overload::Outbox)));
        }
        after.wait_for(place, &before.away);
        let kept = self.turn.kept_locations(commit, &before.done.outputs);
        Ok(Some(Committed { already: true, kept, ..before.done }))
    }

    /// Does a commit, the nth of a call.
    fn commit(
        &mut self,
        (place, commit): (usize, &Commit),
        after: &mut Aftermath,
        out: &mut Output,
    ) -> Result<Committed, Refusal> {
        if let Some(before) = self.done_before((place, commit), after)? {
            return Ok(before);
        }
        let plan = self.check_commit(commit)?;
        for (receipt, spot) in commit.acks.iter().zip(&plan.acks) {
            self.deliveries.ack(self.turn, *spot, receipt.offset, receipt.token, out);
            after.groups.insert(spot.group);
        }
        for place in &plan.finishes {
            self.effects.finish_effect(self.turn, &commit.finishes[*place], out);
            after.ended.push(commit.finishes[*place].receipt.number);
        }
        let (stored, away) = self.store_all(&commit.messages, out);
        let moved = commit
            .outputs
            .iter()
            .map(|output| self.turn.move_output(&commit.tenant, output, plan.author, out));
        let outputs = moved.collect();
        if let Some(author) = plan.author {
            self.turn.note_reads(author.topic, author.offset, &commit.reads, out);
        }
        self.turn.raise_expected(&commit.tenant, &commit.expect, out);
        after.wait_for(place, &away);
        let done = Results { done: Committed { stored, outputs, ..Committed::default() }, away };
        if let Some(name) = commit.name {
            self.turn.remember_commit(name, commit, &done, out);
        }
        let kept = self.turn.kept_locations(commit, &done.done.outputs);
        Ok(Committed { kept, ends: !plan.finishes.is_empty(), ..done.done })
    }

    /// Stores messages that were found good, and sends those that go to other shards. Returns where each lies or will
    /// lie, and which are on their way: the numbers of their parcels, and their places.
    fn store_all(
        &mut self,
        messages: &[NewMessage],
        out: &mut Output,
    ) -> (Vec<Stored>, BTreeMap<u64, usize>) {
        let mut away = BTreeMap::new();
        let stored = messages.iter().enumerate().map(|(place, message)| {
            if !self.turn.is_elsewhere(message) {
                return self.deliveries.store_checked(self.turn, message, out);
            }
            // What was reserved was reserved here, and its gate is there.
            let parcel = NewMessage { reserved: false, ..message.clone() };
            away.insert(self.turn.send(parcel, out), place);
            Stored { topic: Some(message.topic), partition: message.partition, offset: 0, duplicate: false }
        });
        (stored.collect(), away)
    }

    /// What commits leave to others: waiters for an effect, and groups with room for more.
    fn follow(&mut self, after: Aftermath, out: &mut Output) {
        for number in after.ended {
            self.effects.pass_on(self.turn, self.deliveries, number, out);
        }
        for group in after.groups {
            self.deliveries.touch(group);
        }
    }
}

impl Turn {
    /// Refuses a commit; a refusal that tells of facts waits for them.
    fn refuse_commit(&mut self, ticket: Ticket, part: CommitPart, reject: Reject, out: &mut Output) {
        let action = Action::Reply { ticket, answer: Answer::CommitRefused(part, reject) };
        if reject.tells_of_facts() {
            self.journal.after_durable(out, action);
        } else {
            out.actions.push(action);
        }
    }

    fn move_output(
        &mut self,
        tenant: &str,
        output: &NewOutput,
        by: Option<OutputAuthor>,
        out: &mut Output,
    ) -> OutputDone {
        let NewOutput { dataset, version, partition_key, dedupe_key, location, digest } = output;
        let cell = self.journal.state.outputs.cell(tenant, dataset, version, partition_key);
        if !dedupe_key.is_empty() && cell.is_some_and(|cell| cell.find(dedupe_key).is_some()) {
            return OutputDone::Duplicate;
        }
        let fact = OutputFact::Moved {
            tenant,
            dataset,
            version,
            partition_key,
            dedupe_key,
            location,
            digest,
            at: self.now,
            by,
        };
        self.journal.emit(Haste::Urgent, out, &Fact::Output(fact));
        if dedupe_key.is_empty() { OutputDone::Replaced } else { OutputDone::Appended }
    }

    /// Where the outputs lie that were there before.
    fn kept_locations(&self, commit: &Commit, done: &[OutputDone]) -> Vec<Arc<str>> {
        let duplicates = commit.outputs.iter().zip(done).filter(|(_, done)| **done == OutputDone::Duplicate);
        let located = duplicates.map(|(output, _)| {
            let NewOutput { dataset, version, partition_key, dedupe_key, .. } = output;
            let outputs = &self.journal.state.outputs;
            let cell = outputs.cell(&commit.tenant, dataset, version, partition_key);
            let pointer = cell.and_then(|cell| cell.find(dedupe_key));
            pointer.map_or_else(Arc::default, |pointer| Arc::clone(&pointer.location))
        });
        located.collect()
    }

    fn remember_commit(&mut self, name: Identity, commit: &Commit, results: &Results, out: &mut Output) {
        let ttl_ms = self.settings.commit_ttl_ms;
        let until = lifetime(self.now, commit.name_ttl_ms.map_or(ttl_ms, |most| most.min(ttl_ms)));
        let results = results.encode();
        let fact = CommitFact::Done { name, request: commit.request, until, results: &results };
        self.journal.emit(Haste::Urgent, out, &Fact::Commit(fact));
        if self.journal.state.commits.len() as u64 > self.settings.commits_max {
            self.forget_commits(Time::NEVER, 1, out);
        }
        self.schedule_commits();
    }

    /// Sets the timer that forgets commits, unless one is set.
    pub(crate) fn schedule_commits(&mut self) {
        if self.forgets_commits {
            return;
        }
        if let Some(first) = self.journal.state.commits.first_to_go() {
            self.timers.set(first.max(self.now).after_ms(FORGET_SLACK_MS), Due::ForgetCommits);
            self.forgets_commits = true;
        }
    }

    pub(crate) fn on_forget_commits(&mut self, out: &mut Output) {
        self.forgets_commits = false;
        self.forget_commits(self.now, FORGOTTEN_PER_FACT_MAX, out);
        match self.journal.state.commits.first_to_go() {
            // The rest is due, too.
            Some(first) if first <= self.now => {
                self.timers.set(self.now, Due::ForgetCommits);
                self.forgets_commits = true;
            }
            _ => self.schedule_commits(),
        }
    }

    fn forget_commits(&mut self, upto: Time, most: u32, out: &mut Output) {
        self.journal.emit(Haste::Lazy, out, &Fact::Commit(CommitFact::Forgotten { upto, most }));
    }
}
