//! Backups of a log: files in parts whose names are their digests, and a manifest that is written last. Without it there
//! is no backup, so that half of one never looks like a whole one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::export::{ExportError, Place, PlaceUrl, STAGING};

/// Most bytes of a part, which is held in memory.
const PART_BYTES_MAX: usize = 16 << 20;
/// Most letters of an id.
const ID_BYTES_MAX: usize = 100;
/// The version of manifests that this program writes and reads.
const VERSION: u32 = 1;
const MANIFEST: &str = "manifest.json";
/// How the files of a log are called; nothing else is taken out of a backup.
const PREFIXES: [&str; 2] = ["seg-", "snap-"];
/// How the directories are called in which the logs of all shards but the first lie; a number follows.
const SHARD: &str = "shard-";

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this document.
    pub version: u32,
    /// The name of the backup.
    pub id: String,
    /// Which program made it.
    pub made_by: String,
    /// When it was whole, in milliseconds since 1970.
    pub taken_at_ms: u64,
    /// Where the log in it ends, as `segment:byte`; if there are several shards, where that of each does, with commas in
    /// between. Whatever was acknowledged before the backup began lies below.
    pub end: String,
    /// Messages in it.
    pub messages: u64,
    /// How many shards it has, each with files of its own; backups of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u8>,
    /// Its files.
    pub files: Vec<BackupFile>,
}

impl Manifest {
    /// A manifest of this version, with no file yet.
    #[must_use]
    pub fn new(id: &str, made_by: &str, taken_at_ms: u64) -> Self {
        let (id, made_by) = (id.to_owned(), made_by.to_owned());
        Self {
            version: VERSION,
            id,
            made_by,
            taken_at_ms,
            end: String::new(),
            messages: 0,
            shards: None,
            files: Vec::new(),
        }
    }

    /// The first shard of which there is no file, although there is such a shard: it was lost. A manifest that does not
    /// say how many there are says where each of them ends.
    #[must_use]
    pub fn missing(&self) -> Option<u8> {
        let told = || u8::try_from(self.end.split(',').count()).unwrap_or(u8::MAX);
        let has = |shard: u8| self.files.iter().any(|file| shard_of(&file.name) == Some(shard));
        (0..self.shards.unwrap_or_else(told)).find(|shard| !has(*shard))
    }

    /// Bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.parts).map(|part| part.bytes).sum()
    }

    /// SHA-256 of the document.
    #[must_use]
    pub fn digest(&self) -> String {
        // A struct of strings and numbers always has a text.
        hex(&serde_json::to_vec(self).unwrap_or_default())
    }
}

/// One file of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// What it is called in a data directory; in `shard-n/`, if it belongs to the log of another shard than the first.
    pub name: String,
    /// How long it is there: what its parts lack are zeros at its end.
    pub length: u64,
    /// Its parts, in order.
    pub parts: Vec<BackupPart>,
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupPart {
    /// Its digest, which is also its name.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
}

/// The place of one backup.
pub struct Backup {
    place: Place,
    id: String,
    /// Parts that an earlier attempt has left.
    there: BTreeSet<String>,
    /// Parts that were there already.
    pub reused: u64,
}

impl Backup {
    /// The backup of this name in a place.
    ///
    /// # Errors
    /// If the name is none, or the place cannot be reached.
    pub fn open(place: &PlaceUrl, id: &str) -> Result<Self, ExportError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.len() > ID_BYTES_MAX || id.starts_with('.') || !id.chars().all(plain) {
            let why =
                "the id of a backup is 1 to 100 of a-z, A-Z, 0-9, -, _ and ., and does not begin with a dot";
            return Err(ExportError::Invalid(why.to_owned()));
        }
        Ok(Self { place: Place::open(place)?, id: id.to_owned(), there: BTreeSet::new(), reused: 0 })
    }

    /// Where it lies.
    #[must_use]
    pub fn location(&self) -> String {
        self.place.location(&self.id)
    }

    /// Its manifest; `None` if there is no whole backup of this name.
    ///
    /// # Errors
    /// If the place cannot be read, or the manifest cannot be understood.
    pub async fn manifest(&self) -> Result<Option<Manifest>, ExportError> {
        let Some(bytes) = self.place.read(&self.name(MANIFEST)).await? else { return Ok(None) };
        let invalid = |why: String| ExportError::Invalid(format!("{}/{MANIFEST}: {why}", self.location()));
        let found: Manifest = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if found.version != VERSION {
            return Err(invalid(format!("version {} is not known; use a newer driftq", found.version)));
        }
        if let Some(file) = found.files.iter().find(|file| !is_of_log(&file.name)) {
            return Err(invalid(format!("{:?} is no file of a log", file.name)));
        }
        Ok(Some(found))
    }

    /// Finds out what is there, and that the place keeps names.
    ///
    /// # Errors
    /// If the place cannot be used.
    pub async fn begin(&mut self) -> Result<(), ExportError> {
        self.place.probe(&self.scratch()).await?;
        self.there = self.place.list(&self.id).await?.into_iter().collect();
        Ok(())
    }

    /// Puts a file, from its beginning, in parts.
    ///
    /// # Errors
    /// If it cannot be read, or the place takes nothing.
    pub async fn put(&mut self, name: &str, length: u64, file: &mut File) -> Result<BackupFile, ExportError> {
        let mut parts = Vec::new();
        loop {
            let mut bytes = Vec::new();
            Read::by_ref(file).take(PART_BYTES_MAX as u64).read_to_end(&mut bytes)?;
            if bytes.is_empty() {
                return Ok(BackupFile { name: name.to_owned(), length, parts });
            }
            let part = BackupPart { sha256: hex(&bytes), bytes: bytes.len() as u64 };
            let stored = stored(&part);
            if self.there.contains(&stored) {
                self.reused += 1;
            } else {
                self.place.create(&self.scratch(), &self.name(&stored), Bytes::from(bytes)).await?;
                self.there.insert(stored);
            }
            parts.push(part);
        }
    }

    /// Writes the manifest: from now on there is a backup. `false` if another one was quicker. What belongs to no file
    /// of it is swept.
    ///
    /// # Errors
    /// If the place takes nothing.
    pub async fn finish(&self, manifest: &Manifest) -> Result<bool, ExportError> {
        let text = serde_json::to_vec_pretty(manifest)
            .map_err(|error| ExportError::Invalid(format!("the manifest has no text: {error}")))?;
        let is_ours = self.place.create(&self.scratch(), &self.name(MANIFEST), text.into()).await?;
        if is_ours {
            let needed: BTreeSet<String> =
                manifest.files.iter().flat_map(|file| &file.parts).map(stored).collect();
            for stray in self.there.difference(&needed).filter(|name| name.ends_with(PART)) {
                self.place.remove(&self.name(stray)).await?;
            }
            self.place.remove(&self.scratch()).await?;
        }
        Ok(is_ours)
    }

    /// Writes a file of the backup, every part checked against its digest, and makes it durable.
    ///
    /// # Errors
    /// If a part is missing or is not what it was, or the file cannot be written.
    pub async fn fetch(&self, wanted: &BackupFile, path: &Path) -> Result<(), ExportError> {
        let unfinished = path.with_extension("part");
        let mut file = File::create(&unfinished)?;
        let mut written = 0;
        for part in &wanted.parts {
            let damaged = |what: &str| ExportError::Place {
                place: self.location(),
                why: format!("the part {} of {} {what}; use another backup", part.sha256, wanted.name),
            };
            let found = self.place.read(&self.name(&stored(part))).await?;
            let bytes = found.ok_or_else(|| damaged("is missing"))?;
            if bytes.len() as u64 != part.bytes || hex(&bytes) != part.sha256 {
                return Err(damaged("is damaged"));
            }
            file.write_all(&bytes)?;
            written += part.bytes;
        }
        // Zeros, not a hole: a hole would need space later, in the middle of an append.
        let missing = wanted.length.saturating_sub(written);
        std::io::copy(&mut std::io::repeat(0).take(missing), &mut file)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        Ok(())
    }

    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.id)
    }

    fn scratch(&self) -> String {
        format!("{STAGING}/backup-{}", self.id)
    }
}

