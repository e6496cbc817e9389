//! Several effects in one call.

#[cfg(feature = "openapi")]
use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use utoipa::PartialSchema;
#[cfg(feature = "openapi")]
use utoipa::openapi::RefOr;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::Schema;

#[cfg(feature = "openapi")]
use super::decision::EffectDecisionShape;
use super::{EffectBegin, EffectDecision};
use crate::fault::Fault;
use crate::v2::limits::EFFECTS_MAX;
use crate::v2::problem::Problem;
use crate::v2::read::{self, structure};
#[cfg(feature = "openapi")]
use crate::v2::shape;
use crate::v2::write::{ObjectWriter, put_json};

/// `POST /v2/effects/begin` with several effects: each is decided as if it came alone, and none waits.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectBegins<'a> {
    /// The effects; none of them has `wait_ms`.
    #[serde(borrow, deserialize_with = "structure::list::<_, _, EFFECTS_MAX>")]
    #[schema(min_items = 1, max_items = 1000)]
    pub effects: Vec<EffectBegin<'a>>,
}

/// The body of `POST /v2/effects/begin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectBeginCall<'a> {
    /// One effect.
    One(Box<EffectBegin<'a>>),
    /// Several.
    Many(EffectBegins<'a>),
}

impl<'a> EffectBeginCall<'a> {
    /// From a JSON body. A body with `effects` is that of several.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        if !read::begins_with(body, "effects") {
            return EffectBegin::from_json(body).map(|begin| Self::One(Box::new(begin)));
        }
        let begins: EffectBegins<'_> = read::object(body)?;
        for (place, begin) in begins.effects.iter().enumerate() {
            if let Err(fault) = begin.check() {
                let message = format!("effects[{place}].{}", fault.message);
                return Err(Fault { message: message.into(), ..fault });
            }
        }
        match begins.effects.iter().position(|begin| begin.wait_ms > 0) {
            Some(place) => Err(Fault::invalid(format!(
                "effects[{place}].wait_ms: only a call with one effect waits; leave it out"
            ))),
            None => Ok(Self::Many(begins)),
        }
    }
}

/// Room for a decision to carry an effect out.
const BEGUN_BYTES: usize = 160;

/// To `POST /v2/effects/begin` with several effects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectsBegun<'a> {
    /// One result per effect, in order.
    #[schema(value_type = Vec<EffectBegunShape>)]
    pub results: Vec<EffectBegun<'a>>,
}

/// What became of one effect of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EffectBegun<'a> {
    /// It was refused, and the others are what they are.
    Refused(EffectRefused<'a>),
    /// It was decided.
    Decided(EffectDecision<'a>),
}

/// Why one effect of several was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectRefused<'a> {
    /// Says so.
    pub decision: RefusedWord,
    /// The problem that the same call with this effect alone would have had.
    pub problem: Problem<'a>,
}

/// The word of a refusal among results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusedWord {
    /// It was refused.
    Refused,
}

impl EffectsBegun<'_> {
    /// Appends its JSON to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { results } = self;
        out.reserve(results.len() * BEGUN_BYTES);
        let mut object = ObjectWriter::new(out);
        object.list("results", results, |out, begun| begun.write(out));
        object.end();
    }
}

impl EffectBegun<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Decided(EffectDecision::Execute { lease }) => {
                let mut object = ObjectWriter::new(out);
                object.text("decision", "execute");
                object.object("lease", |object| lease.write(object));
                object.end();
            }
            // All others are rare.
            other => put_json(out, other),
        }
    }
}

impl<'a> EffectBegun<'a> {
    /// A refusal.
    #[must_use]
    pub fn refused(fault: &'a Fault) -> Self {
        Self::Refused(EffectRefused { decision: RefusedWord::Refused, problem: fault.v2() })
    }
}

/// The schema of [`EffectBegun`].
#[cfg(feature = "openapi")]
struct EffectBegunShape;

