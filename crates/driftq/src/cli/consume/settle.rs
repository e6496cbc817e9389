//! Tells the server how a message went.

use std::time::Duration;

use anyhow::Result;

use super::Args;
use crate::client::{
    CallError, Client, Retry, Session,
    words::{Item, Settle},
};

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
    /// The server no longer took our word: the lease had lapsed and somebody else has the message.
    pub(super) lost: u64,
}

/// Sessions that wait for their next use, so that every ack does not open a connection.
pub(super) struct Settler {
    client: Client,
    idle: Vec<Session>,
}

impl Settler {
    pub(super) const fn new(client: Client) -> Self {
        Self { client, idle: Vec::new() }
    }

    pub(super) fn session(&mut self) -> Session {
        self.idle.pop().unwrap_or_else(|| self.client.session())
    }

    pub(super) fn give_back(&mut self, session: Session) {
        self.idle.push(session);
    }
}

/// Sends the ack or nack, again if the server is away for a moment, but never for longer than the lease: after it the
/// word no longer counts.
pub(super) async fn settle(
    session: &mut Session,
    args: &Args,
    item: &Item,
    outcome: &Outcome,
) -> Result<bool> {
    let (path, reason) = match outcome {
        Outcome::Done => ("/v1/ack", None),
        Outcome::Failed(reason) => ("/v1/nack", Some(reason.as_str())),
    };
    let request = request(args, item, reason);
    let mut retry = Retry::within(Duration::from_millis(args.lease_ms));
    loop {
        let error = match session.post_empty(path, &request).await {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        if let CallError::Refused(refusal) = &error
            && refusal.status == 409
        {
            eprintln!(
                "warning: {}/{}: {}; the lease had ended, the message comes again or is with another reader",
                item.partition, item.offset, refusal.message
            );
            return Ok(false);
        }
        match retry.after(&error) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(error.into_error()),
        }
    }
}

/// Gives back what was received and not begun. Who does not hear of it learns it when the lease ends, so nothing here is
/// worth a second try.
pub(super) async fn hand_back(session: &mut Session, args: &Args, items: &[Item]) {
    for item in items {
        let request = request(args, item, Some("received by a reader that was ending"));
        if session.post_empty("/v1/nack", &request).await.is_err() {
            return;
        }
    }
}

fn request<'a>(args: &'a Args, item: &Item, reason: Option<&'a str>) -> Settle<'a> {
    Settle {
        topic: &args.topic,
        group: &args.group,
        partition: item.partition,
        offset: item.offset,
        owner: &args.owner,
        reason,
    }
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
