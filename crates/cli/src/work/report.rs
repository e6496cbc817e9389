//! What the worker says while it works.

use std::sync::{Mutex, PoisonError};
use std::{collections::BTreeMap, io, time::Duration};

use driftq_client::Context;
use serde::Serialize;

use driftq_api::when::length;

use crate::{colour::Paint, grouped, output, printable};

/// Tells of every message, on stderr for people or on stdout for programs, and counts.
pub(super) struct Report {
    is_for_programs: bool,
    paint: Paint,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

/// A line for programs.
#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    partition: u32,
    offset: u64,
    attempt: u32,
    verdict: &'a str,
    reason: &'a str,
    took_ms: u64,
}

impl Report {
    pub(super) fn new(is_for_programs: bool) -> Self {
        Self { is_for_programs, paint: Paint::of(&io::stderr()), counts: Mutex::default() }
    }

    /// A command ended, and this becomes of its message.
    pub(super) fn told(&self, context: &Context, verdict: &'static str, reason: &str, took: Duration) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(verdict).or_default() += 1;
        let (topic, partition, offset) = (context.topic(), context.partition(), context.offset());
        let attempt = context.attempt();
        if self.is_for_programs {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let line = Line { topic, partition, offset, attempt, verdict, reason, took_ms };
            // A reader that went away does not end the work; it did not ask for that.
            drop(serde_json::to_string(&line).map(|line| output::write(&format!("{line}\n"))));
            return;
        }
        let word = match verdict {
            "done" => self.paint.green(verdict),
            "retry" | "snooze" => self.paint.yellow(verdict),
            _ => self.paint.red(verdict),
        };
        let place = self.paint.dim(&format!("{} {partition}/{offset}", printable(topic)));
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let why = if reason.is_empty() { String::new() } else { format!(": {}", printable(reason)) };
        eprintln!("{place} {word} in {}{again}{why}", length(took.as_millis()));
    }

    /// Something else that people want to know.
    pub(super) fn say(&self, text: &str) {
        eprintln!("{text}");
    }

    /// Whether there is something to sum up.
    pub(super) fn is_begun(&self) -> bool {
        !self.counts.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn summarize(&self) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<String> =
            counts.iter().map(|(verdict, count)| format!("{} {verdict}", grouped(*count))).collect();
        if parts.is_empty() {
            eprintln!("no message came");
        } else {
            eprintln!("{}", parts.join(", "));
        }
    }
}
