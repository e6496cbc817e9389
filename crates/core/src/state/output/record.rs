//! What is remembered of outputs.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::log::output::OutputFact;
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::id::Time;
use crate::words::output::OutputAuthor;
use crate::words::scoped::Scoped;

/// Cut-overs of a dataset that can be taken back.
pub(crate) const HISTORY_MAX: usize = 16;
/// What an output costs beside its texts, as the limit counts it.
const OUTPUT_BYTES: u64 = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// Empty in a cell that is replaced.
    pub(crate) dedupe_key: Arc<str>,
    pub(crate) location: Arc<str>,
    pub(crate) digest: Arc<str>,
    pub(crate) at: Time,
    pub(crate) by: Option<OutputAuthor>,
}

/// What a partition of a version holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// One pointer, which the next one replaces.
    Replace(Pointer),
    /// Pointers in the order in which they came, and their places by `dedupe_key`.
    Append(Vec<Pointer>, BTreeMap<Arc<str>, usize>),
}

/// A version of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Version {
    pub(crate) updated: Time,
    pub(crate) pointers: u64,
    /// Its pointers no longer move: a caller sealed it, or readers have seen it.
    pub(crate) sealed: bool,
    pub(crate) cells: BTreeMap<Arc<str>, Cell>,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Dataset {
    /// The version seen by readers that do not say which one they want.
    pub(crate) current: Option<Arc<str>>,
    /// Since when.
    pub(crate) cut_over: Time,
    /// What they saw before, newest last, and since when.
    pub(crate) history: VecDeque<(Option<Arc<str>>, Time)>,
    /// The version that was current before the last roll-back: the same roll-back again changes nothing.
    pub(crate) rolled_back: Option<Arc<str>>,
    pub(crate) versions: BTreeMap<Arc<str>, Version>,
}

/// All datasets of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Outputs {
    pub(crate) datasets: Scoped<Dataset>,
    /// Pointers of all datasets.
    pub(crate) pointers: u64,
    /// What they cost, as the limit counts it.
    pub(crate) bytes: u64,
}

/// What a pointer costs, as the limit counts it.
pub(crate) const fn pointer_bytes(dedupe_key: &str, location: &str, digest: &str) -> u64 {
    OUTPUT_BYTES + (dedupe_key.len() + location.len() + digest.len()) as u64
}

impl Pointer {
    fn bytes(&self) -> u64 {
        pointer_bytes(&self.dedupe_key, &self.location, &self.digest)
    }
}

impl Cell {
    pub(crate) fn pointers(&self) -> &[Pointer] {
        match self {
            Self::Replace(pointer) => core::slice::from_ref(pointer),
            Self::Append(pointers, _) => pointers,
        }
    }

    pub(crate) const fn is_append(&self) -> bool {
        matches!(self, Self::Append(..))
    }

    /// What the pointer costs that the next one under this key would meet.
    pub(crate) fn bytes_of(&self, dedupe_key: &str) -> Option<u64> {
        match self {
            Self::Replace(pointer) => Some(pointer.bytes()),
            Self::Append(..) => self.find(dedupe_key).map(Pointer::bytes),
        }
    }

    pub(crate) fn find(&self, dedupe_key: &str) -> Option<&Pointer> {
        match self {
            Self::Replace(_) => None,
            Self::Append(pointers, places) => pointers.get(*places.get(dedupe_key)?),
        }
    }
}

impl Outputs {
    fn version(&self, tenant: &str, dataset: &str, version: &str) -> Option<&Version> {
        self.datasets.get(tenant, dataset)?.versions.get(version)
    }

    pub(crate) fn cell(
        &self,
        tenant: &str,
        dataset: &str,
        version: &str,
        partition_key: &str,
    ) -> Option<&Cell> {
        self.version(tenant, dataset, version)?.cells.get(partition_key)
    }

    /// Whether pointers of a version do not move any more.
    pub(crate) fn is_sealed(&self, tenant: &str, dataset: &str, version: &str) -> bool {
        self.version(tenant, dataset, version).is_some_and(|version| version.sealed)
    }

