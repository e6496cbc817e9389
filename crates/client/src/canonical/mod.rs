//! The one way to write a document, so that equal documents have equal digests in every language.

mod name;
mod number;
mod writer;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::chance::hex;
use crate::error::Error;

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
/// If it has no JSON form, or holds a number that is none.
pub fn canonical(document: &(impl Serialize + ?Sized)) -> Result<String, Error> {
    writer::written(document)
        .map_err(|flaw| Error::Invalid(format!("what was given has no canonical form: {flaw}")))
}

/// SHA-256 of a text, in hex.
#[must_use]
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// The canonical form of a text.
pub(crate) fn canonical_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_text(text, &mut out);
    out
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0'..='\x1f' => {
                out.push_str("\\u00");
                out.push_str(&hex(&[character as u8]));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use serde::Serialize;
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

    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Shape {
        Point,
        Circle(f32),
        Line(u8, i128),
        Box { width: u64, depth: Option<char> },
    }

    #[test]
    fn types_are_written_as_their_json() {
        let check = |document: &dyn Fn() -> Result<String, Error>, text: &str| {
            assert_eq!(document().unwrap(), text);
        };
        check(&|| canonical(&Shape::Point), r#""point""#);
        check(&|| canonical(&Shape::Circle(0.5)), r#"{"circle":0.5}"#);
        check(&|| canonical(&Shape::Line(1, i128::MIN)), &format!(r#"{{"line":[1,{}]}}"#, i128::MIN));
        check(
            &|| canonical(&Shape::Box { width: u64::MAX, depth: None }),
            &format!(r#"{{"box":{{"depth":null,"width":{}}}}}"#, u64::MAX),
        );
        check(
            &|| canonical(&Shape::Box { width: 0, depth: Some('"') }),
            r#"{"box":{"depth":"\"","width":0}}"#,
        );
        check(&|| canonical(&HashMap::from([(2, "b"), (10, "a")])), r#"{"10":"a","2":"b"}"#);
        check(&|| canonical(&((), ("x", [0_u8; 2]), BTreeMap::<u8, u8>::new())), r#"[null,["x",[0,0]],{}]"#);
        // By the names' own bytes: the quotation mark comes before letters, though it is written with a backslash.
        check(&|| canonical(&BTreeMap::from([("a", 1), ("\"", 2), ("[", 3)])), r#"{"\"":2,"[":3,"a":1}"#);
    }

    #[test]
    fn what_has_no_form_is_refused() {
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = canonical(&[float]).unwrap_err().to_string();
            assert!(error.contains("not a number"), "{error}");
        }
        assert!(canonical(&HashMap::from([(vec![1], 2)])).is_err());
        let raw = serde_json::value::RawValue::from_string("{ }".to_owned()).unwrap();
        assert!(canonical(&raw).unwrap_err().to_string().contains("parse it first"));
    }
}