const PART: &str = ".part";

/// Whether this names a file of a log, and nothing outside the data directory. A manifest is believed no further.
fn is_of_log(name: &str) -> bool {
    let file = name.split_once('/').map_or(name, |(_, file)| file);
    shard_of(name).is_some()
        && !file.contains(['/', '\\', '\0'])
        && PREFIXES.iter().any(|prefix| file.starts_with(prefix))
}

/// The shard whose file this is, by the directory that it is in; `None` if no shard's is called so.
fn shard_of(name: &str) -> Option<u8> {
    let Some((directory, _)) = name.split_once('/') else { return Some(0) };
    let number = directory.strip_prefix(SHARD)?.parse::<u8>().ok()?;
    // Spelled in one way only: no two names for the same directory.
    (number > 0 && format!("{SHARD}{number}") == directory).then_some(number)
}

fn stored(part: &BackupPart) -> String {
    format!("{}{PART}", part.sha256)
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{BackupFile, Manifest, is_of_log};

    /// Also in a manifest that does not say how many shards there are, if it says where more than one ends.
    #[test]
    fn a_shard_without_a_file_is_missing() {
        let named = |name: &&str| BackupFile { name: (*name).to_owned(), length: 0, parts: Vec::new() };
        let manifest = |shards, end: &str, names: &[&str]| {
            let files = names.iter().map(named).collect();
            Manifest { shards, end: end.to_owned(), files, ..Manifest::new("one", "test", 0) }
        };
        let all = ["seg-1", "shard-1/seg-1", "shard-2/snap-1"];
        for (shards, end) in [(Some(3), ""), (None, "1:64, 1:64, 2:64")] {
            assert_eq!(manifest(shards, end, &all).missing(), None);
            for (lost, shard) in all.iter().zip(0..) {
                let left: Vec<&str> = all.iter().copied().filter(|name| name != lost).collect();
                assert_eq!(manifest(shards, end, &left).missing(), Some(shard), "{lost}");
            }
        }
        assert_eq!(manifest(None, "", &all[..1]).missing(), None);
        assert_eq!(manifest(None, "1:64", &all[..1]).missing(), None);
    }

    #[test]
    fn only_files_of_a_log_are_taken_out_of_a_backup() {
        for name in
            ["seg-00000001.log", "snap-0000000100000040.snap", "shard-1/seg-00000001.log", "shard-63/snap-1"]
        {
            assert!(is_of_log(name), "{name}");
        }
        let strange = [
            "",
            "LOCK",
            "root.key",
            "../seg-1",
            "/seg-1",
            "seg-/../../x",
            "seg-1/../../x",
            "seg-\\..\\x",
            "seg-\0",
            "shard-1",
            "shard-1/",
            "shard-1/LOCK",
            "shard-1/../seg-1",
            "shard-1/../../seg-1",
            "shard-1//seg-1",
            "shard-1/seg-1/x",
            "shard-1/seg-\\x",
            "shard-1/shard-2/seg-1",
            "shard-../seg-1",
            "shard-/seg-1",
            "shard-0/seg-1",
            "shard-01/seg-1",
            "shard-+1/seg-1",
            "shard-256/seg-1",
            "../shard-1/seg-1",
            "./shard-1/seg-1",
        ];
        for name in strange {
            assert!(!is_of_log(name), "{name:?}");
        }
    }
}
