//! A JSON object per line.

use std::io::Write;

use crate::export::column::{Cell, Columns};
use crate::export::error::ExportError;

pub(in crate::export) struct Encoder<W> {
    columns: Columns,
    to: W,
    /// The line that is made, whose memory is used again.
    line: Vec<u8>,
    bytes: u64,
}

impl<W: Write> Encoder<W> {
    pub(super) const fn new(columns: Columns, to: W) -> Self {
        Self { columns, to, line: Vec::new(), bytes: 0 }
    }

    pub(super) fn write(&mut self, row: &[Cell]) -> Result<(), ExportError> {
        self.line.clear();
        self.line.push(b'{');
        for (column, cell) in self.columns.iter().zip(row) {
            if *cell == Cell::Empty {
                continue;
            }
            if self.line.len() > 1 {
                self.line.push(b',');
            }
            text(&mut self.line, &column.name)?;
            self.line.push(b':');
            match cell {
                Cell::Empty => {}
                Cell::Text(value) => text(&mut self.line, value)?,
                Cell::Number(number) => write!(self.line, "{number}")?,
                Cell::Time(moment) => text(&mut self.line, &moment.to_string())?,
                Cell::Json(document) => self.line.extend_from_slice(document.as_bytes()),
            }
        }
        self.line.extend_from_slice(b"}\n");
        self.to.write_all(&self.line)?;
        self.bytes += self.line.len() as u64;
        Ok(())
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn finish(self) -> W {
        self.to
    }
}

fn text(line: &mut Vec<u8>, text: &str) -> Result<(), ExportError> {
    serde_json::to_writer(line, text).map_err(|error| ExportError::Encode(error.to_string()))
}
