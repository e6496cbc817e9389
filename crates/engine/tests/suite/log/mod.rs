//! The log port: one suite, which says what a log is, run for every adapter.

mod conformance;
mod nats;
mod postgres;
mod take_over;

use driftq_engine::log::{FileLog, Log, in_memory};
use driftq_wal::{Options, RealDisk};

/// Small, so that a test sees many segments.
pub(crate) const SEGMENT_BYTES: u32 = 4 << 10;

/// Everything that holds for one server at a time.
fn run_all<L: Log>(log: impl Fn() -> L) {
    conformance::bodies_come_back_where_they_were_said_to_lie(&log());
    conformance::a_log_goes_on_where_it_ended(&log());
    conformance::a_snapshot_counts_whole_or_not_at_all(&log());
    conformance::what_a_snapshot_stands_for_can_be_trimmed(&log());
    conformance::a_replay_stops_when_it_is_told_to(&log());
}

/// The same, and what holds when a second server claims the log of the first. `place` makes a place that nobody has used.
fn run_all_claimed<P, L: Log>(place: impl Fn() -> P, log: impl Fn(&P) -> L) {
    run_all(|| log(&place()));
    let claimed_twice = || {
        let place = place();
        (log(&place), log(&place))
    };
    let (one, other) = claimed_twice();
    conformance::a_deposed_writer_leaves_nothing_behind(&one, &other);
    let (one, other) = claimed_twice();
    conformance::a_deposed_keeper_trims_nothing(&one, &other);
    let (one, other) = claimed_twice();
    conformance::a_deposed_server_is_told_when_it_asks(&one, &other);
}

#[test]
fn the_log_in_memory_is_a_log() {
    run_all(|| in_memory(SEGMENT_BYTES));
}

#[test]
fn the_log_in_files_is_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let next = std::cell::Cell::new(0);
    run_all(|| {
        next.set(next.get() + 1);
        files(&dir.path().join(next.get().to_string()))
    });
}

fn files(dir: &std::path::Path) -> impl Log + use<> {
    let options = Options { segment_bytes: SEGMENT_BYTES, ..Options::default() };
    FileLog::new(RealDisk::create(dir).unwrap(), options)
}

/// Two servers never share a directory: the second is refused, and nobody is deposed.
#[test]
fn a_log_in_files_is_claimed_once() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (files(dir.path()), files(dir.path()));
    let held = one.open().unwrap();
    let refused = other.open().map(drop).unwrap_err();
    assert!(matches!(refused, driftq_engine::StartError::Locked { .. }), "{refused:?}");
    drop(held);
    other.open().map(drop).unwrap();
}
