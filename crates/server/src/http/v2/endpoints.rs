//! Endpoints: where deliveries go.

use std::time::Duration;

use driftq_api::v2::{
    DELIVERIES_PREFIX, Disabled, ENDPOINT_NAME_BYTES_MAX, Endpoint, EndpointSpec, EndpointState,
    EndpointSwitch, Endpoints, EndpointsQuery,
};
use driftq_api::{Code, Fault, Moment};
use driftq_engine::Failure;
use driftq_engine::core::{
    DefinitionKind, DefinitionPage, DefinitionView, Jitter, Order, Reject, RetryPolicy, TopicSettings,
};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::errands::KEEP_MS;
use super::words::moment;
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::audit::noted;
use crate::http::v1::Handled;

const KIND: DefinitionKind = DefinitionKind::Endpoint;
/// A connector decides when a delivery is given up; this is for one that takes its connector down each time.
const RETRY: RetryPolicy =
    RetryPolicy { max_attempts: 100, backoff_ms: 5_000, max_backoff_ms: 3_600_000, jitter: Jitter::Half };
/// How often a change is tried that another one has overtaken.
const TRIES_MAX: usize = 8;

/// What is kept of an endpoint.
#[derive(Serialize, Deserialize)]
struct Stored {
    spec: EndpointSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disabled: Option<Disabled>,
}

pub(super) fn topic_of(endpoint: &str) -> String {
    format!("{DELIVERIES_PREFIX}{endpoint}")
}

pub(super) fn unknown() -> Fault {
    Fault::new(Code::EndpointUnknown, "there is no such endpoint")
}

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let asked = EndpointsQuery::from_query(request.query()?)?;
    let DefinitionPage { revision, definitions } = newer(request, &asked).await?;
    let (definitions, cursor) = asked.page.cut(definitions, |view| &view.name);
    let endpoints = definitions.into_iter().map(shown).collect::<Result<_, _>>()?;
    Ok(json(StatusCode::OK, &Endpoints { revision, endpoints, cursor }))
}

/// What is defined, as soon as it is other than the caller has seen it or its patience is over.
async fn newer(request: &Request<'_>, asked: &EndpointsQuery) -> Result<DefinitionPage, Fault> {
    let broker = &request.app.broker;
    let deadline = Instant::now() + Duration::from_millis(asked.wait_ms);
    let mut changes = broker.definition_changes();
    let mut stopping = broker.stopping();
    loop {
        // Marked as seen before the question is asked: a change that comes in between is not missed.
        changes.borrow_and_update();
        let page = broker.definitions(KIND).await.map_err(|failure| fault(&failure))?;
        let is_over = asked.revision != Some(page.revision) || *stopping.borrow_and_update();
        if is_over || Instant::now() >= deadline {
            return Ok(page);
        }
        let change = async {
            tokio::select! {
                _ = changes.changed() => {}
                _ = stopping.changed() => {}
            }
        };
        // Whether it came or not is seen by looking again.
        let _ = timeout_at(deadline, change).await;
    }
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "endpoint")?;
    Ok(json(StatusCode::OK, &shown(found(request, &name).await?)?))
}

pub(super) async fn put(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "endpoint")?.into_owned();
    if name.len() > ENDPOINT_NAME_BYTES_MAX {
        return Err(Fault::invalid(format!("endpoint: must have at most {ENDPOINT_NAME_BYTES_MAX} bytes")));
    }
    let mut spec = EndpointSpec::from_json(request.json()?)?;
    spec.check()?;
    let expected = spec.expect_version.take();
    // First its topic: an endpoint that is there can be delivered to.
    let settings = TopicSettings {
        keep_ms: Some(KEEP_MS),
        retry: Some(RETRY),
        order: if spec.ordered { Order::Key } else { Order::default() },
        ..TopicSettings::default()
    };
    let ready = request.app.broker.put_topic(&topic_of(&name), 1, settings, None, false).await;
    ready.map_err(|failure| fault(&failure))?;
    let detail = format!("{} {}", spec.kind.name(), spec.url);
    let endpoint = changed(request, &name, expected, |before| {
        let disabled = before.and_then(|before| before.disabled);
        Ok(Stored { spec: spec.clone(), disabled })
    });
    Ok(noted(json(StatusCode::OK, &endpoint.await?), detail))
}

