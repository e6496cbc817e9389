//! The rows of a batch: cells in one buffer, from which any choice of rows becomes arrays, or the text of a `COPY`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::config::{From, SinkConfig};
use super::message::{LentMessage, Message};
use super::pick::Picker;
use super::value::{self, Kind};

/// One column, ready for work.
struct Column {
    name: String,
    from: From,
    kind: Kind,
    is_required: bool,
    default: Option<String>,
}

/// How messages become rows.
pub(super) struct Shape {
    columns: Vec<Column>,
    /// The places of the columns that name a row.
    key: Vec<usize>,
    picker: Picker,
    /// Whether a payload must be JSON: nothing of it is read otherwise.
    reads_json: bool,
}

/// Messages on loan, and the rows that they became.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) messages: Vec<Message>,
    pub(super) rows: Rows,
    /// The message of each row.
    pub(super) sources: Vec<usize>,
    /// Messages that are no rows, and why.
    pub(super) refused: BTreeMap<usize, String>,
}

impl Batch {
    /// Adds another batch.
    pub(super) fn append(&mut self, other: Self) {
        let before = self.messages.len();
        self.messages.extend(other.messages);
        self.sources.extend(other.sources.into_iter().map(|source| before + source));
        self.refused.extend(other.refused.into_iter().map(|(message, why)| (before + message, why)));
        self.rows.append(&other.rows);
    }

    /// The message that became a row.
    pub(super) fn source(&self, row: usize) -> &Message {
        &self.messages[self.sources[row]]
    }
}

/// The rows of a batch.
#[derive(Default)]
pub(super) struct Rows {
    text: String,
    /// Where each cell lies, row after row; none is null.
    cells: Vec<Option<(usize, usize)>>,
    width: usize,
}

impl Shape {
    pub(super) fn new(config: &SinkConfig) -> Result<Self, String> {
        let mut columns = Vec::with_capacity(config.columns.len());
        for column in &config.columns {
            let default = column.default.as_ref().map(|default| value::default_cell(column.kind, default));
            columns.push(Column {
                name: column.name.clone(),
                from: From::parse(&column.from)?,
                kind: column.kind,
                is_required: column.required,
                default: default.transpose()?,
            });
        }
        let pointers = columns.iter().enumerate().filter_map(|(slot, column)| match &column.from {
            From::Pointer(pointer) => Some((slot, pointer)),
            _ => None,
        });
        let picker = Picker::new(pointers);
        let is_document = |column: &Column| column.from == From::Value && column.kind == Kind::Jsonb;
        let reads_json = !picker.is_empty() || columns.iter().any(is_document);
        let key = config.dedupe_key.iter().filter_map(|name| config.place_of(name)).collect();
        Ok(Self { columns, key, picker, reads_json })
    }

    /// The messages of one call, and the rows that they become.
    pub(super) fn batch(&self, lot: u64, lent: &[LentMessage<'_>]) -> Batch {
        let mut batch = Batch::default();
        let Batch { messages, rows, sources, refused } = &mut batch;
        rows.width = self.columns.len();
        let mut slots = vec![None; self.columns.len()];
        for message in lent {
            let (text, cells) = (rows.text.len(), rows.cells.len());
            match self.add_cells(message, &mut slots, rows) {
                Ok(()) => sources.push(messages.len()),
                Err(why) => {
                    rows.text.truncate(text);
                    rows.cells.truncate(cells);
                    refused.insert(messages.len(), why);
                }
            }
            messages.push(message.kept(lot, messages.last()));
        }
        batch
    }

    fn add_cells<'a>(
        &self,
        message: &'a LentMessage<'_>,
        slots: &mut [Option<&'a RawValue>],
        rows: &mut Rows,
    ) -> Result<(), String> {
        slots.fill(None);
        if self.reads_json {
            let text = message.text().ok_or("the payload is not UTF-8, so it is not JSON")?;
            self.picker.pick(text, slots).map_err(|error| format!("the payload is not JSON: {error}"))?;
        }
        for (column, slot) in self.columns.iter().zip(&*slots) {
            let start = rows.text.len();
            let is_there = column
                .append(message, *slot, &mut rows.text)
                .map_err(|why| format!("column {}: {why}", column.name))?;
            match (&column.default, is_there) {
                (_, true) => {}
                (Some(default), false) => rows.text.push_str(default),
                (None, false) if column.is_required => {
                    return Err(format!("column {} is required, and the message has none", column.name));
                }
                (None, false) => {
                    rows.cells.push(None);
                    continue;
                }
            }
            rows.cells.push(Some((start, rows.text.len())));
        }
        Ok(())
    }

    /// Puts rows into the order of their keys, and leaves those with the same key in theirs. All copies of a sink
    /// lock rows in this order, so that none waits for another that waits for it.
    pub(super) fn sort(&self, rows: &Rows, chosen: &mut [usize]) {
        if !self.key.is_empty() {
            chosen.sort_by(|left, right| {
                let cells = |row: usize| self.key.iter().map(move |column| rows.cell(row, *column));
                cells(*left).cmp(cells(*right))
            });
        }
    }

    /// Takes those out of `chosen`, in order of their keys, that have the key of the row before.
    pub(super) fn take_equals(&self, rows: &Rows, chosen: &mut Vec<usize>) -> Vec<usize> {
        let cells = |row: usize| self.key.iter().map(move |column| rows.cell(row, *column));
        let mut before = None;
        chosen
            .extract_if(.., |row| before.replace(*row).is_some_and(|before| cells(before).eq(cells(*row))))
            .collect()
    }

    /// One array per column, of the rows that are chosen.
    pub(super) fn arrays<'a>(&self, rows: &'a Rows, chosen: &[usize]) -> Vec<Vec<Option<&'a str>>> {
        (0..self.columns.len()).map(|column| rows.array(column, chosen)).collect()
    }

    /// One array per column of the key, of the rows that are chosen.
    pub(super) fn keys<'a>(&self, rows: &'a Rows, chosen: &[usize]) -> Vec<Vec<Option<&'a str>>> {
        self.key.iter().map(|column| rows.array(*column, chosen)).collect()
    }
}

