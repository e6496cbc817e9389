//! One listing over many pages: a table, a JSON array, or a line of JSON each.

use anyhow::Result;
use driftq_api::v2::LIMIT_MAX;
use serde::Serialize;

use crate::output::{cells, write};
use crate::{Columns, Common, Format, Listing, Now, Path};

/// How many of them.
#[derive(clap::Args)]
pub(super) struct Amount {
    /// At most this many
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them, however many
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Amount {
    /// However many there are.
    pub(super) const ALL: Self = Self { limit: 0, all: true };

    pub(super) const fn wanted(&self) -> u64 {
        if self.all { u64::MAX } else { self.limit }
    }
}

/// Which page is next.
pub(super) struct Pages {
    first: Path,
    wanted: u64,
    is_begun: bool,
    cursor: Option<String>,
}

impl Pages {
    pub(super) const fn new(first: Path, amount: &Amount) -> Self {
        Self { first, wanted: amount.wanted(), is_begun: false, cursor: None }
    }

    /// The path of the next page; none if there is no other, or if `have` are enough.
    pub(super) fn next(&self, have: u64) -> Option<Path> {
        if have >= self.wanted || (self.is_begun && self.cursor.is_none()) {
            return None;
        }
        let limit = (self.wanted - have).min(LIMIT_MAX as u64);
        let path = self.first.clone().with_number("limit", Some(limit));
        Some(path.with_some("cursor", self.cursor.as_deref()))
    }

    /// A page was read, and this is what it says about the next one.
    pub(super) fn turn(&mut self, cursor: Option<String>) {
        self.is_begun = true;
        self.cursor = cursor;
    }

    /// The next pages are those of another path.
    pub(super) fn pin(&mut self, first: Path) {
        self.first = first;
    }

    /// Tells people that there is more than they asked for.
    pub(super) fn hint(&self, common: &Common) {
        if self.cursor.is_some() && common.output.is_none_or(|format| format == Format::Table) {
            eprintln!("{MORE}");
        }
    }
}

const MORE: &str = "there may be more: raise --limit, or give --all";

/// Prints things as JSON while they come: one document over all of them, or a line each.
pub(super) struct JsonList {
    pub(super) format: Format,
    pub(super) printed: u64,
}

impl JsonList {
    pub(super) const fn new(format: Format) -> Self {
        Self { format, printed: 0 }
    }

    /// One more of them; where columns were asked for, it is only counted.
    pub(super) fn print(&mut self, item: &impl Serialize) -> Result<()> {
        let is_first = self.printed == 0;
        self.printed += 1;
        match self.format {
            Format::Ndjson => write(&format!("{}\n", serde_json::to_string(item)?)),
            // An array that is opened now and closed at the end.
            Format::Json => {
                let mark = if is_first { "[\n" } else { ",\n" };
                write(&format!("{mark}{}", serde_json::to_string(item)?))
            }
            Format::Table => Ok(()),
        }
    }

    pub(super) fn end(&self) -> Result<()> {
        match (self.format, self.printed) {
            (Format::Json, 0) => write("[]\n"),
            (Format::Json, _) => write("\n]\n"),
            (Format::Table | Format::Ndjson, _) => Ok(()),
        }
    }
}

/// Prints things as they come, over many pages: a table, a JSON array, or a line of JSON each.
pub(super) struct Rows<T: 'static> {
    json: JsonList,
    now: Now,
    columns: Columns<T>,
    listing: Listing,
}

impl<T> Rows<T> {
    pub(super) fn new(format: Format, columns: Columns<T>) -> Self {
        Self { json: JsonList::new(format), now: Now::read(), columns, listing: Listing::of(columns) }
    }

    /// How many so far.
    pub(super) const fn printed(&self) -> u64 {
        self.json.printed
    }

    /// Prints one of them, which programs see as `json`.
    pub(super) fn row(&mut self, json: &impl Serialize, row: &T) -> Result<()> {
        if self.json.format == Format::Table {
            self.listing.row(cells(self.columns, row, self.now));
        }
        self.json.print(json)
    }

    /// Tells people that there is more than they asked for.
    #[cfg(feature = "ledger")]
    pub(super) fn hint(&self) {
        if self.json.format == Format::Table {
            eprintln!("{MORE}");
        }
    }

    /// Ends the listing; a table without rows is the sentence instead.
    pub(super) fn end(&self, nothing: &str) -> Result<()> {
        match (self.json.format, self.printed()) {
            (Format::Table, 0) => write(&format!("{nothing}\n")),
            (Format::Table, _) => write(&self.listing.text()),
            (Format::Json | Format::Ndjson, _) => self.json.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_until_enough_is_there() {
        let mut pages = Pages::new(Path::of("/v2/runs"), &Amount { limit: 1500, all: false });
        assert_eq!(pages.next(0).unwrap().as_str(), "/v2/runs?limit=1000");
        pages.turn(Some("c".to_owned()));
        assert_eq!(pages.next(1000).unwrap().as_str(), "/v2/runs?limit=500&cursor=c");
        assert!(pages.next(1500).is_none(), "enough");
        pages.turn(None);
        assert!(pages.next(1200).is_none(), "no other page");
        assert_eq!(Amount::ALL.wanted(), u64::MAX);
    }
}
