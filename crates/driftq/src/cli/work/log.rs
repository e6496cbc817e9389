//! What the SDK's worker has to say, for whoever watches stderr.

use std::{
    fmt::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    layer::{Context, SubscriberExt},
    util::SubscriberInitExt,
};

/// Under this name the worker says at its end how much the server did not hear of.
const UNHEARD: &str = "unheard";

/// How many messages the server has not been told of, at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Unheard(Arc<AtomicU64>);

impl Unheard {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// From here on warnings are told on stderr, and that a server that was away is back.
pub(super) fn start() -> Unheard {
    let unheard = Unheard::default();
    let heard = Targets::new()
        .with_target("driftq_client", LevelFilter::WARN)
        .with_target("driftq_client::client", LevelFilter::INFO);
    let layer = Told { unheard: unheard.clone() }.with_filter(heard);
    // Somebody else's subscriber would be one of a test; then nothing is told, and nothing is wrong.
    drop(tracing_subscriber::registry().with(layer).try_init());
    unheard
}

struct Told {
    unheard: Unheard,
}

impl<S: Subscriber> Layer<S> for Told {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        self.unheard.0.fetch_add(words.unheard, Ordering::Relaxed);
        let prefix = if *event.metadata().level() <= Level::WARN { "warning: " } else { "" };
        eprintln!("{prefix}{}{}", words.message, words.more());
    }
}

/// The words of one event.
#[derive(Default)]
struct Words {
    message: String,
    fields: Vec<String>,
    unheard: u64,
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
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == UNHEARD {
            self.unheard = value;
        }
        self.add(field, format_args!("{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}
