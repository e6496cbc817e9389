//! Parquet: row groups of a fixed size, compressed with zstd.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::export::column::{Cell, Column, Columns, Kind, Row, epoch_micros};
use crate::export::error::ExportError;

/// Most rows of a row group.
const GROUP_ROWS_MAX: usize = 64 << 10;
/// A row group is written once its rows take so much memory.
const GROUP_BYTES: usize = 16 << 20;
/// A good rate for little time.
const ZSTD_LEVEL: i32 = 3;
/// Says who wrote the file; without a version, so that a newer one writes the same bytes.
const CREATED_BY: &str = "driftq";

pub(in crate::export) struct Encoder<W: Write + Send> {
    columns: Columns,
    to: SerializedFileWriter<W>,
    /// The row group that fills.
    held: Vec<Row>,
    held_bytes: usize,
}

impl<W: Write + Send> Encoder<W> {
    pub(super) fn new(columns: Columns, to: W) -> Result<Self, ExportError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_created_by(CREATED_BY.to_owned())
            .build();
        let to = SerializedFileWriter::new(to, schema(&columns)?, Arc::new(properties))?;
        Ok(Self { columns, to, held: Vec::new(), held_bytes: 0 })
    }

    pub(super) fn write(&mut self, row: Row) -> Result<(), ExportError> {
        self.held_bytes += row.iter().map(Cell::weight).sum::<usize>();
        self.held.push(row);
        if self.held.len() >= GROUP_ROWS_MAX || self.held_bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.to.bytes_written() as u64
    }

    pub(super) fn finish(mut self) -> Result<W, ExportError> {
        if !self.held.is_empty() {
            self.write_group()?;
        }
        Ok(self.to.into_inner()?)
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        let mut group = self.to.next_row_group()?;
        for (index, column) in self.columns.iter().enumerate() {
            let Some(to) = group.next_column()? else { break };
            write_column(to, column.kind, self.held.iter().map(|row| &row[index]))?;
        }
        group.close()?;
        self.held.clear();
        self.held_bytes = 0;
        Ok(())
    }
}

fn write_column<'a>(
    mut to: SerializedColumnWriter<'_>,
    kind: Kind,
    cells: impl Iterator<Item = &'a Cell>,
) -> Result<(), ExportError> {
    let mut levels = Vec::new();
    match kind {
        Kind::Text | Kind::Json => {
            let values: Vec<ByteArray> = present(cells, &mut levels, |cell| match cell {
                Cell::Text(text) | Cell::Json(text) => Some(ByteArray::from(text.as_bytes().to_vec())),
                _ => None,
            });
            to.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
        }
        Kind::Number | Kind::Time => {
            let values: Vec<i64> = present(cells, &mut levels, |cell| match cell {
                Cell::Number(number) => Some(*number),
                Cell::Time(moment) => Some(epoch_micros(*moment)),
                _ => None,
            });
            to.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
    }
    Ok(to.close()?)
}

/// The values that are there, and for each cell whether it is.
fn present<'a, T>(
    cells: impl Iterator<Item = &'a Cell>,
    levels: &mut Vec<i16>,
    pick: impl Fn(&Cell) -> Option<T>,
) -> Vec<T> {
    let mut values = Vec::new();
    for cell in cells {
        let value = pick(cell);
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    values
}

fn schema(columns: &[Column]) -> Result<TypePtr, ExportError> {
    let fields = columns.iter().map(|column| {
        let (physical, logical) = match column.kind {
            Kind::Text | Kind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Number => (Physical::INT64, None),
            Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        Ok(Arc::new(field.build()?))
    });
    let fields = fields.collect::<Result<Vec<_>, ExportError>>()?;
    Ok(Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?))
}
