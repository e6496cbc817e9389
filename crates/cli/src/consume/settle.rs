//! Tells the server how messages went.

use std::time::Duration;

use anyhow::Result;
use driftq_api::v2::{Ack, ERROR_BYTES_MAX, Nack, NackLease, Settled, SettledStatus, Settlements, Token};
use driftq_http::Patience;
use serde::Serialize;

use super::{Args, delivery::Delivery};
use crate::{Session, lease::refused};

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Failed, and why.
    Failed(String),
}

/// Counts for the end.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) acked: u64,
    pub(super) nacked: u64,
    /// The server no longer took our word: the lease had lapsed, and another reader may have the message.
    pub(super) lost: u64,
}

/// Acks what was printed. Says how many were accepted.
pub(super) async fn ack(session: &mut Session, args: &Args, done: &[Delivery]) -> Result<u64> {
    let leases = done.iter().map(|one| Token { token: (&*one.token).into() }).collect();
    let results = call(session, args, "/v2/leases/ack", &Ack { leases }).await?;
    let accepted = done.iter().zip(results).filter(|(one, settled)| is_accepted(one, settled));
    Ok(accepted.count() as u64)
}

/// Tells how one command ended. Says whether that was accepted.
pub(super) async fn settle(
    session: &mut Session,
    args: &Args,
    one: &Delivery,
    outcome: &Outcome,
) -> Result<bool> {
    let results = match outcome {
        Outcome::Done => return Ok(ack(session, args, std::slice::from_ref(one)).await? == 1),
        Outcome::Failed(reason) => {
            let error = cut(reason);
            let lease =
                NackLease { token: (&*one.token).into(), error: error.into(), ..NackLease::default() };
            call(session, args, "/v2/leases/nack", &Nack { leases: vec![lease] }).await?
        }
    };
    Ok(results.first().is_some_and(|settled| is_accepted(one, settled)))
}

/// As much of a reason as the server takes.
fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(ERROR_BYTES_MAX)]
}

/// Makes the call again if the server is away for a moment, but never for longer than the lease: after it the word no
/// longer counts.
async fn call(
    session: &mut Session,
    args: &Args,
    path: &str,
    request: &impl Serialize,
) -> Result<Vec<Settled>> {
    let retry = Patience::lasting(Duration::from_millis(args.lease_ms));
    match session.post_retrying::<Settlements>(path, request, retry).await.0 {
        Ok(settled) => Ok(settled.results),
        // A single lease that is not accepted is an error of the call.
        Err(error) => Ok(vec![refused(error)?]),
    }
}

fn is_accepted(one: &Delivery, settled: &Settled) -> bool {
    let is_ok = settled.status == SettledStatus::Ok;
    if !is_ok {
        let (partition, offset) = (one.item.partition, one.item.offset);
        eprintln!(
            "warning: {partition}/{offset}: the lease had ended; the message comes again or is with another reader"
        );
    }
    is_ok
}

impl Tally {
    pub(super) fn count(&mut self, outcome: &Outcome, accepted: bool) {
        match (accepted, outcome) {
            (false, _) => self.lost += 1,
            (true, Outcome::Done) => self.acked += 1,
            (true, Outcome::Failed(_)) => self.nacked += 1,
        }
    }
}
