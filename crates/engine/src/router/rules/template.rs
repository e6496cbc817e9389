//! What a rule says: texts with places for parts of the message.

use serde_json::Value;

use super::View;
use crate::router::check::{LABEL_BYTES_MAX, META_VALUE_BYTES_MAX};
use crate::router::opinion::Decision;
use driftq_core::NAME_BYTES_MAX;

#[derive(Debug)]
pub(super) enum Outcome {
    Pass,
    Route {
        label: Template,
        target_topic: Option<Template>,
        partition: Option<u32>,
        meta: Vec<(String, Template)>,
    },
}

/// A text with places that are filled in for each message.
#[derive(Debug, PartialEq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Topic,
    Key,
    Tenant,
    Label(String),
    Json(String),
}

impl Outcome {
    pub(super) fn decision(&self, view: &mut View<'_>) -> Option<Decision> {
        let Self::Route { label, target_topic, partition, meta } = self else { return None };
        let target_topic = target_topic.as_ref().map(|target| target.fill(view, NAME_BYTES_MAX));
        let fill =
            |(name, value): &(String, Template)| (name.clone(), value.fill(view, META_VALUE_BYTES_MAX));
        let meta = meta.iter().map(fill).collect();
        Some(Decision {
            label: label.fill(view, LABEL_BYTES_MAX),
            target_topic: target_topic.filter(|target| !target.is_empty()),
            partition_override: *partition,
            meta,
        })
    }
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else {
                return Err(format!("`{}` has no closing brace", &rest[start..]));
            };
            if start > 0 {
                pieces.push(Piece::Text(rest[..start].to_owned()));
            }
            pieces.push(Piece::parse(&rest[start + 2..start + length])?);
            rest = &rest[start + length + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The text for this message. Producers choose what goes in, so it is cut rather than refused: a long key must
    /// not look like a broken router.
    fn fill(&self, view: &mut View<'_>, bytes_max: usize) -> String {
        let mut filled = String::new();
        for piece in &self.0 {
            piece.fill(view, &mut filled);
            if filled.len() > bytes_max {
                filled.truncate(filled.floor_char_boundary(bytes_max));
                break;
            }
        }
        filled
    }
}

impl Piece {
    fn parse(name: &str) -> Result<Self, String> {
        match name.split_once(':') {
            None if name == "topic" => Ok(Self::Topic),
            None if name == "key" => Ok(Self::Key),
            None if name == "tenant" => Ok(Self::Tenant),
            Some(("label", label)) if !label.is_empty() => Ok(Self::Label(label.to_owned())),
            Some(("json", pointer)) => check_pointer(pointer).map(|()| Self::Json(pointer.to_owned())),
            _ => Err(format!(
                "`${{{name}}}` is none of ${{topic}}, ${{key}}, ${{tenant}}, ${{label:NAME}}, ${{json:POINTER}}"
            )),
        }
    }

    fn fill(&self, view: &mut View<'_>, filled: &mut String) {
        match self {
            Self::Text(text) => filled.push_str(text),
            Self::Topic => filled.push_str(view.topic),
            Self::Key => filled.push_str(str::from_utf8(&view.message.key).unwrap_or_default()),
            Self::Tenant => filled.push_str(view.tenant()),
            Self::Label(name) => filled.push_str(view.label(name).unwrap_or_default()),
            Self::Json(pointer) => match view.json(pointer) {
                Some(Value::String(text)) => filled.push_str(text),
                Some(Value::Number(number)) => filled.push_str(&number.to_string()),
                Some(Value::Bool(flag)) => filled.push_str(if *flag { "true" } else { "false" }),
                Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => {}
            },
        }
    }
}

/// A JSON pointer is empty or begins with a slash; anything else never points at anything.
pub(super) fn check_pointer(pointer: &str) -> Result<(), String> {
    if pointer.is_empty() || pointer.starts_with('/') {
        return Ok(());
    }
    Err(format!("`{pointer}` is not a JSON pointer: it must begin with a slash"))
}