    pub(crate) fn apply(&mut self, fact: &OutputFact<'_>) -> Result<(), Malformed> {
        match *fact {
            OutputFact::Moved {
                tenant,
                dataset,
                version,
                partition_key,
                dedupe_key,
                location,
                digest,
                at,
                by,
            } => {
                let pointer = Pointer {
                    dedupe_key: dedupe_key.into(),
                    location: location.into(),
                    digest: digest.into(),
                    at,
                    by,
                };
                self.put((tenant, dataset, version, partition_key), pointer)
            }
            OutputFact::CutOver { tenant, dataset, version, at } => {
                let dataset = self.datasets.get_mut(tenant, dataset).ok_or(CONTRADICTION)?;
                let (name, _) = dataset.versions.get_key_value(version).ok_or(CONTRADICTION)?;
                let before = dataset.current.replace(Arc::clone(name));
                dataset.history.push_back((before, dataset.cut_over));
                if dataset.history.len() > HISTORY_MAX {
                    dataset.history.pop_front();
                }
                dataset.cut_over = at;
                dataset.rolled_back = None;
                // What readers have seen stays what they saw.
                dataset.seal(version)
            }
            OutputFact::RolledBack { tenant, dataset, at } => {
                let dataset = self.datasets.get_mut(tenant, dataset).ok_or(CONTRADICTION)?;
                let (before, _) = dataset.history.pop_back().ok_or(CONTRADICTION)?;
                dataset.rolled_back = core::mem::replace(&mut dataset.current, before);
                dataset.cut_over = at;
                Ok(())
            }
            OutputFact::Sealed { tenant, dataset, version, .. } => {
                self.datasets.get_mut(tenant, dataset).ok_or(CONTRADICTION)?.seal(version)
            }
            OutputFact::Dropped { tenant, dataset, version } => self.drop_version(tenant, dataset, version),
        }
    }

    /// Moves a pointer, or adds one.
    pub(crate) fn put(
        &mut self,
        (tenant, dataset, version, partition_key): (&str, &str, &str, &str),
        pointer: Pointer,
    ) -> Result<(), Malformed> {
        let version = entry(self.datasets.enter(tenant, dataset, Dataset::default).versions_mut(), version);
        version.updated = version.updated.max(pointer.at);
        let (append, bytes) = (!pointer.dedupe_key.is_empty(), pointer.bytes());
        match version.cells.get_mut(partition_key) {
            None => {
                let cell = if append {
                    let places = BTreeMap::from([(Arc::clone(&pointer.dedupe_key), 0)]);
                    Cell::Append(Vec::from([pointer]), places)
                } else {
                    Cell::Replace(pointer)
                };
                version.cells.insert(partition_key.into(), cell);
                version.pointers += 1;
                self.pointers += 1;
            }
            Some(Cell::Replace(before)) if !append => {
                self.bytes -= before.bytes();
                *before = pointer;
            }
            Some(Cell::Append(pointers, places)) if append => {
                if places.insert(Arc::clone(&pointer.dedupe_key), pointers.len()).is_some() {
                    return Err(CONTRADICTION);
                }
                pointers.push(pointer);
                version.pointers += 1;
                self.pointers += 1;
            }
            Some(_) => return Err(CONTRADICTION),
        }
        self.bytes += bytes;
        Ok(())
    }

    fn drop_version(&mut self, tenant: &str, name: &str, version: &str) -> Result<(), Malformed> {
        let dataset = self.datasets.get_mut(tenant, name).ok_or(CONTRADICTION)?;
        if dataset.current.as_deref() == Some(version) {
            return Err(CONTRADICTION);
        }
        let gone = dataset.versions.remove(version).ok_or(CONTRADICTION)?;
        dataset.history.retain(|(kept, _)| kept.as_deref() != Some(version));
        // What lay before and after it may be the same now, and going back must lead to something else: asked for
        // twice, because the answer was lost, it would go back twice.
        let mut after = dataset.current.clone();
        for index in (0..dataset.history.len()).rev() {
            let kept = dataset.history[index].0.clone();
            if kept == after {
                dataset.history.remove(index);
            }
            after = kept;
        }
        if dataset.versions.is_empty() {
            self.datasets.remove(tenant, name);
        }
        self.pointers -= gone.pointers;
        let pointers = gone.cells.values().flat_map(|cell| cell.pointers());
        self.bytes -= pointers.map(Pointer::bytes).sum::<u64>();
        Ok(())
    }
}

impl Dataset {
    /// Nothing in a version moves any more.
    pub(crate) fn seal(&mut self, version: &str) -> Result<(), Malformed> {
        self.versions.get_mut(version).ok_or(CONTRADICTION)?.sealed = true;
        Ok(())
    }

    const fn versions_mut(&mut self) -> &mut BTreeMap<Arc<str>, Version> {
        &mut self.versions
    }
}

/// The value of that name, made if it is new, without copying the name if it is not.
fn entry<'m, V: Default>(map: &'m mut BTreeMap<Arc<str>, V>, name: &str) -> &'m mut V {
    if !map.contains_key(name) {
        map.insert(name.into(), V::default());
    }
    map.get_mut(name).expect("it was just put there")
}
