//! The server about itself.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;
use driftq_api::v2::{Health, Recovery, Status};
use driftq_api::{Code, Fault, JSON};
use hyper::StatusCode;

use super::Request;
use crate::http::answer::{Answer, json, whole};
use crate::http::app::App;
use crate::http::v1::Handled;
use crate::http::{COMMIT, VERSION};

/// The document as the repository keeps it; `cargo xtask docs --check` holds it against the types.
static OPENAPI: &[u8] = include_bytes!("../../../../../docs/openapi.json");

pub(super) fn openapi() -> Answer {
    whole(StatusCode::OK, JSON, Bytes::from_static(OPENAPI))
}

pub(super) fn healthz() -> Answer {
    json(StatusCode::OK, &Health { status: "ok".into(), note: None })
}

pub(super) fn readyz(app: &App) -> Handled {
    if app.seat.as_ref().is_some_and(|seat| !seat.is_sure()) {
        return Err(Fault::new(Code::Unavailable, "this server cannot see whether it still serves"));
    }
    let status = app.broker.status();
    // On a full disk consumers can still read and settle, which is what makes room again: a balancer that took the
    // server out of its turn would make it last.
    if status.ready && status.settles {
        let note = status.why.filter(|_| !status.writable).map(Cow::Owned);
        return Ok(json(StatusCode::OK, &Health { status: "ready".into(), note }));
    }
    let why = status.why.unwrap_or_else(|| "the broker is not ready".to_owned());
    Err(Fault::new(Code::Unavailable, why))
}

pub(super) fn status(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let app = request.app;
    let (status, counters) = (app.broker.status(), app.broker.counters());
    let durability = if status.durable {
        "an answered request is on disk and survives a crash"
    } else {
        "everything is in memory and gone when the server stops"
    };
    // What a key that is bound to tenants hears is the same whatever others do.
    let is_whole = request.caller.tenants().is_none();
    let topics =
        if is_whole { app.broker.topics().len() } else { request.caller.own_topics(&app.broker).len() };
    let answer = Status {
        version: VERSION.into(),
        commit: COMMIT.into(),
        ready: status.ready,
        writable: status.writable,
        why: status.why.map(Cow::Owned),
        durability: durability.into(),
        durable: status.durable,
        data: status.data.filter(|_| is_whole).map(|path| path.display().to_string()),
        epoch: status.epoch,
        uptime_ms: u64::try_from(Instant::now().saturating_duration_since(app.started).as_millis())
            .unwrap_or(u64::MAX),
        topics: topics as u64,
        streams: is_whole.then_some(counters.streams),
        connections: is_whole.then(|| app.metrics.connections()),
        segments: is_whole.then_some(counters.segments),
        shards: is_whole.then(|| app.broker.shard_count() as u64),
        recovery: Recovery { duration_ms: counters.recovery_ms },
    };
    Ok(json(StatusCode::OK, &answer))
}
