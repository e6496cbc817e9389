//! Messages as text, one by one while they come.

use anyhow::Result;
use driftq_api::v1::Item;

use crate::{Format, output::write, printable, rows::JsonList};

/// Prints messages in the chosen shape.
pub(super) struct Printer {
    json: JsonList,
}

impl Printer {
    pub(super) const fn new(format: Format) -> Self {
        Self { json: JsonList::new(format) }
    }

    pub(super) fn item(&mut self, item: &Item<'_>) -> Result<()> {
        if self.json.format == Format::Table {
            if self.json.printed == 0 {
                write(&row(["PARTITION", "OFFSET", "ATTEMPT", "KEY"], "VALUE"))?;
            }
            let numbers = [item.partition.to_string(), item.offset.to_string(), item.attempts.to_string()];
            let [partition, offset, attempt] = &numbers;
            write(&row([partition, offset, attempt, &printable(&item.key)], &printable(&item.value)))?;
        }
        self.json.print(item)
    }

    pub(super) fn end(&self) -> Result<()> {
        self.json.end()
    }
}

fn row([partition, offset, attempt, key]: [&str; 4], value: &str) -> String {
    format!("{partition:<9}  {offset:>8}  {attempt:>7}  {key:<16}  {value}\n")
}
