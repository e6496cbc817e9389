//! Messages as text.

use anyhow::Result;
use driftq_api::v1::Item;

use crate::{Format, output::write, printable};

/// Prints messages one by one in the chosen shape.
pub(super) struct Printer {
    format: Format,
    printed: u64,
}

impl Printer {
    pub(super) const fn new(format: Format) -> Self {
        Self { format, printed: 0 }
    }

    pub(super) fn item(&mut self, item: &Item<'_>) -> Result<()> {
        let first = self.printed == 0;
        self.printed += 1;
        match self.format {
            Format::Ndjson => write(&format!("{}\n", serde_json::to_string(item)?)),
            // One document over a whole stream: an array that is opened now and closed at the end.
            Format::Json => {
                let begin = if first { "[\n" } else { ",\n" };
                write(&format!("{begin}{}", serde_json::to_string(item)?))
            }
            Format::Table => {
                let heading = if first {
                    row(["PARTITION", "OFFSET", "ATTEMPT", "KEY"], "VALUE")
                } else {
                    String::new()
                };
                let numbers =
                    [item.partition.to_string(), item.offset.to_string(), item.attempts.to_string()];
                let [partition, offset, attempt] = &numbers;
                let line = row([partition, offset, attempt, &printable(&item.key)], &printable(&item.value));
                write(&(heading + &line))
            }
        }
    }

    pub(super) fn end(&self) -> Result<()> {
        match (self.format, self.printed) {
            (Format::Json, 0) => write("[]\n"),
            (Format::Json, _) => write("\n]\n"),
            _ => Ok(()),
        }
    }
}

fn row([partition, offset, attempt, key]: [&str; 4], value: &str) -> String {
    format!("{partition:<9}  {offset:>8}  {attempt:>7}  {key:<16}  {value}\n")
}
