//! Tokens of deliveries and of effects, as clients send them back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(again) = driftq_engine::resealed(text) {
        assert_eq!(again, text, "a token has one form");
    }
});
