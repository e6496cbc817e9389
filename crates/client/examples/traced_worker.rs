//! A worker whose spans go where its application wants them: here, a line of JSON for each on standard output. An
//! application with OpenTelemetry puts its own layer in the place of this one.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use driftq_client::{Client, Failure, Worker, json};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// What is known of a span: the fields that it was made with, and when it began.
#[derive(Default)]
struct Known(Map<String, Value>);

impl Visit for Known {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

fn now_ns() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).into()
}

struct Lines;

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut known = Known::default();
        attributes.record(&mut known);
        known.0.insert("begin".to_owned(), now_ns());
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(known);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let parent = span.parent().and_then(|parent| parent.extensions().get::<Known>().map(own_id));
        let Some(Known(known)) = span.extensions_mut().remove() else { return };
        // A child of the server's span of the delivery, as its `traceparent` names it.
        let delivery = || known.get("delivery")?.as_str()?.split('-').nth(2).map(Value::from);
        let line = serde_json::json!({
            "name": known.get("otel.name"), "begin": known.get("begin"), "end": now_ns(),
            "trace": known.get("trace_id"), "id": known.get("span_id"), "parent": parent.or_else(delivery),
        });
        println!("{line}");
    }
}

fn own_id(known: &Known) -> Value {
    known.0.get("span_id").cloned().unwrap_or_default()
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Lines))?;
    let client = Client::connect()?;
    let worker = Worker::new(&client, "billing").handle("orders", |order: Value, context| async move {
        let charge = async || {
            tokio::time::sleep(Duration::from_millis(40)).await;
            Ok("charged".to_owned())
        };
        let _: String = context.effect("charge").run(charge).await?;
        Ok(context.send("parcels", json(&order).delay(Duration::from_millis(200)))?)
    });
    Ok(worker.run().await?)
}
