//! Rows and their columns, whatever they are written as.

use std::borrow::Cow;
use std::sync::Arc;

use driftq_api::Moment;

/// What is in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Time,
    /// A document: in lines it stands as it is, elsewhere as its text.
    Json,
}

/// One column. All of them may be empty.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: Cow<'static, str>,
    pub(super) kind: Kind,
}

impl Column {
    pub(super) const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name: Cow::Borrowed(name), kind }
    }
}

/// The columns of an export.
pub(super) type Columns = Arc<[Column]>;

/// One value. What is neither empty nor of its column's kind does not come about: rows are made beside their columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Empty,
    Text(String),
    Number(i64),
    Time(Moment),
    Json(String),
}

/// One value for each column.
pub(super) type Row = Vec<Cell>;

impl Cell {
    /// A text; an empty one is none.
    pub(super) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::Empty } else { Self::Text(text) }
    }

    pub(super) fn maybe_text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Empty, |text| Self::Text(text.into()))
    }

    /// A number; the server's own never exceed what fits.
    pub(super) fn number(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(super) fn time(moment: Option<Moment>) -> Self {
        moment.map_or(Self::Empty, Self::Time)
    }

    pub(super) fn json(document: &impl serde::Serialize) -> Self {
        // Words of the wire are texts, numbers and lists of them.
        serde_json::to_string(document).map_or(Self::Empty, Self::Json)
    }

    /// About how many bytes of memory it takes.
    pub(super) fn weight(&self) -> usize {
        let own = size_of::<Self>();
        match self {
            Self::Text(text) | Self::Json(text) => own + text.len(),
            Self::Empty | Self::Number(_) | Self::Time(_) => own,
        }
    }
}

/// Microseconds since the Unix epoch.
pub(super) fn epoch_micros(moment: Moment) -> i64 {
    let (seconds, nanos) = moment.parts();
    seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanos / 1_000))
}
