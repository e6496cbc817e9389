//! The audit, read.

use std::borrow::Cow;
use std::time::Duration;

use driftq_api::v2::{Audit, AuditEntry, AuditQuery};
use driftq_engine::core::{AuditList, AuditView};
use hyper::StatusCode;

use super::words::{moment, time};
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::v1::Handled;

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let asked = AuditQuery::from_query(request.query()?)?;
    let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
    let list = AuditList {
        after: asked.after,
        limit: u32::try_from(asked.limit).unwrap_or(u32::MAX),
        actor: owned(asked.actor),
        action: owned(asked.action),
        target: owned(asked.target),
        outcome: owned(asked.outcome),
        since: asked.since.map(time),
        until: asked.until.map(time),
    };
    let page = request.app.broker.audit(list, Duration::from_millis(asked.wait_ms)).await;
    let page = page.map_err(|failure| fault(&failure))?;
    let entries = page.entries.iter().map(shown).collect();
    Ok(json(StatusCode::OK, &Audit { entries, seen: page.seen, more: page.more, oldest: page.oldest }))
}

fn shown(view: &AuditView) -> AuditEntry<'_> {
    let entry = &view.entry;
    AuditEntry {
        sequence: view.sequence,
        at: moment(view.at),
        actor: Cow::Borrowed(&entry.actor),
        note: Cow::Borrowed(&entry.note),
        action: Cow::Borrowed(&entry.action),
        target: Cow::Borrowed(&entry.target),
        outcome: Cow::Borrowed(&entry.outcome),
        from: Cow::Borrowed(&entry.from),
        request_id: Cow::Borrowed(&entry.request_id),
        detail: Cow::Borrowed(&entry.detail),
        suppressed: entry.suppressed,
    }
}
