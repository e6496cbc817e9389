//! Ending an effect, and going on with it.

use std::borrow::Cow;

use crate::ToSchema;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

use super::{CommitResult, EffectStatus, Headers};
use crate::fault::Fault;
use crate::moment::Moment;
use crate::v2::limits::{ERROR_BYTES_MAX, LEASE_MS_MAX, TOKEN_BYTES_MAX};
use crate::v2::read::{self, bytes, number, structure, text};
#[cfg(feature = "openapi")]
use crate::v2::shape;
use crate::v2::write::ObjectWriter;

/// `POST /v2/effects/finish`: this is the outcome. The same outcome again is fine, another one is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectFinish<'a> {
    /// The token that came with the lease of the effect.
    pub token: Cow<'a, str>,
    /// Its outcome.
    pub result: EffectResult<'a>,
}

/// What came of an effect, as its holder or the person who resolved it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectResult<'a> {
    /// How it ended.
    pub status: EffectStatus,
    /// A number of the caller's own, such as an HTTP status or an exit code.
    pub code: Option<i32>,
    /// Small facts beside the body.
    pub headers: Headers<'a>,
    /// The result; it can be given and empty.
    pub body: Option<Cow<'a, [u8]>>,
    /// Why it failed; empty if not given.
    pub error: Cow<'a, str>,
}

impl EffectResult<'_> {
    /// A result that says only this.
    #[must_use]
    pub fn new(status: EffectStatus) -> Self {
        Self { status, code: None, headers: Headers::default(), body: None, error: Cow::Borrowed("") }
    }

    /// The body as the two fields of the wire: as text if it is UTF-8, as bytes if not.
    pub(super) fn body_fields(&self) -> (Option<Cow<'_, str>>, Option<Vec<u8>>) {
        match self.body.as_deref().map(std::str::from_utf8) {
            None => (None, None),
            Some(Ok(text)) => (Some(Cow::Borrowed(text)), None),
            Some(Err(_)) => (None, self.body.as_deref().map(<[u8]>::to_vec)),
        }
    }
}

/// The refusal of a result with two bodies.
pub(super) const TWO_BODIES: &str = "body and body_b64 exclude each other";

/// The finish as JSON writes it.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    /// The token that came with the lease of the effect.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    token: Cow<'a, str>,
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
}

impl<'a> EffectFinish<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }

    /// Appends its JSON to `out`.
    pub(in crate::v2) fn write(&self, out: &mut Vec<u8>) {
        let Self { token, result } = self;
        let EffectResult { status, code, headers, body: _, error } = result;
        let (body, body_b64) = result.body_fields();
        let mut object = ObjectWriter::new(out);
        object.text("token", token);
        object.value("status", status);
        object.value_if_some("code", code.as_ref());
        if !headers.is_empty() {
            object.object("headers", |object| {
                headers.pairs().iter().for_each(|(name, value)| object.pair(name, value));
            });
        }
        if let Some(body) = &body {
            object.text("body", body);
        }
        if let Some(body) = &body_b64 {
            object.text("body_b64", &STANDARD.encode(body));
        }
        object.text_if_any("error", error);
        object.end();
    }

    fn checked(fields: Fields<'a>) -> Result<Self, &'static str> {
        let Fields { token, status, code, headers, body, body_b64, error } = fields;
        let body = bytes::either(body, body_b64).ok_or(TWO_BODIES)?;
        Ok(Self { token, result: EffectResult { status, code, headers, body, error } })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for EffectFinish<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::checked(structure::required(from)?).map_err(D::Error::custom)
    }
}

impl Serialize for EffectFinish<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (body, body_b64) = self.result.body_fields();
        let fields = Fields {
            token: Cow::Borrowed(&self.token),
            status: self.result.status,
            code: self.result.code,
            headers: self.result.headers.clone(),
            body,
            body_b64,
            error: Cow::Borrowed(&self.result.error),
        };
        fields.serialize(serializer)
    }
}

#[cfg(feature = "openapi")]
impl PartialSchema for EffectFinish<'_> {
    fn schema() -> RefOr<Schema> {
        let one_body = shape::any_of([shape::absent("body"), shape::absent("body_b64")]);
        shape::all_of(Fields::schema(), [one_body])
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for EffectFinish<'_> {
    fn name() -> Cow<'static, str> {
        "EffectFinish".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Fields::schemas(schemas);
    }
}

