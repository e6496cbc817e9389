//! Tenants: how much each may have, and how much it has.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::key::PACE_MAX;
use super::limits::COUNT_MAX;
use super::read::{self, number};
use crate::fault::Fault;

/// `PUT /v2/tenants/{tenant}`: how much a tenant may have, in the place of what was said before. What is not given has
/// no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Calls in a second of all keys that are bound to the tenant; a second's worth may come at once.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, PACE_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    pub requests_per_second: Option<u32>,
    /// Bytes of bodies in a second of all keys that are bound to it.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, PACE_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    pub bytes_per_second: Option<u32>,
    /// Streams that are open and calls that wait at a time, of all keys that are bound to it.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, PACE_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    pub waits: Option<u32>,
    /// Topics that belong to it.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, PACE_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 4_294_967_295_u64)]
    pub topics: Option<u32>,
    /// Messages in them, those included that every group is done with.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub messages: Option<u64>,
    /// Key and value bytes of those.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub bytes: Option<u64>,
    /// Effects that are remembered for it.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    pub effects: Option<u64>,
}

impl TenantLimits {
    /// From a JSON body.
    pub fn from_json(body: &[u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To `GET /v2/tenants/{tenant}`, and one of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant<'a> {
    /// Its name.
    pub tenant: Cow<'a, str>,
    /// How much it may have.
    pub limits: TenantLimits,
    /// Topics that belong to it.
    pub topics: u64,
    /// Messages in them, those included that every group is done with.
    pub messages: u64,
    /// Key and value bytes of those.
    pub bytes: u64,
    /// Effects that are remembered for it.
    pub effects: u64,
}

/// To `GET /v2/tenants`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenants<'a> {
    /// Those that have topics or limits and exist for the caller, in order of their names.
    pub tenants: Vec<Tenant<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let limits = TenantLimits::from_json(br#"{"topics":3,"bytes":1099511627776,"waits":null}"#).unwrap();
        let given = (limits.topics, limits.bytes, limits.waits, limits.messages);
        assert_eq!(given, (Some(3), Some(1 << 40), None, None));
        assert_eq!(TenantLimits::from_json(b"{}").unwrap(), TenantLimits::default());
        for (body, says) in [
            (r#"{"topics":0}"#, "topics: must be between 1 and 4294967295"),
            (r#"{"messages":-1}"#, "messages"),
            (r#"{"effects":"many"}"#, "effects"),
            (r#"{"message":1}"#, "message"),
            ("", "invalid JSON"),
        ] {
            let fault = TenantLimits::from_json(body.as_bytes()).unwrap_err();
            assert!(fault.message.contains(says), "{body}: {}", fault.message);
        }
    }
}
