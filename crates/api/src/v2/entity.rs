//! Entities: names with a version, so that something is done only if no other caller was there before.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::limits::{COUNT_MAX, CURSOR_BYTES_MAX, IDENTITY_BYTES_MAX, NAME_BYTES_MAX, PLACE_BYTES_MAX};
use super::page::{Page, Section};
use super::parameters::Parameters;
use super::pieces::confirm;
use super::read::{number, text};
use crate::fault::Fault;
use crate::moment::Moment;
use crate::query::Query;

/// An entity, and the version that it must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Expected<'a> {
    /// Its name; unique within a tenant.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub entity: Cow<'a, str>,
    /// The version that it must have; 0 if it must not have been there yet.
    #[serde(deserialize_with = "number::required::<_, _, 0, COUNT_MAX>")]
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    pub version: u64,
}

/// Of an entity only one thing can be expected.
pub(super) fn check(expected: &[Expected<'_>]) -> Result<(), Fault> {
    for (place, item) in expected.iter().enumerate() {
        if expected[..place].iter().any(|before| before.entity == item.entity) {
            return Err(Fault::invalid(format!("expect[{place}].entity: is there twice")));
        }
    }
    Ok(())
}

/// To `GET /v2/entities/{entity}`, and one of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entity<'a> {
    /// The tenant that it belongs to; empty for no tenant.
    pub tenant_id: Cow<'a, str>,
    /// Its name.
    pub entity: Cow<'a, str>,
    /// Its version: 0 if it was never raised, or removed since.
    pub version: u64,
    /// When it was raised last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised_at: Option<Moment>,
}

/// To `GET /v2/entities`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entities<'a> {
    /// Entities of one tenant in order of their names.
    pub entities: Vec<Entity<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// To `DELETE /v2/entities/{entity}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EntityRemoved {
    /// The version that it had.
    pub version: u64,
}

/// The tenant that a query names; the empty one if it names none.
pub(super) fn take_tenant<'a>(parameters: &mut Parameters<'a>) -> Result<Cow<'a, str>, Fault> {
    Ok(parameters.text("tenant_id", 0, IDENTITY_BYTES_MAX)?.unwrap_or_default())
}

/// The tenant of a query that has nothing else.
pub fn tenant(query: Query<'_>) -> Result<Cow<'_, str>, Fault> {
    let mut parameters = Parameters::new(query);
    let tenant = take_tenant(&mut parameters)?;
    parameters.finish()?;
    Ok(tenant)
}

/// The tenant and the page of a query that has nothing else.
pub fn tenant_and_page(query: Query<'_>) -> Result<(Cow<'_, str>, Page), Fault> {
    let mut parameters = Parameters::new(query);
    let tenant = take_tenant(&mut parameters)?;
    let section = Section::take(&mut parameters, CURSOR_BYTES_MAX)?;
    parameters.finish()?;
    Ok((tenant, Page::of(section)))
}

/// The tenant, if one is named, and the section of a query that has nothing else.
pub fn tenant_and_section(query: Query<'_>) -> Result<(Option<Cow<'_, str>>, Section), Fault> {
    let mut parameters = Parameters::new(query);
    let tenant = parameters.text("tenant_id", 0, IDENTITY_BYTES_MAX)?;
    let section = Section::take(&mut parameters, 2 * PLACE_BYTES_MAX)?;
    parameters.finish()?;
    Ok((tenant, section))
}

/// The tenant of a query that must name what is to be deleted once more.
pub fn tenant_confirmed<'a>(query: Query<'a>, name: &str) -> Result<Cow<'a, str>, Fault> {
    let mut parameters = Parameters::new(query);
    let tenant = take_tenant(&mut parameters)?;
    confirm(parameters, name)?;
    Ok(tenant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Code;

    #[test]
    fn of_an_entity_one_thing_is_expected() {
        let expected = |name: &'static str| Expected { entity: name.into(), version: 1 };
        assert_eq!(check(&[expected("a"), expected("b")]), Ok(()));
        let twice = check(&[expected("a"), expected("b"), expected("a")]).unwrap_err();
        assert_eq!(twice.message, "expect[2].entity: is there twice");
    }

    #[test]
    fn queries() {
        let query = |raw| Query::parse(raw).unwrap();
        assert_eq!(tenant(query("")).unwrap(), "");
        assert_eq!(tenant(query("tenant_id=t")).unwrap(), "t");
        assert_eq!(
            tenant(query("limit=1")).unwrap_err().message,
            "limit: unknown parameter, expected tenant_id"
        );
        let (whose, page) = tenant_and_page(query("tenant_id=t&limit=2&cursor=61")).unwrap();
        assert_eq!((&*whose, page), ("t", Page { limit: 2, after: Some("a".into()) }));
        assert_eq!(tenant_confirmed(query("confirm=a%2Fb&tenant_id=t"), "a/b").unwrap(), "t");
        let refused = tenant_confirmed(query("tenant_id=t"), "a").unwrap_err();
        assert_eq!(refused.code, Code::ConfirmationRequired);
    }

    #[test]
    fn answers_round_trip() {
        let page = r#"{"entities":[{"tenant_id":"","entity":"order-7","version":3,"raised_at":"2025-12-21T12:00:00Z"},{"tenant_id":"t","entity":"b","version":0}],"cursor":"62"}"#;
        let entities: Entities<'_> = serde_json::from_str(page).unwrap();
        assert_eq!(serde_json::to_string(&entities).unwrap(), page);
    }
}
