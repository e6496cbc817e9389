//! The body of a consume stream: one line per message, a bare newline when nothing comes for a while.
//!
//! The next message is taken from the broker only after the socket has taken the one before: a reader that stalls
//! holds one line in memory. A line is read only when the edge's budget has room for it, and waits in the log until
//! then. A reader is cut off when it has taken nothing for as long as a connection may be idle; what it did not read
//! goes to others at once.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use driftq_engine::core::Malformed;
use driftq_engine::{Broker, Delivered, Stream};
use tokio::time::{Instant, Sleep, sleep_until};

use super::budget::{Budget, Charge, UNCHARGED_BYTES_MAX};
use super::guard::Gone;
use super::pulse::Pulse;
use super::{item, v2};
use crate::metrics::OpenStream;
use crate::trace::Tracer;

/// What an idle stream carries.
const HEARTBEAT: Bytes = Bytes::from_static(b"\n");

type Pulled = (Stream, Option<Readied>);

/// A delivery, and what its line is charged with.
struct Readied {
    delivered: Delivered,
    charge: Charge,
}

/// What the line of a payload of this many bytes is charged with before it is written: base64 makes four bytes of three.
const fn line_bytes(payload: u32) -> usize {
    payload as usize / 3 * 4 + UNCHARGED_BYTES_MAX / 2
}

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

/// In which words deliveries are written.
pub(crate) enum Words {
    V1,
    V2 { topic: String, broker: Broker, tracer: Option<(Arc<Tracer>, String)> },
}

impl Words {
    fn line(&self, delivered: &Delivered) -> Result<Bytes, Malformed> {
        match self {
            Self::V1 => item::line(delivered),
            Self::V2 { topic, broker, tracer } => {
                let traced = tracer.as_ref().map(|(tracer, group)| (&**tracer, &**group));
                v2::line(&v2::Reader { topic, broker, shows_payloads: true, traced }, delivered)
            }
        }
    }
}

/// The lines of one stream.
pub(crate) struct Lines {
    source: Source,
    words: Words,
    budget: Arc<Budget>,
    pulse: Arc<Pulse>,
    unflushed: Option<Unflushed>,
    /// Resolves when the reader's key ends.
    gone: Option<Gone>,
    interval: Duration,
    last_line: Instant,
    /// Moved only when it fires: a busy stream never touches it.
    heartbeat: Pin<Box<Sleep>>,
    open: OpenStream,
}

impl Lines {
    pub(crate) fn new(
        stream: Stream,
        words: Words,
        (budget, pulse): (Arc<Budget>, Arc<Pulse>),
        interval: Duration,
        open: OpenStream,
    ) -> Self {
        let now = Instant::now();
        Self {
            source: Source::Ready(stream),
            words,
            budget,
            pulse,
            unflushed: None,
            gone: None,
            interval,
            last_line: now,
            heartbeat: Box::pin(sleep_until(now + interval)),
            open,
        }
    }

    /// The stream ends when this does.
    pub(crate) fn end_with(&mut self, gone: Gone) {
        self.gone = Some(gone);
    }