impl Column {
    /// Appends the message's value; false if it has none.
    fn append(
        &self,
        message: &LentMessage<'_>,
        slot: Option<&RawValue>,
        cells: &mut String,
    ) -> Result<bool, String> {
        match &self.from {
            From::Pointer(_) => match slot.map(RawValue::get) {
                None | Some("null") => return Ok(false),
                Some(text) => value::append_json(self.kind, text, cells)?,
            },
            From::Key => match message.key()? {
                key if key.is_empty() => return Ok(false),
                key => append_bytes(self.kind, &key, cells)?,
            },
            From::Offset => value::append_shown(message.offset(), cells),
            From::Partition => value::append_shown(message.partition(), cells),
            From::ProducedAt => value::append_moment(message.produced_at()?, cells),
            From::IdempotencyKey => match message.idempotency_key() {
                "" => return Ok(false),
                key => value::append_text(key, cells)?,
            },
            // It was read as a whole when the slots were filled.
            From::Value if self.kind == Kind::Jsonb => cells.push_str(message.text().unwrap_or_default()),
            From::Value => append_bytes(self.kind, &message.payload()?, cells)?,
        }
        Ok(true)
    }
}

fn append_bytes(kind: Kind, value: &[u8], cells: &mut String) -> Result<(), String> {
    if kind == Kind::Bytea {
        value::append_bytea(value, cells);
        return Ok(());
    }
    value::append_text(std::str::from_utf8(value).map_err(|_| "is not UTF-8")?, cells)
}

impl Rows {
    fn append(&mut self, other: &Self) {
        let before = self.text.len();
        self.text.push_str(&other.text);
        let moved = |(start, end): (usize, usize)| (before + start, before + end);
        self.cells.extend(other.cells.iter().map(|cell| cell.map(moved)));
        self.width = other.width;
    }

    fn cell(&self, row: usize, column: usize) -> Option<&str> {
        self.cells[row * self.width + column].map(|(start, end)| &self.text[start..end])
    }

    fn array(&self, column: usize, chosen: &[usize]) -> Vec<Option<&str>> {
        chosen.iter().map(|row| self.cell(*row, column)).collect()
    }

    /// The rows that are chosen, as `COPY` reads them.
    pub(super) fn copied(&self, chosen: &[usize]) -> String {
        let mut text = String::with_capacity(self.text.len() + chosen.len() * self.width);
        for row in chosen {
            for column in 0..self.width {
                if column > 0 {
                    text.push('\t');
                }
                match self.cell(*row, column) {
                    None => text.push_str("\\N"),
                    Some(cell) => push_escaped(cell, &mut text),
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Appends a cell without anything that would end it.
fn push_escaped(mut cell: &str, text: &mut String) {
    while let Some(place) = cell.find(['\\', '\t', '\n', '\r']) {
        text.push_str(&cell[..place]);
        text.push_str(match cell.as_bytes()[place] {
            b'\t' => "\\t",
            b'\n' => "\\n",
            b'\r' => "\\r",
            _ => "\\\\",
        });
        // Each of them is one byte long.
        cell = &cell[place + 1..];
    }
    text.push_str(cell);
}
