//! Snapshots of a state that no shard wrote: refused, or good to start with.
#![no_main]

use driftq_core::{Input, Output, Position, Settings, Shard, State, Time};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(state) = State::decode(bytes, 1) else { return };
    let written = state.encode();
    let again = State::decode(&written, 2).expect("what is written can be read");
    assert!(again.encode() == written, "the same state has the same bytes");
    let settings = Settings { shard: state.shard(), ..Settings::default() };
    let (mut shard, mut out) = (Shard::new(settings, state), Output::default());
    shard.open(Time(1_000), Position(1 << 50), [7; 32], &mut out);
    shard.handle(Time(2_000), Input::Tick, &mut out);
});