    /// The next line, or the end.
    pub(crate) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.gone.as_mut().is_some_and(|gone| gone.as_mut().poll(cx).is_ready()) {
            self.gone = None;
            self.source = Source::Ended;
            return Poll::Ready(None);
        }
        if !self.is_flushed() {
            self.pulse.await_flush();
            return Poll::Pending;
        }
        match self.poll_source(cx) {
            Poll::Ready(Some(readied)) => Poll::Ready(Some(self.on_message(readied))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => self.poll_heartbeat(cx).map(|()| Some(Ok(self.on_line(HEARTBEAT, false)))),
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Readied>> {
        let mut pull = match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Ready(stream) => Box::pin(pull(stream, Arc::clone(&self.budget))),
            Source::Waiting(pull) => pull,
            Source::Ended => return Poll::Ready(None),
        };
        let Poll::Ready((stream, readied)) = pull.as_mut().poll(cx) else {
            self.source = Source::Waiting(pull);
            return Poll::Pending;
        };
        if readied.is_some() {
            self.source = Source::Ready(stream);
        }
        Poll::Ready(readied)
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

    fn on_message(&mut self, Readied { delivered, mut charge }: Readied) -> io::Result<Bytes> {
        match self.words.line(&delivered) {
            Ok(line) => {
                self.open.on_message();
                charge.shrink(line.len());
                charge.overdraw(line.len());
                Ok(self.on_line(charge.carried_by(line), true))
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
        self.pulse.begin_write(std::time::Instant::now());
        self.last_line = Instant::now();
        line
    }

    /// Whether the socket has taken the line before; tells the broker if it was a message.
    fn is_flushed(&mut self) -> bool {
        let Some(Unflushed { mark, is_message }) = self.unflushed else { return true };
        if self.pulse.flush_mark() == mark {
            return false;
        }
        self.unflushed = None;
        if let (true, Source::Ready(stream)) = (is_message, &mut self.source) {
            stream.written();
        }
        true
    }
}

async fn pull(mut stream: Stream, budget: Arc<Budget>) -> Pulled {
    let mut charge = budget.open();
    loop {
        let Some(payload) = stream.peek().await else { return (stream, None) };
        tokio::select! {
            biased;
            () = charge.wait_for(line_bytes(payload)) => {}
            () = stream.stopped() => return (stream, None),
        }
        if let Some(delivered) = stream.fetch().await {
            return (stream, Some(Readied { delivered, charge }));
        }
        charge.shrink(0);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // The peer may have taken the last line and left before the next one was polled for. It has the message,
        // and keeps the lease.
        self.is_flushed();
        self.pulse.idle(std::time::Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use driftq_engine::core::Message;
    use driftq_engine::{AckRequest, Broker, Config, ConsumeRequest};
    use tokio::time::timeout;

    use super::*;
    use crate::metrics::Metrics;

    /// Long enough for anything that is going to happen, short enough to wait for what is not.
    const A_MOMENT: Duration = Duration::from_millis(100);

    struct Fixture {
        broker: Broker,
        pulse: Arc<Pulse>,
        budget: Arc<Budget>,
    }

    impl Fixture {
        /// A broker in memory with two messages.
        async fn new() -> Self {
            let started = tokio::task::spawn_blocking(|| Broker::start(Config::default()));
            let broker = started.await.unwrap().unwrap().broker;
            broker.create_topic("t", 1).await.unwrap();
            for value in [&b"a"[..], b"b"] {
                broker.produce("t", Message { value: value.into(), ..Message::default() }).await.unwrap();
            }
            let pulse = Pulse::new(std::time::Instant::now(), Duration::ZERO, Duration::ZERO);
            Self { broker, pulse: Arc::new(pulse), budget: Budget::new(1 << 20, Metrics::default()) }
        }

        async fn open(&self) -> Lines {
            let request =
                ConsumeRequest { topic: "t".into(), group: "g".into(), owner: "o".into(), lease_ms: 60_000 };
            let open = Metrics::default().open_stream(["t", "g", "o"]);
            let stream = self.broker.consume(request).await.unwrap();
            let edge = (Arc::clone(&self.budget), Arc::clone(&self.pulse));
            Lines::new(stream, Words::V1, edge, Duration::from_secs(60), open)
        }
    }

    async fn next(lines: &mut Lines) -> Option<String> {
        let line = timeout(A_MOMENT, poll_fn(|cx| lines.poll_line(cx))).await.ok()?;
        Some(String::from_utf8(line.unwrap().unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_next_message_waits_until_the_socket_has_taken_the_one_before() {
        let fixture = Fixture::new().await;
        let mut lines = fixture.open().await;
        assert!(next(&mut lines).await.unwrap().contains("\"offset\":0"));
        assert_eq!(next(&mut lines).await, None, "the first is not out yet");
        assert!(fixture.pulse.on_flush(), "the stream wants to be woken");
        assert!(next(&mut lines).await.unwrap().contains("\"offset\":1"));
    }

    #[tokio::test]
    async fn a_large_line_waits_in_the_log_until_the_budget_has_room() {
        let fixture = Fixture::new().await;
        let large = Message { value: vec![b'x'; 100_000].into(), ..Message::default() };
        let mut others = fixture.budget.open();
        assert!(others.try_grow(1 << 20));
        let mut lines = fixture.open().await;
        fixture.broker.produce("t", large).await.unwrap();
        for _ in 0..2 {
            assert!(next(&mut lines).await.is_some(), "small ones go through");
            fixture.pulse.on_flush();
        }
        for offset in 0..2 {
            let done =
                AckRequest { topic: "t".into(), group: "g".into(), partition: 0, offset, owner: "o".into() };
            fixture.broker.ack(done).await.unwrap();
        }
        assert_eq!(next(&mut lines).await, None, "nothing is left");
        others.shrink(0);
        let line = poll_fn(|cx| lines.poll_line(cx)).await.unwrap().unwrap();
        assert!(line.len() > 100_000);
        let used = others.try_grow((1 << 20) - line.len());
        assert!(used && !others.try_grow((1 << 20) - line.len() + 1), "the line is charged with its size");
        drop(line);
        assert!(others.try_grow(1 << 20), "and gives it back when it is written");
    }

    #[tokio::test]
    async fn a_line_that_did_not_get_out_costs_no_attempt() {
        let fixture = Fixture::new().await;
        let mut lines = fixture.open().await;
        next(&mut lines).await.unwrap();
        drop(lines);
        let again = next(&mut fixture.open().await).await.unwrap();
        assert!(again.contains("\"offset\":0,\"attempts\":1"), "{again}");
    }

    #[tokio::test]
    async fn a_line_that_got_out_keeps_its_lease_even_if_nobody_asked_for_another() {
        let fixture = Fixture::new().await;
        let mut lines = fixture.open().await;
        next(&mut lines).await.unwrap();
        fixture.pulse.on_flush();
        drop(lines);
        let mut lines = fixture.open().await;
        let other = next(&mut lines).await.unwrap();
        assert!(other.contains("\"offset\":1"), "the first is still on loan: {other}");
        let groups = fixture.broker.describe_groups("t", Some("g")).await.unwrap();
        assert_eq!(groups[0].partitions[0].in_flight, 2);
    }
}
