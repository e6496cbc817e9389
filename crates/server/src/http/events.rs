//! The body of a stream of events, for a page that watches.
//!
//! The next event is made only after the socket has taken the one before: a page that stalls holds one event in memory,
//! and is told what has changed since then when it goes on. It is cut off when it has taken nothing for as long as a
//! connection may be idle.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use driftq_api::v2::Event;
use tokio::time::{Instant, Sleep, sleep_until};

use super::budget::Budget;
use super::guard::Gone;
use super::live::Watching;
use super::pulse::Pulse;

/// What a quiet stream carries: a comment, which pages do not see.
const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");
/// Said first: how long a browser waits before it comes back.
const RETRY: &[u8] = b"retry: 1000\n";

type Next = Pin<Box<dyn Future<Output = Option<(Watching, Event)>> + Send>>;

/// The events of one stream.
pub(crate) struct Events {
    /// `None` when it is over. The future owns the watcher and is kept until it is done.
    next: Option<Next>,
    budget: Arc<Budget>,
    pulse: Arc<Pulse>,
    /// How often the socket had been flushed when the last event was handed over.
    unflushed: Option<u64>,
    gone: Option<Gone>,
    is_begun: bool,
    interval: Duration,
    heartbeat: Pin<Box<Sleep>>,
}

impl Events {
    pub(crate) fn new(
        watching: Watching,
        (budget, pulse): (Arc<Budget>, Arc<Pulse>),
        interval: Duration,
    ) -> Self {
        Self {
            next: Some(Box::pin(next(watching))),
            budget,
            pulse,
            unflushed: None,
            gone: None,
            is_begun: false,
            interval,
            heartbeat: Box::pin(sleep_until(Instant::now() + interval)),
        }
    }

    /// The stream ends when this does.
    pub(crate) fn end_with(&mut self, gone: Gone) {
        self.gone = Some(gone);
    }

    /// The next event, or the end.
    pub(crate) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.gone.as_mut().is_some_and(|gone| gone.as_mut().poll(cx).is_ready()) {
            (self.gone, self.next) = (None, None);
            return Poll::Ready(None);
        }
        if self.unflushed.is_some_and(|mark| self.pulse.flush_mark() == mark) {
            self.pulse.await_flush();
            return Poll::Pending;
        }
        let Some(waiting) = &mut self.next else { return Poll::Ready(None) };
        match waiting.as_mut().poll(cx) {
            Poll::Ready(Some((watching, event))) => {
                self.next = Some(Box::pin(next(watching)));
                Poll::Ready(Some(self.handed(self.written(&event))))
            }
            Poll::Ready(None) => {
                self.next = None;
                Poll::Ready(None)
            }
            Poll::Pending => self.heartbeat.as_mut().poll(cx).map(|()| Some(self.handed(HEARTBEAT))),
        }
    }

    fn written(&self, event: &Event) -> Bytes {
        let mut text = Vec::new();
        if !self.is_begun {
            text.extend_from_slice(RETRY);
        }
        text.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut text, event).expect("texts and numbers always have a JSON form");
        text.extend_from_slice(b"\n\n");
        let mut charge = self.budget.open();
        charge.overdraw(text.len());
        charge.carried_by(text.into())
    }

    fn handed(&mut self, bytes: Bytes) -> Bytes {
        self.is_begun = true;
        self.unflushed = Some(self.pulse.flush_mark());
        self.pulse.begin_write(std::time::Instant::now());
        self.heartbeat.as_mut().reset(Instant::now() + self.interval);
        bytes
    }
}

async fn next(mut watching: Watching) -> Option<(Watching, Event)> {
    let event = watching.next().await?;
    Some((watching, event))
}

impl Drop for Events {
    fn drop(&mut self) {
        self.pulse.idle(std::time::Instant::now());
    }
}
