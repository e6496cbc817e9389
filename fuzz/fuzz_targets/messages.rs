//! Payloads in a log.
#![no_main]

use driftq_core::{About, Ending, Message};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        let written = message.encode();
        let again = Message::decode(&written).expect("what is written can be read");
        assert_eq!(again, message);
    }
    let _ = About::decode(bytes);
    let _ = Ending::decode(bytes);
});
