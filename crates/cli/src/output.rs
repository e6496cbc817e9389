//! What commands print, as a table for people or as JSON for programs.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use driftq_api::v2::Labels;
use serde::Serialize;

use crate::Now;
use crate::colour::{self, Tone};
use driftq_api::shown::printable;

/// `-o`: the shape of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Ndjson,
}

impl Format {
    /// What streams print when the user did not say: columns on a terminal, lines of JSON into a pipe.
    pub fn for_stream(chosen: Option<Self>) -> Self {
        chosen.unwrap_or_else(|| if io::stdout().is_terminal() { Self::Table } else { Self::Ndjson })
    }
}

/// What `-o` says in a command line that was not understood otherwise.
pub fn asked(arguments: &[OsString]) -> Option<Format> {
    let mut words =
        arguments.iter().skip(1).filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    let mut chosen = None;
    while let Some(word) = words.next() {
        let value = match word {
            "-o" | "--output" => words.next(),
            _ => {
                let short = word.strip_prefix("-o").map(|rest| rest.trim_start_matches('='));
                word.strip_prefix("--output=").or(short)
            }
        };
        chosen = value.and_then(|value| Format::from_str(value, false).ok()).or(chosen);
    }
    chosen
}

/// Rows under headings, printed in the chosen shape.
pub struct Listing {
    table: Table,
}

impl Listing {
    pub fn new(headings: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(headings.iter().copied());
        Self { table }
    }

    pub(crate) fn of<T>(columns: Columns<T>) -> Self {
        Self::new(&columns.iter().map(|(heading, _)| *heading).collect::<Vec<_>>())
    }

    pub fn row<I: IntoIterator<Item = T>, T: ToString>(&mut self, cells: I) {
        self.table.add_row(cells.into_iter().map(|cell| cell.to_string()));
    }

    pub fn text(&self) -> String {
        // Columns are padded on both sides; outer padding would only widen what people paste.
        let trim = |line: String| {
            let line = line.trim_end();
            format!("{}\n", line.strip_prefix(' ').unwrap_or(line))
        };
        let mut lines = self.table.lines().map(trim);
        let headings = lines.next().unwrap_or_default();
        let headings = colour::on_stdout(Tone::Heading, headings.trim_end()) + "\n";
        std::iter::once(headings).chain(lines).collect()
    }
}

/// What is told about a thing, each with its name: columns of a table, or lines of a description.
pub type Columns<T> = &'static [(&'static str, fn(&T, Now) -> String)];

/// The things as a table, a row each.
pub fn table<T>(columns: Columns<T>, rows: &[T]) -> String {
    let now = Now::read();
    let mut listing = Listing::of(columns);
    for row in rows {
        listing.row(cells(columns, row, now));
    }
    listing.text()
}

/// A table below something else; nothing if it has no rows.
pub fn section<T>(columns: Columns<T>, rows: &[T]) -> String {
    if rows.is_empty() { String::new() } else { format!("\n{}", table(columns, rows)) }
}

pub(crate) fn cells<T>(columns: Columns<T>, row: &T, now: Now) -> impl Iterator<Item = String> {
    columns.iter().map(move |(_, cell)| cell(row, now))
}

/// Names and what they stand for.
pub type Facts = Vec<(&'static str, String)>;

/// What is told about one thing; what is empty is not told.
pub fn facts<T>(columns: Columns<T>, item: &T, now: Now) -> Facts {
    let facts = columns.iter().map(|(name, cell)| (*name, cell(item, now)));
    facts.filter(|(_, value)| !value.is_empty()).collect()
}

/// One thing, a fact per line.
pub fn description<T>(columns: Columns<T>, item: &T) -> String {
    aligned(&facts(columns, item, Now::read()))
}

/// Facts as aligned lines.
pub fn aligned(facts: &[(&'static str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// The value, or a dash if there is none.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Labels on one line.
pub(crate) fn pairs(labels: &Labels<'_>) -> String {
    let pairs = labels.pairs().iter().map(|(name, value)| format!("{name}={value}"));
    printable(&pairs.collect::<Vec<_>>().join(", "))
}

pub const fn yes_or(is_so: bool, no: &'static str) -> &'static str {
    if is_so { "yes" } else { no }
}

/// Prints one thing: a table, or the thing itself as JSON.
pub fn print_one<T: Serialize>(
    format: Option<Format>,
    item: &T,
    text: impl FnOnce() -> String,
) -> Result<()> {
    let rendered = match format.unwrap_or(Format::Table) {
        Format::Table => text(),
        Format::Json => serde_json::to_string_pretty(item)? + "\n",
        Format::Ndjson => serde_json::to_string(item)? + "\n",
    };
    write(&rendered)
}

/// Prints many things: a table, one JSON array, or one line of JSON each.
pub fn print_many<T: Serialize>(
    format: Option<Format>,
    items: &[T],
    text: impl FnOnce() -> String,
) -> Result<()> {
    let rendered = match format.unwrap_or(Format::Table) {
        Format::Table => text(),
        Format::Json => serde_json::to_string_pretty(items)? + "\n",
        Format::Ndjson => {
            let mut lines = String::new();
            for item in items {
                lines.push_str(&serde_json::to_string(item)?);
                lines.push('\n');
            }
            lines
        }
    };
    write(&rendered)
}

/// Writes to stdout and flushes, so that a reader of a pipe sees it now.
pub fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// True if the failure says that the reader of our output went away, as `| head` does. That is no error of ours.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_heard_even_where_the_rest_is_not() {
        for (line, expected) in [
            ("driftq topc list -o json", Some(Format::Json)),
            ("driftq topc -ondjson", Some(Format::Ndjson)),
            ("driftq topc --output=json", Some(Format::Json)),
            ("driftq --output table -o json x", Some(Format::Json)),
            ("driftq effect run -- curl -o json", None),
            ("driftq topc -o yaml", None),
            ("driftq topc", None),
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            assert_eq!(asked(&words), expected, "{line}");
        }
    }

    #[test]
    fn listings_have_no_stray_space() {
        let mut listing = Listing::new(&["TOPIC", "PARTITIONS"]);
        listing.row(["orders", "3"]);
        assert_eq!(listing.text(), "TOPIC   PARTITIONS\norders  3\n");
    }
}
