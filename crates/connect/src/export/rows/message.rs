//! Messages and dead letters.

use driftq_api::v2::Item;

use crate::export::column::{Cell, Column, Kind, Row};

const SHARED: [Column; 17] = [
    Column::new("topic", Kind::Text),
    Column::new("partition", Kind::Number),
    Column::new("offset", Kind::Number),
    Column::new("key", Kind::Text),
    Column::new("key_b64", Kind::Text),
    Column::new("value", Kind::Text),
    Column::new("value_b64", Kind::Text),
    Column::new("priority", Kind::Number),
    Column::new("produced_at", Kind::Time),
    Column::new("deliver_at", Kind::Time),
    Column::new("run_id", Kind::Text),
    Column::new("step_id", Kind::Text),
    Column::new("parent_step_id", Kind::Text),
    Column::new("tenant_id", Kind::Text),
    Column::new("idempotency_key", Kind::Text),
    Column::new("deadline", Kind::Time),
    Column::new("labels", Kind::Json),
];

const DEATH: [Column; 8] = [
    Column::new("source_topic", Kind::Text),
    Column::new("source_partition", Kind::Number),
    Column::new("source_offset", Kind::Number),
    Column::new("group", Kind::Text),
    Column::new("attempts", Kind::Number),
    Column::new("reason", Kind::Text),
    Column::new("last_error", Kind::Text),
    Column::new("died_at", Kind::Time),
];

/// Columns of a message.
pub(in crate::export) const MESSAGE: &[Column] = &SHARED;

/// Columns of a dead letter: those of a message, and where it came from and why.
pub(in crate::export) fn letter_columns() -> impl Iterator<Item = Column> {
    SHARED.into_iter().chain(DEATH)
}

/// One message.
pub(in crate::export) fn message(item: Item<'_>) -> Row {
    let envelope = item.envelope;
    let text = |pick: fn(&driftq_api::v2::ItemEnvelope<'_>) -> String| {
        Cell::text(envelope.as_ref().map(pick).unwrap_or_default())
    };
    vec![
        Cell::text(item.topic),
        Cell::number(item.partition.into()),
        Cell::number(item.offset),
        Cell::text(item.key),
        Cell::maybe_text(item.key_b64),
        Cell::maybe_text(item.value),
        Cell::maybe_text(item.value_b64),
        Cell::number(item.priority.into()),
        Cell::Time(item.produced_at),
        Cell::time(item.deliver_at),
        text(|envelope| envelope.run_id.to_string()),
        text(|envelope| envelope.step_id.to_string()),
        text(|envelope| envelope.parent_step_id.to_string()),
        text(|envelope| envelope.tenant_id.to_string()),
        text(|envelope| envelope.idempotency_key.to_string()),
        Cell::time(envelope.as_ref().and_then(|envelope| envelope.deadline)),
        match &envelope {
            Some(envelope) if !envelope.labels.is_empty() => Cell::json(&envelope.labels),
            _ => Cell::Empty,
        },
    ]
}

/// One dead letter.
pub(in crate::export) fn letter(mut item: Item<'_>) -> Row {
    let death = item.envelope.as_mut().and_then(|envelope| envelope.dead_letter.take());
    let mut row = message(item);
    match death {
        Some(death) => row.extend([
            Cell::text(death.topic),
            Cell::number(death.partition.into()),
            Cell::number(death.offset),
            Cell::text(death.group),
            Cell::number(death.attempts.into()),
            Cell::text(death.reason),
            Cell::text(death.last_error),
            Cell::Time(death.at),
        ]),
        None => row.extend(DEATH.map(|_| Cell::Empty)),
    }
    row
}
