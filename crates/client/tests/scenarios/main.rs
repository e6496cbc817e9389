//! Every scenario that all SDKs must pass, one test each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may end here")]

#[path = "../support/mod.rs"]
mod support;

mod action;
mod runner;
mod shape;

use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scenarios");

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                runner::run(&Path::new(FOLDER).join(concat!(stringify!($name), ".json"))).await.unwrap();
            }
        )*
    };
}

scenarios!(
    ack,
    attempts_used_up,
    cancelled_while_running,
    commit_then_error,
    dead,
    effect_derived_keys,
    effect_error_under_hold_reconciled,
    effect_error_under_retry,
    effect_exhausted,
    effect_failed_for_good,
    effect_failed_for_now,
    effect_key_reused,
    effect_once_over_retries,
    effect_reconciled_not_done,
    effect_uncertain,
    follow_ups_and_lineage,
    handler_time_out,
    outlives_its_lease_with_heartbeats,
    outlives_its_lease_without_heartbeats,
    outputs,
    payload_that_does_not_parse,
    retry_after,
    snooze,
);

/// Scenarios that this runner cannot play yet, and why.
const UNPLAYED: [(&str, &str); 4] = [
    ("effect_finish_repeated", "the runner has no front between worker and server"),
    ("effect_in_progress_paced", "the runner has no front between worker and server"),
    ("effect_overtaken", "the runner has no effects that take longer than their lease"),
    ("effect_reconcile_rounds", "the runner has nobody who takes an effect meanwhile"),
];

#[test]
fn no_scenario_is_left_out() {
    for (name, why) in UNPLAYED {
        println!("skipped: {name}: {why}");
    }
    let mut found: Vec<String> = std::fs::read_dir(FOLDER)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .filter(|name| name != "digests" && UNPLAYED.iter().all(|(unplayed, _)| name != unplayed))
        .collect();
    found.sort();
    assert_eq!(found, NAMES);
}
