//! The one form of a JSON document: writing it once more changes nothing.
#![no_main]

use driftq_canonical::of_json;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(form) = of_json(bytes) {
        let again = of_json(form.text.as_bytes()).expect("the form is a document");
        assert_eq!(again.text, form.text);
    }
});
