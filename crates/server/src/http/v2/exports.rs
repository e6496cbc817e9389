//! Exports: messages that ask for files, and the effects that write them.

use std::borrow::Cow;

use driftq_api::v2::{
    EXPORT_DIGEST_HEADER, EXPORT_LOCATION_HEADER, EXPORT_SCOPE, EXPORTS_GROUP, EXPORTS_PREFIX, Envelope,
    ExportRecord, ExportSpec, ExportState, ExportTaken, Exports, ExportsQuery, Message,
};
use driftq_api::{Code, Fault};
use hyper::StatusCode;
use serde::Deserialize;

use super::Request;
use super::errands::{self, Asked, Errand, ErrandPage, Errands, Standing};
use super::words::moment;
use crate::http::answer::json;
use crate::http::v1::Handled;

/// The parts of a manifest that a list shows.
#[derive(Default, Deserialize)]
struct Manifest {
    rows: Option<u64>,
    bytes: Option<u64>,
    #[serde(default)]
    parts: Vec<serde::de::IgnoredAny>,
}

/// The topic of a place, which is there as soon as a connector that knows the place has run.
fn topic_of(request: &Request<'_>, place: &str) -> Result<String, Fault> {
    let topic = format!("{EXPORTS_PREFIX}{place}");
    request.caller.may_use(&topic)?;
    if request.app.broker.tenant_of_topic(&topic).is_none() {
        let detail =
            "no connector has told of such a place; start one whose file has it below [exports.places]";
        return Err(Fault::new(Code::TopicUnknown, detail));
    }
    Ok(topic)
}

pub(super) async fn post(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let spec = ExportSpec::from_json(request.json()?)?;
    spec.check()?;
    request.tenant(Cow::Borrowed(&spec.tenant_id))?;
    let topic = topic_of(request, &spec.place)?;
    let value = serde_json::to_vec(&spec).map_err(|error| Fault::invalid(error.to_string()))?;
    let envelope = Envelope { tenant_id: Cow::Borrowed(&spec.tenant_id), ..Envelope::default() };
    let message =
        Message { key: Cow::Borrowed(&[]), value: Cow::Owned(value), priority: 0, due: None, envelope: None };
    let taken = errands::ask(request, (&topic, &spec.export_id), envelope, message).await?;
    let told = ExportTaken {
        export_id: Cow::Borrowed(&spec.export_id),
        place: Cow::Borrowed(&spec.place),
        duplicate: taken.is_duplicate,
        message: taken.message,
    };
    Ok(json(taken.status, &told))
}

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let asked = ExportsQuery::from_query(request.query()?)?;
    let errands = Errands {
        topic: topic_of(request, &asked.place)?,
        group: EXPORTS_GROUP.to_owned(),
        scope: EXPORT_SCOPE.to_owned(),
    };
    let which = Asked { id: asked.export_id.as_deref(), limit: asked.limit, after: asked.after };
    let record = |errand| record(&asked, &errands.topic, errand);
    let ErrandPage { found: exports, cursor, scanned } = errands.page(request, &which, record).await?;
    Ok(json(StatusCode::OK, &Exports { exports, cursor, scanned }))
}

/// An export, if it is in the state that is asked for.
fn record(asked: &ExportsQuery<'_>, topic: &str, errand: Errand) -> Option<ExportRecord<'static>> {
    let state = match errand.standing {
        Standing::Pending => ExportState::Pending,
        Standing::Running => ExportState::Running,
        // An export is repeatable: it is never left open whether it happened.
        Standing::Retrying | Standing::Unknown => ExportState::Retrying,
        Standing::Done => ExportState::Done,
        Standing::Failed => ExportState::Failed,
    };
    if asked.state.is_some_and(|wanted| wanted != state) {
        return None;
    }
    let ending = errand.ending().filter(|_| state == ExportState::Done);
    let header = |name: &str| {
        let headers = &ending.as_ref()?.headers;
        headers.iter().find(|(found, _)| &**found == name).map(|(_, value)| value.to_string())
    };
    let (location, digest) = (header(EXPORT_LOCATION_HEADER), header(EXPORT_DIGEST_HEADER));
    let body = ending.as_ref().and_then(|ending| ending.body.as_deref());
    let manifest = body.and_then(|body| serde_json::from_slice::<Manifest>(body).ok());
    let parts = manifest.as_ref().map(|manifest| manifest.parts.len() as u64);
    let Manifest { rows, bytes, .. } = manifest.unwrap_or_default();
    let error = if state == ExportState::Done { String::new() } else { errand.last_error.clone() };
    drop(ending);
    Some(ExportRecord {
        message: errands::place(topic, errand.partition, errand.offset),
        export_id: Cow::Owned(errand.id),
        place: Cow::Owned(asked.place.to_string()),
        tenant_id: Cow::Owned(errand.tenant),
        state,
        created_at: moment(errand.taken_at),
        next_at: errand.next_at.map(moment),
        location,
        digest,
        rows,
        bytes,
        parts,
        error: Cow::Owned(error),
    })
}
