//! Sends messages, several batches at once if asked.

use std::io::{self, IsTerminal};
use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use driftq_api::v2::Produced;
use driftq_http::Patience;
use indicatif::ProgressBar;
use serde_json::value::RawValue;
use tokio::sync::{Mutex, mpsc};
use tokio::{io::AsyncBufRead, task::JoinSet};

use super::batch::{self, Ready, Tally};
use super::lines::{Line, Lines};
use super::{Summary, template::Template};
use crate::{Client, Path, Subject, progress, suggest};

/// Lines read ahead of the workers.
const LINES_AHEAD_MAX: usize = 4096;
/// Lines of one call. More of them save little, and wait longer for their answer.
const BATCH_LINES_MAX: usize = 1000;

/// What to do with all lines.
pub(super) struct Plan {
    pub(super) topic: String,
    pub(super) template: Template,
    pub(super) patience: Duration,
}

/// Sends one message of the command line.
pub(super) async fn one(client: &Client, plan: &Plan, line: &Line) -> Result<Summary> {
    let mut session = client.session();
    let json = plan.template.json(line, false).map_err(|mut fault| {
        fault.message = fault.message.trim_start_matches("line 1: ").to_owned();
        fault
    })?;
    let message: Box<RawValue> = serde_json::from_slice(&json).context("writing the message")?;
    let retry = Patience::lasting(plan.patience);
    let (answer, retries) = session
        .post_retrying::<Produced<'static>>(Path::topic(&plan.topic).word("messages"), &message, retry)
        .await;
    let stored = match answer {
        Ok(stored) => stored,
        Err(error) => {
            return Err(suggest::explained(&mut session, Subject::Topic(&plan.topic), error).await.into());
        }
    };
    Ok(Summary {
        produced: 1,
        duplicates: stored.duplicate.into(),
        retries: retries.into(),
        message: Some(stored),
        ..Summary::default()
    })
}

/// Sends every line.
pub(super) async fn all<R: AsyncBufRead + Unpin>(
    client: Client,
    plan: Plan,
    mut lines: Lines<R>,
    concurrency: u16,
) -> Result<Summary> {
    let bar = progress_bar();
    let (lines_in, lines_out) = mpsc::channel::<Line>(LINES_AHEAD_MAX);
    let plan = Arc::new(plan);
    let lines_out = Arc::new(Mutex::new(lines_out));
    let mut workers = JoinSet::new();
    for _ in 0..concurrency {
        workers.spawn(work(client.clone(), plan.clone(), lines_out.clone(), bar.clone()));
    }
    // The workers hold the only receivers now: when the last one fails, the reader below notices.
    drop(lines_out);
    let read = feed(&mut lines, lines_in).await;
    let mut summary = Summary { empty_lines_skipped: lines.skipped, ..Summary::default() };
    let mut failure = None;
    while let Some(joined) = workers.join_next().await {
        let (tally, outcome) = joined.context("a worker ended")?;
        summary.produced += tally.produced;
        summary.duplicates += tally.duplicates;
        summary.retries += tally.retries;
        failure = failure.or_else(|| outcome.err());
    }
    bar.finish_and_clear();
    match failure.or_else(|| read.err()) {
        None => Ok(summary),
        Some(error) => {
            eprintln!("{} message(s) were produced before the failure", summary.produced);
            Err(error)
        }
    }
}

async fn feed<R: AsyncBufRead + Unpin>(lines: &mut Lines<R>, queue: mpsc::Sender<Line>) -> Result<()> {
    while let Some(line) = lines.next().await? {
        if queue.send(line).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Takes lines until there are none, or until one cannot be sent; then the others stop at their next line too.
async fn work(
    client: Client,
    plan: Arc<Plan>,
    lines: Arc<Mutex<mpsc::Receiver<Line>>>,
    bar: ProgressBar,
) -> (Tally, Result<()>) {
    let mut session = client.session();
    let retry = Patience::lasting(plan.patience);
    let mut tally = Tally::default();
    loop {
        let mut taken = Vec::new();
        // Whatever has been read so far: a line that comes alone is sent at once.
        if lines.lock().await.recv_many(&mut taken, BATCH_LINES_MAX).await == 0 {
            return (tally, Ok(()));
        }
        let (ready, bad) = rendered(&plan.template, &taken);
        let before = tally.produced;
        let sent = batch::deliver(&mut session, &plan.topic, batch::cut(ready), &retry, &mut tally).await;
        bar.inc(tally.produced - before);
        if let Err(error) = sent.and(bad) {
            lines.lock().await.close();
            return (tally, Err(error));
        }
    }
}

/// The messages before the first bad line, and what is wrong with that.
fn rendered(template: &Template, lines: &[Line]) -> (Vec<Ready>, Result<()>) {
    let mut ready = Vec::with_capacity(lines.len());
    for line in lines {
        match template.json(line, true) {
            Ok(json) => ready.push(Ready { number: line.number, json }),
            Err(fault) => return (ready, Err(fault.into())),
        }
    }
    (ready, Ok(()))
}

/// Users who type their messages see what is done.
fn progress_bar() -> ProgressBar {
    if io::stdin().is_terminal() {
        return ProgressBar::hidden();
    }
    progress::counter("{spinner} {human_pos} messages, {per_sec}, {elapsed}")
}
