//! Rows as bytes. The same rows are the same bytes, in every format.

mod csv;
mod ndjson;
mod parquet;

use std::io::Write;

use serde::{Deserialize, Serialize};

use super::column::{Column, Row};
use super::error::ExportError;

/// What the files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A JSON object per line. What is empty is left out.
    Ndjson,
    /// Comma-separated values with a header in every part. What is empty is an empty field.
    Csv,
    /// Parquet, compressed with zstd.
    Parquet,
}

impl Format {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 3] =
        [("ndjson", Self::Ndjson), ("csv", Self::Csv), ("parquet", Self::Parquet)];

    /// Its name, and how its files end.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// Writes rows.
pub(super) enum Encoder<W: Write + Send> {
    Ndjson(ndjson::Encoder<W>),
    Csv(Box<csv::Encoder<W>>),
    Parquet(Box<parquet::Encoder<W>>),
}

impl<W: Write + Send> Encoder<W> {
    pub(super) fn new(format: Format, columns: &'static [Column], to: W) -> Result<Self, ExportError> {
        Ok(match format {
            Format::Ndjson => Self::Ndjson(ndjson::Encoder::new(columns, to)),
            Format::Csv => Self::Csv(Box::new(csv::Encoder::new(columns, to)?)),
            Format::Parquet => Self::Parquet(Box::new(parquet::Encoder::new(columns, to)?)),
        })
    }

    pub(super) fn write(&mut self, row: Row) -> Result<(), ExportError> {
        match self {
            Self::Ndjson(encoder) => encoder.write(&row),
            Self::Csv(encoder) => encoder.write(&row),
            Self::Parquet(encoder) => encoder.write(row),
        }
    }

    /// How many bytes there are so far, without what is held back.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Ndjson(encoder) => encoder.bytes(),
            Self::Csv(encoder) => encoder.bytes(),
            Self::Parquet(encoder) => encoder.bytes(),
        }
    }

    /// Writes what was held back, and gives back what was written to.
    pub(super) fn finish(self) -> Result<W, ExportError> {
        match self {
            Self::Ndjson(encoder) => Ok(encoder.finish()),
            Self::Csv(encoder) => encoder.finish(),
            Self::Parquet(encoder) => encoder.finish(),
        }
    }
}