/// To `POST /v2/effects/finish` and `POST /v2/effects/resolve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectFinished {
    /// Whether the outcome is new.
    pub result: CommitResult,
    /// The lease under which it ended.
    pub epoch: u64,
    /// The attempt that ended.
    pub attempt: u32,
    /// When the outcome is forgotten.
    pub expires_at: Moment,
}

/// `POST /v2/effects/renew`: a heartbeat; the work goes on.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectRenew<'a> {
    /// The token that came with the lease of the effect.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    pub token: Cow<'a, str>,
    /// For how long from now; as long as it was lent for if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, LEASE_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 604_800_000)]
    pub lease_ms: Option<u64>,
}

impl<'a> EffectRenew<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To `POST /v2/effects/renew`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectRenewed {
    /// When the lease ends unless it is renewed again.
    pub expires_at: Moment,
    /// Which lease of the effect it is.
    pub epoch: u64,
    /// The attempt that goes on.
    pub attempt: u32,
}

/// `POST /v2/effects/release`: the lease is given up, because nothing was sent. The attempt does not count, and a
/// caller that waits for the effect gets it at once.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectRelease<'a> {
    /// The token that came with the lease of the effect.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    pub token: Cow<'a, str>,
    /// It may have happened: others are told so now, as they would be when the lease lapses.
    #[serde(default, deserialize_with = "structure::flag", skip_serializing_if = "super::is_false")]
    #[schema(value_type = Option<bool>)]
    pub uncertain: bool,
}

impl<'a> EffectRelease<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To `POST /v2/effects/release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectReleased {
    /// Whether it was given up now.
    pub result: ReleaseResult,
}

