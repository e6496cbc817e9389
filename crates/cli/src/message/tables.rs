//! Messages as rows of a table.

use driftq_api::v2::{DeadLetter, Item, Lease};

use crate::{Columns, or_dash, printable};
pub(crate) use driftq_api::shown::cut;

/// What they are.
pub(crate) const PLAIN: Columns<Item<'static>> = &[
    ("PARTITION", |item, _| item.partition.to_string()),
    ("OFFSET", |item, _| item.offset.to_string()),
    ("PRODUCED AT", |item, _| item.produced_at.to_string()),
    ("PRIORITY", |item, _| item.priority.to_string()),
    ("KEY", |item, _| printable(&item.key)),
    ("VALUE", |item, _| cut(&whole_value(item))),
];

/// What they are, and the lease that they come with.
pub(crate) const LEASED: Columns<Item<'static>> = &[
    ("PARTITION", |item, _| item.partition.to_string()),
    ("OFFSET", |item, _| item.offset.to_string()),
    ("ATTEMPT", |item, _| of_lease(item, |lease| lease.attempt.to_string())),
    ("KEY", |item, _| printable(&item.key)),
    ("VALUE", |item, _| cut(&whole_value(item))),
    ("EXPIRES AT", |item, _| of_lease(item, |lease| lease.expires_at.to_string())),
    ("TOKEN", |item, _| of_lease(item, |lease| printable(&lease.token))),
];

/// Where they come from, and why they are dead.
pub(crate) const DEAD: Columns<Item<'static>> = &[
    ("PARTITION", |item, _| item.partition.to_string()),
    ("OFFSET", |item, _| item.offset.to_string()),
    ("DIED AT", |item, _| of_letter(item, |letter| letter.at.to_string())),
    ("GROUP", |item, _| of_letter(item, |letter| printable(&letter.group))),
    ("ATTEMPTS", |item, _| of_letter(item, |letter| letter.attempts.to_string())),
    ("KEY", |item, _| printable(&item.key)),
    ("REASON", |item, _| of_letter(item, |letter| reason(&letter.reason, &letter.last_error))),
];

fn of_lease(item: &Item<'_>, cell: fn(&Lease<'_>) -> String) -> String {
    item.lease.as_ref().map(cell).unwrap_or_default()
}

fn of_letter(item: &Item<'_>, cell: impl Fn(&DeadLetter<'_>) -> String) -> String {
    or_dash(
        item.envelope.as_ref().and_then(|envelope| envelope.dead_letter.as_ref()).map(|letter| cell(letter)),
    )
}

/// Why it is dead and, where that says more, what the last attempt said.
fn reason(reason: &str, last_error: &str) -> String {
    if last_error.is_empty() || last_error == reason {
        return cut(&printable(reason));
    }
    cut(&printable(&format!("{reason}: {last_error}")))
}

/// All of the value on one line; bytes that are no text stay in base64.
pub(super) fn whole_value(item: &Item<'_>) -> String {
    match (&item.value, &item.value_b64) {
        (Some(text), _) => printable(text),
        (None, Some(base64)) => format!("base64:{}", printable(base64)),
        (None, None) => String::new(),
    }
}
