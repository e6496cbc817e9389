//! Records of effects.

use driftq_api::v2::Effect;

use crate::export::column::{Cell, Column, Kind, Row};

/// Columns of an effect. Its outcome is without body and headers, as in every list.
pub(in crate::export) const EFFECT: &[Column] = &[
    Column::new("tenant_id", Kind::Text),
    Column::new("scope", Kind::Text),
    Column::new("key", Kind::Text),
    Column::new("state", Kind::Text),
    Column::new("epoch", Kind::Number),
    Column::new("attempt", Kind::Number),
    Column::new("request_hash", Kind::Text),
    Column::new("owner", Kind::Text),
    Column::new("run_id", Kind::Text),
    Column::new("step_id", Kind::Text),
    Column::new("created_at", Kind::Time),
    Column::new("begun_at", Kind::Time),
    Column::new("unknown_since", Kind::Time),
    Column::new("expires_at", Kind::Time),
    Column::new("message", Kind::Json),
    Column::new("outcome", Kind::Json),
];

/// One effect.
pub(in crate::export) fn effect(effect: Effect<'_>) -> Row {
    vec![
        Cell::text(effect.tenant_id),
        Cell::text(effect.scope),
        Cell::text(effect.key),
        Cell::text(effect.state.name()),
        Cell::number(effect.epoch),
        Cell::number(effect.attempt.into()),
        Cell::maybe_text(effect.request_hash),
        Cell::text(effect.owner),
        Cell::maybe_text(effect.run_id),
        Cell::maybe_text(effect.step_id),
        Cell::Time(effect.created_at),
        Cell::Time(effect.begun_at),
        Cell::time(effect.unknown_since),
        Cell::time(effect.expires_at),
        effect.message.as_ref().map_or(Cell::Empty, Cell::json),
        effect.outcome.as_ref().map_or(Cell::Empty, Cell::json),
    ]
}
