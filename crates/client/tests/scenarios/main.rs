//! Every scenario that all SDKs must pass, one test each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may end here")]

#[path = "../support/mod.rs"]
mod support;

mod action;
mod front;
mod place;
mod runner;
mod shape;

use std::path::{Path, PathBuf};

use place::Mode;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scenarios");

fn file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name).with_extension("json")
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                runner::run(&file(stringify!($name)), Mode::Open).await.unwrap();
            }
        )*

        /// The same with TLS and keys.
        mod secured {
            use super::{Mode, file, runner};

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    runner::run(&file(stringify!($name)), Mode::Secured).await.unwrap();
                }
            )*
        }
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
    effect_finish_repeated,
    effect_in_progress_paced,
    effect_key_reused,
    effect_not_sent,
    effect_once_over_retries,
    effect_overtaken,
    effect_reconcile_rounds,
    effect_reconciled_not_done,
    effect_uncertain,
    follow_ups_and_lineage,
    handler_time_out,
    outlives_its_lease_with_heartbeats,
    outlives_its_lease_without_heartbeats,
    outputs,
    payload_that_does_not_parse,
    prefetched_is_not_begun,
    retry_after,
    snooze,
);

#[test]
fn no_scenario_is_left_out() {
    let mut found: Vec<String> = std::fs::read_dir(FOLDER)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .filter(|name| name != "digests")
        .collect();
    found.sort();
    assert_eq!(found, NAMES);
}
