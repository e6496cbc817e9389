//! What the table says about one call.

#![cfg_attr(not(feature = "openapi"), expect(dead_code, reason = "most of it is only told by the document"))]
#![allow(clippy::extra_unused_type_parameters, reason = "only the document and the tests ask what a type is")]

#[cfg(feature = "openapi")]
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
#[cfg(feature = "openapi")]
use utoipa::openapi::{
    RefOr,
    schema::{Ref, Schema},
};

use super::{Method, Operation};
use crate::ToSchema;
use crate::catalogue::Code;
use crate::fault::Fault;

#[cfg(feature = "openapi")]
/// Named schemas, gathered while the document is built.
pub(in crate::v2) type Schemas = BTreeMap<String, RefOr<Schema>>;

/// One line of the table.
pub(in crate::v2) struct Description {
    pub(in crate::v2) operation: Operation,
    pub(in crate::v2) method: Method,
    /// The path; names are in braces.
    pub(in crate::v2) path: &'static str,
    /// A name that generated clients can use.
    pub(in crate::v2) id: &'static str,
    /// The chapter of the document.
    pub(in crate::v2) tag: &'static str,
    pub(in crate::v2) summary: &'static str,
    pub(in crate::v2) detail: &'static str,
    /// Parameters of the query; those of the path follow from the template.
    pub(in crate::v2) query: &'static [Parameter],
    /// Whether the `Idempotency-Key` header is honoured.
    pub(in crate::v2) is_keyed: bool,
    pub(in crate::v2) body: Option<Body>,
    pub(in crate::v2) answers: &'static [Answer],
    /// Refusals of its own; those that any call can have are added.
    pub(in crate::v2) problems: &'static [Code],
}

/// A parameter of a query.
pub(in crate::v2) struct Parameter {
    pub(in crate::v2) name: &'static str,
    pub(in crate::v2) is_required: bool,
    pub(in crate::v2) description: &'static str,
    pub(in crate::v2) shape: Shape,
}

/// What the value of a parameter looks like.
pub(in crate::v2) enum Shape {
    /// A whole number, from the least to the most.
    Number(u64, u64),
    /// A text with at least and at most so many bytes.
    Text(usize, usize),
    /// The same, and it matches a pattern.
    Matching(usize, usize, &'static str),
    /// One of these words.
    Words(fn() -> Vec<&'static str>),
    /// A moment.
    Time,
}

/// A type as the document shows it and as the code reads it.
pub(in crate::v2) struct Words {
    /// Adds the schema and everything under it, and refers to it.
    #[cfg(feature = "openapi")]
    pub(in crate::v2) schema: fn(&mut Schemas) -> RefOr<Schema>,
    /// Reads an example, for the tests.
    #[cfg(test)]
    pub(in crate::v2) read: fn(&[u8]) -> Result<(), String>,
    /// An example, as JSON.
    pub(in crate::v2) example: &'static str,
}

/// In which forms a body or an answer comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::v2) enum Forms {
    /// One JSON object.
    One,
    /// One JSON object, or many in an array or as lines.
    OneOrMany,
}

/// The body of a request.
pub(in crate::v2) struct Body {
    pub(in crate::v2) words: Words,
    pub(in crate::v2) forms: Forms,
    pub(in crate::v2) is_required: bool,
}

/// What a good answer holds.
pub(in crate::v2) enum Content {
    Nothing,
    Json(Words, Forms),
    /// One JSON object per line for as long as the connection lives.
    Lines(Words),
    /// Server-sent events for as long as the connection lives, each with one JSON object.
    Events(Words),
    /// The document itself.
    Document,
}

/// A good answer.
pub(in crate::v2) struct Answer {
    pub(in crate::v2) status: u16,
    pub(in crate::v2) description: &'static str,
    pub(in crate::v2) content: Content,
}

impl Words {
    /// The words of an answer.
    pub(super) const fn answer<T: ToSchema + DeserializeOwned>(example: &'static str) -> Self {
        Self {
            #[cfg(feature = "openapi")]
            schema: component::<T>,
            #[cfg(test)]
            read: read::<T>,
            example,
        }
    }

    /// The words of an answer whose schema is written apart from its type.
    pub(super) const fn shaped<S: ToSchema, T: DeserializeOwned>(example: &'static str) -> Self {
        Self {
            #[cfg(feature = "openapi")]
            schema: component::<S>,
            #[cfg(test)]
            read: read::<T>,
            example,
        }
    }

    /// The words of a request.
    pub(super) const fn request<T: ToSchema>(
        #[cfg_attr(not(test), expect(unused_variables, reason = "only the tests read examples"))]
        read: fn(&[u8]) -> Result<(), String>,
        example: &'static str,
    ) -> Self {
        Self {
            #[cfg(feature = "openapi")]
            schema: component::<T>,
            #[cfg(test)]
            read,
            example,
        }
    }
}

impl Body {
    pub(super) const fn json(words: Words) -> Option<Self> {
        Some(Self { words, forms: Forms::One, is_required: true })
    }
}

impl Answer {
    pub(super) const fn json(status: u16, description: &'static str, words: Words) -> Self {
        Self { status, description, content: Content::Json(words, Forms::One) }
    }
}

/// A request was read, or why not, in words.
pub(super) fn told<T>(result: Result<T, Fault>) -> Result<(), String> {
    result.map(drop).map_err(|fault| fault.message.into_owned())
}

#[cfg(test)]
fn read<T: DeserializeOwned>(example: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<T>(example).map(drop).map_err(|error| error.to_string())
}

#[cfg(feature = "openapi")]
fn component<T: ToSchema>(schemas: &mut Schemas) -> RefOr<Schema> {
    let mut nested = Vec::new();
    T::schemas(&mut nested);
    schemas.extend(nested);
    schemas.insert(T::name().into_owned(), T::schema());
    RefOr::Ref(Ref::from_schema_name(T::name()))
}
