//! Rows as bytes. The same rows are the same bytes, in every format.

mod csv;
mod ndjson;
mod parquet;

use std::io::Write;

pub use driftq_api::v2::ExportFormat as Format;

use super::column::{Columns, Row};
use super::error::ExportError;

/// Writes rows.
pub(super) enum Encoder<W: Write + Send> {
    Ndjson(ndjson::Encoder<W>),
    Csv(Box<csv::Encoder<W>>),
    Parquet(Box<parquet::Encoder<W>>),
}

impl<W: Write + Send> Encoder<W> {
    pub(super) fn new(format: Format, columns: Columns, to: W) -> Result<Self, ExportError> {
        Ok(match format {
            Format::Ndjson => Self::Ndjson(ndjson::Encoder::new(columns, to)),
            Format::Csv => Self::Csv(Box::new(csv::Encoder::new(&columns, to)?)),
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
