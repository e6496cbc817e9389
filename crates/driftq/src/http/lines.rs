//! The body of a consume stream: one line per message, a bare newline when nothing comes for a while.
//!
//! The next message is taken from the broker only after the socket has taken the one before: a reader that stalls
//! holds one line in memory, and its share of messages goes to others when the leases lapse.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use driftq_engine::{Delivered, Stream};
use tokio::time::{Instant, Sleep, sleep_until};

use super::item;
use super::pulse::Pulse;
use crate::metrics::OpenStream;

/// What an idle stream carries.
const HEARTBEAT: Bytes = Bytes::from_static(b"\n");

type Pulled = (Stream, Option<Delivered>);

/// Where the broker's stream is.
enum Source {
    /// At hand.
    Ready(Stream),
    /// Waiting for its next message. The future owns the stream and is kept until it is done: whatever it has
    /// registered to be woken by must not be lost between two polls.
    Waiting(Pin<Box<dyn Future<Output = Pulled> + Send>>),
    /// Over.
    Ended,
}

/// Something that was handed to the connection and may still be on its way into the socket.
struct Unflushed {
    mark: u64,
    is_message: bool,
}

/// The lines of one stream.
pub(crate) struct Lines {
    source: Source,
    pulse: Arc<Pulse>,
    unflushed: Option<Unflushed>,
    interval: Duration,
    last_line: Instant,
    /// Moved only when it fires: a busy stream never touches it.
    heartbeat: Pin<Box<Sleep>>,
    open: OpenStream,
}

impl Lines {
    pub(crate) fn new(stream: Stream, pulse: Arc<Pulse>, interval: Duration, open: OpenStream) -> Self {
        let now = Instant::now();
        Self {
            source: Source::Ready(stream),
            pulse,
            unflushed: None,
            interval,
            last_line: now,
            heartbeat: Box::pin(sleep_until(now + interval)),
            open,
        }
    }

    /// The next line, or the end.
    pub(crate) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if !self.is_flushed() {
            self.pulse.await_flush();
            return Poll::Pending;
        }
        match self.poll_source(cx) {
            Poll::Ready(Some(delivered)) => Poll::Ready(Some(self.on_message(&delivered))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => self.poll_heartbeat(cx).map(|()| Some(Ok(self.on_line(HEARTBEAT, false)))),
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivered>> {
        let mut pull = match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Ready(stream) => Box::pin(pull(stream)),
            Source::Waiting(pull) => pull,
            Source::Ended => return Poll::Ready(None),
        };
        let Poll::Ready((stream, delivered)) = pull.as_mut().poll(cx) else {
            self.source = Source::Waiting(pull);
            return Poll::Pending;
        };
        if delivered.is_some() {
            self.source = Source::Ready(stream);
        }
        Poll::Ready(delivered)
    }

    fn poll_heartbeat(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.heartbeat.as_mut().poll(cx).is_ready() {
            let due = self.last_line + self.interval;
            let is_due = Instant::now() >= due;
            self.heartbeat.as_mut().reset(if is_due { Instant::now() + self.interval } else { due });
            if is_due {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn on_message(&mut self, delivered: &Delivered) -> io::Result<Bytes> {
        match item::line(delivered) {
            Ok(line) => {
                self.open.on_message();
                Ok(self.on_line(line, true))
            }
            Err(error) => {
                let (partition, offset) = (delivered.partition, delivered.offset);
                tracing::error!(
                    partition,
                    offset,
                    ?error,
                    "a stored message cannot be read; its stream ends"
                );
                Err(io::Error::other("a stored message cannot be read"))
            }
        }
    }

    fn on_line(&mut self, line: Bytes, is_message: bool) -> Bytes {
        self.unflushed = Some(Unflushed { mark: self.pulse.flush_mark(), is_message });
        self.last_line = Instant::now();
        line
    }

    /// Whether the socket has taken the line before; tells the broker if it was a message.
    fn is_flushed(&mut self) -> bool {
        let Some(Unflushed { mark, is_message }) = self.unflushed else { return true };
        if self.pulse.flush_mark() == mark && false {
            return false;
        }
        self.unflushed = None;
        if let (true, Source::Ready(stream)) = (is_message, &mut self.source) {
            stream.written();
        }
        true
    }
}

async fn pull(mut stream: Stream) -> Pulled {
    let delivered = stream.next().await;
    (stream, delivered)
}

impl Drop for Lines {
    fn drop(&mut self) {
        // The peer may have taken the last line and left before anybody asked for another one. It has the message,
        // and keeps the lease.
        self.is_flushed();
        self.pulse.idle(std::time::Instant::now());
    }
}