/// Whether a lease was given up now, or was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseResult {
    /// It was given up now.
    Released,
    /// It had been given up before, and no caller has taken over the effect since.
    AlreadyReleased,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{"token":"t","status":"failed_retryable","code":-2147483648,"headers":{"a":"1","b":"2"},"body":"text","error":"no"}"#;

    #[test]
    fn round_trips_and_borrows() {
        let finish = EffectFinish::from_json(FULL.as_bytes()).unwrap();
        assert_eq!(
            (finish.result.status, finish.result.code),
            (EffectStatus::FailedRetryable, Some(i32::MIN))
        );
        assert!(matches!((&finish.token, &finish.result.error), (Cow::Borrowed("t"), Cow::Borrowed("no"))));
        assert!(matches!(finish.result.body, Some(Cow::Borrowed(b"text"))));
        assert_eq!(serde_json::to_string(&finish).unwrap(), FULL);
        let nulls = br#"{"token":"t","status":"succeeded","code":null,"headers":null,"body":null,"body_b64":null,"error":null}"#;
        let plain = EffectFinish { token: "t".into(), result: EffectResult::new(EffectStatus::Succeeded) };
        assert_eq!(EffectFinish::from_json(nulls).unwrap(), plain);
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"token":"t","status":"succeeded"}"#);
    }

    #[test]
    fn bodies() {
        for (body, bytes, printed) in [
            (r#""body":"a\nb""#, &b"a\nb"[..], r#""body":"a\nb""#),
            (r#""body":"""#, b"", r#""body":"""#),
            (r#""body_b64":"""#, b"", r#""body":"""#),
            (r#""body_b64":"YWI=","body":null"#, b"ab", r#""body":"ab""#),
            (r#""body_b64":"/w==""#, &[0xff], r#""body_b64":"/w==""#),
        ] {
            let text = format!(r#"{{"token":"t","status":"succeeded",{body}}}"#);
            let finish = EffectFinish::from_json(text.as_bytes()).unwrap();
            assert_eq!(finish.result.body.as_deref(), Some(bytes), "{body}");
            let expected = format!(r#"{{"token":"t","status":"succeeded",{printed}}}"#);
            assert_eq!(serde_json::to_string(&finish).unwrap(), expected);
        }
    }

    #[test]
    fn refusals() {
        let base64 = "body_b64: must be base64 with the standard alphabet and padding: ";
        let code = "code: must be between -2147483648 and 2147483647";
        let long = format!(r#""error":"{}""#, "e".repeat(4097));
        for (field, message) in [
            (r#""body":"a","body_b64":"YQ==""#, "body and body_b64 exclude each other"),
            (r#""body_b64":"YQ""#, base64),
            (r#""body_b64":"_w==""#, base64),
            (r#""body_b64":5"#, "body_b64: invalid type: integer `5`, expected a text of any length"),
            (r#""body":{}"#, "body: invalid type: map, expected a text of any length"),
            (r#""code":2147483648"#, code),
            (r#""code":-2147483649"#, code),
            (r#""code":1e10"#, code),
            (
                r#""code":0.5"#,
                "code: invalid type: floating point `0.5`, expected a whole number between -2147",
            ),
            (
                r#""code":"1""#,
                "code: invalid type: string \"1\", expected a whole number between -2147483648",
            ),
            (r#""headers":{"":"x"}"#, "headers: a header's name must have 1 to 255 bytes, has 0"),
            (r#""headers":[]"#, "headers: invalid type: sequence, expected an object of texts"),
            (&long, "error: must have at most 4096 bytes, has 4097"),
            (r#""epoch":1"#, "epoch: unknown field, expected one of `token`, `status`"),
            (r#""token":"u""#, "duplicate field `token`"),
        ] {
            let body = format!(r#"{{"token":"t","status":"succeeded",{field}}}"#);
            let found = EffectFinish::from_json(body.as_bytes()).unwrap_err().message;
            assert!(found.starts_with(message), "{body:.200}: {found}");
        }
        for (body, message) in [
            (r#"{"token":"t"}"#, "missing field `status`"),
            (r#"{"status":"succeeded"}"#, "missing field `token`"),
            (r#"{"token":"","status":"succeeded"}"#, "token: must have 1 to 128 bytes, has 0"),
            (
                r#"{"token":"t","status":"unknown"}"#,
                "status: must be succeeded, failed_final or failed_retryable",
            ),
        ] {
            assert_eq!(EffectFinish::from_json(body.as_bytes()).unwrap_err().message, message);
        }
        let whole = EffectFinish::from_json(br#"{"token":"t","status":"succeeded","code":2e2}"#);
        assert_eq!(whole.unwrap().result.code, Some(200));
    }

    #[test]
    fn releasing() {
        for (body, uncertain) in [(r#"{"token":"t"}"#, false), (r#"{"token":"t","uncertain":true}"#, true)] {
            let release = EffectRelease::from_json(body.as_bytes()).unwrap();
            assert_eq!(release, EffectRelease { token: "t".into(), uncertain });
            assert_eq!(serde_json::to_string(&release).unwrap(), body);
        }
        for (body, message) in [
            ("{}", "missing field `token`"),
            (r#"{"token":"t","status":"x"}"#, "status: unknown field, expected `token` or `uncertain`"),
        ] {
            assert_eq!(EffectRelease::from_json(body.as_bytes()).unwrap_err().message, message);
        }
        let said = [ReleaseResult::Released, ReleaseResult::AlreadyReleased];
        assert_eq!(serde_json::to_string(&said).unwrap(), r#"["released","already_released"]"#);
    }

    #[test]
    fn renewing() {
        let renew = EffectRenew::from_json(br#"{"token":"t","lease_ms":604800000}"#).unwrap();
        assert_eq!(renew, EffectRenew { token: "t".into(), lease_ms: Some(LEASE_MS_MAX) });
        for (body, message) in [
            ("{}", "missing field `token`"),
            (r#"{"token":"t","lease_ms":0}"#, "lease_ms: must be between 1 and 604800000"),
            (r#"{"token":"t","epoch":1}"#, "epoch: unknown field, expected `token` or `lease_ms`"),
        ] {
            assert_eq!(EffectRenew::from_json(body.as_bytes()).unwrap_err().message, message);
        }
        let text = r#"{"expires_at":"2025-12-21T12:00:00Z","epoch":1,"attempt":2}"#;
        let renewed: EffectRenewed = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&renewed).unwrap(), text);
        let text = r#"{"result":"committed","epoch":1,"attempt":2,"expires_at":"2025-12-21T12:00:00Z"}"#;
        let finished: EffectFinished = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&finished).unwrap(), text);
    }
}
