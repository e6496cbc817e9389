//! What `ack`, `nack`, `extend` and `release` have in common: many tokens in, one result each out.

use anyhow::Result;
use driftq_api::v2::{SETTLEMENTS_MAX, Settled, SettledStatus, Settlements};
use serde::Serialize;

use crate::{
    Common,
    client::{CallError, Session},
    exit::{Exit, Fault},
    output::{self, Listing, printable},
};

/// One result, as it is printed.
#[derive(Serialize)]
struct Row<'a> {
    token: &'a str,
    #[serde(flatten)]
    settled: Settled,
}

/// Sends the tokens in calls of at most [`SETTLEMENTS_MAX`] and prints a result for each. `request` makes the body of
/// one call. Fails if one token was not accepted.
pub(super) async fn all<B: Serialize>(
    common: &Common,
    path: &'static str,
    tokens: &[String],
    request: impl Fn(&[String]) -> B,
) -> Result<()> {
    let mut session = common.client()?.session();
    let mut rows = Vec::with_capacity(tokens.len());
    for chunk in tokens.chunks(SETTLEMENTS_MAX) {
        let results = match call(&mut session, path, &request(chunk)).await {
            Ok(results) => results,
            // A single lease that is refused is an error of the call; beside others it is one result of many.
            Err(error) if tokens.len() > 1 => vec![refused(error)?],
            Err(error) => return Err(error.into_error()),
        };
        rows.extend(chunk.iter().zip(results).map(|(token, settled)| Row { token, settled }));
    }
    output::print_many(common.output, &rows, || text(&rows))?;
    verdict(&rows)
}

async fn call(session: &mut Session, path: &str, body: &impl Serialize) -> Result<Vec<Settled>, CallError> {
    let answer: Settlements = session.post(path, body).await?;
    Ok(answer.results)
}

fn refused(error: CallError) -> Result<Settled> {
    let status = match error.code() {
        "STALE_LEASE" => SettledStatus::Stale,
        "LEASE_UNKNOWN" => SettledStatus::Unknown,
        _ => return Err(error.into_error()),
    };
    let attempt = if let CallError::Refused(refusal) = &error { refusal.attempt } else { None };
    Ok(Settled { attempt, ..Settled::new(status) })
}

fn text(rows: &[Row<'_>]) -> String {
    let mut listing = Listing::new(&["TOKEN", "RESULT"]);
    for row in rows {
        listing.row([printable(row.token), words(&row.settled)]);
    }
    if rows.is_empty() { "no tokens, nothing done\n".to_owned() } else { listing.text() }
}

fn words(settled: &Settled) -> String {
    let mut words = match (settled.status, settled.attempt) {
        (SettledStatus::Ok, _) => "ok".to_owned(),
        (SettledStatus::Stale, Some(attempt)) => format!("stale: attempt {attempt} is current"),
        (SettledStatus::Stale, None) => "stale: the message is settled".to_owned(),
        (SettledStatus::Unknown, _) => "unknown: no lease has that token".to_owned(),
    };
    if let Some(at) = settled.expires_at {
        words.push_str(&format!(", on loan until {at}"));
    }
    if settled.cancelled {
        words.push_str("; the message was cancelled: the work may stop");
    }
    if settled.dead {
        words.push_str("; it was the last attempt: the message becomes a dead letter");
    }
    if settled.draining {
        words.push_str("; the server is about to stop: finish soon");
    }
    words
}

fn verdict(rows: &[Row<'_>]) -> Result<()> {
    let count = |status| rows.iter().filter(|row| row.settled.status == status).count();
    let (stale, unknown) = (count(SettledStatus::Stale), count(SettledStatus::Unknown));
    let bad = stale + unknown;
    if bad == 0 {
        return Ok(());
    }
    let message =
        format!("{bad} of {} leases were not accepted: {stale} stale, {unknown} unknown", rows.len());
    let help = "a stale lease has lapsed or its message is settled; the others were done as asked";
    Err(Fault::new(Exit::Conflict, message).help(help).into())
}
