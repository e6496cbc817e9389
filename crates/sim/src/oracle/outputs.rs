//! Outputs as readers see them: a model of every dataset, which each read has to equal.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{DatasetView, NewOutput, OutputDone, OutputPage, OutputView, Reject, Time};

use super::view::ensure;
use super::{CheckResult, Oracle};

/// Cut-overs of a dataset that can be taken back.
const HISTORY_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    dedupe_key: String,
    location: String,
    at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Cell {
    append: bool,
    pointers: Vec<Pointer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Dataset {
    current: Option<String>,
    history: Vec<Option<String>>,
    rolled_back: Option<String>,
    /// Versions whose pointers no longer move.
    sealed: BTreeSet<String>,
    versions: BTreeMap<String, BTreeMap<String, Cell>>,
}

/// All datasets.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Outputs(BTreeMap<String, Dataset>);

/// What an operator orders about a dataset.
#[derive(Clone, Debug)]
pub(crate) enum OutputOrder {
    CutOver { dataset: String, version: String, expect: Option<String> },
    RollBack { dataset: String, from: String },
    Seal { dataset: String, version: String },
    Drop { dataset: String, version: String },
}

/// What an order led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    Shown { current: Option<String>, previous: Option<String>, changed: bool },
    Sealed { changed: bool, pointers: u64 },
    Dropped(u64),
}

/// What a reader reads: a dataset's version (or `current`), and how many outputs at most.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) dataset: String,
    pub(crate) version: String,
    pub(crate) limit: u32,
}

impl Outputs {
    /// Whether the partition is kept in the other way.
    pub(crate) fn differs(&self, output: &NewOutput) -> bool {
        let version = self.0.get(&output.dataset).and_then(|dataset| dataset.versions.get(&output.version));
        let cell = version.and_then(|version| version.get(&output.partition_key));
        cell.is_some_and(|cell| cell.append == output.dedupe_key.is_empty())
    }

    /// Whether it would move a pointer in a version that is sealed.
    pub(crate) fn is_sealed(&self, output: &NewOutput) -> bool {
        self.0.get(&output.dataset).is_some_and(|dataset| dataset.sealed.contains(&output.version))
    }

    /// Moves a pointer.
    pub(crate) fn put(&mut self, output: &NewOutput, at: Time) -> OutputDone {
        let append = !output.dedupe_key.is_empty();
        let dataset = self.0.entry(output.dataset.clone()).or_default();
        let version = dataset.versions.entry(output.version.clone()).or_default();
        let cell = version.entry(output.partition_key.clone()).or_default();
        cell.append = append;
        if append && cell.pointers.iter().any(|pointer| pointer.dedupe_key == output.dedupe_key) {
            return OutputDone::Duplicate;
        }
        if !append {
            cell.pointers.clear();
        }
        let (dedupe_key, location) = (output.dedupe_key.clone(), output.location.clone());
        cell.pointers.push(Pointer { dedupe_key, location, at });
        if append { OutputDone::Appended } else { OutputDone::Replaced }
    }

    /// Does what was ordered.
    pub(crate) fn order(&mut self, order: &OutputOrder) -> Result<Ordered, Reject> {
        match order {
            OutputOrder::CutOver { dataset, version, expect } => {
                let dataset = self.0.get_mut(dataset).ok_or(Reject::OutputUnknown)?;
                if !dataset.versions.contains_key(version) {
                    return Err(Reject::OutputUnknown);
                }
                let changed = dataset.current.as_ref() != Some(version);
                if changed && expect.is_some() && *expect != dataset.current {
                    return Err(Reject::VersionDiffers);
                }
                if changed {
                    let before = dataset.current.replace(version.clone());
                    dataset.history.push(before);
                    let excess = dataset.history.len().saturating_sub(HISTORY_MAX);
                    dataset.history.drain(..excess);
                    dataset.rolled_back = None;
                    dataset.sealed.insert(version.clone());
                }
                Ok(dataset.shown(changed))
            }
            OutputOrder::RollBack { dataset, from } => {
                let dataset = self.0.get_mut(dataset).ok_or(Reject::OutputUnknown)?;
                let is_current = dataset.current.as_ref() == Some(from);
                let again = !is_current && dataset.rolled_back.as_ref() == Some(from);
                if !again && (!is_current || dataset.history.is_empty()) {
                    return Err(Reject::VersionDiffers);
                }
                if is_current {
                    let before = dataset.history.pop().flatten();
                    dataset.rolled_back = std::mem::replace(&mut dataset.current, before);
                    // No client can tell that from none: the same version was current before.
                    let current = dataset.current.clone();
                    dataset.rolled_back.take_if(|version| current.as_ref() == Some(version));
                }
                Ok(dataset.shown(is_current))
            }
            OutputOrder::Seal { dataset, version } => {
                let dataset = self.0.get_mut(dataset).ok_or(Reject::OutputUnknown)?;
                let kept = dataset.versions.get(version).ok_or(Reject::OutputUnknown)?;
                let pointers = kept.values().map(|cell| cell.pointers.len() as u64).sum();
                Ok(Ordered::Sealed { changed: dataset.sealed.insert(version.clone()), pointers })
            }
            OutputOrder::Drop { dataset: name, version } => {
                let dataset = self.0.get_mut(name).ok_or(Reject::OutputUnknown)?;
                if dataset.current.as_ref() == Some(version) {
                    return Err(Reject::VersionInUse);
                }
                let gone = dataset.versions.remove(version).ok_or(Reject::OutputUnknown)?;
                dataset.sealed.remove(version);
                let mut history = std::mem::take(&mut dataset.history);
                history.retain(|kept| kept.as_ref() != Some(version));
                // Going back always leads to something else.
                history.dedup();
                if history.last() == Some(&dataset.current) {
                    history.pop();
                }
                dataset.history = history;
                if dataset.versions.is_empty() {
                    self.0.remove(name);
                }
                Ok(Ordered::Dropped(gone.values().map(|cell| cell.pointers.len() as u64).sum()))
            }
        }
    }

