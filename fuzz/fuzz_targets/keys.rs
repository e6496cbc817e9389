//! Keys as clients show them, and their ids as people write them.
#![no_main]

use driftq_engine::key_text::{ShownId, parsed_id, shown_id, written_id};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(id) = parsed_id(text) {
        assert_eq!(written_id(id), text, "an id has one form");
    }
    if let Some(ShownId::Key(id)) = shown_id(text) {
        assert!(text.contains(&written_id(id)));
    }
});
