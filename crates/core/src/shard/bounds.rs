//! How many bytes of facts one input can produce. The facts of an input lie in one batch, and a batch is one frame of
//! the log: limits that multiply are related to each other here, so that no combination of them fills more than a
//! frame.

use crate::delivery::dispatch::DISPATCH_FACTS_BYTES_MAX;
use crate::delivery::settle::ERROR_BYTES_MAX;
use crate::run::note::HISTORIES_FACTS_BYTES_MAX;
use crate::shard::upkeep::DUE_PER_TICK_MAX;
use crate::state::group::HISTORY_MAX;
use crate::state::{GROUPS_PER_TOPIC_MAX, PARTITIONS_MAX};
use crate::words::input::{INPUT_BYTES_MAX, INPUT_ITEMS_MAX};
use crate::words::route::NAME_BYTES_MAX;

/// A fact without the texts and payloads in it.
const FACT_FIELDS_BYTES_MAX: usize = 256;
/// What one attempt of a history takes.
const ATTEMPT_BYTES_MAX: usize = FACT_FIELDS_BYTES_MAX + NAME_BYTES_MAX + ERROR_BYTES_MAX;
/// What is counted up to a bound ends with the fact that crosses it.
const CROSSING_BYTES_MAX: usize = FACT_FIELDS_BYTES_MAX + NAME_BYTES_MAX + HISTORY_MAX * ATTEMPT_BYTES_MAX;

/// Bytes of facts that one input can produce. What it brings is written twice at most (a message names its run beside
/// its envelope), each item gives two facts (its own, and that a step of a run ended), and beside that an input can
/// touch every group or every partition of a topic, or end what is due.
pub const INPUT_FACTS_BYTES_MAX: usize = 2 * INPUT_BYTES_MAX
    + 2 * INPUT_ITEMS_MAX * FACT_FIELDS_BYTES_MAX
    + max(
        max(2 * GROUPS_PER_TOPIC_MAX * 64, PARTITIONS_MAX as usize * 64),
        DUE_PER_TICK_MAX * ATTEMPT_BYTES_MAX,
    )
    + HISTORIES_FACTS_BYTES_MAX
    + DISPATCH_FACTS_BYTES_MAX
    + 2 * CROSSING_BYTES_MAX;

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}
