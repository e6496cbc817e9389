//! Cut-overs, roll-backs and clearing away: what people order about datasets.

use alloc::string::String;
use alloc::sync::Arc;

use crate::action::{Answer, Output};
use crate::fact::Fact;
use crate::id::Ticket;
use crate::journal::Haste;
use crate::output::fact::OutputFact;
use crate::output::record::Dataset;
use crate::reject::Reject;
use crate::shard::Shard;

impl Shard {
    /// Shows readers another version, if the current one is what the caller expects.
    pub(crate) fn handle_cut_over(
        &mut self,
        ticket: Ticket,
        (name, version): (&str, &str),
        expect: Option<&str>,
        out: &mut Output,
    ) {
        let Some(dataset) = self.journal.state.outputs.datasets.get(name) else {
            return self.journal.refuse(out, ticket, Reject::OutputUnknown);
        };
        if !dataset.versions.contains_key(version) {
            return self.journal.refuse(out, ticket, Reject::OutputUnknown);
        }
        let before = dataset.current.clone();
        let changed = before.as_deref() != Some(version);
        if changed && expect.is_some_and(|expect| before.as_deref() != Some(expect)) {
            return self.journal.refuse(out, ticket, Reject::VersionDiffers);
        }
        if changed {
            let fact = OutputFact::CutOver { dataset: name, version, at: self.now };
            self.journal.emit(Haste::Urgent, out, &Fact::Output(fact));
        }
        self.reply_cut_over(ticket, name, changed, out);
    }

    /// Shows readers what they saw before the last cut-over.
    pub(crate) fn handle_roll_back(&mut self, ticket: Ticket, name: &str, from: &str, out: &mut Output) {
        let Some(dataset) = self.journal.state.outputs.datasets.get(name) else {
            return self.journal.refuse(out, ticket, Reject::OutputUnknown);
        };
        let is_current = dataset.current.as_deref() == Some(from);
        let again = !is_current && dataset.rolled_back.as_deref() == Some(from);
        if !again && (!is_current || dataset.history.is_empty()) {
            return self.journal.refuse(out, ticket, Reject::VersionDiffers);
        }
        if is_current {
            let fact = OutputFact::RolledBack { dataset: name, at: self.now };
            self.journal.emit(Haste::Urgent, out, &Fact::Output(fact));
        }
        self.reply_cut_over(ticket, name, is_current, out);
    }

    fn reply_cut_over(&mut self, ticket: Ticket, name: &str, changed: bool, out: &mut Output) {
        let Some(dataset) = self.journal.state.outputs.datasets.get(name) else { return };
        let answer =
            Answer::CutOver { current: dataset.current.clone(), previous: previous(dataset), changed };
        self.journal.reply(out, ticket, answer);
    }

    /// Drops a version that readers do not see.
    pub(crate) fn handle_drop_version(
        &mut self,
        ticket: Ticket,
        (name, version): (&str, &str),
        out: &mut Output,
    ) {
        let dataset = self.journal.state.outputs.datasets.get(name);
        let known = dataset.and_then(|dataset| Some((dataset, dataset.versions.get(version)?)));
        let Some((dataset, kept)) = known else {
            return self.journal.refuse(out, ticket, Reject::OutputUnknown);
        };
        if dataset.current.as_deref() == Some(version) {
            return self.journal.refuse(out, ticket, Reject::VersionInUse);
        }
        let pointers = kept.pointers;
        let fact = OutputFact::Dropped { dataset: name, version };
        self.journal.emit(Haste::Urgent, out, &Fact::Output(fact));
        self.journal.reply(out, ticket, Answer::Removed(pointers));
    }
}

/// What readers would see after a roll-back.
fn previous(dataset: &Dataset) -> Option<Arc<str>> {
    dataset.history.back().and_then(|(version, _)| version.clone())
}

/// An output that a commit moves.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewOutput {
    /// The dataset.
    pub dataset: String,
    /// Its version.
    pub version: String,
    /// The partition of it.
    pub partition_key: String,
    /// Under which it is added once; empty if it replaces what was there.
    pub dedupe_key: String,
    /// Where the output lies.
    pub location: String,
    /// Digest of its manifest.
    pub digest: String,
}
