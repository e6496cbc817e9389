//! Borrowing and settling, call by call. A [`Worker`](crate::Worker) does all of it.

use std::time::Duration;

use bytes::Bytes;
use driftq_api::Code;
use driftq_api::v2::{
    Ack, Extend, ExtendLease, Item, LeaseRequest, Leased, Nack, NackLease, Release, ReleaseLease, Settled,
    SettledStatus, Settlements, Token,
};
use driftq_http::{Call, Method};
use serde::{Deserialize, Serialize};

use super::{Client, Patience, escape, render};
use crate::error::Error;
use crate::random;

/// An answer that nobody has read yet.
#[derive(Debug)]
pub struct Unread {
    client: Client,
    answer: Bytes,
}

impl Unread {
    /// What the caller wants to know of it. Texts may be borrowed from it.
    ///
    /// # Errors
    /// If the answer does not have that form.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        self.client.parse(&self.answer)
    }
}

impl Client {
    /// Borrows messages, and waits for them if there are none. A request without a `request_id` gets one.
    ///
    /// # Errors
    /// `TopicUnknown`; as every call.
    pub async fn lease(
        &self,
        topic: &str,
        group: &str,
        request: LeaseRequest<'_>,
    ) -> Result<Vec<Item<'static>>, Error> {
        let leased: Leased<'static> = self.lease_unread(topic, group, request).await?.read()?;
        Ok(leased.messages)
    }

    /// Borrows messages as [`Client::lease`] does, and leaves it to the caller to read them: for one that reads little
    /// of each message, and many of them.
    ///
    /// # Errors
    /// `TopicUnknown`; as every call.
    pub async fn lease_unread(
        &self,
        topic: &str,
        group: &str,
        mut request: LeaseRequest<'_>,
    ) -> Result<Unread, Error> {
        if request.request_id.is_none() {
            request.request_id = Some(random::name(16)?.into());
        }
        let wait = Duration::from_millis(request.wait_ms);
        let call = Call::new(Method::POST, lease_path(topic, group)).json(render(&request)?);
        let limit = self.shared.transport.limit(wait);
        let answer = self.answer(&call, limit, self.usual_patience()).await?;
        Ok(Unread { client: self.clone(), answer })
    }

    /// The work is done. Acking the same lease again does no harm.
    ///
    /// # Errors
    /// `LeaseLost`; as every call.
    pub async fn ack(&self, token: &str) -> Result<(), Error> {
        one(&self.ack_all(&[token]).await?)
    }

    /// The work failed: try again after `delay`, or as the retry policy says.
    ///
    /// # Errors
    /// `LeaseLost`; as every call.
    pub async fn nack(&self, token: &str, delay: Option<Duration>, error: &str) -> Result<(), Error> {
        let delay_ms = delay.map(whole_ms);
        let lease = NackLease { token: token.into(), delay_ms, dead: false, error: error.into() };
        one(&self.nack_all(vec![lease]).await?)
    }

    /// The work was not begun: the message is back in its place, and the attempt does not count.
    ///
    /// # Errors
    /// `LeaseLost`; as every call.
    pub async fn release(&self, token: &str) -> Result<(), Error> {
        one(&self
            .release_all(vec![ReleaseLease { token: token.into(), delay_ms: None, effect: None }])
            .await?)
    }

    /// The work goes on, for `lease` from now, or for as long as it was lent for.
    ///
    /// # Errors
    /// `LeaseLost`, `Cancelled`; as every call.
    pub async fn extend(&self, token: &str, lease: Option<Duration>) -> Result<(), Error> {
        let lease = ExtendLease { token: token.into(), lease_ms: lease.map(whole_ms), started: None };
        one(&self.extend_all(vec![lease]).await?)
    }

    /// Acks up to 1,000 leases; one result each, in order.
    ///
    /// # Errors
    /// As every call. What became of each lease is no error of the call.
    pub async fn ack_all(&self, tokens: &[&str]) -> Result<Vec<Settled>, Error> {
        let leases = tokens.iter().map(|token| Token { token: (*token).into() }).collect();
        self.settle("/v2/leases/ack", &Ack { leases }, self.usual_patience()).await
    }

    /// Nacks up to 1,000 leases; one result each, in order.
    ///
    /// # Errors
    /// As every call. What became of each lease is no error of the call.
    pub async fn nack_all(&self, leases: Vec<NackLease<'_>>) -> Result<Vec<Settled>, Error> {
        self.settle("/v2/leases/nack", &Nack { leases }, self.usual_patience()).await
    }

    /// Gives up to 1,000 leases back; one result each, in order.
    ///
    /// # Errors
    /// As every call. What became of each lease is no error of the call.
    pub async fn release_all(&self, leases: Vec<ReleaseLease<'_>>) -> Result<Vec<Settled>, Error> {
        self.settle("/v2/leases/release", &Release { leases }, self.usual_patience()).await
    }

    /// Extends up to 1,000 leases; one result each, in order.
    ///
    /// # Errors
    /// As every call. What became of each lease is no error of the call.
    pub async fn extend_all(&self, leases: Vec<ExtendLease<'_>>) -> Result<Vec<Settled>, Error> {
        self.settle("/v2/leases/extend", &Extend { leases }, self.usual_patience()).await
    }

    pub(crate) fn jitter(&self) -> &random::Jitter {
        &self.shared.jitter
    }

    pub(crate) fn usual_patience(&self) -> Patience {
        Patience::lasting(self.shared.patience)
    }

    pub(crate) async fn settle(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Patience,
    ) -> Result<Vec<Settled>, Error> {
        results(self.post_with(path, body, Duration::ZERO, patience).await)
    }

    /// One extend for everything, sent once and not repeated: the next heartbeat does that.
    pub(crate) async fn heartbeat(
        &self,
        leases: Vec<ExtendLease<'_>>,
        limit: Duration,
    ) -> Result<Vec<Settled>, Error> {
        results(self.post_once("/v2/leases/extend", &Extend { leases }, limit).await)
    }

    pub(crate) async fn lease_with(
        &self,
        topic: &str,
        group: &str,
        request: &LeaseRequest<'_>,
        patience: Patience,
    ) -> Result<Vec<Item<'static>>, Error> {
        let wait = Duration::from_millis(request.wait_ms);
        let leased: Leased<'static> =
            self.post_with(&lease_path(topic, group), request, wait, patience).await?;
        Ok(leased.messages)
    }
}

