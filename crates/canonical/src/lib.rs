//! JSON in the one form that every writing of the same document comes to, so that equal documents have equal digests in
//! every language.
//!
//! The form, which must never change, because digests of it are kept and keys are derived from it:
//! - Members of an object stand in the order of the bytes of their names in UTF-8, after escapes are undone. (RFC 8785
//!   sorts by UTF-16 units, which differs beyond the basic plane; this is not that.)
//! - There are no blanks between tokens.
//! - In strings and names, `"` and `\` are written as `\"` and `\\`, characters below U+0020 as `\u00` and two
//!   lowercase digits, and every other character as itself in UTF-8. Nothing is normalised: `é` as one character and as
//!   two are different.
//! - A number that is written as an integer keeps its digits, however many. Any other number is laid out as ECMAScript
//!   does it, with all of its digits: `1.0`, `1e0` and `1` are one number. A text is never read as floats, which would
//!   make one amount of `0.1` and `0.1000000000000000055511151231257827`.
//! - An object with two members of one name is refused: which of them counts depends on who reads it.
//! - Half a surrogate pair, text that is not UTF-8, and more than [`DEPTH_MAX`] levels are refused.

#![warn(missing_docs)]

mod name;
mod number;
mod walk;
mod writer;

use std::fmt;

use serde::Serialize;

pub use walk::{DEPTH_MAX, Form, of_json, of_json_as_written};

/// Why something has no canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw(String);

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Flaw {}

/// The canonical form of a value.
///
/// # Errors
/// If it has no JSON form, or holds a number that is none.
pub fn of_value(document: &(impl Serialize + ?Sized)) -> Result<String, Flaw> {
    writer::written(document)
}

/// The canonical form of a text.
#[must_use]
pub fn of_text(text: &str) -> String {
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
            '\0'..='\x1f' => out.push_str(&format!("\\u00{:02x}", character as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use serde::{Deserialize, Serialize};
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Deserialize)]
    struct Digests {
        documents: Vec<Entry>,
    }

    #[derive(Deserialize)]
    struct Entry {
        document: Box<RawValue>,
        canonical: String,
    }

    /// The list that every SDK must meet.
    #[test]
    fn text_and_value_come_to_the_form_of_the_list() {
        let list = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scenarios/digests.json"));
        let list: Digests = serde_json::from_str(list).unwrap();
        assert!(list.documents.len() > 20);
        for Entry { document, canonical } in list.documents {
            assert_eq!(of_json(document.get().as_bytes()).unwrap().text, canonical);
            let value: serde_json::Value = serde_json::from_str(document.get()).unwrap();
            assert_eq!(of_value(&value).unwrap(), canonical);
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
        let check = |document: &dyn Fn() -> Result<String, Flaw>, text: &str| {
            assert_eq!(document().unwrap(), text);
        };
        check(&|| of_value(&Shape::Point), r#""point""#);
        check(&|| of_value(&Shape::Circle(0.5)), r#"{"circle":0.5}"#);
        check(&|| of_value(&Shape::Line(1, i128::MIN)), &format!(r#"{{"line":[1,{}]}}"#, i128::MIN));
        check(
            &|| of_value(&Shape::Box { width: u64::MAX, depth: None }),
            &format!(r#"{{"box":{{"depth":null,"width":{}}}}}"#, u64::MAX),
        );
        check(
            &|| of_value(&Shape::Box { width: 0, depth: Some('"') }),
            r#"{"box":{"depth":"\"","width":0}}"#,
        );
        check(&|| of_value(&HashMap::from([(2, "b"), (10, "a")])), r#"{"10":"a","2":"b"}"#);
        check(&|| of_value(&((), ("x", [0_u8; 2]), BTreeMap::<u8, u8>::new())), r#"[null,["x",[0,0]],{}]"#);
        // By the names' own bytes: the quotation mark comes before letters, though it is written with a backslash.
        check(&|| of_value(&BTreeMap::from([("a", 1), ("\"", 2), ("[", 3)])), r#"{"\"":2,"[":3,"a":1}"#);
    }

    #[test]
    fn what_has_no_form_is_refused() {
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = of_value(&[float]).unwrap_err().to_string();
            assert!(error.contains("not a number"), "{error}");
        }
        assert!(of_value(&HashMap::from([(vec![1], 2)])).is_err());
        let raw = RawValue::from_string("{ }".to_owned()).unwrap();
        assert!(of_value(&raw).unwrap_err().to_string().contains("parse it first"));
    }
}
