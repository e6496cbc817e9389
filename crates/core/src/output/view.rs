//! Outputs as readers see them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use crate::state::output::record::{Cell, Dataset, Pointer};
use crate::turn::Turn;
use crate::words::id::Time;
use crate::words::output::{
    DatasetSummary, DatasetView, OutputList, OutputPage, OutputView, VersionSummary, VersionsList,
};
use crate::words::scoped::Named;

/// The word that stands for whatever version is current.
const CURRENT: &str = "current";

impl Turn {
    pub(crate) fn list_datasets(
        &self,
        tenant: &str,
        after: Option<&str>,
        limit: u32,
    ) -> (Vec<DatasetSummary>, bool) {
        let datasets = self.journal.state.outputs.datasets.after(tenant, after);
        let mut found: Vec<_> =
            datasets.take(limit as usize + 1).map(|(name, dataset)| summary(name, dataset)).collect();
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        (found, more)
    }

    pub(crate) fn describe_dataset(&self, list: &VersionsList) -> Option<DatasetView> {
        let Named { tenant, name } = &list.dataset;
        let dataset = self.journal.state.outputs.datasets.get(tenant, name)?;
        let from = list.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let versions = dataset.versions.range::<str, _>((from, Bound::Unbounded));
        let mut versions: Vec<_> = versions
            .take(list.limit as usize + 1)
            .map(|(version, kept)| VersionSummary {
                version: Arc::clone(version),
                outputs: kept.pointers,
                updated: kept.updated,
                sealed: kept.sealed,
            })
            .collect();
        let more = versions.len() > list.limit as usize;
        versions.truncate(list.limit as usize);
        Some(DatasetView {
            summary: summary(&name.as_str().into(), dataset),
            cut_over: Some(dataset.cut_over).filter(|at| *at > Time(0)),
            history: dataset.history.iter().rev().cloned().collect(),
            versions,
            more,
        })
    }

    pub(crate) fn list_outputs(&self, list: &OutputList) -> Option<OutputPage> {
        let Named { tenant, name } = &list.dataset;
        let dataset = self.journal.state.outputs.datasets.get(tenant, name)?;
        let version = if list.version == CURRENT { dataset.current.as_deref()? } else { &list.version };
        let (version, kept) = dataset.versions.get_key_value(version)?;
        let only = list.partition_key.as_deref();
        if only.is_some_and(|key| !kept.cells.contains_key(key)) {
            return None;
        }
        let (first, skip) = list.from.as_ref().map_or((only, 0), |(key, seen)| (Some(&**key), *seen));
        let from = first.map_or(Bound::Unbounded, Bound::Included);
        let mut page = OutputPage { version: Arc::clone(version), outputs: Vec::new(), next: None };
        for (key, cell) in kept.cells.range::<str, _>((from, Bound::Unbounded)) {
            if only.is_some_and(|only| only != &**key) {
                break;
            }
            // Only the partition where the last page ended was seen in part.
            let seen = if first == Some(&**key) { usize::try_from(skip).unwrap_or(usize::MAX) } else { 0 };
            for (place, pointer) in cell.pointers().iter().enumerate().skip(seen) {
                if page.outputs.len() >= list.limit as usize {
                    page.next = Some((Arc::clone(key), place as u64));
                    return Some(page);
                }
                page.outputs.push(self.view_output(key, cell, pointer));
            }
        }
        Some(page)
    }

    fn view_output(&self, key: &Arc<str>, cell: &Cell, pointer: &Pointer) -> OutputView {
        let by = pointer.by.and_then(|by| {
            let topic = self.journal.state.topic(by.topic)?;
            Some((Arc::clone(&topic.name), by.partition, by.offset, by.attempt))
        });
        OutputView {
            partition_key: Arc::clone(key),
            append: cell.is_append(),
            dedupe_key: Arc::clone(&pointer.dedupe_key),
            location: Arc::clone(&pointer.location),
            digest: Arc::clone(&pointer.digest),
            at: pointer.at,
            by,
            author: pointer.by,
        }
    }
}

fn summary(name: &Arc<str>, dataset: &Dataset) -> DatasetSummary {
    DatasetSummary {
        dataset: Arc::clone(name),
        current: dataset.current.clone(),
        versions: dataset.versions.len() as u64,
        outputs: dataset.versions.values().map(|version| version.pointers).sum(),
    }
}
