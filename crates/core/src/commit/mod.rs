//! The fenced commit: acks, outcomes of effects, messages and output pointers, all or nothing.
//!
//! All of it is looked at first; nothing is written unless everything will be. What is written goes into one batch of
//! the log, which is whole or never happened.

pub(crate) mod check;

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::effect::desk::EffectDesk;
use crate::log::commit::{CommitFact, Results};
use crate::log::fact::Fact;
use crate::log::output::OutputFact;
use crate::turn::Turn;
use crate::turn::journal::{Haste, lifetime};
use crate::turn::timer::{Due, FORGET_SLACK_MS};
use crate::words::action::{Action, Answer, Output};
use crate::words::commit::{
    COMMIT_PARTS_PER_CALL_MAX, COMMITS_PER_CALL_MAX, Commit, CommitInput, CommitPart, Committed,
};
use crate::words::draft::NewMessage;
use crate::words::id::{GroupId, Identity, RequestHash, Ticket, Time};
use crate::words::output::{NewOutput, OutputAuthor, OutputDone};
use crate::words::receipt::Stored;
use crate::words::reject::Reject;

/// Commits forgotten by one fact.
const FORGOTTEN_PER_FACT_MAX: u32 = 256;

/// Commits at work: the one place that may touch deliveries and effects together.
pub(crate) struct Committing<'a> {
    pub(crate) turn: &'a mut Turn,
    pub(crate) deliveries: &'a mut Deliveries,
    pub(crate) effects: &'a mut EffectDesk,
}

/// What commits leave to others.
#[derive(Default)]
struct Aftermath {
    /// Effects that ended.
    ended: Vec<u64>,
    /// Groups that settled something.
    groups: BTreeSet<GroupId>,
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
        match self.commit(commit, &mut after, out) {
            Ok(done) => self.turn.journal.reply(out, ticket, Answer::Committed(done)),
            Err((part, reject)) => self.turn.refuse_commit(ticket, part, reject, out),
        }
        self.follow(after, out);
    }

    fn handle_check(&mut self, ticket: Ticket, commit: &Commit, out: &mut Output) {
        match self.check_commit(commit) {
            Ok(_) => self.turn.journal.reply(out, ticket, Answer::Committed(Committed::default())),
            Err((part, reject)) => self.turn.refuse_commit(ticket, part, reject, out),
        }
    }

    /// Does commits one after the other, each whole or not at all. They are answered together, when all of them are
    /// durable.
    fn handle_commits(&mut self, ticket: Ticket, commits: &[Commit], out: &mut Output) {
        let parts: usize = commits.iter().map(Commit::parts).sum();
        if commits.len() > COMMITS_PER_CALL_MAX || parts > COMMIT_PARTS_PER_CALL_MAX {
            let why = "a call takes at most 1000 commits, with 10000 parts in all";
            return self.turn.journal.refuse(out, ticket, Reject::Invalid(why));
        }
        let mut after = Aftermath::default();
        let results = commits.iter().map(|commit| self.commit(commit, &mut after, out)).collect();
        self.turn.journal.reply(out, ticket, Answer::CommittedMany(results));
        self.follow(after, out);
    }

    fn commit(
        &mut self,
        commit: &Commit,
        after: &mut Aftermath,
        out: &mut Output,
    ) -> Result<Committed, (CommitPart, Reject)> {
        let before = commit.name.and_then(|name| self.turn.journal.state.commits.get(&name, self.turn.now));
        if let Some((request, before)) = before {
            if !request.agrees(commit.request) {
                return Err((CommitPart::Whole, Reject::KeyReused));
            }
            let before = before.done.clone();
            let kept = self.turn.kept_locations(commit, &before.outputs);
            return Ok(Committed { already: true, kept, ..before });
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
        let stored = commit.messages.iter().map(|message| self.store_checked(message, out)).collect();
        let moved = commit
            .outputs
            .iter()
            .map(|output| self.turn.move_output(&commit.tenant, output, plan.author, out));
        let outputs = moved.collect();
        if let Some(author) = plan.author {
            self.turn.note_reads(author.topic, author.offset, &commit.reads, out);
        }
        self.turn.raise_expected(&commit.tenant, &commit.expect, 0, out);
        let done = Committed { stored, outputs, ..Committed::default() };
        if let Some(name) = commit.name {
            self.turn.remember_commit(name, commit.request, &done, out);
        }
        let kept = self.turn.kept_locations(commit, &done.outputs);
        Ok(Committed { kept, ..done })
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

    /// Stores a message that was found good.
    fn store_checked(&mut self, message: &NewMessage, out: &mut Output) -> Stored {
        let before = message.identity.and_then(|identity| self.turn.first_under(&identity));
        if let Some(first) = before {
            return first;
        }
        let until = lifetime(self.turn.now, self.turn.settings.idempotency_ttl_ms);
        let offset = self.deliveries.append(
            self.turn,
            message,
            message.identity.map(|identity| (identity, until)),
            None,
            out,
        );
        self.deliveries.enforce_bytes(self.turn, message.topic, message.partition, out);
        Stored { topic: Some(message.topic), partition: message.partition, offset, duplicate: false }
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

    fn remember_commit(&mut self, name: Identity, request: RequestHash, done: &Committed, out: &mut Output) {
        let until = lifetime(self.now, self.settings.commit_ttl_ms);
        let results = Results { done: done.clone(), ..Results::default() }.encode();
        let fact = CommitFact::Done { name, request, until, results: &results };
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