    /// Puts down what a reader has seen of a dataset, and which roll-back can be repeated.
    pub(crate) fn see(&mut self, view: &DatasetView, rolled_back: Option<&str>, pages: &[OutputPage]) {
        let text = |name: &std::sync::Arc<str>| name.to_string();
        let mut dataset = Dataset {
            current: view.summary.current.as_ref().map(text),
            history: view.history.iter().rev().map(|(version, _)| version.as_ref().map(text)).collect(),
            rolled_back: rolled_back.map(Into::into),
            sealed: view.versions.iter().filter(|v| v.sealed).map(|v| v.version.to_string()).collect(),
            versions: BTreeMap::new(),
        };
        for page in pages {
            let version = dataset.versions.entry(page.version.to_string()).or_default();
            for OutputView { partition_key, append, dedupe_key, location, at, .. } in &page.outputs {
                let cell = version.entry(partition_key.to_string()).or_default();
                cell.append = *append;
                let (dedupe_key, location) = (dedupe_key.to_string(), location.to_string());
                cell.pointers.push(Pointer { dedupe_key, location, at: *at });
            }
        }
        self.0.insert(view.summary.dataset.to_string(), dataset);
    }

    /// What a reader gets.
    fn read(&self, reading: &Reading) -> Option<(String, Vec<(String, Pointer)>)> {
        let dataset = self.0.get(&reading.dataset)?;
        let version =
            if reading.version == "current" { dataset.current.clone()? } else { reading.version.clone() };
        let cells = dataset.versions.get(&version)?.iter();
        let pointers = cells
            .flat_map(|(key, cell)| cell.pointers.iter().map(move |pointer| (key.clone(), pointer.clone())));
        let pointers = pointers.take(reading.limit as usize).collect();
        Some((version, pointers))
    }
}

impl Dataset {
    fn shown(&self, changed: bool) -> Ordered {
        let previous = self.history.last().cloned().flatten();
        Ordered::Shown { current: self.current.clone(), previous, changed }
    }
}

impl Oracle {
    /// A reader got this.
    pub(crate) fn outputs_read(&self, reading: &Reading, page: Option<&OutputPage>) -> CheckResult {
        let seen = page.map(|page| {
            let pointer = |view: &OutputView| Pointer {
                dedupe_key: view.dedupe_key.to_string(),
                location: view.location.to_string(),
                at: view.at,
            };
            let pointers = page.outputs.iter().map(|view| (view.partition_key.to_string(), pointer(view)));
            (page.version.to_string(), pointers.collect())
        });
        let known = self.outputs.read(reading);
        ensure(known == seen, || format!("outputs: {reading:?} got {seen:?}, committed is {known:?}"))
    }

    /// An order was answered.
    pub(crate) fn outputs_ordered(&mut self, order: &OutputOrder, answer: &Ordered) -> CheckResult {
        let expected = self.outputs.order(order);
        ensure(expected.as_ref() == Ok(answer), || {
            format!("outputs: {order:?} was answered {answer:?}, not {expected:?}")
        })
    }

    /// An order was refused; `exact` if nothing about outputs is under way.
    pub(crate) fn order_refused(&self, order: &OutputOrder, reject: Reject, exact: bool) -> CheckResult {
        let expected = self.outputs.clone().order(order);
        ensure(!exact || expected == Err(reject), || {
            format!("outputs: {order:?} was refused with {reject:?}, not {expected:?}")
        })
    }
}
