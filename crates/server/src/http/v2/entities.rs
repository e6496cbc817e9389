//! Entities and their versions.

use std::borrow::Cow;

use driftq_api::v2::{
    Entities, Entity, EntityRemoved, Expected, encode_cursor, tenant, tenant_and_page, tenant_confirmed,
};
use driftq_engine::core::{self, EntityList, EntityView, Named};
use hyper::StatusCode;

use super::words::moment;
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::audit::{noted, of_tenant};
use crate::http::v1::Handled;

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let (tenant, page) = tenant_and_page(request.query()?)?;
    let tenant = request.tenant(tenant)?;
    let list = EntityList {
        tenant: tenant.to_string(),
        after: page.after,
        limit: u32::try_from(page.limit).unwrap_or(u32::MAX),
    };
    let (entities, more) = request.app.broker.entities(list).await.map_err(|failure| fault(&failure))?;
    let cursor = entities.last().filter(|_| more).map(|last| encode_cursor(&last.entity));
    let entities = entities.iter().map(|entity| shown(&tenant, entity)).collect();
    Ok(json(StatusCode::OK, &Entities { entities, cursor }))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    let (name, tenant) = (request.name(0, "entity")?, request.tenant(tenant(request.query()?)?)?);
    let entity =
        request.app.broker.entity(Named::of(&*tenant, &*name)).await.map_err(|failure| fault(&failure))?;
    Ok(json(StatusCode::OK, &shown(&tenant, &entity)))
}

pub(super) async fn remove(request: &Request<'_>) -> Handled {
    let name = request.name(0, "entity")?;
    let tenant = request.tenant(tenant_confirmed(request.query()?, &name)?)?;
    let removed = request.app.broker.forget_entity(Named::of(&*tenant, &*name)).await;
    let version = removed.map_err(|failure| fault(&failure))?;
    let detail = of_tenant(&tenant, &format!("it was at version {version}"));
    Ok(noted(json(StatusCode::OK, &EntityRemoved { version }), detail))
}

/// What is expected of an entity, as the broker takes it.
pub(super) fn taken_expected(expected: Expected<'_>) -> core::Expected {
    core::Expected { entity: expected.entity.into_owned(), version: expected.version }
}

fn shown<'a>(tenant: &'a str, view: &'a EntityView) -> Entity<'a> {
    Entity {
        tenant_id: Cow::Borrowed(tenant),
        entity: Cow::Borrowed(&view.entity),
        version: view.version,
        raised_at: view.raised.map(moment),
    }
}
