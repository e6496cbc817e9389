//! A span that is over.

use super::context::TraceContext;

/// What a span is, as OpenTelemetry numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Internal = 1,
    Server = 2,
}

/// What a span says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

/// What a span says about itself, by name.
pub(crate) type Attributes = Vec<(&'static str, Value)>;

/// A stretch of time with a name. Times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<[u8; 8]>,
    /// What it comes from without being part of it.
    pub(crate) link: Option<TraceContext>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Attributes,
    /// Why it failed, if it did.
    pub(crate) error: Option<String>,
}
