//! Many messages in one body: as an array, or a line each.
#![no_main]

use driftq_api::v2::{Form, messages};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for form in [Form::One, Form::Array, Form::Lines] {
        let _ = messages(form, bytes);
    }
});
