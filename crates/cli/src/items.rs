//! Messages as readers of the native API get them, printed one by one.

use anyhow::Result;
use driftq_api::v2::Item;

use super::{
    output::{Format, printable},
    rows::Rows,
};

/// A value in a table is cut here: whoever wants all of it asks for JSON.
const VALUE_CHARS_MAX: usize = 60;

/// Which columns a table of messages has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    /// What they are.
    Plain,
    /// What they are, and the lease that they come with.
    Leased,
    /// Where they come from, and why they are dead.
    Dead,
}

impl Columns {
    const fn headings(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["PARTITION", "OFFSET", "PRODUCED AT", "PRIORITY", "KEY", "VALUE"],
            Self::Leased => &["PARTITION", "OFFSET", "ATTEMPT", "KEY", "VALUE", "EXPIRES AT", "TOKEN"],
            Self::Dead => &["PARTITION", "OFFSET", "DIED AT", "GROUP", "ATTEMPTS", "KEY", "REASON"],
        }
    }

    fn cells(self, item: &Item<'_>) -> Vec<String> {
        let place = [item.partition.to_string(), item.offset.to_string()];
        let key = printable(&item.key);
        let rest = match self {
            Self::Plain => {
                vec![item.produced_at.to_string(), item.priority.to_string(), key, short_value(item)]
            }
            Self::Leased => {
                let lease = item.lease.as_ref();
                vec![
                    lease.map_or_else(String::new, |lease| lease.attempt.to_string()),
                    key,
                    short_value(item),
                    lease.map_or_else(String::new, |lease| lease.expires_at.to_string()),
                    lease.map_or_else(String::new, |lease| printable(&lease.token)),
                ]
            }
            Self::Dead => match item.envelope.as_ref().and_then(|envelope| envelope.dead_letter.as_ref()) {
                Some(letter) => vec![
                    letter.at.to_string(),
                    printable(&letter.group),
                    letter.attempts.to_string(),
                    key,
                    reason(&letter.reason, &letter.last_error),
                ],
                None => vec!["-".to_owned(), "-".to_owned(), "-".to_owned(), key, "-".to_owned()],
            },
        };
        place.into_iter().chain(rest).collect()
    }
}

/// Why it is dead and, where that says more, what the last attempt said.
pub(super) fn reason(reason: &str, last_error: &str) -> String {
    let both = if last_error.is_empty() || last_error == reason {
        reason.to_owned()
    } else {
        format!("{reason}: {last_error}")
    };
    cut(&printable(&both))
}

/// The value on one line, or what stands for it.
pub(super) fn short_value(item: &Item<'_>) -> String {
    cut(&whole_value(item))
}

/// All of the value on one line; bytes that are no text stay in base64.
pub(super) fn whole_value(item: &Item<'_>) -> String {
    match (&item.value, &item.value_b64) {
        (Some(text), _) => printable(text),
        (None, Some(base64)) => format!("base64:{}", printable(base64)),
        (None, None) => String::new(),
    }
}

/// The beginning of a long text.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Prints pages of messages as one listing.
pub(super) struct Printer {
    columns: Columns,
    rows: Rows,
}

impl Printer {
    pub(super) fn new(format: Format, columns: Columns) -> Self {
        Self { columns, rows: Rows::new(format, columns.headings()) }
    }

    /// How many so far.
    pub(super) const fn printed(&self) -> u64 {
        self.rows.printed()
    }

    pub(super) fn item(&mut self, item: &Item<'_>) -> Result<()> {
        let columns = self.columns;
        self.rows.row(item, || columns.cells(item))
    }

    /// Ends the listing; a table without rows is the sentence instead.
    pub(super) fn end(&self, nothing: &str) -> Result<()> {
        self.rows.end(nothing)
    }
}
