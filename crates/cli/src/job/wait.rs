//! `driftq job wait`, and the waiting of the commands that start a job.

use std::time::Duration;

use anyhow::Result;
use driftq_api::v2::{Job, JobState};

use super::{
    read,
    words::{sentence, text},
};
use crate::{
    Common,
    client::Session,
    exit::{Exit, Fault},
    output::{self, printable},
    progress,
    signal::Signals,
};

/// Between two looks: first and longest. A short job is told at once, a long one does not keep the server busy.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
#[command(after_help = "Ends with code 1 if the job failed or was cancelled.

Examples:
  driftq job wait \"$(driftq dlq redrive orders --all --no-wait -o json | jq -r .id)\"")]
pub(crate) struct Args {
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

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let job = read(&mut session, &args.id).await.map_err(|error| error.into_error())?;
    until_end(common, &mut session, job).await
}

/// Prints the job, now or when it has ended.
pub(crate) async fn follow(
    common: &Common,
    session: &mut Session,
    job: Job<'static>,
    waiting: &Waiting,
) -> Result<()> {
    if waiting.no_wait {
        return output::print_one(common.output, &job, || text(&job));
    }
    until_end(common, session, job).await
}

async fn until_end(common: &Common, session: &mut Session, mut job: Job<'static>) -> Result<()> {
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
        job = read(session, &job.id).await.map_err(|error| error.into_error())?;
    }
    bar.finish_and_clear();
    output::print_one(common.output, &job, || format!("job {}: {}\n", printable(&job.id), sentence(&job)))?;
    verdict(&job)
}

fn verdict(job: &Job<'_>) -> Result<()> {
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
