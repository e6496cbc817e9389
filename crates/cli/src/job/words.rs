//! A job in words.

use driftq_api::v2::{Job, JobKind, JobState};

use crate::{
    output::{grouped, printable},
    when::Now,
};

pub(super) const fn kind(job: &Job<'_>) -> &'static str {
    match job.kind {
        JobKind::Redrive => "redrive",
        JobKind::Purge => "purge",
    }
}

pub(super) const fn state(job: &Job<'_>) -> &'static str {
    match job.state {
        JobState::Running => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
    }
}

/// What it did so far, in a sentence.
pub(super) fn sentence(job: &Job<'_>) -> String {
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
        (job.skipped, "skipped: gone, or dealt with by somebody else"),
        (job.refused, "refused: the group that gave them up is gone"),
        (job.failed, "failed"),
    ] {
        if count > 0 {
            words.push_str(&format!(", {} {what}", grouped(count)));
        }
    }
    words
}

/// Everything about it.
pub(super) fn text(job: &Job<'_>) -> String {
    let now = Now::read();
    let mut text = format!(
        "job      {}\nwhat     {} of {}{}\nstate    {}\nstarted  {}\n",
        printable(&job.id),
        kind(job),
        printable(&job.topic),
        if job.dry_run { ", dry run" } else { "" },
        state(job),
        now.show(job.started_at),
    );
    if let Some(at) = job.ended_at {
        text.push_str(&format!("ended    {}\n", now.show(at)));
    }
    text.push_str(&format!("so far   {}\n", sentence(job)));
    if let Some(error) = &job.error {
        text.push_str(&format!("error    {}\n", printable(error)));
    }
    text
}
