//! What came of an effect, as readers get it.

use std::borrow::Cow;

use crate::ToSchema;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{EffectStatus, Headers, headers};
use crate::moment::Moment;

/// What came of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectOutcome<'a> {
    /// How it ended.
    pub status: EffectStatus,
    /// A number of the caller's own, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Small facts beside the body, if there are any.
    #[serde(default, deserialize_with = "headers::stored", skip_serializing_if = "Headers::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>, required = false)]
    pub headers: Headers<'a>,
    /// The result, if there is one and it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Cow<'a, str>>,
    /// The result in base64, if there is one and it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_b64: Option<Cow<'a, str>>,
    /// Whether headers and result are left out because the caller's key has `read` and not `read_payload`.
    #[serde(default, skip_serializing_if = "super::is_false")]
    #[schema(value_type = Option<bool>)]
    pub payload_hidden: bool,
    /// Why it failed, if its holder or an operator said so.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub error: Cow<'a, str>,
    /// When it ended.
    pub finished_at: Moment,
    /// The lease under which it ended.
    pub epoch: u64,
    /// The attempt that ended.
    pub attempt: u32,
    /// Who decided it, if it was resolved by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<Cow<'a, str>>,
    /// How that was known, if it was resolved by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_why: Option<Cow<'a, str>>,
}

/// How the attempt before ended, while another one is under way, or while it is not known how that one went. It failed
/// in a way that let it be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LastOutcome<'a> {
    /// A number of the caller's own, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Small facts beside the body, if there are any.
    #[serde(default, deserialize_with = "headers::stored", skip_serializing_if = "Headers::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>, required = false)]
    pub headers: Headers<'a>,
    /// The result, if there is one and it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Cow<'a, str>>,
    /// Why it failed, if its holder or an operator said so.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub error: Cow<'a, str>,
    /// Who decided it, if it was resolved by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<Cow<'a, str>>,
    /// How that was known, if it was resolved by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_why: Option<Cow<'a, str>>,
}

impl<'a> EffectOutcome<'a> {
    /// Puts the result where it belongs: `body` if it is UTF-8, `body_b64` if not.
    #[must_use]
    pub fn with_bytes(mut self, bytes: &'a [u8]) -> Self {
        (self.body, self.body_b64) = match std::str::from_utf8(bytes) {
            Ok(text) => (Some(Cow::Borrowed(text)), None),
            Err(_) => (None, Some(Cow::Owned(STANDARD.encode(bytes)))),
        };
        self
    }

    /// The result's bytes; `None` if there are none or the wire held broken base64.
    #[must_use]
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        match (&self.body, &self.body_b64) {
            (Some(text), _) => Some(Cow::Borrowed(text.as_bytes())),
            (None, Some(text)) => STANDARD.decode(&**text).ok().map(Cow::Owned),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_comes_back_as_it_was() {
        let text = r#"{"status":"failed_final","code":-1,"headers":{"a":"1"},"body":"b","error":"no","finished_at":"2025-12-21T12:00:00Z","epoch":2,"attempt":1,"resolved_by":"ann","resolved_why":"seen"}"#;
        let outcome: EffectOutcome<'static> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&outcome).unwrap(), text);
        assert_eq!(outcome.bytes().as_deref(), Some(&b"b"[..]));
        let short = r#"{"status":"succeeded","finished_at":"2025-12-21T12:00:00Z","epoch":1,"attempt":1}"#;
        let outcome: EffectOutcome<'static> = serde_json::from_str(short).unwrap();
        assert_eq!((serde_json::to_string(&outcome).unwrap(), outcome.bytes()), (short.to_owned(), None));
        for bytes in [&b""[..], b"text", &[0xff, 0]] {
            let outcome = outcome.clone().with_bytes(bytes);
            assert_eq!(outcome.body.is_some(), std::str::from_utf8(bytes).is_ok());
            assert_eq!(outcome.bytes().as_deref(), Some(bytes));
        }
    }
}
