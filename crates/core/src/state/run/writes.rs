//! Which pointers the messages of runs have moved: noted as they move, and read off the pointers after recovery.

use alloc::sync::Arc;

use crate::log::output::OutputFact;
use crate::state::State;
use crate::state::output::record::{Cell, Outputs};
use crate::state::run::record::{Runs, Write};
use crate::words::codec::Malformed;

impl State {
    pub(crate) fn on_output(&mut self, fact: &OutputFact<'_>) -> Result<(), Malformed> {
        match *fact {
            OutputFact::Moved { tenant, dataset, version, partition_key, by, .. } => {
                // Whoever lay there before is replaced; in a cell that grows, nobody is.
                let before = match self.outputs.cell(tenant, dataset, version, partition_key) {
                    Some(Cell::Replace(before)) => before.by,
                    Some(Cell::Append(..)) | None => None,
                };
                let (old, new) = (self.runs.author(before).is_some(), self.runs.author(by).is_some());
                if old || new {
                    let [tenant, dataset, version, partition_key] =
                        [tenant, dataset, version, partition_key].map(Arc::from);
                    let write = Write { tenant, dataset, version, partition_key };
                    if let Some(step) = self.runs.author(before) {
                        step.writes.remove(&write);
                    }
                    if let Some(step) = self.runs.author(by) {
                        step.writes.insert(write);
                    }
                }
            }
            OutputFact::Dropped { tenant, dataset, version } => {
                self.runs.forget_writes(&self.outputs, tenant, dataset, version);
            }
            OutputFact::CutOver { .. } | OutputFact::RolledBack { .. } | OutputFact::Sealed { .. } => {}
        }
        self.outputs.apply(fact)
    }
}

impl Runs {
    /// A version is dropped with all its pointers.
    fn forget_writes(&mut self, outputs: &Outputs, tenant: &str, dataset: &str, version: &str) {
        let Some(dropped) =
            outputs.datasets.get(tenant, dataset).and_then(|found| found.versions.get(version))
        else {
            return;
        };
        let [tenant, dataset, version]: [Arc<str>; 3] = [tenant, dataset, version].map(Arc::from);
        for (partition_key, cell) in &dropped.cells {
            let write = Write {
                tenant: Arc::clone(&tenant),
                dataset: Arc::clone(&dataset),
                version: Arc::clone(&version),
                partition_key: Arc::clone(partition_key),
            };
            for pointer in cell.pointers() {
                if let Some(step) = self.author(pointer.by) {
                    step.writes.remove(&write);
                }
            }
        }
    }

    /// Notes what the pointers of a snapshot tell.
    pub(crate) fn note_writes(&mut self, outputs: &Outputs) {
        if self.steps.is_empty() {
            return;
        }
        for (tenant, name, dataset) in outputs.datasets.each() {
            for (version, cells) in dataset.versions.iter().map(|(name, version)| (name, &version.cells)) {
                for (partition_key, cell) in cells {
                    for pointer in cell.pointers() {
                        if let Some(step) = self.author(pointer.by) {
                            step.writes.insert(Write {
                                tenant: Arc::clone(tenant),
                                dataset: Arc::clone(name),
                                version: Arc::clone(version),
                                partition_key: Arc::clone(partition_key),
                            });
                        }
                    }
                }
            }
        }
    }
}
