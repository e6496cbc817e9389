//! Cut-overs, roll-backs and clearing away: what operators order about datasets.

use alloc::sync::Arc;

use crate::log::fact::Fact;
use crate::log::output::OutputFact;
use crate::state::output::record::Dataset;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Answer, Output};
use crate::words::id::Ticket;
use crate::words::output::OutputInput;
use crate::words::reject::Reject;
use crate::words::scoped::Named;

impl Turn {
    pub(crate) fn handle_output(&mut self, input: OutputInput, out: &mut Output) {
        match input {
            OutputInput::CutOver { ticket, dataset, version, expect } => {
                self.handle_cut_over(ticket, (&dataset, &version), expect.as_deref(), out);
            }
            OutputInput::RollBack { ticket, dataset, from } => {
                self.handle_roll_back(ticket, &dataset, &from, out)
            }
            OutputInput::Seal { ticket, dataset, version } => {
                self.handle_seal_version(ticket, (&dataset, &version), out);
            }
            OutputInput::Drop { ticket, dataset, version } => {
                self.handle_drop_version(ticket, (&dataset, &version), out);
            }
        }
    }

    fn dataset(&self, dataset: &Named) -> Option<&Dataset> {
        self.journal.state.outputs.datasets.get(&dataset.tenant, &dataset.name)
    }

    /// Shows readers another version, if the current one is what the caller expects. It is sealed from then on.
    fn handle_cut_over(
        &mut self,
        ticket: Ticket,
        (name, version): (&Named, &str),
        expect: Option<&str>,
        out: &mut Output,
    ) {
        let known = self.dataset(name).filter(|dataset| dataset.versions.contains_key(version));
        let Some(dataset) = known else {
            return self.journal.refuse(out, ticket, Reject::OutputUnknown);
        };
        let before = dataset.current.clone();
        let changed = before.as_deref() != Some(version);
        if changed && expect.is_some_and(|expect| before.as_deref() != Some(expect)) {
            return self.journal.refuse(out, ticket, Reject::VersionDiffers);
        }
        if changed {
            let Named { tenant, name } = name;
            let fact = OutputFact::CutOver { tenant, dataset: name, version, at: self.now };
            self.journal.emit(Haste::Urgent, out, &Fact::Output(fact));
        }
        self.reply_cut_over(ticket, name, changed, out);
    }

    /// Shows readers what they saw before the last cut-over.
    fn handle_roll_back(&mut self, ticket: Ticket, name: &Named, from: &str, out: &mut Output) {
        let Some(dataset) = self.dataset(name) else {
            return self.journal.refuse(out, ticket, Reject::OutputUnknown);
        };
        let is_current = dataset.current.as_deref() == Some(from);
        let again = !is_current && dataset.rolled_back.as_deref() == Some(from);
        if !again && (!is_current || dataset.history.is_empty()) {
            return self.journal.refuse(out, ticket, Reject::VersionDiffers);
        }
        if is_current {
            let fact = OutputFact::RolledBack { tenant: &name.tenant, dataset: &name.name, at: self.now };
            self.journal.emit(Haste::Urgent, out, &Fact::Output(fact));
        }
        self.reply_cut_over(ticket, name, is_current, out);
    }

    fn reply_cut_over(&mut self, ticket: Ticket, name: &Named, changed: bool, out: &mut Output) {
        let Some(dataset) = self.dataset(name) else { return };
        let answer =
            Answer::CutOver { current: dataset.current.clone(), previous: previous(dataset), changed };
        self.journal.reply(out, ticket, answer);
    }

    /// Seals a version: its pointers no longer move.
    fn handle_seal_version(&mut self, ticket: Ticket, (name, version): (&Named, &str), out: &mut Output) {
        let known = self.dataset(name).and_then(|dataset| dataset.versions.get(version));
        let Some((sealed, pointers)) = known.map(|known| (known.sealed, known.pointers)) else {
            return self.journal.refuse(out, ticket, Reject::OutputUnknown);
        };
        if !sealed {
            let Named { tenant, name } = name;
            let fact = OutputFact::Sealed { tenant, dataset: name, version, at: self.now };
            self.journal.emit(Haste::Urgent, out, &Fact::Output(fact));
        }
        self.journal.reply(out, ticket, Answer::Sealed { changed: !sealed, pointers });
    }

    /// Drops a version that readers do not see.
    fn handle_drop_version(&mut self, ticket: Ticket, (name, version): (&Named, &str), out: &mut Output) {
        let known = self.dataset(name).and_then(|dataset| Some((dataset, dataset.versions.get(version)?)));
        let Some((dataset, kept)) = known else {
            return self.journal.refuse(out, ticket, Reject::OutputUnknown);
        };
        if dataset.current.as_deref() == Some(version) {
            return self.journal.refuse(out, ticket, Reject::VersionInUse);
        }
        let pointers = kept.pointers;
        let fact = OutputFact::Dropped { tenant: &name.tenant, dataset: &name.name, version };
        self.journal.emit(Haste::Urgent, out, &Fact::Output(fact));
        self.journal.reply(out, ticket, Answer::Removed(pointers));
    }
}

/// What readers would see after a roll-back.
fn previous(dataset: &Dataset) -> Option<Arc<str>> {
    dataset.history.back().and_then(|(version, _)| version.clone())
}
