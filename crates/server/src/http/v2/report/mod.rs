//! What to do: everything that can go wrong, held against rules. `driftq report` and the dashboard say it in these words.

mod rules;
mod survey;

#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod sample;

use std::time::Instant;

use bytes::Bytes;
use driftq_api::JSON;
use driftq_api::v2::{Report, Urgency};
use driftq_api::when::Now;
use hyper::StatusCode;
use tokio::sync::Mutex;

use super::words::moment;
use super::{Request, fault};
use crate::http::answer::whole;
use crate::http::v1::Handled;

/// Findings that one report lists.
const FINDINGS_MAX: usize = 200;

/// The newest report as it went out, and when it was begun. It looks at many groups, and the shard has other work: one is
/// made at a time, and it serves all who asked before it was begun.
#[derive(Default)]
pub(crate) struct Newest(Mutex<Option<(Instant, Bytes)>>);

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let (app, asked) = (request.app, Instant::now());
    let mut newest = app.report.0.lock().await;
    if let Some((_, bytes)) = newest.as_ref().filter(|(begun, _)| *begun >= asked) {
        return Ok(whole(StatusCode::OK, JSON, bytes.clone()));
    }
    let begun = Instant::now();
    let survey = survey::take(app).await.map_err(|failure| fault(&failure))?;
    let report = told(&survey, Now::at(moment(app.broker.now())));
    let bytes = serde_json::to_vec(&report).expect("texts and numbers always have a JSON form");
    let bytes = Bytes::from(bytes);
    *newest = Some((begun, bytes.clone()));
    Ok(whole(StatusCode::OK, JSON, bytes))
}

fn told(survey: &survey::Survey, now: Now) -> Report<'static> {
    let mut findings = rules::findings(survey, now);
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count() as u64;
    let (act, look) = (count(Urgency::Act), count(Urgency::Look));
    let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Urgency::Ok);
    let left_out = survey.left_out + findings.len().saturating_sub(FINDINGS_MAX) as u64;
    findings.truncate(FINDINGS_MAX);
    Report { verdict, act, look, findings, left_out }
}
