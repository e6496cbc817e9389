//! Endings of effects that are on their way: with the ack of their message if its handler ends promptly, otherwise
//! separately.

use std::borrow::Cow;
use std::time::Duration;

use driftq_api::Code;
use driftq_api::v2::{Commit, EffectFinish, Headers};
use tokio::task::JoinHandle;

use super::record::omitted;
use crate::client::Client;
use crate::context::Context;
use crate::error::Error;

/// How long an ending waits for the handler to end.
pub(crate) const LINGER: Duration = Duration::from_millis(5);
/// A larger result is written down separately, and before it is handed to the handler.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 10;

/// The outcomes of a handler's effects.
#[derive(Default)]
pub(crate) struct Endings {
    /// Those that wait for the ack.
    waiting: Vec<EffectFinish<'static>>,
    /// Those that were sent separately.
    sent: Vec<JoinHandle<Result<(), Error>>>,
}

impl Endings {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Those that are to go with the ack.
    pub(crate) fn take_waiting(&mut self) -> Vec<EffectFinish<'static>> {
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn put_back(&mut self, endings: Vec<EffectFinish<'static>>) {
        self.waiting.extend(endings);
    }

    pub(crate) fn take_sent(&mut self) -> Vec<JoinHandle<Result<(), Error>>> {
        std::mem::take(&mut self.sent)
    }

    /// Adds one; it goes out separately unless it is taken before.
    pub(crate) fn add(&mut self, finish: EffectFinish<'static>, context: &Context) {
        self.waiting.push(finish);
        if self.waiting.len() > 1 {
            // The task of the first one sends all of them.
            return;
        }
        let context = context.clone();
        self.sent.push(tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            let endings = context.endings().take_waiting();
            send(context.client(), endings).await
        }));
    }
}

/// Writes endings down without an ack.
pub(crate) async fn send(client: &Client, endings: Vec<EffectFinish<'static>>) -> Result<(), Error> {
    if endings.is_empty() {
        return Ok(());
    }
    let mut commit = Commit { effects: endings, ..Commit::default() };
    let answer = match client.commit_collected(&commit).await {
        Err(error) if leave_out(&mut commit.effects, &error) => client.commit_collected(&commit).await,
        answer => answer,
    };
    answer.map(drop).map_err(Error::of_delivery)
}

/// Leaves results out that are too large to be kept; false if that is not what was wrong.
pub(crate) fn leave_out(endings: &mut [EffectFinish<'_>], error: &Error) -> bool {
    let is_too_large = matches!(error.code(), Some(Code::ResultTooLarge | Code::BodyTooLarge));
    if is_too_large {
        for ending in endings.iter_mut().filter(|ending| ending.result.body.is_some()) {
            let spared = omitted();
            ending.result.headers = Headers::clone(&spared.headers);
            ending.result.body = None;
        }
        tracing::warn!("the results of effects are too large to be kept");
    }
    is_too_large && !endings.is_empty()
}

/// The same, independent of what it was made from.
pub(crate) fn owned(finish: EffectFinish<'_>) -> EffectFinish<'static> {
    let EffectFinish { token, mut result } = finish;
    let headers = std::mem::take(&mut result.headers).into_pairs();
    let headers = headers
        .into_iter()
        .map(|(name, value)| (Cow::Owned(name.into_owned()), Cow::Owned(value.into_owned())));
    EffectFinish {
        token: Cow::Owned(token.into_owned()),
        result: driftq_api::v2::EffectResult {
            status: result.status,
            code: result.code,
            headers: Headers::stored(headers.collect()),
            body: result.body.map(|body| Cow::Owned(body.into_owned())),
            error: Cow::Owned(result.error.into_owned()),
        },
    }
}
