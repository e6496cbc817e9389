//! How many bytes of facts one input can produce. The facts of an input lie in one batch, and a batch is one frame of
//! the log: limits that multiply are related to each other here, so that no combination of them fills more than a
//! frame.

use crate::commit::check::READS_MAX;
use crate::delivery::dispatch::DISPATCH_FACTS_BYTES_MAX;
use crate::delivery::settle::{ERROR_BYTES_MAX, FULL_DISK_ERROR_BYTES_MAX};
use crate::effect::begin::EFFECTS_PER_CALL_MAX;
use crate::effect::lapse::SWEPT_PER_FACT_MAX;
use crate::entity::check::TENANT_BYTES_MAX;
use crate::log::outbox::ARRIVAL_BYTES;
use crate::run::note::HISTORIES_FACTS_BYTES_MAX;
use crate::shard::upkeep::DUE_PER_TICK_MAX;
use crate::state::group::HISTORY_MAX;
use crate::state::run::record::STEP_READS_MAX;
use crate::state::{GROUPS_PER_TOPIC_MAX, PARTITIONS_MAX};
use crate::words::commit::{COMMIT_PARTS_PER_CALL_MAX, COMMITS_PER_CALL_MAX};
use crate::words::entity::EXPECTED_MAX;
use crate::words::input::{INPUT_BYTES_MAX, INPUT_ITEMS_MAX, LEASE_BYTES_MAX, LEASE_MESSAGES_MAX};
use crate::words::route::{IDENTITY_TEXT_BYTES_MAX, NAME_BYTES_MAX};

/// A fact without the texts and payloads in it.
const FACT_FIELDS_BYTES_MAX: usize = 256;
/// What one attempt of a history takes.
const ATTEMPT_BYTES_MAX: usize = FACT_FIELDS_BYTES_MAX + NAME_BYTES_MAX + ERROR_BYTES_MAX;
/// What is counted up to a bound ends with the fact that crosses it.
const CROSSING_BYTES_MAX: usize = FACT_FIELDS_BYTES_MAX + NAME_BYTES_MAX + HISTORY_MAX * ATTEMPT_BYTES_MAX;

/// Bytes of facts that one input can produce. What it brings is written twice at most (a message names its run beside
/// its envelope), each item gives two facts (its own, and that a step of a run ended), and beside that an input can
/// touch every group or every partition of a topic, or end what is due.
pub const INPUT_FACTS_BYTES_MAX: usize = 2 * INPUT_BYTES_MAX + ASIDE_FACTS_BYTES_MAX;

/// The same without what the input brings.
pub const ASIDE_FACTS_BYTES_MAX: usize = 2 * INPUT_ITEMS_MAX * FACT_FIELDS_BYTES_MAX
    + max(
        max(2 * GROUPS_PER_TOPIC_MAX * 64, PARTITIONS_MAX as usize * 64),
        DUE_PER_TICK_MAX * ATTEMPT_BYTES_MAX,
    )
    + HISTORIES_FACTS_BYTES_MAX
    + DISPATCH_FACTS_BYTES_MAX
    + 2 * CROSSING_BYTES_MAX;

// What one call may hold is one input.
const _: () =
    assert!(COMMITS_PER_CALL_MAX <= INPUT_ITEMS_MAX && COMMIT_PARTS_PER_CALL_MAX <= INPUT_ITEMS_MAX);
const _: () = assert!(EFFECTS_PER_CALL_MAX <= INPUT_ITEMS_MAX);
// What one call was lent comes back in one input, by its receipts or as one answer.
const _: () =
    assert!(LEASE_MESSAGES_MAX as usize <= INPUT_ITEMS_MAX && LEASE_BYTES_MAX <= INPUT_BYTES_MAX as u64);
// What comes from another shard is an input like others: that it has arrived is the second fact of each item, and leaves
// room for what is dropped to keep a topic within its bytes.
const _: () = assert!(2 * ARRIVAL_BYTES <= FACT_FIELDS_BYTES_MAX);
// A slot counts the groups that wait for it in 16 bits.
const _: () = assert!(GROUPS_PER_TOPIC_MAX <= u16::MAX as usize);
// A refusal says in 8 bits which of the expected versions differs.
const _: () = assert!(EXPECTED_MAX <= u8::MAX as usize);
// What a commit may say to have read is remembered whole.
const _: () = assert!(READS_MAX <= STEP_READS_MAX);
// What is due by time writes no more than a failed attempt: the fact of a sweep is the largest.
const _: () = assert!(FACT_FIELDS_BYTES_MAX + SWEPT_PER_FACT_MAX * size_of::<u64>() <= ATTEMPT_BYTES_MAX);
// On a full disk less is written, never more.
const _: () = assert!(FULL_DISK_ERROR_BYTES_MAX <= ERROR_BYTES_MAX);
// Every name of a topic, a group or an owner could be a tenant, and entities know the same tenants as messages.
const _: () =
    assert!(NAME_BYTES_MAX <= IDENTITY_TEXT_BYTES_MAX && TENANT_BYTES_MAX == IDENTITY_TEXT_BYTES_MAX);
// Refusals name these numbers.
const _: () = assert!(NAME_BYTES_MAX == 255 && IDENTITY_TEXT_BYTES_MAX == 4096);
const _: () = assert!(COMMITS_PER_CALL_MAX == 1_000 && COMMIT_PARTS_PER_CALL_MAX == 10_000);

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}
