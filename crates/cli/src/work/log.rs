//! What the SDK's worker, or a connector, has to say, for the operator who watches stderr.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, util::SubscriberInitExt};

/// From here on warnings are told on stderr, and that a server that was away is back.
pub(crate) fn start() {
    let heard = Targets::new()
        .with_target("driftq_client", LevelFilter::WARN)
        .with_target("driftq_client::client", LevelFilter::INFO)
        .with_target("driftq_connect", LevelFilter::INFO);
    // A subscriber that is there already is one of a test; then nothing is told, and nothing is wrong.
    drop(tracing_subscriber::registry().with(Told.with_filter(heard)).try_init());
}

struct Told;

impl<S: Subscriber> Layer<S> for Told {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let prefix = if *event.metadata().level() <= Level::WARN { "warning: " } else { "" };
        eprintln!("{prefix}{}{}", words.message, words.more());
    }
}

/// The words of one event.
#[derive(Default)]
struct Words {
    message: String,
    fields: Vec<String>,
}

impl Words {
    fn more(&self) -> String {
        if self.fields.is_empty() { String::new() } else { format!(" ({})", self.fields.join(", ")) }
    }

    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        match field.name() {
            "message" => drop(write!(self.message, "{value}")),
            // An error says by itself that it is one.
            "error" => self.fields.push(value.to_string()),
            name => self.fields.push(format!("{name}: {value}")),
        }
    }
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}
