//! The calls of a worker.

use std::time::Duration;

use driftq_api::Code;
use driftq_api::v2::{
    Ack, DURATION_MS_MAX, EffectGet, ExtendLease, Item, LeaseRequest, Nack, NackLease, Release, ReleaseLease,
    SETTLEMENTS_MAX, Settled, Token,
};
use tokio::time::{Instant, sleep};

use super::CANCEL_GRACE;
use super::book::{Batch, Beat, Id};
use super::verdict::{Kind, Verdict};
use crate::client::{Client, Patience, whole_ms};
use crate::error::Error;

/// A server that waits for messages takes longer than this to say that there are none.
const EMPTY_AFTER: Duration = Duration::from_secs(1);
/// The pause before the next question to a server that does not wait.
const PAUSE: Duration = Duration::from_millis(500);

/// Borrows messages; none if there were none for as long as the server waits.
pub(super) async fn borrow(
    client: &Client,
    topic: &str,
    group: &str,
    request: &LeaseRequest<'static>,
) -> Result<Vec<Item<'static>>, Error> {
    let asked_at = Instant::now();
    let mut answer = client.lease_with(topic, group, request, Patience::endless()).await;
    if matches!(&answer, Err(error) if error.code() == Some(Code::LimitReached)) {
        // As many callers wait at the server as may, so this one asks without waiting.
        let request = LeaseRequest { wait_ms: 0, ..request.clone() };
        answer = client.lease_with(topic, group, &request, Patience::endless()).await;
    }
    if matches!(&answer, Err(error) if error.code() == Some(Code::GroupUnknown)) {
        // The group was deleted while this call waited: the next call begins it anew.
        answer = Ok(Vec::new());
    }
    let is_empty = matches!(&answer, Ok(items) if items.is_empty());
    if is_empty && request.wait_ms > 0 && asked_at.elapsed() < EMPTY_AFTER {
        sleep(PAUSE).await;
    }
    answer
}

/// Gives back what a call borrowed that was cut off: it is found by the call's request id.
pub(super) async fn give_back(
    client: &Client,
    topic: &str,
    group: &str,
    request: &LeaseRequest<'static>,
) -> Result<(), Error> {
    let patience = Patience::lasting(CANCEL_GRACE);
    let items = client.lease_with(topic, group, request, patience.clone()).await?;
    let tokens = items.into_iter().filter_map(|item| item.lease).map(|lease| lease.token);
    let leases: Vec<_> = tokens.map(|token| ReleaseLease { token, delay_ms: None, effect: None }).collect();
    if !leases.is_empty() {
        client.settle("/v2/leases/release", &Release { leases }, patience).await?;
    }
    Ok(())
}

/// One heartbeat for everything that is held.
pub(super) async fn extend(
    client: &Client,
    held: Vec<Beat>,
    limit: Duration,
) -> Result<Vec<(Id, Settled)>, Error> {
    let mut results = Vec::with_capacity(held.len());
    for part in held.chunks(SETTLEMENTS_MAX) {
        let leases = part
            .iter()
            .map(|beat| ExtendLease {
                token: (&*beat.token).into(),
                started: (!beat.is_begun).then_some(false),
                ..ExtendLease::default()
            })
            .collect();
        let settled = client.heartbeat(leases, limit).await?;
        results.extend(part.iter().map(|beat| beat.id).zip(settled));
    }
    Ok(results)
}

/// Says what became of each lease, until the server has heard it; and whether it has.
pub(super) async fn settle(client: &Client, batch: Batch) -> (Vec<Id>, bool) {
    let Batch { kind, leases } = batch;
    let ids: Vec<Id> = leases.iter().map(|(id, ..)| *id).collect();
    let patience = Patience::endless();
    let answer = match kind {
        Kind::Ack => {
            let leases = leases.iter().map(|(_, token, _)| Token { token: token.into() }).collect();
            client.settle("/v2/leases/ack", &Ack { leases }, patience).await
        }
        Kind::Nack => {
            let leases = leases.iter().map(|(_, token, verdict)| nacked(token, verdict)).collect();
            client.settle("/v2/leases/nack", &Nack { leases }, patience).await
        }
        Kind::Release => {
            let leases = leases.iter().map(|(_, token, verdict)| released(token, verdict)).collect();
            client.settle("/v2/leases/release", &Release { leases }, patience).await
        }
    };
    let is_heard = answer.is_ok();
    match answer {
        Ok(results) => {
            let refused = results.iter().filter(|result| result.fault().is_some()).count();
            if refused > 0 {
                tracing::info!(
                    ?kind,
                    refused,
                    "another worker has these messages: this worker's outcomes for them are dropped"
                );
            }
        }
        // It would be the same the next time. The messages come again when their leases are over.
        Err(error) => tracing::error!(?kind, leases = ids.len(), %error, "not settled"),
    }
    (ids, is_heard)
}

fn nacked<'a>(token: &'a str, verdict: &'a Verdict) -> NackLease<'a> {
    let Verdict::Nack { delay, is_dead, error } = verdict else {
        return NackLease { token: token.into(), ..NackLease::default() };
    };
    NackLease { token: token.into(), delay_ms: delay.map(delay_ms), dead: *is_dead, error: (&**error).into() }
}

fn released<'a>(token: &'a str, verdict: &'a Verdict) -> ReleaseLease<'a> {
    let token = token.into();
    match verdict {
        Verdict::Release { delay } => ReleaseLease { token, delay_ms: delay.map(delay_ms), effect: None },
        Verdict::Await { delay, effect } => ReleaseLease {
            token,
            delay_ms: Some(delay_ms(*delay)),
            effect: Some(EffectGet {
                tenant_id: (&*effect.tenant_id).into(),
                scope: (&*effect.scope).into(),
                key: (&*effect.key).into(),
            }),
        },
        Verdict::Ack | Verdict::Nack { .. } | Verdict::Done => {
            ReleaseLease { token, ..ReleaseLease::default() }
        }
    }
}

/// What is further away than the server can plan is as far as it can: one message must not spoil the call of others.
fn delay_ms(delay: Duration) -> u64 {
    whole_ms(delay).min(DURATION_MS_MAX)
}
