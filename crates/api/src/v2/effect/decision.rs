//! The answer to a caller that wants to carry out an effect.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

use super::EffectOutcome;
use crate::moment::Moment;
#[cfg(feature = "openapi")]
use crate::v2::shape;
use crate::v2::write::ObjectWriter;

/// To `POST /v2/effects/begin` and `POST /v2/effects/reacquire`. `decision` says what to do, and which other fields
/// are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum EffectDecision<'a> {
    /// Carry it out, and finish with the token.
    Execute {
        /// The right to carry it out.
        lease: EffectLease<'a>,
    },
    /// It has ended: this is its outcome.
    Replay {
        /// Its outcome.
        outcome: EffectOutcome<'a>,
    },
    /// Another holder carries it out.
    InProgress {
        /// When to ask again.
        retry_after_ms: u64,
        /// Which lease of the effect is live.
        epoch: u64,
        /// The attempt that is under way.
        attempt: u32,
    },
    /// It failed and may be tried again, by a caller that asks for that.
    Retryable {
        /// How it failed.
        outcome: EffectOutcome<'a>,
        /// The lease under which it failed.
        epoch: u64,
        /// The attempt that failed.
        attempt: u32,
        /// How many attempts are left, if there is a cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts_left: Option<u32>,
    },
    /// It may have happened: it is not carried out again until an operator or a reconciler has resolved it.
    Unknown {
        /// The lease under which it may have happened.
        epoch: u64,
        /// The attempt in which it may have happened.
        attempt: u32,
        /// Since when its outcome is unknown.
        since: Moment,
    },
}

/// The right to carry out an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectLease<'a> {
    /// Names this lease, and is the authority to finish the effect.
    pub token: Cow<'a, str>,
    /// Which lease of the effect it is; a newer one fences this one off.
    pub epoch: u64,
    /// 1-based count of attempts.
    pub attempt: u32,
    /// When it ends unless it is renewed.
    pub expires_at: Moment,
}

impl EffectLease<'_> {
    pub(super) fn write(&self, object: &mut ObjectWriter<'_>) {
        let Self { token, epoch, attempt, expires_at } = self;
        object.text("token", token);
        object.value("epoch", epoch);
        object.value("attempt", attempt);
        object.value("expires_at", expires_at);
    }
}

/// The schema of an [`EffectDecision`], with a name for each alternative so that generated clients tell them apart.
pub(in crate::v2) struct EffectDecisionShape;

/// The schemas of the alternatives and their words, in the order of the variants.
#[cfg(feature = "openapi")]
const ALTERNATIVES: [(&str, &str); 5] = [
    ("EffectExecute", "execute"),
    ("EffectReplay", "replay"),
    ("EffectInProgress", "in_progress"),
    ("EffectRetryable", "retryable"),
    ("EffectUnknown", "unknown"),
];

#[cfg(feature = "openapi")]
impl PartialSchema for EffectDecisionShape {
    fn schema() -> RefOr<Schema> {
        let about = "What to do about an effect: `decision` says it, and which other fields are there.";
        shape::told_apart("decision", &ALTERNATIVES, about)
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for EffectDecisionShape {
    fn name() -> Cow<'static, str> {
        EffectDecision::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        EffectDecision::schemas(schemas);
        if let RefOr::T(Schema::OneOf(derived)) = EffectDecision::schema() {
            let names = ALTERNATIVES.iter().map(|(name, _)| (*name).to_owned());
            schemas.extend(names.zip(derived.items));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_round_trips() {
        let texts = [
            r#"{"decision":"execute","lease":{"token":"t","epoch":1,"attempt":1,"expires_at":"2025-12-21T12:00:00Z"}}"#,
            r#"{"decision":"replay","outcome":{"status":"succeeded","finished_at":"2025-12-21T12:00:00Z","epoch":1,"attempt":1}}"#,
            r#"{"decision":"in_progress","retry_after_ms":5,"epoch":2,"attempt":2}"#,
            r#"{"decision":"retryable","outcome":{"status":"failed_retryable","error":"no","finished_at":"2025-12-21T12:00:00Z","epoch":1,"attempt":1},"epoch":1,"attempt":1,"attempts_left":0}"#,
            r#"{"decision":"unknown","epoch":1,"attempt":1,"since":"2025-12-21T12:00:00Z"}"#,
        ];
        for (text, (_, word)) in texts.iter().zip(ALTERNATIVES) {
            let decision: EffectDecision<'_> = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&decision).unwrap(), *text);
            assert!(text.starts_with(&format!(r#"{{"decision":"{word}","#)), "{text}");
        }
        let newer = texts[2].replace("}", r#","more":1}"#);
        assert!(serde_json::from_str::<EffectDecision<'_>>(&newer).is_ok(), "unknown fields are ignored");
    }

    #[test]
    fn the_schema_of_each_decision_has_its_word() {
        let mut schemas = Vec::new();
        EffectDecisionShape::schemas(&mut schemas);
        for (name, word) in ALTERNATIVES {
            let (_, schema) = schemas.iter().find(|(found, _)| found == name).unwrap();
            let schema = serde_json::to_value(schema).unwrap();
            assert_eq!(schema["properties"]["decision"]["enum"], serde_json::json!([word]));
        }
    }
}