#[cfg(feature = "openapi")]
impl PartialSchema for EffectBegunShape {
    fn schema() -> RefOr<Schema> {
        let names = [EffectRefused::name(), EffectDecisionShape::name()];
        shape::either(&names, "A decision, or why this effect was refused.")
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for EffectBegunShape {
    fn name() -> Cow<'static, str> {
        "EffectBegun".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        shape::add::<EffectRefused<'_>>(schemas);
        shape::add::<EffectDecisionShape>(schemas);
    }
}

/// The schema of an [`EffectBeginCall`].
pub(in crate::v2) struct EffectBeginShape;

#[cfg(feature = "openapi")]
impl PartialSchema for EffectBeginShape {
    fn schema() -> RefOr<Schema> {
        shape::either(&[EffectBegin::name(), EffectBegins::name()], "One effect, or several.")
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for EffectBeginShape {
    fn name() -> Cow<'static, str> {
        "EffectBeginCall".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        shape::add::<EffectBegin<'_>>(schemas);
        shape::add::<EffectBegins<'_>>(schemas);
    }
}

/// The schema of the answer: a decision, or a list of results.
pub(in crate::v2) struct EffectAnswerShape;

#[cfg(feature = "openapi")]
impl PartialSchema for EffectAnswerShape {
    fn schema() -> RefOr<Schema> {
        let names = [EffectDecisionShape::name(), EffectsBegun::name()];
        shape::either(&names, "What to do about one effect, or about each of several.")
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for EffectAnswerShape {
    fn name() -> Cow<'static, str> {
        "EffectBeginAnswer".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        shape::add::<EffectDecisionShape>(schemas);
        shape::add::<EffectsBegun<'_>>(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Code;

    #[test]
    fn one_or_several() {
        let one = EffectBeginCall::from_json(br#" {"scope":"s","key":"effects"}"#).unwrap();
        assert!(matches!(one, EffectBeginCall::One(begin) if begin.key == "effects"));
        let text = br#" { "effects":[{"scope":"s","key":"a"},{"scope":"s","key":"b","wait_ms":0}]}"#;
        let EffectBeginCall::Many(many) = EffectBeginCall::from_json(text).unwrap() else { panic!("one") };
        assert_eq!(many.effects.iter().map(|begin| &*begin.key).collect::<Vec<_>>(), ["a", "b"]);
        assert!(matches!(many.effects[0].key, Cow::Borrowed("a")));
    }

    #[test]
    fn refusals() {
        let many = format!(r#"{{"effects":[{}]}}"#, [r#"{"scope":"s","key":"k"}"#; 1001].join(","));
        for (body, message) in [
            (r#"{"effects":[]}"#, "effects: must have 1 to 1000 items, has none"),
            (&*many, "effects: must have 1 to 1000 items, has more"),
            (r#"{"effects":[{"scope":"s"}]}"#, "effects[0]: missing field `key`"),
            (
                r#"{"effects":[{"scope":"s","key":"k"},{"scope":"s","key":"k","wait_ms":1}]}"#,
                "effects[1].wait_ms: only a call with one effect waits; leave it out",
            ),
            (r#"{"effects":[{"scope":"s","key":"k"}],"scope":"s"}"#, "scope: unknown field"),
            (r#"{"scope":"s","key":"k","effects":[]}"#, "effects: unknown field"),
            (r#"["effects"]"#, "invalid type: sequence, expected an object"),
        ] {
            let found = EffectBeginCall::from_json(body.as_bytes()).unwrap_err().message;
            assert!(found.starts_with(message), "{body:.100}: {found}");
        }
    }

    #[test]
    fn results_are_decisions_or_refusals() {
        let fault = Fault::new(Code::KeyReused, "other");
        let decided =
            EffectBegun::Decided(EffectDecision::InProgress { retry_after_ms: 5, epoch: 1, attempt: 1 });
        let execute = r#"{"decision":"execute","lease":{"token":"t","epoch":1,"attempt":2,"expires_at":"2025-12-21T12:00:00Z"}}"#;
        let execute = EffectBegun::Decided(serde_json::from_str(execute).unwrap());
        let begun = EffectsBegun { results: vec![EffectBegun::refused(&fault), decided, execute] };
        let text = serde_json::to_string(&begun).unwrap();
        let mut out = Vec::new();
        begun.write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text, "as serde writes it");
        assert!(
            text.starts_with(r#"{"results":[{"decision":"refused","problem":{"code":"KEY_REUSED""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<EffectsBegun<'_>>(&text).unwrap(), begun);
    }
}