fn lease_path(topic: &str, group: &str) -> String {
    format!("/v2/topics/{}/groups/{}/lease", escape(topic), escape(group))
}

/// With one lease the server answers a problem where several would have a result each. Here they always have one.
fn results(answer: Result<Settlements, Error>) -> Result<Vec<Settled>, Error> {
    let status = match answer {
        Ok(settlements) => return Ok(settlements.results),
        Err(error) => match error.code() {
            Some(Code::StaleLease) => SettledStatus::Stale,
            Some(Code::LeaseUnknown) => SettledStatus::Unknown,
            _ => return Err(error),
        },
    };
    Ok(vec![Settled::new(status)])
}

fn one(results: &[Settled]) -> Result<(), Error> {
    match results.first() {
        Some(settled) if settled.cancelled => Err(Error::Cancelled),
        Some(Settled { status: SettledStatus::Ok, .. }) => Ok(()),
        _ => Err(Error::LeaseLost),
    }
}

/// Longer durations are cut to this: one that is meant to last for ever must not overflow a clock.
const RECKONED_MAX: Duration = Duration::from_millis(driftq_api::v2::DURATION_MS_MAX);

/// The duration, cut so that it can be added to the present.
pub(crate) fn reckoned(duration: Duration) -> Duration {
    duration.min(RECKONED_MAX)
}

/// In whole milliseconds, rounded up: a wait that is not nothing must not become nothing.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
