//! Deciding by hand what came of an effect.

use std::borrow::Cow;

use crate::ToSchema;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

use super::finish::TWO_BODIES;
use super::{EffectResult, EffectStatus, Headers};
use crate::fault::Fault;
use crate::v2::limits::{
    COUNT_MAX, EFFECT_KEY_BYTES_MAX, EFFECT_SCOPE_BYTES_MAX, EFFECT_TENANT_BYTES_MAX, ERROR_BYTES_MAX,
    NAME_BYTES_MAX, WHY_BYTES_MAX,
};
use crate::v2::read::{self, bytes, number, text};
#[cfg(feature = "openapi")]
use crate::v2::shape;

/// `POST /v2/effects/resolve`: an operator or a reconciler found out what happened, and reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectResolve<'a> {
    /// The tenant that the effect belongs to; empty for no tenant.
    pub tenant_id: Cow<'a, str>,
    /// What kind of effect it is.
    pub scope: Cow<'a, str>,
    /// Which one it is.
    pub key: Cow<'a, str>,
    /// Its outcome. `failed_retryable` says that it did not happen and may run again, once more than the cap
    /// allows if the cap was reached.
    pub result: EffectResult<'a>,
    /// Who says so.
    pub by: Cow<'a, str>,
    /// How it is known.
    pub why: Cow<'a, str>,
    /// Only if this is still the newest lease of the effect.
    pub epoch: Option<u64>,
}

/// The resolution as JSON writes it.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    /// The tenant that it belongs to; no tenant if not given.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, EFFECT_TENANT_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    tenant_id: Cow<'a, str>,
    /// What kind of effect it is; keys are unique within a scope.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, EFFECT_SCOPE_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    scope: Cow<'a, str>,
    /// Which one it is.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, EFFECT_KEY_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 4096)]
    key: Cow<'a, str>,
    /// Who says so.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    by: Cow<'a, str>,
    /// How it is known.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, WHY_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 4096)]
    why: Cow<'a, str>,
    /// How it ended.
    status: EffectStatus,
    /// A number of the caller's own, such as an HTTP status or an exit code.
    #[serde(default, deserialize_with = "number::optional_signed", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -2_147_483_648, maximum = 2_147_483_647)]
    code: Option<i32>,
    /// Small facts beside the body.
    #[serde(borrow, default, skip_serializing_if = "Headers::is_empty")]
    #[schema(value_type = Headers)]
    headers: Headers<'a>,
    /// The result, as text. At most one of `body` and `body_b64` is given.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 0, { usize::MAX }>",
        skip_serializing_if = "Option::is_none"
    )]
    body: Option<Cow<'a, str>>,
    /// The result, as bytes in base64 with the standard alphabet and padding.
    #[serde(
        default,
        deserialize_with = "bytes::optional::<_, 0>",
        skip_serializing_if = "Option::is_none",
        serialize_with = "bytes::write"
    )]
    #[schema(value_type = Option<String>, pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$")]
    body_b64: Option<Vec<u8>>,
    /// Why it failed.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, ERROR_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    error: Cow<'a, str>,
    /// Only if this is still the newest lease of the effect; refused with `STALE_LEASE` if not.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, COUNT_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_u64)]
    epoch: Option<u64>,
}

impl<'a> EffectResolve<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let Fields { tenant_id, scope, key, by, why, status, code, headers, body, body_b64, error, epoch } =
            read::object(body)?;
        let body = bytes::either(body, body_b64).ok_or_else(|| Fault::invalid(TWO_BODIES))?;
        let result = EffectResult { status, code, headers, body, error };
        Ok(Self { tenant_id, scope, key, result, by, why, epoch })
    }
}

impl Serialize for EffectResolve<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (body, body_b64) = self.result.body_fields();
        let fields = Fields {
            tenant_id: Cow::Borrowed(&self.tenant_id),
            scope: Cow::Borrowed(&self.scope),
            key: Cow::Borrowed(&self.key),
            by: Cow::Borrowed(&self.by),
            why: Cow::Borrowed(&self.why),
            status: self.result.status,
            code: self.result.code,
            headers: self.result.headers.clone(),
            body,
            body_b64,
            error: Cow::Borrowed(&self.result.error),
            epoch: self.epoch,
        };
        fields.serialize(serializer)
    }
}

#[cfg(feature = "openapi")]
impl PartialSchema for EffectResolve<'_> {
    fn schema() -> RefOr<Schema> {
        let one_body = shape::any_of([shape::absent("body"), shape::absent("body_b64")]);
        shape::all_of(Fields::schema(), [one_body])
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for EffectResolve<'_> {
    fn name() -> Cow<'static, str> {
        "EffectResolve".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Fields::schemas(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let full = r#"{"tenant_id":"t","scope":"s","key":"k","by":"ann","why":"seen","status":"failed_final","code":3,"headers":{"a":"1"},"body_b64":"/w==","error":"no","epoch":9223372036854775807}"#;
        let resolve = EffectResolve::from_json(full.as_bytes()).unwrap();
        assert_eq!((&*resolve.by, &*resolve.why, resolve.epoch), ("ann", "seen", Some(COUNT_MAX)));
        assert_eq!(resolve.result.body.as_deref(), Some(&[0xff][..]));
        assert_eq!(serde_json::to_string(&resolve).unwrap(), full);
        let short = r#"{"scope":"s","key":"k","by":"ann","why":"seen","status":"failed_retryable"}"#;
        let resolve = EffectResolve::from_json(short.as_bytes()).unwrap();
        assert_eq!(resolve.result, EffectResult::new(EffectStatus::FailedRetryable));
        assert_eq!(serde_json::to_string(&resolve).unwrap(), short);
    }

    #[test]
    fn refusals() {
        let long = format!(
            r#"{{"scope":"s","key":"k","by":"a","why":"{}","status":"succeeded"}}"#,
            "w".repeat(4097)
        );
        for (body, message) in [
            (r#"{"scope":"s","key":"k","why":"w","status":"succeeded"}"#, "missing field `by`"),
            (r#"{"scope":"s","key":"k","by":"a","status":"succeeded"}"#, "missing field `why`"),
            (r#"{"scope":"s","key":"k","by":"a","why":"w"}"#, "missing field `status`"),
            (
                r#"{"scope":"s","key":"k","by":"","why":"w","status":"succeeded"}"#,
                "by: must have 1 to 255 bytes, has 0",
            ),
            (&long, "why: must have 1 to 4096 bytes, has 4097"),
            (
                r#"{"scope":"s","key":"k","by":"a","why":"w","status":"done"}"#,
                "status: must be succeeded, failed_final or failed_retryable",
            ),
            (
                r#"{"scope":"s","key":"k","by":"a","why":"w","status":"succeeded","epoch":0}"#,
                "epoch: must be between 1 and 9223372036854775807",
            ),
            (
                r#"{"scope":"s","key":"k","by":"a","why":"w","status":"succeeded","body":"","body_b64":""}"#,
                "body and body_b64 exclude each other",
            ),
        ] {
            assert_eq!(EffectResolve::from_json(body.as_bytes()).unwrap_err().message, message);
        }
        let token = br#"{"scope":"s","key":"k","by":"a","why":"w","status":"succeeded","token":"t"}"#;
        let message = EffectResolve::from_json(token).unwrap_err().message;
        assert!(message.starts_with("token: unknown field, expected one of `tenant_id`"), "{message}");
    }
}
