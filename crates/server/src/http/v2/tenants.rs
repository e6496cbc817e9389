//! Tenants.

use std::borrow::Cow;

use driftq_api::v2::{Page, Tenant, TenantLimits, Tenants};
use driftq_engine::core::{self, KeyLimits, TenantView};
use hyper::StatusCode;

use super::{Request, fault};
use crate::http::answer::json;
use crate::http::audit::noted;
use crate::http::v1::Handled;

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let page = Page::from_query(&request.query()?)?;
    let mut all = request.app.broker.tenants().await.map_err(|failure| fault(&failure))?;
    all.retain(|view| request.caller.acts_as(&view.tenant));
    let (tenants, cursor) = page.cut(all, |view| &view.tenant);
    let tenants = tenants.iter().map(shown).collect();
    Ok(json(StatusCode::OK, &Tenants { tenants, cursor }))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.tenant(request.name(0, "tenant")?)?;
    let tenant = request.app.broker.tenant(&name).await.map_err(|failure| fault(&failure))?;
    Ok(json(StatusCode::OK, &shown(&tenant)))
}

pub(super) async fn limit(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "tenant")?.into_owned();
    let limits = TenantLimits::from_json(request.json()?)?;
    let tenant = request.app.broker.limit_tenant(name, decided(limits)).await;
    let tenant = tenant.map_err(|failure| fault(&failure))?;
    Ok(noted(json(StatusCode::OK, &shown(&tenant)), told(&shown_limits(tenant.limits))))
}

/// Limits in words, for the audit.
fn told(limits: &TenantLimits) -> String {
    let TenantLimits { requests_per_second, bytes_per_second, waits, topics, messages, bytes, effects } =
        limits;
    let given = [
        ("requests_per_second", requests_per_second.map(u64::from)),
        ("bytes_per_second", bytes_per_second.map(u64::from)),
        ("waits", waits.map(u64::from)),
        ("topics", topics.map(u64::from)),
        ("messages", *messages),
        ("bytes", *bytes),
        ("effects", *effects),
    ];
    let given: Vec<String> =
        given.iter().filter_map(|(name, limit)| Some(format!("{name} {}", (*limit)?))).collect();
    if given.is_empty() { "no limits".to_owned() } else { given.join(", ") }
}

fn decided(asked: TenantLimits) -> core::TenantLimits {
    core::TenantLimits {
        pace: KeyLimits {
            requests_per_second: asked.requests_per_second.unwrap_or(0),
            bytes_per_second: asked.bytes_per_second.unwrap_or(0),
            waits: asked.waits.unwrap_or(0),
        },
        topics: asked.topics.unwrap_or(0),
        messages: asked.messages.unwrap_or(0),
        bytes: asked.bytes.unwrap_or(0),
        effects: asked.effects.unwrap_or(0),
    }
}

fn shown_limits(limits: core::TenantLimits) -> TenantLimits {
    let pace = |limit: u32| (limit > 0).then_some(limit);
    let count = |limit: u64| (limit > 0).then_some(limit);
    TenantLimits {
        requests_per_second: pace(limits.pace.requests_per_second),
        bytes_per_second: pace(limits.pace.bytes_per_second),
        waits: pace(limits.pace.waits),
        topics: pace(limits.topics),
        messages: count(limits.messages),
        bytes: count(limits.bytes),
        effects: count(limits.effects),
    }
}

fn shown(view: &TenantView) -> Tenant<'_> {
    Tenant {
        tenant: Cow::Borrowed(&view.tenant),
        limits: shown_limits(view.limits),
        topics: view.topics,
        messages: view.messages,
        bytes: view.bytes,
        effects: view.effects,
    }
}
