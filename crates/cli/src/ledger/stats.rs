//! `driftq ledger stats`.

use std::collections::BTreeMap;

use anyhow::Result;
use driftq_ledger::{Stats, Status};
use serde::Serialize;

use super::{Place, fault::fault, words};
use crate::{
    Common,
    output::{self, Listing, grouped},
};

/// How many records there are, as JSON has it.
#[derive(Serialize)]
struct Counts {
    store: &'static str,
    records: u64,
    by_status: BTreeMap<&'static str, u64>,
    /// Of those in progress, how many may be taken over.
    lapsed: u64,
    /// Those that count no more and are not swept yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<u64>,
}

pub(super) async fn run(common: &Common, place: &Place) -> Result<()> {
    let ledger = place.patient_ledger(common)?;
    let Stats { by_status, lapsed, over } = ledger.stats().await.map_err(|error| fault(&error))?;
    let count = |status: &Status| {
        let records = by_status.get(driftq_ledger::words::of_status(*status)).copied().unwrap_or(0);
        (words::status(*status), records)
    };
    let counts = Counts {
        store: ledger.store_name(),
        records: by_status.values().sum(),
        by_status: Status::ALL.iter().map(count).collect(),
        lapsed,
        over,
    };
    output::print_one(common.output, &counts, || text(&counts))
}

fn text(counts: &Counts) -> String {
    let mut listing = Listing::new(&["STATUS", "RECORDS", "NOTE"]);
    for status in Status::ALL {
        let word = words::status(status);
        let note = match (status, counts.lapsed) {
            (Status::InProgress, 1..) => format!("{} with a lapsed lease", grouped(counts.lapsed)),
            (Status::Unknown, _) if counts.by_status[word] > 0 => "somebody must find out".to_owned(),
            _ => String::new(),
        };
        listing.row([word.to_owned(), grouped(counts.by_status[word]), note]);
    }
    if let Some(over) = counts.over {
        let note = if over > 0 { "`driftq ledger sweep` removes them" } else { "" };
        listing.row(["over".to_owned(), grouped(over), note.to_owned()]);
    }
    listing.text()
}
