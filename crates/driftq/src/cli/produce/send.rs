//! Sends messages, several at once if asked.

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use driftq_api::v1::Produced;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::{
    io::BufReader,
    sync::{Mutex, mpsc},
    task::JoinSet,
};

use super::{
    Summary,
    lines::{Line, Lines},
};
use crate::client::{
    Client, Retry, Session,
    words::{Envelope, Produce},
};

/// Lines read ahead of the workers.
const LINES_AHEAD_MAX: usize = 1024;

/// What all messages have in common.
pub(super) struct Plan {
    pub(super) topic: String,
    pub(super) key: String,
    pub(super) envelope: Option<Envelope>,
    pub(super) patience: Duration,
}

/// Sends one message and says how many retries it took. `numbered` makes the idempotency key one of its line.
pub(super) async fn one(session: &mut Session, plan: &Plan, line: &Line, numbered: bool) -> Result<u32> {
    let mut envelope = plan.envelope.clone();
    if numbered && let Some(key) = envelope.as_mut().and_then(|envelope| envelope.idempotency_key.as_mut()) {
        key.push_str(&format!(":{}", line.number));
    }
    let key = line.key.as_deref().unwrap_or(&plan.key);
    let request = Produce { topic: &plan.topic, key, value: &line.value, envelope };
    let (outcome, retries) = session
        .post_retrying::<Produced<'static>>("/v1/produce", &request, Retry::within(plan.patience))
        .await;
    outcome.map_err(|error| error.into_error())?;
    Ok(retries)
}

/// Sends every line of stdin.
pub(super) async fn all(
    client: Client,
    plan: Plan,
    separator: Option<String>,
    concurrency: u16,
) -> Result<Summary> {
    let bar = progress();
    let (lines_in, lines_out) = mpsc::channel::<Line>(LINES_AHEAD_MAX);
    let plan = Arc::new(plan);
    let lines_out = Arc::new(Mutex::new(lines_out));
    let mut workers = JoinSet::new();
    for _ in 0..concurrency {
        workers.spawn(work(client.clone(), plan.clone(), lines_out.clone(), bar.clone()));
    }
    // The workers hold the only receivers now: when the last one fails, the reader below notices.
    drop(lines_out);
    let mut lines = Lines::new(BufReader::new(tokio::io::stdin()), separator);
    let read = feed(&mut lines, lines_in).await;
    let mut summary = Summary { empty_lines_skipped: lines.skipped, ..Summary::default() };
    let mut failure = None;
    while let Some(joined) = workers.join_next().await {
        let (produced, retries, outcome) = joined.context("a worker ended")?;
        summary.produced += produced;
        summary.retries += retries;
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

async fn feed<R: tokio::io::AsyncBufRead + Unpin>(
    lines: &mut Lines<R>,
    queue: mpsc::Sender<Line>,
) -> Result<()> {
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
) -> (u64, u64, Result<()>) {
    let mut session = client.session();
    let (mut produced, mut retries) = (0, 0);
    loop {
        let Some(line) = lines.lock().await.recv().await else {
            return (produced, retries, Ok(()));
        };
        match one(&mut session, &plan, &line, true).await {
            Ok(more) => {
                produced += 1;
                retries += u64::from(more);
                bar.inc(1);
            }
            Err(error) => {
                lines.lock().await.close();
                return (produced, retries, Err(error.context(format!("line {}", line.number))));
            }
        }
    }
}

fn progress() -> ProgressBar {
    if !io::stderr().is_terminal() || io::stdin().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} messages, {per_sec}, {elapsed}");
    let bar = ProgressBar::new_spinner();
    style.map_or_else(|_| ProgressBar::hidden(), |style| bar.with_style(style))
}
