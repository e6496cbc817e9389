//! The one way to write a document, so that equal documents have equal digests in every language.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::random::hex;

/// The canonical form of a document: JSON without blanks, members in the order of their names' bytes, numbers as
/// ECMAScript writes them.
///
/// ```
/// let text = driftq_client::canonical(&serde_json::json!({"b": 1.0, "a": [true, null]})).unwrap();
/// assert_eq!(text, r#"{"a":[true,null],"b":1}"#);
/// assert!(driftq_client::canonical(&f64::NAN).is_err());
/// ```
///
/// # Errors
/// If it has no JSON form, or holds a number that JSON cannot express, such as NaN.
pub fn canonical(document: &(impl Serialize + ?Sized)) -> Result<String, Error> {
    driftq_api::canonical::of_value(document)
        .map_err(|flaw| Error::Invalid(format!("what was given has no canonical form: {flaw}")))
}

/// SHA-256 of a text, in hex.
#[must_use]
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::effect::Anchor;

    const DIGESTS: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scenarios/digests.json"));

    fn digests() -> Value {
        serde_json::from_str(DIGESTS).unwrap()
    }

    #[test]
    fn every_document_of_the_list_has_its_form_and_digest() {
        let digests = digests();
        let documents = digests["documents"].as_array().unwrap();
        assert!(documents.len() > 20);
        for entry in documents {
            let text = canonical(&entry["document"]).unwrap();
            assert_eq!(text, entry["canonical"].as_str().unwrap());
            assert_eq!(sha256_hex(&text), entry["sha256"].as_str().unwrap(), "{text}");
        }
    }

    #[test]
    fn every_key_of_the_list_is_derived() {
        for entry in digests()["keys"].as_array().unwrap() {
            let text = |index: usize| entry["anchor"][index].as_str().unwrap_or_default().to_owned();
            let number = |index: usize| u32::try_from(entry["anchor"][index].as_u64().unwrap()).unwrap();
            let anchor = match (&*text(0), entry["anchor"].as_array().unwrap().len()) {
                ("run", _) => Anchor::Run { run_id: text(1), step_id: text(2) },
                (_, 4) => Anchor::Keyed { topic: text(1), incarnation: number(2), key: text(3) },
                _ => Anchor::Place {
                    topic: text(1),
                    incarnation: number(2),
                    partition: number(3),
                    offset: u64::from(number(4)),
                },
            };
            let args = canonical(&entry["arguments"]).unwrap();
            assert_eq!(anchor.key(&args), entry["key"].as_str().unwrap(), "{anchor:?}");
        }
    }
}
