//! The name of a certificate that a client shows.
#![no_main]

use driftq_tls::{NAME_BYTES_MAX, name_of};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(name) = name_of(&bytes.into()) {
        assert!((1..=NAME_BYTES_MAX).contains(&name.len()), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
    }
});
