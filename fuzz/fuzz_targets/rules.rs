//! Rules of a router, as operators write them, and a message that they are asked about.
#![no_main]

use driftq_core::Message;
use driftq_engine::router::RulesRouter;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(router) = RulesRouter::parse(text) {
        let message = Message { key: b"k"[..].into(), value: bytes.into(), ..Message::default() };
        let _ = router.decide("orders", &message);
    }
});
