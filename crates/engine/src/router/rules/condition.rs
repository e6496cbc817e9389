//! One thing that must hold for a rule to match.

use regex::bytes::Regex;
use serde_json::{Number, Value};

use super::View;
use crate::router::scope::TopicPattern;

#[derive(Debug)]
pub(super) enum Condition {
    Topic(TopicPattern),
    Key(String),
    KeyPrefix(String),
    KeyRegex(Regex),
    Tenant(String),
    Label { name: String, value: String },
    ValueRegex(Regex),
    Json { pointer: String, test: JsonTest },
}

/// What is asked of a place in the value.
#[derive(Debug)]
pub(super) enum JsonTest {
    Exists(bool),
    Equals(Value),
    Regex(Regex),
    Above(f64),
    Below(f64),
    AtLeast(f64),
    AtMost(f64),
}

impl Condition {
    pub(super) fn holds(&self, view: &mut View<'_>) -> bool {
        match self {
            Self::Topic(pattern) => pattern.matches(view.topic),
            Self::Key(key) => *view.message.key == *key.as_bytes(),
            Self::KeyPrefix(start) => view.message.key.starts_with(start.as_bytes()),
            Self::KeyRegex(regex) => regex.is_match(&view.message.key),
            Self::Tenant(tenant) => view.tenant() == tenant,
            Self::Label { name, value } => view.label(name) == Some(value),
            Self::ValueRegex(regex) => view.value().is_some_and(|value| regex.is_match(value)),
            Self::Json { pointer, test } => {
                // A value that is too large may or may not have the place: then nothing is said about it.
                let is_known = view.value().is_some();
                is_known && test.holds(view.json(pointer))
            }
        }
    }
}

impl JsonTest {
    fn holds(&self, place: Option<&Value>) -> bool {
        let number = || place.and_then(Value::as_f64);
        match self {
            Self::Exists(expected) => place.is_some() == *expected,
            Self::Equals(expected) => place.is_some_and(|place| is_equal(place, expected)),
            Self::Regex(regex) => {
                place.and_then(Value::as_str).is_some_and(|text| regex.is_match(text.as_bytes()))
            }
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
            Self::AtLeast(bound) => number().is_some_and(|number| number >= *bound),
            Self::AtMost(bound) => number().is_some_and(|number| number <= *bound),
        }
    }
}

/// Numbers are equal if they mean the same: 5 and 5.0.
fn is_equal(left: &Value, right: &Value) -> bool {
    let as_float = |number: &Number| number.as_f64();
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || as_float(left) == as_float(right),
        _ => left == right,
    }
}
