//! Beginning an effect.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::{OnLapse, is_false, on_lapse};
use crate::fault::Fault;
use crate::v2::entity::{self, Expected};
use crate::v2::limits::{
    DURATION_MS_MAX, EFFECT_ATTEMPTS_MAX, EFFECT_HASH_BYTES_MAX, EFFECT_KEY_BYTES_MAX,
    EFFECT_LINEAGE_BYTES_MAX, EFFECT_REQUEST_ID_BYTES_MAX, EFFECT_SCOPE_BYTES_MAX, EFFECT_TENANT_BYTES_MAX,
    EXPECTED_MAX, LEASE_MS_MAX, NAME_BYTES_MAX, TOKEN_BYTES_MAX, WAIT_MS_MAX,
};
use crate::v2::read::{self, number, structure, text};

/// `POST /v2/effects/begin`: may this be done, or is it done already?
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectBegin<'a> {
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
    /// Takes an effect that failed and may be tried again at once.
    #[serde(default, deserialize_with = "structure::flag", skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub reacquire: bool,
    /// How long to wait for the outcome while another holder carries it out; 0 if not given.
    #[serde(default, deserialize_with = "number::or::<_, _, 0, WAIT_MS_MAX, 0>")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 60_000)]
    pub wait_ms: u64,
    /// The token of a message's lease: ties the effect to that delivery.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, TOKEN_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 128)]
    pub lease_token: Option<Cow<'a, str>>,
    /// The run that it belongs to, where there is no `lease_token` to say so.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, EFFECT_LINEAGE_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub run_id: Option<Cow<'a, str>>,
    /// The step within the run, where there is no `lease_token` to say so.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, EFFECT_LINEAGE_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub step_id: Option<Cow<'a, str>>,
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
    /// Only if these entities of the effect's tenant have these versions: otherwise it is refused with
    /// `PRECONDITION_FAILED`. They are compared and raised by one when an effect is begun, and once for each effect:
    /// not for an answer other than `execute`, and not when a lapsed or failed effect is taken on again.
    #[serde(
        borrow,
        default,
        deserialize_with = "structure::objects::<_, _, EXPECTED_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Option<Vec<Expected>>, max_items = 100)]
    pub expect: Vec<Expected<'a>>,
}

impl<'a> EffectBegin<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let begin: Self = read::object(body)?;
        begin.check()?;
        Ok(begin)
    }

    /// The rules between its fields.
    pub(super) fn check(&self) -> Result<(), Fault> {
        entity::check(&self.expect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_round_trip() {
        let begin = EffectBegin::from_json(br#"{"scope":"s","key":"k"}"#).unwrap();
        let expected = EffectBegin { scope: "s".into(), key: "k".into(), ..EffectBegin::default() };
        assert_eq!((&begin, begin.on_lapse, begin.wait_ms), (&expected, OnLapse::Hold, 0));
        assert!(matches!((&begin.scope, &begin.key), (Cow::Borrowed("s"), Cow::Borrowed("k"))));
        let nulls = br#"{"tenant_id":null,"scope":"s","key":"k","request_hash":null,"lease_ms":null,"ttl_ms":null,"on_lapse":null,"max_attempts":null,"reacquire":null,"wait_ms":null,"lease_token":null,"run_id":null,"step_id":null,"request_id":null,"owner":null,"expect":null}"#;
        assert_eq!(EffectBegin::from_json(nulls).unwrap(), expected);
        let full = r#"{"tenant_id":"t","scope":"s","key":"k","request_hash":"h","lease_ms":604800000,"ttl_ms":316224000000,"on_lapse":"retry","max_attempts":1000000,"reacquire":true,"wait_ms":60000,"lease_token":"l","run_id":"r","step_id":"p","request_id":"q","owner":"o","expect":[{"entity":"e","version":3},{"entity":"f","version":0}]}"#;
        let begin = EffectBegin::from_json(full.as_bytes()).unwrap();
        assert_eq!((begin.on_lapse, begin.max_attempts), (OnLapse::Retry, Some(1_000_000)));
        assert_eq!(serde_json::to_string(&begin).unwrap(), full);
        // An empty tenant and an empty owner are none.
        let empty = EffectBegin::from_json(br#"{"tenant_id":"","scope":"s","key":"k","owner":""}"#);
        assert_eq!(empty.unwrap(), expected);
    }

    #[test]
    fn refusals() {
        let long = "x".repeat(256);
        for (body, message) in [
            (r#"{"key":"k"}"#.to_owned(), "missing field `scope`"),
            (r#"{"scope":"s"}"#.to_owned(), "missing field `key`"),
            (r#"{"scope":"","key":"k"}"#.to_owned(), "scope: must have 1 to 255 bytes, has 0"),
            (r#"{"scope":5,"key":"k"}"#.to_owned(), "scope: invalid type: integer `5`, expected a text"),
            (
                format!(r#"{{"scope":"s","key":"{}"}}"#, "x".repeat(4097)),
                "key: must have 1 to 4096 bytes, has 4097",
            ),
            (
                format!(r#"{{"scope":"s","key":"k","tenant_id":"{long}"}}"#),
                "tenant_id: must have at most 255 bytes, has 256",
            ),
            (r#"["s","k"]"#.to_owned(), "invalid type: sequence, expected an object"),
        ] {
            let found = EffectBegin::from_json(body.as_bytes()).unwrap_err().message;
            assert!(found.starts_with(message), "{found}");
        }
        for (field, message) in [
            (r#""request_hash":"""#, "request_hash: must have 1 to 255 bytes, has 0"),
            (r#""lease_ms":0"#, "lease_ms: must be between 1 and 604800000"),
            (r#""lease_ms":604800001"#, "lease_ms: must be between 1 and 604800000"),
            (r#""ttl_ms":0"#, "ttl_ms: must be between 1 and 316224000000"),
            (r#""ttl_ms":1.5"#, "ttl_ms: invalid type: floating point `1.5`, expected a whole number"),
            (r#""on_lapse":"wait""#, "on_lapse: must be retry or hold"),
            (r#""max_attempts":0"#, "max_attempts: must be between 1 and 1000000"),
            (r#""max_attempts":1000001"#, "max_attempts: must be between 1 and 1000000"),
            (r#""reacquire":1"#, "reacquire: invalid type: integer `1`, expected a boolean"),
            (r#""wait_ms":60001"#, "wait_ms: must be between 0 and 60000"),
            (r#""lease_token":"""#, "lease_token: must have 1 to 128 bytes, has 0"),
            (r#""run_id":"""#, "run_id: must have 1 to 255 bytes, has 0"),
            (r#""step_id":"""#, "step_id: must have 1 to 255 bytes, has 0"),
            (r#""request_id":"""#, "request_id: must have 1 to 255 bytes, has 0"),
            (r#""expect":[{"entity":"","version":0}]"#, "expect[0].entity: must have 1 to 255 bytes, has 0"),
            (r#""expect":[{"entity":"e"}]"#, "expect[0]: missing field `version`"),
            (r#""expect":[{"entity":"e","version":-1}]"#, "expect[0].version: "),
            (
                r#""expect":[{"entity":"e","version":0},{"entity":"e","version":1}]"#,
                "expect[1].entity: is there twice",
            ),
            (r#""key":"l""#, "duplicate field `key`"),
            (r#""leasems":1"#, "leasems: unknown field, expected one of `tenant_id`, `scope`"),
        ] {
            let body = format!(r#"{{"scope":"s","key":"k",{field}}}"#);
            let found = EffectBegin::from_json(body.as_bytes()).unwrap_err().message;
            assert!(found.starts_with(message), "{body}: {found}");
        }
    }
}
