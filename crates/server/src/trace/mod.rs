//! Traces: spans of requests, of every wait of a message with its reason, of deliveries, effects and commits.
//!
//! What a trace is made of follows from what messages carry and what the broker tells with each delivery, so that the
//! broker keeps nothing for it. Whether a message is traced is decided when it is produced, and written into its
//! envelope as `traceparent`; a message that is not costs its readers a look at its labels.
//!
//! A message's waits are children of the span that produced it. A delivery is not: it has a link to that span, and is
//! in the same trace.

mod context;
mod counts;
mod effects;
#[cfg(feature = "otlp")]
mod export;
#[cfg(not(feature = "otlp"))]
#[path = "unbuilt.rs"]
mod export;
mod open;
#[cfg(feature = "otlp")]
mod proto;
mod requests;
mod span;

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use driftq_engine::Delivered;
use driftq_engine::core::{Receipt, Time, Wait};
use tokio::sync::mpsc;

pub(crate) use context::TraceContext;
pub(crate) use counts::Counts;
pub(crate) use effects::CommitParts;
pub(crate) use export::{Exporting, check_endpoint};
pub(crate) use requests::{RequestTrace, context_of, label};

use context::{Ids, TRACEPARENT};
use open::{OpenDelivery, OpenSpans, Place};
use span::{Attributes, Kind, Span, Value};

/// How traces are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceOptions {
    /// The collector's address; no traces without one.
    pub(crate) endpoint: Option<String>,
    /// Of a million messages that come without a trace, how many begin one.
    pub(crate) sample_ppm: u32,
}

impl TraceOptions {
    /// All of them.
    pub(crate) const SAMPLE_ALL: u32 = 1_000_000;
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { endpoint: None, sample_ppm: Self::SAMPLE_ALL / 100 }
    }
}

/// How a delivery ended, as spans name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Ack,
    Nack,
    Release,
    Commit,
    /// Its lease ran out, or the connection that had it broke.
    Lost,
}

impl Ending {
    const fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Release => "release",
            Self::Commit => "commit",
            Self::Lost => "lost",
        }
    }
}

/// Makes spans and hands them to the exporter. Never waits.
pub(crate) struct Tracer {
    spans: mpsc::Sender<Span>,
    ids: Ids,
    sample_ppm: u32,
    open: Mutex<OpenSpans>,
    /// How many spans are open, so that what is not traced does not take the lock.
    open_count: AtomicUsize,
    counts: Arc<Counts>,
}

impl Tracer {
    /// Begins to trace, if there is a collector.
    pub(crate) fn start(
        options: &TraceOptions,
        counts: Arc<Counts>,
    ) -> Result<Option<(Self, Exporting)>, String> {
        let Some(endpoint) = &options.endpoint else { return Ok(None) };
        let service = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
        let service = service.unwrap_or_else(|| "driftq".to_owned());
        let (spans, exporting) = export::start(endpoint, service, Arc::clone(&counts))?;
        Ok(Some((Self::new(spans, options.sample_ppm, counts), exporting)))
    }

    fn new(spans: mpsc::Sender<Span>, sample_ppm: u32, counts: Arc<Counts>) -> Self {
        let (open, open_count) = (Mutex::default(), AtomicUsize::new(0));
        Self { spans, ids: Ids::new(), sample_ppm, open, open_count, counts }
    }

