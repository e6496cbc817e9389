//! The JSON that a brain answers with.

use std::collections::BTreeMap;
use std::time::Duration;

use driftq_engine::router::{AskError, CacheHint, Decision, Opinion, Part};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMany<'a> {
    /// Not yet read: their number is checked first, so that a flood of them costs little.
    #[serde(borrow)]
    decisions: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOpinion {
    label: Option<String>,
    target_topic: Option<String>,
    partition_override: Option<u32>,
    meta: Option<BTreeMap<String, String>>,
    cache: Option<RawCache>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCache {
    on: RawOn,
    ttl_ms: u64,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`on` must be a text or a list of texts")]
enum RawOn {
    One(String),
    Many(Vec<String>),
}

/// Reads an answer to a question about `count` messages.
pub(super) fn read(body: &[u8], count: usize) -> Result<Vec<Opinion>, AskError> {
    if count == 1 {
        return Ok(vec![opinion(body)?]);
    }
    let many: RawMany<'_> = serde_json::from_slice(body).map_err(|error| nonsense(&error))?;
    if many.decisions.len() != count {
        let why = format!("{} decisions on {count} messages", many.decisions.len());
        return Err(AskError::Nonsense(why));
    }
    many.decisions.into_iter().map(|raw| opinion(raw.get().as_bytes())).collect()
}

fn opinion(body: &[u8]) -> Result<Opinion, AskError> {
    let raw: Option<RawOpinion> = serde_json::from_slice(body).map_err(|error| nonsense(&error))?;
    let Some(raw) = raw else { return Ok(Opinion::default()) };
    let cache = raw.cache.map(hint).transpose()?;
    // Brains written with typed structures say "not set" with an empty text.
    let target_topic = raw.target_topic.filter(|topic| !topic.is_empty());
    let says_something = raw.label.is_some()
        || target_topic.is_some()
        || raw.partition_override.is_some()
        || raw.meta.as_ref().is_some_and(|meta| !meta.is_empty());
    let decision = says_something.then(|| Decision {
        label: raw.label.unwrap_or_default(),
        target_topic,
        partition_override: raw.partition_override,
        meta: raw.meta.unwrap_or_default().into_iter().collect(),
    });
    Ok(Opinion { decision, cache })
}

fn hint(raw: RawCache) -> Result<CacheHint, AskError> {
    let texts = match raw.on {
        RawOn::One(text) => vec![text],
        RawOn::Many(texts) => texts,
    };
    let part = |text: &String| {
        let unknown =
            || AskError::Nonsense(format!("cache.on: `{text}` is none of key, value, tenant, label:NAME"));
        Part::parse(text).ok_or_else(unknown)
    };
    let on = texts.iter().map(part).collect::<Result<_, _>>()?;
    Ok(CacheHint { on, ttl: Duration::from_millis(raw.ttl_ms) })
}

fn nonsense(error: &serde_json::Error) -> AskError {
    AskError::Nonsense(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(body: &str) -> Result<Opinion, String> {
        read(body.as_bytes(), 1).map(|mut opinions| opinions.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_of_the_specification_is_understood() {
        let opinion = one(r#"{"label": "finance:classification", "target_topic": "tasks.finance.classify",
                "partition_override": null, "meta": {"source": "agno-router", "score": "0.92"}}"#);
        let decision = Decision {
            label: "finance:classification".to_owned(),
            target_topic: Some("tasks.finance.classify".to_owned()),
            partition_override: None,
            meta: vec![("score".into(), "0.92".into()), ("source".into(), "agno-router".into())],
        };
        assert_eq!(opinion, Ok(decision.into()));
    }

    #[test]
    fn no_opinion_has_many_spellings() {
        for body in ["null", "{}", r#"{"label": null}"#, r#"{"target_topic": "", "meta": {}}"#] {
            assert_eq!(one(body), Ok(Opinion::default()), "{body}");
        }
        assert!(one(r#"{"label": ""}"#).unwrap().decision.is_some(), "an empty label is a label");
    }

    #[test]
    fn a_promise_names_its_parts() {
        let on = |text: &str| {
            let body = format!(r#"{{"label": "x", "cache": {{"on": {text}, "ttl_ms": 1500}}}}"#);
            one(&body).map(|opinion| opinion.cache.unwrap())
        };
        let hint = |on| Ok(CacheHint { on, ttl: Duration::from_millis(1500) });
        assert_eq!(on(r#""key""#), hint(vec![Part::Key]));
        assert_eq!(on("[]"), hint(vec![]));
        assert_eq!(on(r#"["tenant", "label:a"]"#), hint(vec![Part::Tenant, Part::Label("a".to_owned())]));
        for bad in [r#""keys""#, "5", "null", r#"["label:"]"#] {
            assert!(on(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        for (body, expected) in [
            ("", "EOF"),
            ("hello", "expected"),
            ("[]", ""),
            ("\"x\"", "invalid type"),
            (r#"{"label": 5}"#, "string"),
            (r#"{"lable": "x"}"#, "lable"),
            (r#"{"label": "x", "partition_override": -1}"#, "-1"),
            (r#"{"label": "x", "meta": {"score": 0.9}}"#, "string"),
            (r#"{"label": "x"} {"#, "trailing"),
            (r#"{"decisions": [{}]}"#, "decisions"),
        ] {
            let error = one(body).expect_err(body);
            assert!(error.contains("nonsense") && error.contains(expected), "{body}: {error}");
        }
    }

    #[test]
    fn a_batch_is_answered_one_by_one() {
        let opinions = read(br#"{"decisions": [{"label": "a"}, null, {"label": "c"}]}"#, 3).unwrap();
        let labels: Vec<_> = opinions.into_iter().map(|it| it.decision.map(|it| it.label)).collect();
        assert_eq!(labels, [Some("a".to_owned()), None, Some("c".to_owned())]);
        for body in [&br#"{"decisions": [{"label": "a"}]}"#[..], br#"{"label": "a"}"#, b"[null, null, null]"]
        {
            assert!(read(body, 3).is_err());
        }
    }
}
