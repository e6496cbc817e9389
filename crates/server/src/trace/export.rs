//! The way of spans to a collector: a bounded queue, and one task that empties it.
//!
//! A collector that is away or slow costs spans and nothing else: whoever has a span to tell never waits, and what does
//! not fit or is not taken is counted and gone.

use std::sync::Arc;
use std::time::Duration;

use driftq_api::decode_segment;
use driftq_http::{Address, Call, Client, Method, Options};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::counts::Counts;
use super::proto;
use super::span::Span;

/// Spans that wait for the collector.
pub(super) const SPANS_QUEUED_MAX: usize = 8_192;
/// Spans in one call.
const SPANS_SENT_MAX: usize = 512;
/// How long the first span of a call waits for others.
const LINGER: Duration = Duration::from_millis(500);
/// How long a call to the collector may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the collector is left alone after a call that failed; spans gather meanwhile, as many as fit.
const PAUSE: Duration = Duration::from_secs(2);
/// How long the end of the server waits for the last spans to be taken.
const PARTING_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest answer that is read; nothing in it matters.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The variables that say what goes with every call to a collector, as a key of a service that takes traces. The first
/// that is set counts. They are secret: nothing shows them.
const HEADER_VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
/// Most headers that a variable may name.
const HEADERS_MAX: usize = 32;
/// The path of traces below the address of a collector.
const PATH: &str = "/v1/traces";

/// The other end of the queue.
pub(crate) struct Exporting {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporting {
    /// Sends what is left, if the collector takes it soon.
    pub(crate) async fn stop(mut self) {
        // A task that has ended needs no word.
        let _ = self.stop.send(());
        if timeout(PARTING_TIMEOUT, &mut self.task).await.is_err() {
            tracing::warn!("the collector of traces does not take the last spans; they are gone");
            self.task.abort();
        }
    }
}

/// Where the traces of a collector go, by its address.
pub(crate) fn check_endpoint(url: &str) -> Result<(Address, String), String> {
    let address = Address::parse_with_path(url).map_err(|why| why.to_string())?;
    let path = address.path().trim_end_matches('/');
    let path = if path.ends_with(PATH) { path.to_owned() } else { format!("{path}{PATH}") };
    Ok((address, path))
}

/// The headers of every call, by the environment.
fn given_headers() -> Result<Option<HeaderMap>, String> {
    for name in HEADER_VARIABLES {
        if let Ok(text) = std::env::var(name)
            && !text.is_empty()
        {
            return headers(&text).map(Some).map_err(|why| format!("the variable {name} {why}"));
        }
    }
    Ok(None)
}

/// `name=value` pairs with commas between them; what a value may not have in it is percent-encoded.
fn headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (place, pair) in text.split(',').enumerate() {
        // A value may be a secret, so a pair is named by its place.
        let malformed =
            || format!("is not name=value pairs with commas between them; look at pair {}", place + 1);
        if place == HEADERS_MAX {
            return Err(format!("names more than {HEADERS_MAX} headers"));
        }
        let (name, value) = pair.split_once('=').ok_or_else(malformed)?;
        let value = decode_segment(value.trim()).ok_or_else(malformed)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| malformed())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| malformed())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Begins to send spans to the collector at `url`.
pub(super) fn start(
    url: &str,
    service: String,
    counts: Arc<Counts>,
) -> Result<(mpsc::Sender<Span>, Exporting), String> {
    let (address, path) = check_endpoint(url)?;
    let options = Options { kept_max: 1, headers: given_headers()?, ..Options::new(ANSWER_BYTES_MAX) };
    let client = Client::new(address, &options).map_err(|why| why.to_string())?;
    let (sender, queue) = mpsc::channel(SPANS_QUEUED_MAX);
    let (stop, stopped) = oneshot::channel();
    let exporter = Exporter { client, path, service, counts, told: None };
    let task = tokio::spawn(exporter.run(queue, stopped));
    Ok((sender, Exporting { stop, task }))
}

struct Exporter {
    client: Client,
    path: String,
    service: String,
    counts: Arc<Counts>,
    /// When the log last said that the collector does not answer.
    told: Option<Instant>,
}

/// How often the log mentions a collector that does not answer.
const SILENCE: Duration = Duration::from_secs(60);

impl Exporter {
    async fn run(mut self, mut queue: mpsc::Receiver<Span>, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::with_capacity(SPANS_SENT_MAX);
        loop {
            tokio::select! {
                count = queue.recv_many(&mut batch, SPANS_SENT_MAX) => if count == 0 { return },
                _ = &mut stopped => break,
            }
            let full = gather(&mut queue, &mut batch);
            tokio::select! {
                _ = timeout(LINGER, full) => {}
                _ = &mut stopped => break,
            }
            let is_taken = self.send(&mut batch).await;
            if !is_taken {
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    _ = &mut stopped => break,
                }
            }
        }
        queue.close();
        loop {
            while batch.len() < SPANS_SENT_MAX
                && let Ok(span) = queue.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() || !self.send(&mut batch).await {
                return;
            }
        }
    }

    /// Sends what was gathered. False if the collector did not take it.
    async fn send(&mut self, batch: &mut Vec<Span>) -> bool {
        let count = batch.len() as u64;
        let body = proto::body(&self.service, batch.drain(..));
        let call = Call::new(Method::POST, self.path.clone()).protobuf(body);
        let answer = self.client.call(&call, Some(CALL_TIMEOUT)).await;
        let why = match answer {
            Ok(answer) if answer.status.is_success() => {
                self.counts.on_exported(count);
                return true;
            }
            Ok(answer) => format!("status {}", answer.status),
            Err(failure) => failure.to_string(),
        };
        self.counts.on_not_taken(count);
        if self.told.is_none_or(|told| told.elapsed() >= SILENCE) {
            self.told = Some(Instant::now());
            let collector = self.client.address().url();
            tracing::warn!(%why, collector, "the collector does not take traces; spans are dropped");
        }
        false
    }
}

/// Fills a batch.
async fn gather(queue: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    while batch.len() < SPANS_SENT_MAX {
        let Some(span) = queue.recv().await else { return };
        batch.push(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_by_its_address_or_by_the_whole_path() {
        for (url, path) in [
            ("http://127.0.0.1:4318", "/v1/traces"),
            ("http://127.0.0.1:4318/", "/v1/traces"),
            ("http://collector/otlp", "/otlp/v1/traces"),
            ("http://collector/v1/traces", "/v1/traces"),
        ] {
            assert_eq!(check_endpoint(url).unwrap().1, path, "{url}");
        }
        assert!(check_endpoint("collector:4318").is_err());
    }

    #[test]
    fn headers_are_read_and_a_secret_is_not_shown_when_they_cannot_be() {
        let found = headers("x-team=shop, authorization=Basic%20c2VjcmV0%3D%3D").unwrap();
        assert_eq!((found["x-team"].as_bytes(), found.len()), (&b"shop"[..], 2));
        assert_eq!(found["authorization"], "Basic c2VjcmV0==");
        assert!(found.values().all(HeaderValue::is_sensitive));
        for text in
            ["s3cret", "a=1,s3cret", "a b=s3cret", "a=s3cret%0A", "a=s3cret%", "a=1,=s3cret", "a=s3cret,"]
        {
            let why = headers(text).unwrap_err();
            assert!(why.contains("name=value") && !why.contains("s3cret"), "{text}: {why}");
        }
        assert!(headers(&vec!["a=b"; HEADERS_MAX].join(",")).is_ok());
        assert!(headers(&vec!["a=b"; HEADERS_MAX + 1].join(",")).unwrap_err().contains("more than 32"));
    }
}
