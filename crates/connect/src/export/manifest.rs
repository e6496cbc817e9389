//! The list of an export's parts.

use serde::{Deserialize, Serialize};

use super::format::Format;
use super::part::{Whole, digest};
use super::selection::Selection;

/// What the names of manifests begin with, and those of parts do not.
const PREFIX: &str = "manifest-";

/// What an export consists of. It says nothing about when or by whom it was written, so the same export has the same
/// manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The export's id.
    pub id: String,
    /// What was exported, with the bounds that were filled in.
    pub selection: Selection,
    /// What the files are.
    pub format: Format,
    /// The rows of all parts.
    pub rows: u64,
    /// The bytes of all parts.
    pub bytes: u64,
    /// The files, in order; they lie beside the manifest.
    pub parts: Vec<ManifestPart>,
}

/// One file of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestPart {
    /// Its name in the folder of the manifest.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
    /// `sha256:` and the digest of its bytes in hex.
    pub digest: String,
}

impl ManifestPart {
    pub(super) fn new(number: usize, format: Format, whole: &Whole) -> Self {
        let Whole { rows, bytes, digest } = whole;
        let name = format!("{number:05}-{digest}.{}", format.name());
        Self { name, rows: *rows, bytes: *bytes, digest: format!("sha256:{digest}") }
    }
}

impl Manifest {
    pub(super) fn new(id: &str, selection: Selection, format: Format, parts: Vec<ManifestPart>) -> Self {
        let rows = parts.iter().map(|part| part.rows).sum();
        let bytes = parts.iter().map(|part| part.bytes).sum();
        Self { id: id.to_owned(), selection, format, rows, bytes, parts }
    }
}

/// Whether a file of this name is a manifest.
pub(super) fn is_manifest(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// What a manifest of these bytes is called.
pub(super) fn name_of(bytes: &[u8]) -> String {
    format!("{PREFIX}{}.json", digest(bytes))
}
