//! Pointers of a dataset.

use driftq_api::v2::Output;

use crate::export::column::{Cell, Column, Kind, Row};

/// Columns of a pointer.
pub(in crate::export) const OUTPUT: &[Column] = &[
    Column::new("dataset", Kind::Text),
    Column::new("version", Kind::Text),
    Column::new("partition_key", Kind::Text),
    Column::new("mode", Kind::Text),
    Column::new("dedupe_key", Kind::Text),
    Column::new("location", Kind::Text),
    Column::new("digest", Kind::Text),
    Column::new("committed_at", Kind::Time),
    Column::new("message", Kind::Json),
];

/// One pointer.
pub(in crate::export) fn output(dataset: &str, version: &str, output: Output<'_>) -> Row {
    let mode = match output.mode {
        driftq_api::v2::OutputMode::Replace => "replace",
        driftq_api::v2::OutputMode::Append => "append",
    };
    vec![
        Cell::text(dataset),
        Cell::text(version),
        Cell::text(output.partition_key),
        Cell::text(mode),
        Cell::maybe_text(output.dedupe_key),
        Cell::text(output.location),
        Cell::text(output.digest),
        Cell::Time(output.committed_at),
        output.message.as_ref().map_or(Cell::Empty, Cell::json),
    ]
}
