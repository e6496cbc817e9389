//! What became of records: `driftq ledger audit`.

use anyhow::Result;
use driftq_api::Moment;
use driftq_ledger::{AuditFilter, Identity, Note, PAGE_MAX};
use serde::Serialize;

use super::record::{moment, status};
use super::store::{StoreArgs, fault};
use crate::{Amount, Columns, Common, Exit, Fault, Format, Rows, cut, or_dash, printable};

#[derive(clap::Args)]
#[command(
    after_help = "A record shows how it stands now: the next attempt erases how the one before it ended, and \
who resolved it and why. The audit keeps that, oldest first, for 90 days unless the service says otherwise. A request \
that just begins and ends leaves no note.

Examples:
  driftq ledger audit ann 'POST /pay' order-7          # what became of this one
  driftq ledger audit --all -o ndjson | jq -c 'select(.event == \"resolved\") | [.at, .by, .why]'"
)]
pub(super) struct AuditArgs {
    /// On whose behalf it happened
    #[arg(requires_all = ["method", "key"])]
    principal: Option<String>,
    /// What kind of effect it was
    method: Option<String>,
    /// Which one it was
    key: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

/// A note as JSON has it.
#[derive(Serialize)]
struct Shown<'a> {
    at: Moment,
    principal: &'a str,
    method: &'a str,
    key: &'a str,
    event: String,
    from: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'static str>,
    epoch: u32,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

fn shown(note: &Note) -> Shown<'_> {
    Shown {
        at: moment(note.at),
        principal: note.identity.principal(),
        method: note.identity.method(),
        key: note.identity.key(),
        event: event(note),
        from: status(note.from),
        to: note.to.map(status),
        epoch: note.epoch,
        attempt: note.attempt,
        by: note.by.as_deref(),
        why: note.why.as_deref(),
    }
}

fn event(note: &Note) -> String {
    note.event.word().to_ascii_lowercase()
}

const NOTES: Columns<Note> = &[
    ("AT", |note, now| now.show(moment(note.at))),
    ("PRINCIPAL", |note, _| printable(note.identity.principal())),
    ("METHOD", |note, _| printable(note.identity.method())),
    ("KEY", |note, _| printable(note.identity.key())),
    ("EVENT", |note, _| event(note).replace('_', " ")),
    ("FROM", |note, _| status(note.from).to_owned()),
    ("TO", |note, _| or_dash(note.to.map(|to| status(to).to_owned()))),
    ("EPOCH", |note, _| note.epoch.to_string()),
    ("BY", |note, _| or_dash(note.by.as_deref().map(printable))),
    ("WHY", |note, _| note.why.as_deref().map_or_else(String::new, |why| cut(&printable(why)))),
];

pub(super) async fn audit(common: &Common, store: &StoreArgs, args: &AuditArgs) -> Result<()> {
    let identity = match (&args.principal, &args.method, &args.key) {
        (Some(principal), Some(method), Some(key)) => {
            let identity = Identity::new(principal, method, key);
            Some(identity.map_err(|error| Fault::new(Exit::Usage, error.to_string()))?)
        }
        _ => None,
    };
    let ledger = store.ledger(common)?;
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), NOTES);
    let mut filter = AuditFilter { identity, ..AuditFilter::default() };
    let (wanted, mut unreadable) = (args.amount.wanted(), 0);
    while rows.printed() < wanted {
        filter.limit = u32::try_from(wanted - rows.printed()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let page = ledger.audit(&filter).await.map_err(|error| fault(&error))?;
        unreadable += page.unreadable;
        for note in &page.notes {
            rows.row(&shown(note), note)?;
        }
        filter.cursor = page.cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    rows.end("there is no note")?;
    if filter.cursor.is_some() {
        rows.hint();
    }
    super::warn_of_unreadable(unreadable);
    Ok(())
}