pub(super) async fn delete(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "endpoint")?.into_owned();
    let gone = request.app.broker.undefine(KIND, name, None).await.map_err(|failure| fault(&failure))?;
    Ok(json(StatusCode::OK, &shown(gone)?))
}

/// Holds deliveries back, or lets them go again.
pub(super) async fn switch(request: &Request<'_>, is_on: bool) -> Handled {
    request.no_query()?;
    let name = request.name(0, "endpoint")?;
    let EndpointSwitch { reason, by, expect_version } = EndpointSwitch::from_json(request.json()?)?;
    let detail = reason.clone();
    let now = moment(request.app.broker.now());
    let endpoint = changed(request, &name, expect_version, |before| {
        let Stored { spec, disabled } = before.ok_or_else(unknown)?;
        let since = || Disabled { reason: reason.clone(), by: by.clone(), at: now };
        // One that is disabled already keeps its first reason: it is what an operator looks for.
        let disabled = if is_on { None } else { Some(disabled.unwrap_or_else(since)) };
        Ok(Stored { spec, disabled })
    });
    Ok(noted(json(StatusCode::OK, &endpoint.await?), detail))
}

/// Makes of an endpoint what `change` makes of it. A change that another one has overtaken is made again, unless the
/// caller insists on the version that it has seen.
async fn changed(
    request: &Request<'_>,
    name: &str,
    expected: Option<u64>,
    change: impl Fn(Option<Stored>) -> Result<Stored, Fault>,
) -> Result<Endpoint, Fault> {
    let broker = &request.app.broker;
    for _ in 0..TRIES_MAX {
        let before = broker.definition(KIND, name).await.map_err(|failure| fault(&failure))?;
        let version = before.as_ref().map_or(0, |before| before.version);
        let stored = change(before.as_ref().map(read).transpose()?)?;
        let text = serde_json::to_string(&stored).map_err(|_| unreadable())?;
        let seen = expected.unwrap_or(version);
        match broker.define(KIND, name.to_owned(), Some(seen), text).await {
            Ok(view) => return shown(view),
            Err(Failure::Reject(Reject::DefinitionDiffers { .. })) if expected.is_none() => {}
            Err(failure) => return Err(fault(&failure)),
        }
    }
    Err(Fault::new(Code::Overloaded, "the endpoint is being changed by others; try again"))
}

async fn found(request: &Request<'_>, name: &str) -> Result<DefinitionView, Fault> {
    let found = request.app.broker.definition(KIND, name).await.map_err(|failure| fault(&failure))?;
    found.ok_or_else(unknown)
}

/// Which version of an endpoint is there now.
pub(super) async fn version_of(request: &Request<'_>, name: &str) -> Result<Option<u64>, Fault> {
    let found = request.app.broker.definition(KIND, name).await.map_err(|failure| fault(&failure))?;
    Ok(found.map(|view| view.version))
}

fn read(view: &DefinitionView) -> Result<Stored, Fault> {
    serde_json::from_str(&view.text).map_err(|_| unreadable())
}

fn unreadable() -> Fault {
    Fault::new(Code::Internal, "the endpoint was stored by a server that knows more; put it again")
}

fn shown(view: DefinitionView) -> Result<Endpoint, Fault> {
    let Stored { spec, disabled } = read(&view)?;
    let at = |time| -> Moment { moment(time) };
    Ok(Endpoint {
        version: view.version,
        state: if disabled.is_some() { EndpointState::Disabled } else { EndpointState::Enabled },
        created_at: at(view.created),
        updated_at: at(view.changed),
        name: view.name,
        spec,
        disabled,
    })
}
