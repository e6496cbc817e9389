//! Parts: rows go into a file, which is digested as it is written.

use std::fs::File;
use std::io::{self, BufWriter, Write};

pub use driftq_api::v2::{EXPORT_PART_BYTES_MAX as PART_BYTES_MAX, EXPORT_PART_ROWS_MAX as PART_ROWS_MAX};
use sha2::{Digest, Sha256};

use super::column::{Columns, Row};
use super::error::ExportError;
use super::format::{Encoder, Format};

/// Rows of a part, unless another number is given.
pub const PART_ROWS: u64 = 1_000_000;
/// A part ends once it has so many bytes, unless another number is given. It may exceed that by a row, in Parquet by a
/// row group.
pub const PART_BYTES: u64 = 64 << 20;
/// Most parts of an export: the manifest that names them must fit the outcome of an effect.
pub const PARTS_MAX: usize = 1_000;

/// When a part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartBounds {
    /// Most rows.
    pub rows: u64,
    /// No more rows once it has so many bytes.
    pub bytes: u64,
}

impl Default for PartBounds {
    fn default() -> Self {
        Self { rows: PART_ROWS, bytes: PART_BYTES }
    }
}

impl PartBounds {
    pub(super) fn check(self) -> Result<(), ExportError> {
        if self.rows == 0 || self.rows > PART_ROWS_MAX {
            return Err(ExportError::Invalid(format!("a part has 1 to {PART_ROWS_MAX} rows")));
        }
        if self.bytes == 0 || self.bytes > PART_BYTES_MAX {
            return Err(ExportError::Invalid(format!("a part has 1 to {PART_BYTES_MAX} bytes")));
        }
        Ok(())
    }
}

/// A part that fills.
pub(super) struct Part {
    encoder: Encoder<Digested>,
    bounds: PartBounds,
    rows: u64,
}

/// A part that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// In hex.
    pub(super) digest: String,
}

impl Part {
    pub(super) fn new(
        file: File,
        format: Format,
        columns: Columns,
        bounds: PartBounds,
    ) -> Result<Self, ExportError> {
        let to = Digested { to: BufWriter::new(file), digest: Sha256::new(), bytes: 0 };
        Ok(Self { encoder: Encoder::new(format, columns, to)?, bounds, rows: 0 })
    }

    /// Takes rows from the front until it is full; what is left belongs to the next part.
    pub(super) fn fill(&mut self, rows: &mut std::vec::IntoIter<Row>) -> Result<(), ExportError> {
        while !self.is_full() {
            let Some(row) = rows.next() else { break };
            self.encoder.write(row)?;
            self.rows += 1;
        }
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.bounds.rows || self.encoder.bytes() >= self.bounds.bytes
    }

    /// Ends it. Its bytes are on the disk.
    pub(super) fn finish(self) -> Result<Whole, ExportError> {
        let Digested { to, digest, bytes } = self.encoder.finish()?;
        let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(Whole { rows: self.rows, bytes, digest: hex(&digest.finalize()) })
    }
}

/// A file, and the digest of what went into it.
struct Digested {
    to: BufWriter<File>,
    digest: Sha256,
    bytes: u64,
}

impl Write for Digested {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.digest.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of a document, in hex.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
