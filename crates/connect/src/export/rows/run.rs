//! What happened in a run.

use driftq_api::v2::{Effect, RunStep, StepMessage};

use crate::export::column::{Cell, Column, Kind, Row};

/// Columns of what happened in a run: `kind` is `message` or `effect`.
pub(in crate::export) const RUN: &[Column] = &[
    Column::new("run_id", Kind::Text),
    Column::new("step_id", Kind::Text),
    Column::new("parent_step_id", Kind::Text),
    Column::new("kind", Kind::Text),
    Column::new("topic", Kind::Text),
    Column::new("partition", Kind::Number),
    Column::new("offset", Kind::Number),
    Column::new("stored_at", Kind::Time),
    Column::new("groups", Kind::Json),
    Column::new("reads", Kind::Json),
    Column::new("scope", Kind::Text),
    Column::new("key", Kind::Text),
    Column::new("state", Kind::Text),
    Column::new("effect", Kind::Json),
];

/// The messages and then the effects of each step.
pub(in crate::export) fn steps(run_id: &str, steps: Vec<RunStep<'_>>) -> Vec<Row> {
    let mut rows = Vec::new();
    for step in steps {
        let head = [
            Cell::text(run_id),
            Cell::maybe_text(step.step_id.as_deref()),
            Cell::maybe_text(step.parent_step_id.as_deref()),
        ];
        rows.extend(step.messages.into_iter().map(|message| joined(&head, of_message(message))));
        rows.extend(step.effects.into_iter().map(|effect| joined(&head, of_effect(&effect))));
    }
    rows
}

fn joined(head: &[Cell], tail: [Cell; 11]) -> Row {
    head.iter().cloned().chain(tail).collect()
}

fn of_message(message: StepMessage<'_>) -> [Cell; 11] {
    [
        Cell::text("message"),
        Cell::text(message.topic),
        Cell::number(message.partition.into()),
        Cell::number(message.offset),
        Cell::Time(message.stored_at),
        Cell::json(&message.groups),
        if message.reads.is_empty() { Cell::Empty } else { Cell::json(&message.reads) },
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
    ]
}

fn of_effect(effect: &Effect<'_>) -> [Cell; 11] {
    [
        Cell::text("effect"),
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::text(&*effect.scope),
        Cell::text(&*effect.key),
        Cell::text(effect.state.name()),
        Cell::json(effect),
    ]
}
