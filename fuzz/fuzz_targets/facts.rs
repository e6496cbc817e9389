//! Facts of a log that no shard wrote: refused, or folded, and written as they were read.
#![no_main]

use driftq_core::{Fact, Position, State};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let base = Position(1 << 32);
    let read = Fact::each(base, bytes, |_, fact| {
        let mut written = Vec::new();
        fact.encode(&mut written);
        let mut again = None;
        Fact::each(base, &written, |_, fact| {
            again = Some(format!("{fact:?}"));
            Ok(())
        })?;
        assert_eq!(again, Some(format!("{fact:?}")));
        Ok(())
    });
    let mut state = State::new(1);
    let folded = state.apply_batch(base, bytes);
    assert!(read.is_ok() || folded.is_err(), "what cannot be read cannot be folded");
    if folded.is_ok() {
        let snapshot = state.encode();
        // Numbers beyond any that can be reached may be folded, so that a shard can count on; a snapshot with them is
        // refused.
        if let Ok(again) = State::decode(&snapshot, 2) {
            assert!(again.encode() == snapshot, "a snapshot is the state");
        }
    }
});
