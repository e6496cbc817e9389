//! What the ledger tells an observer, such as one that counts.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A call of the ledger that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which store.
    pub store: &'static str,
    /// Which call: `begin`, `finish`, …
    pub operation: &'static str,
    /// How it ended, in one word: a decision, `committed`, or the word of an error.
    pub result: &'static str,
    /// How long it took, retries and waiting included.
    pub took: Duration,
    /// How often the store was asked again after a transient failure.
    pub retries: u32,
}

/// Hears of every call. It is called on the caller's task and must not block.
pub trait Observer: Send + Sync + 'static {
    /// A call has ended.
    fn on_call(&self, call: Call);
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn on_call(&self, _: Call) {}
}

/// Counts calls by operation and result, and writes the counts in the text format of Prometheus. The set of words is
/// fixed, so the counters are few.
#[derive(Debug, Default)]
pub struct Counters {
    counts: Mutex<BTreeMap<(&'static str, &'static str, &'static str), Count>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    calls: u64,
    retries: u64,
    seconds: f64,
}

impl Observer for Counters {
    fn on_call(&self, call: Call) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((call.store, call.operation, call.result)).or_default();
        count.calls += 1;
        count.retries += u64::from(call.retries);
        count.seconds += call.took.as_secs_f64();
    }
}

impl Counters {
    /// How often an operation had this result, on any store.
    #[must_use]
    pub fn calls(&self, operation: &str, result: &str) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let matching = counts.iter().filter(|((_, named, word), _)| *named == operation && *word == result);
        matching.map(|(_, count)| count.calls).sum()
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        for (name, help) in [
            ("driftq_ledger_calls_total", "Calls of the ledger that have ended"),
            ("driftq_ledger_retries_total", "Calls of the store repeated after a transient failure"),
            ("driftq_ledger_seconds_total", "Time spent in calls of the ledger"),
        ] {
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter")?;
            for ((store, operation, result), count) in &counts {
                write!(text, "{name}{{store=\"{store}\",operation=\"{operation}\",result=\"{result}\"}} ")?;
                match name {
                    "driftq_ledger_calls_total" => writeln!(text, "{}", count.calls)?,
                    "driftq_ledger_retries_total" => writeln!(text, "{}", count.retries)?,
                    _ => writeln!(text, "{}", count.seconds)?,
                }
            }
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_what_came_of_them() {
        let counters = Counters::default();
        let call = Call {
            store: "memory",
            operation: "begin",
            result: "execute",
            took: Duration::from_millis(500),
            retries: 1,
        };
        counters.on_call(call);
        counters.on_call(call);
        counters.on_call(Call { result: "replay", retries: 0, ..call });
        assert_eq!((counters.calls("begin", "execute"), counters.calls("begin", "replay")), (2, 1));
        assert_eq!(counters.calls("finish", "execute"), 0);
        let text = counters.to_string();
        let labels = r#"{store="memory",operation="begin",result="execute"}"#;
        for line in ["driftq_ledger_calls_total", "driftq_ledger_retries_total"] {
            assert!(text.contains(&format!("{line}{labels} 2\n")), "{text}");
        }
        assert!(text.contains(&format!("driftq_ledger_seconds_total{labels} 1\n")), "{text}");
    }
}
