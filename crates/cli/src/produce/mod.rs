//! `driftq produce`: one message from the command line, or one per line of stdin or a file.

mod batch;
mod envelope;
mod lines;
mod send;
mod template;

use std::io::{IsTerminal, stdin};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use driftq_api::v2::{DURATION_MS_MAX, Due, PRIORITY_MAX, Produced};
use driftq_api::{Moment, units};
use serde::Serialize;

use crate::{Common, Exit, Fault, grouped, parse, printable};
use envelope::EnvelopeArgs;
use lines::{Line, Source};
use template::{Template, ValueForm};

/// More workers than this only wait for each other: the server syncs for all of them together.
const CONCURRENCY_MAX: u16 = 1024;

#[derive(clap::Args)]
#[command(after_help = "A message that meets an overloaded (429) or failing (5xx) server, or a broken \
connection, is sent again until --patience ends. After a broken connection it is unknown whether the first try was \
stored: give an idempotency key, and the repetition is stored once.

Lines are sent in batches of what has been read so far, and all of a batch is on disk before it is answered. With \
--ndjson each line is a whole message as the API takes it; flags are for what a line does not say itself.

Examples:
  driftq produce orders 'charge 5' --key user:1
  driftq produce orders 'remind' --delay 15m --priority 9 --label team=risk
  driftq produce orders < lines.txt
  driftq produce orders --key-separator = < keyed.txt       # lines as user:1=charge 5
  driftq produce orders --ndjson --file messages.ndjson     # {\"key\": …, \"value\": …, \"delay_ms\": …}
  driftq produce jobs --idempotency-key import-7 < jobs.txt # run it again: stored once
  driftq produce jobs 'x' --max-attempts 5 --backoff-ms 250 --max-backoff-ms 5000")]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The message; without it, every line of stdin is one message and empty lines are skipped
    value: Option<String>,
    /// Read lines from this file instead of stdin
    #[arg(long, value_name = "PATH", conflicts_with = "value")]
    file: Option<PathBuf>,
    /// Messages with the same key go to the same partition, in order; those without one are spread over all of them
    #[arg(short, long)]
    key: Option<String>,
    /// Split each line into key and value at the first occurrence of this text (\t means a tab)
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["key", "value"])]
    key_separator: Option<String>,
    /// Each line is a message in JSON, with key or key_b64, value or value_b64, priority, deliver_at or delay_ms, and envelope
    #[arg(long, conflicts_with_all = ["value", "key_separator", "base64"])]
    ndjson: bool,
    /// Values are base64 and are stored as the bytes they stand for
    #[arg(long)]
    base64: bool,
    /// 0 to 9; higher is sooner, where the topic's order heeds it
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=PRIORITY_MAX as i64))]
    priority: u8,
    /// Deliver it after this time at the earliest
    #[arg(long, value_name = "DURATION", value_parser = delay, conflicts_with = "at")]
    delay: Option<u64>,
    /// Deliver it from this time on (RFC 3339, for example 2030-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    at: Option<Moment>,
    /// Batches under way at once; with more than 1 the order of lines is not kept
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(CONCURRENCY_MAX)))]
    concurrency: u16,
    /// How long one message is tried again before the command gives up
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = units::duration)]
    patience: u64,
    #[command(flatten)]
    envelope: EnvelopeArgs,
}

/// What was done.
#[derive(Debug, Default, Serialize)]
struct Summary {
    produced: u64,
    /// Of these, the ones whose idempotency key was known, so that nothing was stored.
    duplicates: u64,
    empty_lines_skipped: u64,
    retries: u64,
    seconds: f64,
    /// Where it is, if it is a single message of the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Produced<'static>>,
}

pub(super) async fn run(common: &Common, args: Args) -> Result<()> {
    let started = Instant::now();
    let client = common.client()?;
    let separator = args.key_separator.map(|text| text.replace("\\t", "\t"));
    if separator.as_deref() == Some("") {
        return Err(Fault::new(Exit::Usage, "--key-separator must not be empty").into());
    }
    let form = match (args.ndjson, args.base64) {
        (true, _) => ValueForm::Message,
        (false, true) => ValueForm::Base64,
        (false, false) => ValueForm::Text,
    };
    let template = Template {
        form,
        key: args.key.unwrap_or_default(),
        priority: args.priority,
        due: args.delay.map(Due::AfterMs).or_else(|| args.at.map(Due::At)),
        envelope: args.envelope.envelope()?,
    };
    let plan = send::Plan { topic: args.topic, template, patience: Duration::from_millis(args.patience) };
    let mut summary = match args.value {
        Some(value) => send::one(&client, &plan, &Line { number: 1, key: None, value }).await?,
        None => {
            let source = Source::open(args.file.as_deref())?;
            if args.file.is_none() && stdin().is_terminal() {
                eprintln!("reading messages from the terminal, one per line; Ctrl-D ends");
            }
            send::all(client, plan, lines::Lines::new(source, separator), args.concurrency).await?
        }
    };
    summary.seconds = started.elapsed().as_secs_f64();
    common.show(&summary, text)
}

fn delay(text: &str) -> Result<u64, String> {
    let millis = units::duration(text)?;
    if millis > DURATION_MS_MAX {
        return Err(format!("`{text}` is longer than ten years"));
    }
    Ok(millis)
}

fn text(summary: &Summary) -> String {
    let mut text = format!("produced {} message(s) in {:.2} s", grouped(summary.produced), summary.seconds);
    if summary.produced > 1 && summary.seconds > 0.0 {
        text.push_str(&format!(" ({:.0}/s)", summary.produced as f64 / summary.seconds));
    }
    if let Some(message) = &summary.message {
        text.push_str(&format!(": {} {}/{}", printable(&message.topic), message.partition, message.offset));
    }
    if summary.duplicates > 0 {
        text.push_str(&format!(
            ", {} of them known already and not stored again",
            grouped(summary.duplicates)
        ));
    }
    if summary.empty_lines_skipped > 0 {
        text.push_str(&format!(", {} empty line(s) skipped", grouped(summary.empty_lines_skipped)));
    }
    if summary.retries > 0 {
        text.push_str(&format!(", {} retries", grouped(summary.retries)));
    }
    text + "\n"
}
