//! The rows of a batch: cells in one buffer, from which any choice of rows becomes arrays.

use bytes::{BufMut, BytesMut};
use serde_json::value::RawValue;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::config::{From, SinkConfig};
use super::message::Message;
use super::pick::Picker;
use super::value::{self, Kind};

/// One column, ready for work.
struct Column {
    name: String,
    from: From,
    kind: Kind,
    is_required: bool,
    default: Option<Vec<u8>>,
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

/// The rows of a batch.
pub(super) struct Rows {
    bytes: Vec<u8>,
    /// Where each cell lies, row after row; none is null.
    cells: Vec<Option<(usize, usize)>>,
    width: usize,
}

impl Shape {
    pub(super) fn new(config: &SinkConfig) -> Result<Self, String> {
        let mut columns = Vec::with_capacity(config.columns.len());
        for column in &config.columns {
            let default = column.default.as_ref().map(|default| value::default_bytes(column.kind, default));
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

    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.columns.iter().map(|column| column.kind)
    }

    /// No rows yet.
    pub(super) fn rows(&self) -> Rows {
        Rows { bytes: Vec::new(), cells: Vec::new(), width: self.columns.len() }
    }

    /// Adds the row that a message becomes; or says why it is none, and adds nothing.
    pub(super) fn add(&self, message: &Message, rows: &mut Rows) -> Result<(), String> {
        let (bytes, cells) = (rows.bytes.len(), rows.cells.len());
        let added = self.add_cells(message, rows);
        if added.is_err() {
            rows.bytes.truncate(bytes);
            rows.cells.truncate(cells);
        }
        added
    }

    fn add_cells(&self, message: &Message, rows: &mut Rows) -> Result<(), String> {
        let mut slots: Vec<Option<&RawValue>> = vec![None; self.columns.len()];
        if self.reads_json {
            let text = message.text().ok_or("the payload is not UTF-8, so it is not JSON")?;
            self.picker
                .pick(text, &mut slots)
                .map_err(|error| format!("the payload is not JSON: {error}"))?;
        }
        for (column, slot) in self.columns.iter().zip(slots) {
            let start = rows.bytes.len();
            let is_there = column
                .append(message, slot, &mut rows.bytes)
                .map_err(|why| format!("column {}: {why}", column.name))?;
            match (&column.default, is_there) {
                (_, true) => {}
                (Some(default), false) => rows.bytes.extend(default),
                (None, false) if column.is_required => {
                    return Err(format!("column {} is required, and the message has none", column.name));
                }
                (None, false) => {
                    rows.cells.push(None);
                    continue;
                }
            }
            rows.cells.push(Some((start, rows.bytes.len())));
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

    /// One array per column, of the rows that are chosen.
    pub(super) fn arrays(&self, rows: &Rows, chosen: &[usize]) -> Vec<Array> {
        self.columns
            .iter()
            .enumerate()
            .map(|(place, column)| {
                let (element, _) = column.kind.wire();
                Array::new(&element, chosen.iter().map(|row| rows.cell(*row, place)))
            })
            .collect()
    }
}

impl Column {
    /// Appends the message's value; false if it has none.
    fn append(
        &self,
        message: &Message,
        slot: Option<&RawValue>,
        bytes: &mut Vec<u8>,
    ) -> Result<bool, String> {
        match &self.from {
            From::Pointer(_) => match slot.map(RawValue::get) {
                None | Some("null") => return Ok(false),
                Some(text) => value::append_json(self.kind, text, bytes)?,
            },
            From::Key => match message.key()? {
                key if key.is_empty() => return Ok(false),
                key => append_bytes(self.kind, &key, bytes)?,
            },
            From::Offset if self.kind == Kind::Numeric => bytes.extend(message.offset.to_string().as_bytes()),
            From::Offset => bytes.extend(message.offset.to_be_bytes()),
            From::Partition if self.kind == Kind::Bigint => {
                bytes.extend(i64::from(message.partition).to_be_bytes());
            }
            From::Partition => {
                let partition = i32::try_from(message.partition);
                bytes.extend(partition.map_err(|_| "the partition is beyond an integer")?.to_be_bytes());
            }
            From::ProducedAt => value::append_moment(message.item.produced_at, bytes),
            From::IdempotencyKey => match message.idempotency_key() {
                "" => return Ok(false),
                key => value::append_text(key, bytes)?,
            },
            From::Value if self.kind == Kind::Jsonb => {
                // It was read as a whole when the slots were filled.
                value::append_jsonb(message.text().unwrap_or_default(), bytes);
            }
            From::Value => append_bytes(self.kind, &message.payload()?, bytes)?,
        }
        Ok(true)
    }
}

fn append_bytes(kind: Kind, value: &[u8], bytes: &mut Vec<u8>) -> Result<(), String> {
    if kind == Kind::Bytea {
        bytes.extend(value);
        return Ok(());
    }
    value::append_text(std::str::from_utf8(value).map_err(|_| "is not UTF-8")?, bytes)
}

impl Rows {
    fn cell(&self, row: usize, column: usize) -> Option<&[u8]> {
        self.cells[row * self.width + column].map(|(start, end)| &self.bytes[start..end])
    }
}

/// An array as PostgreSQL takes it.
#[derive(Debug)]
pub(super) struct Array(Vec<u8>);

impl Array {
    pub(super) fn new<'a>(element: &Type, cells: impl ExactSizeIterator<Item = Option<&'a [u8]>>) -> Self {
        let mut bytes = Vec::new();
        // One dimension, perhaps with nulls, from index 1. Batches are far shorter than these numbers allow.
        bytes.put_i32(1);
        bytes.put_i32(1);
        bytes.put_u32(element.oid());
        bytes.put_i32(i32::try_from(cells.len()).unwrap_or(i32::MAX));
        bytes.put_i32(1);
        for cell in cells {
            match cell {
                None => bytes.put_i32(-1),
                Some(cell) => {
                    bytes.put_i32(i32::try_from(cell.len()).unwrap_or(i32::MAX));
                    bytes.put_slice(cell);
                }
            }
        }
        Self(bytes)
    }
}

impl ToSql for Array {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
