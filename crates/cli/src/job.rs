//! `driftq job …`: work that goes on in the server, and the waiting of the commands that start some.

use std::time::Duration;

use anyhow::Result;
use driftq_api::v2::{Job, JobKind, JobState, Jobs};

use crate::{
    Columns, Common, Exit, Fault, Path, Signals, caller::Caller, description, grouped, printable, progress,
};

/// Between two looks: first and longest. A short job is told at once, a long one does not keep the server busy.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(500);

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List jobs, the newest first
    #[command(after_help = "Examples:
  driftq job list
  driftq job list -o ndjson | jq -r 'select(.state == \"running\") | .id'")]
    List,
    /// Show one job
    #[command(after_help = "Examples:
  driftq job get 1
  driftq job get 1 -o json | jq .state")]
    Get(Name),
    /// Stop a job; what was done stays done
    #[command(after_help = "What the job has done stays done; the rest stays where it is. A job that has \
ended stays as it ended.

Examples:
  driftq job cancel 1")]
    Cancel(Name),
    /// Wait until a job ends, and show how far it is
    #[command(after_help = "Ends with code 1 if the job failed or was cancelled.

Examples:
  driftq job wait \"$(driftq dlq redrive orders --all --no-wait -o json | jq -r .id)\"")]
    Wait(Name),
}

#[derive(clap::Args)]
pub(crate) struct Name {
    /// Its name, as `dlq redrive` or `job list` printed it
    id: String,
}

/// Whether a command that starts a job waits for it.
#[derive(clap::Args)]
pub(crate) struct Waiting {
    /// Wait until the job has ended; this is what happens if nothing is said
    #[arg(long, overrides_with = "no_wait")]
    wait: bool,
    /// Print the job and leave it to the server; see `driftq job`
    #[arg(long, overrides_with = "wait")]
    no_wait: bool,
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    let mut caller = common.caller()?;
    match command {
        Command::List => {
            let jobs = caller.get::<Jobs<'static>>("/v2/jobs").await?.jobs;
            common.show_all(&jobs, COLUMNS, "no jobs; `driftq dlq redrive` and `driftq dlq purge` start one")
        }
        Command::Get(name) => common.show(&caller.get(path(&name.id)).await?, text),
        Command::Cancel(name) => common.show(&caller.delete(path(&name.id)).await?, text),
        Command::Wait(name) => {
            let job = caller.get(path(&name.id)).await?;
            until_end(common, &mut caller, job).await
        }
    }
}

fn path(id: &str) -> Path {
    Path::of("/v2/jobs").part(id)
}

const COLUMNS: Columns<Job<'static>> = &[
    ("JOB", |job, _| printable(&job.id)),
    ("WHAT", |job, _| kind(job).to_owned()),
    ("TOPIC", |job, _| printable(&job.topic)),
    ("STATE", |job, _| state(job).to_owned()),
    ("STARTED", |job, now| now.tell(job.started_at)),
    ("SO FAR", |job, _| sentence(job)),
];

const FACTS: Columns<Job<'static>> = &[
    ("job", |job, _| printable(&job.id)),
    ("what", |job, _| {
        let note = if job.dry_run { ", dry run" } else { "" };
        format!("{} of {}{note}", kind(job), printable(&job.topic))
    }),
    ("state", |job, _| state(job).to_owned()),
    ("started", |job, now| now.show(job.started_at)),
    ("ended", |job, now| job.ended_at.map(|at| now.show(at)).unwrap_or_default()),
    ("so far", |job, _| sentence(job)),
    ("error", |job, _| job.error.as_deref().map(printable).unwrap_or_default()),
];

fn text(job: &Job<'static>) -> String {
    description(FACTS, job)
}

const fn kind(job: &Job<'_>) -> &'static str {
    match job.kind {
        JobKind::Redrive => "redrive",
        JobKind::Purge => "purge",
    }
}

const fn state(job: &Job<'_>) -> &'static str {
    match job.state {
        JobState::Running => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
    }
}

/// What it did so far, in a sentence.
fn sentence(job: &Job<'_>) -> String {
    let verb = match job.kind {
        JobKind::Redrive => "sent back",
        JobKind::Purge => "thrown away",
    };
    let mut words = if job.dry_run {
        format!("{} dead letter(s) would be {verb}", grouped(job.matched))
    } else {
        format!("{} of {} dead letter(s) {verb}", grouped(job.done), grouped(job.matched))
    };
    for (count, what) in [
        (job.skipped, "skipped: gone, or dealt with by another client"),
        (job.refused, "refused: the group that gave them up is gone"),
        (job.failed, "failed"),
    ] {
        if count > 0 {
            words.push_str(&format!(", {} {what}", grouped(count)));
        }
    }
    words
}

/// Prints the job, now or when it has ended.
pub(crate) async fn follow(
    common: &Common,
    caller: &mut Caller<'_>,
    job: Job<'static>,
    waiting: &Waiting,
) -> Result<()> {
    if waiting.no_wait { common.show(&job, text) } else { until_end(common, caller, job).await }
}

async fn until_end(common: &Common, caller: &mut Caller<'_>, mut job: Job<'static>) -> Result<()> {
    let bar = progress::bar("{spinner} {bar:30} {human_pos}/{human_len} letters, {per_sec}, {elapsed}");
    let mut signals = Signals::new()?;
    let mut pause = LOOK_FIRST;
    while job.state == JobState::Running {
        bar.set_length(job.matched.max(1));
        bar.set_position(job.done + job.skipped + job.refused + job.failed);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            signal = signals.next() => {
                bar.finish_and_clear();
                eprintln!("job {} goes on in the server; `driftq job cancel {}` stops it", job.id, job.id);
                std::process::exit(signal.exit_code());
            }
        }
        pause = (pause * 2).min(LOOK_MAX);
        job = caller.get(path(&job.id)).await?;
    }
    bar.finish_and_clear();
    common.show(&job, |job| format!("job {}: {}\n", printable(&job.id), sentence(job)))?;
    let why = job.error.as_deref().map(|error| format!(": {}", printable(error))).unwrap_or_default();
    let message = match job.state {
        JobState::Running | JobState::Done if job.refused + job.failed == 0 => return Ok(()),
        JobState::Running | JobState::Done => {
            format!("{} dead letter(s) could not be dealt with{why}", job.refused + job.failed)
        }
        JobState::Failed => format!("job {} failed{why}", job.id),
        JobState::Cancelled => format!("job {} was cancelled{why}", job.id),
    };
    Err(Fault::new(Exit::Failure, message).help("what was done stays done; the rest is still there").into())
}
