//! Comma-separated values, as RFC 4180 has them, with lines that end in a newline.

use std::io::{self, Write};

use crate::export::column::{Cell, Column};
use crate::export::error::ExportError;

pub(in crate::export) struct Encoder<W: Write> {
    to: csv::Writer<Counted<W>>,
}

/// Counts what goes through it.
struct Counted<W> {
    to: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(columns: &[Column], to: W) -> Result<Self, ExportError> {
        let to = Counted { to, bytes: 0 };
        let mut to = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(to);
        to.write_record(columns.iter().map(|column| &*column.name))?;
        Ok(Self { to })
    }

    pub(super) fn write(&mut self, row: &[Cell]) -> Result<(), ExportError> {
        for cell in row {
            match cell {
                Cell::Empty => self.to.write_field("")?,
                Cell::Text(text) | Cell::Json(text) => self.to.write_field(text)?,
                Cell::Number(number) => self.to.write_field(number.to_string())?,
                Cell::Time(moment) => self.to.write_field(moment.to_string())?,
            }
        }
        Ok(self.to.write_record(None::<&[u8]>)?)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.to.get_ref().bytes
    }

    pub(super) fn finish(self) -> Result<W, ExportError> {
        let whole = self.to.into_inner();
        Ok(whole.map_err(|error| ExportError::Encode(error.error().to_string()))?.to)
    }
}