    fn tell(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.counts.on_queue_full();
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenSpans> {
        // What a panic left behind is still a list of spans.
        self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether a delivery or an effect is traced right now.
    pub(crate) fn has_open(&self) -> bool {
        self.open_count.load(Relaxed) > 0
    }

    /// Whether a message that comes without a trace begins one.
    fn draws(&self) -> bool {
        match self.sample_ppm {
            0 => false,
            TraceOptions::SAMPLE_ALL => true,
            share => self.ids.number() % u64::from(TraceOptions::SAMPLE_ALL) < u64::from(share),
        }
    }

    /// A message is lent: tells what it waited for, and begins the span of its delivery, whose context its holder gets.
    /// `None` if the message is not traced.
    pub(crate) fn lent(
        &self,
        delivered: &Delivered,
        labels: &[(Cow<'_, str>, Cow<'_, str>)],
        (topic, group): (&str, &str),
    ) -> Option<TraceContext> {
        let (_, text) = labels.iter().find(|(name, _)| name == TRACEPARENT)?;
        let producer = TraceContext::parse(text).filter(|producer| producer.sampled)?;
        let place = Place::of(&delivered.receipt);
        let mut attributes: Attributes = vec![
            ("messaging.system", Value::from("driftq")),
            ("messaging.destination.name", Value::from(topic)),
            ("messaging.destination.partition.id", Value::from(delivered.partition.to_string().as_str())),
            ("messaging.consumer.group.name", Value::from(group)),
            (
                "messaging.message.id",
                Value::from(format!("{}/{}", delivered.partition, delivered.offset).as_str()),
            ),
            ("driftq.attempt", Value::from(delivered.attempt)),
        ];
        // A delivery that is told again, because its asker asked again, has its spans.
        let Some(waited) = &delivered.waited else {
            let open = self.open();
            return open
                .delivery(&place)
                .filter(|held| held.token == delivered.receipt.token)
                .map(|held| held.context);
        };
        for (reason, begin, end) in waited.parts() {
            self.tell_wait(producer, reason, (begin, end), attributes.clone());
        }
        attributes.push(("messaging.operation.name", Value::from("deliver")));
        let context = TraceContext { span: self.ids.span(), ..producer };
        let delivery = OpenDelivery {
            context,
            producer,
            token: delivered.receipt.token,
            begin: waited.until,
            expires: delivered.expires,
            name: format!("deliver {topic}"),
            attributes,
        };
        let before = match self.open().begin_delivery(place, delivery) {
            Ok(before) => before,
            Err(_full) => {
                self.counts.on_too_many_open();
                return None;
            }
        };
        match before {
            Some(before) => self.end_delivery(before, Ending::Lost, waited.since),
            None => {
                self.open_count.fetch_add(1, Relaxed);
            }
        }
        Some(context)
    }

    fn tell_wait(
        &self,
        producer: TraceContext,
        reason: Wait,
        when: (Time, Time),
        mut attributes: Attributes,
    ) {
        let reason = reason_name(reason);
        attributes.push(("messaging.operation.name", Value::from("wait")));
        attributes.push(("driftq.wait.reason", Value::from(reason)));
        self.tell(Span {
            context: TraceContext { span: self.ids.span(), ..producer },
            parent: Some(producer.span),
            link: None,
            name: format!("wait {reason}"),
            kind: Kind::Internal,
            begin: nanos(when.0),
            end: nanos(when.1),
            attributes,
            error: None,
        });
    }

    /// A delivery is over.
    pub(crate) fn settled(&self, receipt: &Receipt, ending: Ending, now: Time) {
        let over = self.open().end_delivery(receipt);
        if let Some(over) = over {
            self.open_count.fetch_sub(1, Relaxed);
            self.end_delivery(over, ending, now);
        }
    }

    /// A delivery goes on until then.
    pub(crate) fn extended(&self, receipt: &Receipt, expires: Time) {
        self.open().extend_delivery(receipt, expires);
    }

    /// The span of a delivery under way.
    pub(crate) fn delivery(&self, receipt: &Receipt) -> Option<TraceContext> {
        if !self.has_open() {
            return None;
        }
        let open = self.open();
        let held = open.delivery(&Place::of(receipt))?;
        (held.token == receipt.token).then_some(held.context)
    }

    fn end_delivery(&self, over: OpenDelivery, ending: Ending, now: Time) {
        let mut attributes = over.attributes;
        attributes.push(("driftq.ending", Value::from(ending.name())));
        let error = match ending {
            Ending::Nack => Some("the attempt failed"),
            Ending::Lost => Some("the lease ran out, or its holder was gone"),
            Ending::Ack | Ending::Release | Ending::Commit => None,
        };
        if error.is_some() {
            attributes.push(("error.type", Value::from(ending.name())));
        }
        self.tell(Span {
            context: over.context,
            parent: None,
            link: Some(over.producer),
            name: over.name,
            kind: Kind::Internal,
            begin: nanos(over.begin),
            end: nanos(now),
            attributes,
            error: error.map(str::to_owned),
        });
    }

    /// Ends the spans of what is over without having been settled; called every so often.
    pub(crate) fn sweep(&self, now: Time) {
        if !self.has_open() {
            return;
        }
        let (deliveries, effects) = self.open().take_overdue(now);
        self.open_count.fetch_sub(deliveries.len() + effects.len(), Relaxed);
        for delivery in deliveries {
            let expires = delivery.expires;
            self.end_delivery(delivery, Ending::Lost, expires);
        }
        for effect in effects {
            let expires = effect.expires;
            self.end_effect(effect, "lost", nanos(expires));
        }
    }
}

/// A wait, as spans name it: in the words of the API, but for the one that says who is missing.
const fn reason_name(reason: Wait) -> &'static str {
    match reason {
        Wait::Ready => "no_worker",
        Wait::Scheduled => "scheduled",
        Wait::Backoff => "backoff",
        Wait::Effect => "effect",
        Wait::KeyBusy => "key_busy",
        Wait::SameIdentityRunning => "same_key_running",
        Wait::WindowFull => "window_full",
        Wait::Paused => "paused",
        // Nothing that ends with a delivery.
        Wait::InFlight | Wait::Dying | Wait::Done => "other",
    }
}

const fn nanos(time: Time) -> u64 {
    time.0.saturating_mul(1_000_000)
}

/// The machine's clock, in nanoseconds since 1970.
pub(crate) fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
