//! Jobs: work that goes on in the server after the answer.

use std::borrow::Cow;

use driftq_api::v2::{Job, JobKind, JobState, Jobs};
use driftq_api::{Code, Fault};
use hyper::StatusCode;

use super::words::moment;
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::audit::noted;
use crate::http::tenancy::Holding;
use crate::http::v1::Handled;

pub(super) fn list(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let mut jobs = request.app.broker.jobs();
    jobs.retain(|job| is_seen(request, job));
    Ok(json(StatusCode::OK, &Jobs { jobs: jobs.iter().map(shown).collect() }))
}

pub(super) fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    Ok(json(StatusCode::OK, &shown(&seen(request)?)))
}

/// The job that the path names. One about a topic that is not the caller's does not exist for it.
fn seen(request: &Request<'_>) -> Result<driftq_engine::Job, Fault> {
    let job = request.app.broker.job(id(request)?).map_err(|failure| fault(&failure))?;
    if is_seen(request, &job) { Ok(job) } else { Err(unknown()) }
}

fn is_seen(request: &Request<'_>, job: &driftq_engine::Job) -> bool {
    request.caller.sees(&job.topic) && request.caller.holding(job.tenant.as_deref()) == Some(Holding::Own)
}

pub(super) fn cancel(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let job = request.app.broker.cancel_job(seen(request)?.id).map_err(|failure| fault(&failure))?;
    let detail = format!("letters of topic {}", job.topic);
    Ok(noted(json(StatusCode::OK, &shown(&job)), detail))
}

/// The number of a job. A name that is not a number is that of an unknown job.
fn id(request: &Request<'_>) -> Result<u64, Fault> {
    let name = request.name(0, "id")?;
    name.parse().map_err(|_| unknown())
}

fn unknown() -> Fault {
    Fault::new(Code::JobUnknown, "there is no job of that number")
}

pub(super) fn shown(job: &driftq_engine::Job) -> Job<'_> {
    Job {
        id: Cow::Owned(job.id.to_string()),
        kind: match job.kind {
            driftq_engine::JobKind::Redrive => JobKind::Redrive,
            driftq_engine::JobKind::Purge => JobKind::Purge,
        },
        topic: Cow::Borrowed(&job.topic),
        state: match job.state {
            driftq_engine::JobState::Running => JobState::Running,
            driftq_engine::JobState::Done => JobState::Done,
            driftq_engine::JobState::Failed => JobState::Failed,
            driftq_engine::JobState::Cancelled => JobState::Cancelled,
        },
        dry_run: job.dry_run,
        started_at: moment(job.started),
        ended_at: job.ended.map(moment),
        matched: job.matched,
        done: job.done,
        skipped: job.skipped,
        refused: job.refused,
        failed: job.failed,
        error: job.error.as_deref().map(Cow::Borrowed),
    }
}
