//! `driftq produce`: one message from the command line, or one per line of stdin.

mod envelope;
mod lines;
mod send;

use std::{
    io::{IsTerminal, stdin},
    time::{Duration, Instant},
};

use anyhow::Result;
use serde::Serialize;

use super::{
    Common,
    exit::{Exit, Fault},
    output::{self, grouped},
};
use crate::config::units;
use envelope::EnvelopeArgs;
use lines::Line;

/// More workers than this only wait for each other: the server syncs for all of them together.
const CONCURRENCY_MAX: u16 = 1024;

#[derive(clap::Args)]
#[command(
    after_help = "A message that meets an overloaded (429) or failing (5xx) server, or a broken connection, is sent again \
until --patience ends. After a broken connection nobody knows whether the first try was stored: give an \
idempotency key, and the repetition is stored once.

Examples:
  driftq produce orders 'charge 5' --key user:1
  driftq produce orders < lines.txt
  driftq produce orders --key-separator = < keyed.txt       # lines as user:1=charge 5
  driftq produce jobs --idempotency-key import-7 < jobs.txt # run it again: stored once
  driftq produce jobs 'x' --max-attempts 5 --backoff-ms 250 --max-backoff-ms 5000"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The message; without it, every line of stdin is one message and empty lines are skipped
    value: Option<String>,
    /// Messages with the same key go to the same partition, in order
    #[arg(short, long)]
    key: Option<String>,
    /// Split each line into key and value at the first occurrence of this text (\t means a tab)
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["key", "value"])]
    key_separator: Option<String>,
    /// Lines under way at once; with more than 1 their order is not kept
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(CONCURRENCY_MAX)))]
    concurrency: u16,
    /// How long one message is tried again before the command gives up
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = units::millis)]
    patience: u64,
    #[command(flatten)]
    envelope: EnvelopeArgs,
}

/// What was done.
#[derive(Debug, Default, Serialize)]
struct Summary {
    produced: u64,
    empty_lines_skipped: u64,
    retries: u64,
    seconds: f64,
}

pub(super) async fn run(common: &Common, args: Args) -> Result<()> {
    let started = Instant::now();
    let client = common.client()?;
    let plan = send::Plan {
        topic: args.topic,
        key: args.key.unwrap_or_default(),
        envelope: args.envelope.envelope()?,
        patience: Duration::from_millis(args.patience),
    };
    let mut summary = match args.value {
        Some(value) => {
            let line = Line { number: 1, key: None, value };
            let retries = send::one(&mut client.session(), &plan, &line, false).await?;
            Summary { produced: 1, retries: retries.into(), ..Summary::default() }
        }
        None => {
            if stdin().is_terminal() {
                eprintln!("reading messages from the terminal, one per line; Ctrl-D ends");
            }
            let separator = args.key_separator.map(|text| text.replace("\\t", "\t"));
            if separator.as_deref() == Some("") {
                return Err(Fault::new(Exit::Usage, "--key-separator must not be empty").into());
            }
            send::all(client, plan, separator, args.concurrency).await?
        }
    };
    summary.seconds = started.elapsed().as_secs_f64();
    output::print_one(common.output, &summary, || text(&summary))
}

fn text(summary: &Summary) -> String {
    let mut text = format!("produced {} message(s) in {:.2} s", grouped(summary.produced), summary.seconds);
    if summary.produced > 1 && summary.seconds > 0.0 {
        text.push_str(&format!(" ({:.0}/s)", summary.produced as f64 / summary.seconds));
    }
    if summary.empty_lines_skipped > 0 {
        text.push_str(&format!(", {} empty line(s) skipped", grouped(summary.empty_lines_skipped)));
    }
    if summary.retries > 0 {
        text.push_str(&format!(", {} retries", grouped(summary.retries)));
    }
    text + "\n"
}
