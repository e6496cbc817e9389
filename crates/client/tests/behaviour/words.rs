//! What a client says in the log.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use driftq_client::{Client, Error, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Where nobody listens.
const NOBODY: &str = "http://127.0.0.1:2";

/// Every warning of the client, and when it came.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<(Instant, String)>>>);

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("driftq_client")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        self.0.lock().unwrap().push((Instant::now(), words.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_at_once() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let client = Client::builder().url(NOBODY).patience(Duration::from_millis(1500)).build().unwrap();
    let began = Instant::now();
    for times in 1..=2 {
        let error = client.produce("orders", json(&1)).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        let said = warnings.0.lock().unwrap().clone();
        assert_eq!(said.len(), times, "once for each who waits, and not for every try: {said:?}");
    }
    let (at, words) = warnings.0.lock().unwrap().remove(0);
    assert!(at - began < Duration::from_millis(700), "before patience is over");
    assert!(words.contains(NOBODY) && words.contains("1.5s"), "{words}");
}
