//! Outputs as bytes, and back.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::log::output::{put_author, take_author};
use crate::state::output::record::{Dataset, HISTORY_MAX, Outputs, Pointer};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::Time;

impl Outputs {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_length(self.datasets.len());
        for (tenant, name, dataset) in self.datasets.each() {
            out.put_text(tenant);
            out.put_text(name);
            put_name(out, dataset.current.as_ref());
            out.put_u64(dataset.cut_over.0);
            put_name(out, dataset.rolled_back.as_ref());
            out.put_length(dataset.history.len());
            for (version, at) in &dataset.history {
                put_name(out, version.as_ref());
                out.put_u64(at.0);
            }
            out.put_length(dataset.versions.len());
            for (version, kept) in &dataset.versions {
                out.put_text(version);
                out.put_u64(kept.updated.0);
                out.put_u8(u8::from(kept.sealed));
                out.put_length(kept.cells.len());
                for (partition_key, cell) in &kept.cells {
                    out.put_text(partition_key);
                    out.put_length(cell.pointers().len());
                    for pointer in cell.pointers() {
                        put_pointer(out, pointer);
                    }
                }
            }
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>, snapshot: u32) -> Result<Self, Malformed> {
        let mut outputs = Self::default();
        for _ in 0..take.count(24)? {
            // Before, no dataset belonged to a tenant, and none was sealed.
            let tenant = if snapshot > 3 { take.text()? } else { "" };
            let name = take.text()?;
            if outputs.datasets.get(tenant, name).is_some() {
                return Err(take.malformed());
            }
            let current = take_name(take)?;
            let cut_over = Time(take.u64()?);
            let rolled_back = take_name(take)?;
            let mut history = alloc::collections::VecDeque::new();
            for _ in 0..take.count(9)? {
                history.push_back((take_name(take)?, Time(take.u64()?)));
            }
            outputs.take_versions(take, (tenant, name), snapshot)?;
            let dataset = outputs.datasets.get_mut(tenant, name).ok_or_else(|| take.malformed())?;
            let known = |version: &Arc<str>| dataset.versions.contains_key(version);
            let shown = current.iter().chain(history.iter().filter_map(|(version, _)| version.as_ref()));
            if history.len() > HISTORY_MAX || !shown.into_iter().all(known) {
                return Err(take.malformed());
            }
            *dataset = Dataset {
                current,
                cut_over,
                history,
                rolled_back,
                versions: core::mem::take(&mut dataset.versions),
            };
            if snapshot < 4 {
                dataset.seal_shown();
            }
        }
        Ok(outputs)
    }

    fn take_versions(
        &mut self,
        take: &mut Take<'_>,
        (tenant, dataset): (&str, &str),
        snapshot: u32,
    ) -> Result<(), Malformed> {
        for _ in 0..take.count(16)? {
            let version = take.text()?;
            let updated = Time(take.u64()?);
            let sealed = snapshot > 3 && take.u8()? != 0;
            for _ in 0..take.count(8)? {
                let partition_key = take.text()?;
                for _ in 0..take.count(21)? {
                    let pointer = take_pointer(take)?;
                    let replaces = pointer.dedupe_key.is_empty();
                    if replaces && self.cell(tenant, dataset, version, partition_key).is_some() {
                        return Err(take.malformed());
                    }
                    self.put((tenant, dataset, version, partition_key), pointer)?;
                }
            }
            let known = self.datasets.get_mut(tenant, dataset);
            let kept = known.and_then(|dataset| dataset.versions.get_mut(version));
            let kept = kept.ok_or_else(|| take.malformed())?;
            (kept.updated, kept.sealed) = (updated, sealed);
        }
        Ok(())
    }
}

impl Dataset {
    /// Seals what readers are known to have seen.
    fn seal_shown(&mut self) {
        let shown =
            self.current.iter().chain(self.history.iter().filter_map(|(version, _)| version.as_ref()));
        for version in shown {
            if let Some(version) = self.versions.get_mut(version) {
                version.sealed = true;
            }
        }
    }
}

fn put_pointer(out: &mut Vec<u8>, pointer: &Pointer) {
    for text in [&pointer.dedupe_key, &pointer.location, &pointer.digest] {
        out.put_text(text);
    }
    out.put_u64(pointer.at.0);
    put_author(out, pointer.by);
}

fn take_pointer(take: &mut Take<'_>) -> Result<Pointer, Malformed> {
    Ok(Pointer {
        dedupe_key: take.shared()?,
        location: take.shared()?,
        digest: take.shared()?,
        at: Time(take.u64()?),
        by: take_author(take)?,
    })
}

fn put_name(out: &mut Vec<u8>, name: Option<&Arc<str>>) {
    out.put_u8(u8::from(name.is_some()));
    if let Some(name) = name {
        out.put_text(name);
    }
}

fn take_name(take: &mut Take<'_>) -> Result<Option<Arc<str>>, Malformed> {
    if take.u8()? == 0 { Ok(None) } else { take.shared().map(Some) }
}
