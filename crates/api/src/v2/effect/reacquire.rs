//! Trying an effect again that failed.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::{EffectBegin, OnLapse, on_lapse};
use crate::fault::Fault;
use crate::v2::limits::{
    DURATION_MS_MAX, EFFECT_ATTEMPTS_MAX, EFFECT_HASH_BYTES_MAX, EFFECT_KEY_BYTES_MAX,
    EFFECT_REQUEST_ID_BYTES_MAX, EFFECT_SCOPE_BYTES_MAX, EFFECT_TENANT_BYTES_MAX, LEASE_MS_MAX,
    NAME_BYTES_MAX, TOKEN_BYTES_MAX,
};
use crate::v2::read::{self, number, text};

/// `POST /v2/effects/reacquire`: takes an effect again that failed and may be tried again. One that was never begun
/// is refused, and so is one whose attempts are used up.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectReacquire<'a> {
    /// The tenant that it belongs to; if not given, that of the message with `lease_token`, else no tenant.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, EFFECT_TENANT_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub tenant_id: Cow<'a, str>,
    /// What kind of effect it is; keys are unique within a scope.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, EFFECT_SCOPE_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub scope: Cow<'a, str>,
    /// Which one it is.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, EFFECT_KEY_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 4096)]
    pub key: Cow<'a, str>,
    /// What is asked for, as a hash: another one under the same key is refused with `KEY_REUSED`. Not given, it agrees
    /// with everything.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, EFFECT_HASH_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub request_hash: Option<Cow<'a, str>>,
    /// How long the lease lasts unless it is renewed; the server's setting if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, LEASE_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 604_800_000)]
    pub lease_ms: Option<u64>,
    /// How long the outcome is remembered, from the moment it is finished; the server's setting if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 316_224_000_000_u64)]
    pub ttl_ms: Option<u64>,
    /// What becomes of it if the lease lapses without an outcome; `hold` if not given.
    #[serde(default, deserialize_with = "on_lapse")]
    #[schema(value_type = Option<OnLapse>)]
    pub on_lapse: OnLapse,
    /// Most attempts; no cap if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, EFFECT_ATTEMPTS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_attempts: Option<u32>,
    /// The token of a message's lease: ties the effect to that delivery.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, TOKEN_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 128)]
    pub lease_token: Option<Cow<'a, str>>,
    /// Names this call: the same name again answers with the same lease, so that a lost answer loses nothing.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, EFFECT_REQUEST_ID_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub request_id: Option<Cow<'a, str>>,
    /// The worker that carries it out, for people to read.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, NAME_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub owner: Cow<'a, str>,
}

impl<'a> EffectReacquire<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }

    /// The begin that asks for the same lease: where a record is there and attempts are left, both do the same.
    #[must_use]
    pub fn into_begin(self) -> EffectBegin<'a> {
        EffectBegin {
            tenant_id: self.tenant_id,
            scope: self.scope,
            key: self.key,
            request_hash: self.request_hash,
            lease_ms: self.lease_ms,
            ttl_ms: self.ttl_ms,
            on_lapse: self.on_lapse,
            max_attempts: self.max_attempts,
            reacquire: true,
            wait_ms: 0,
            lease_token: self.lease_token,
            run_id: None,
            step_id: None,
            request_id: self.request_id,
            owner: self.owner,
            // A caller that takes over an effect goes on with what was begun: nothing is compared anew.
            expect: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reacquire_is_a_begin_that_takes_what_failed() {
        let full = r#"{"tenant_id":"t","scope":"s","key":"k","request_hash":"h","lease_ms":1,"ttl_ms":2,"on_lapse":"retry","max_attempts":3,"lease_token":"l","request_id":"q","owner":"o"}"#;
        let reacquire = EffectReacquire::from_json(full.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&reacquire).unwrap(), full);
        let begin = full.replace(r#""lease_token""#, r#""reacquire":true,"lease_token""#);
        assert_eq!(reacquire.into_begin(), EffectBegin::from_json(begin.as_bytes()).unwrap());
        for (body, message) in [
            (r#"{"scope":"s"}"#, "missing field `key`"),
            (r#"{"scope":"s","key":"k","wait_ms":1}"#, "wait_ms: unknown field, expected one of"),
            (r#"{"scope":"s","key":"k","reacquire":true}"#, "reacquire: unknown field, expected one of"),
            (r#"{"scope":"s","key":"k","run_id":"r"}"#, "run_id: unknown field, expected one of"),
            (r#"{"scope":"s","key":"k","on_lapse":7}"#, "on_lapse: invalid type: integer `7`"),
            (r#"{"scope":"s","key":"k","lease_ms":0}"#, "lease_ms: must be between 1 and 604800000"),
        ] {
            let found = EffectReacquire::from_json(body.as_bytes()).unwrap_err().message;
            assert!(found.starts_with(message), "{body}: {found}");
        }
    }
}
