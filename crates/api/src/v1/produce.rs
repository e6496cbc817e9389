//! `POST /v1/produce`.

use std::borrow::Cow;

use serde::Deserialize;

use super::envelope::{self, Envelope};
use crate::fault::Fault;
use crate::object::{Object, parse};
use crate::query::Query;
use crate::text::{Text, trim};

/// Store a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produce<'a> {
    /// Where it should go.
    pub topic: Cow<'a, str>,
    /// Chooses the partition; may be empty.
    pub key: Cow<'a, str>,
    /// The payload.
    pub value: Cow<'a, str>,
    /// Everything about it.
    pub envelope: Option<Envelope<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw<'a> {
    #[serde(borrow, default)]
    topic: Text<'a>,
    #[serde(borrow, default)]
    key: Text<'a>,
    #[serde(borrow, default)]
    value: Text<'a>,
    #[serde(borrow)]
    envelope: Option<Object<envelope::Raw<'a>>>,
}

impl<'a> Produce<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let raw: Raw<'a> = parse(body)?;
        let (topic, value) = required(raw.topic.trimmed(), raw.value.0)?;
        let envelope = raw.envelope.map(|Object(raw)| raw.checked()).transpose()?;
        Ok(Self { topic, key: raw.key.0, value, envelope })
    }

    /// From a query.
    pub fn from_query(mut query: Query<'a>) -> Result<Self, Fault> {
        let (topic, value) = required(trim(query.take("topic")), query.take("value"))?;
        Ok(Self { topic, key: query.take("key"), value, envelope: Envelope::from_query(&mut query)? })
    }
}

type Texts<'a> = (Cow<'a, str>, Cow<'a, str>);

fn required<'a>(topic: Cow<'a, str>, value: Cow<'a, str>) -> Result<Texts<'a>, Fault> {
    if topic.is_empty() || value.is_empty() {
        return Err(Fault::invalid("topic and value are required"));
    }
    Ok((topic, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use crate::v1::RetryPolicy;

    fn query(raw: &str) -> Result<Produce<'_>, String> {
        Produce::from_query(Query::parse_v1(raw).unwrap()).map_err(|fault| fault.message.into_owned())
    }

    fn json(raw: &str) -> Result<Produce<'_>, String> {
        Produce::from_json(raw.as_bytes()).map_err(|fault| fault.message.into_owned())
    }

    fn envelope<'a>(result: &Result<Produce<'a>, String>) -> Envelope<'a> {
        result.as_ref().unwrap().envelope.clone().unwrap()
    }

    #[test]
    fn body_and_query_say_the_same() {
        let body = json(
            r#"{"topic":"t1","key":"k","value":"v","envelope":{"run_id":"run","step_id":"step",
            "parent_step_id":"parent","tenant_id":"acme","idempotency_key":"once","target_topic":"t2",
            "partition_override":0,"deadline":"2025-12-21T14:00:00+02:00",
            "retry_policy":{"max_attempts":5,"backoff_ms":250,"max_backoff_ms":5000}}}"#,
        );
        let long = query(
            "topic=t1&key=k&value=v&run_id=run&step_id=step&parent_step_id=parent&tenant_id=acme\
             &idempotency_key=once&target_topic=t2&partition_override=0&deadline=2025-12-21T12:00:00Z\
             &retry_max_attempts=5&retry_backoff_ms=250&retry_max_backoff_ms=5000",
        );
        let short = query(
            "topic=t1&key=k&value=v&run_id=run&step_id=step&parent_step_id=parent&tenant=acme\
             &idem_key=once&target_topic=t2&partition_override=0&deadline_ms=1766318400000\
             &retry_max_attempts=5&retry_backoff_ms=250&retry_max_backoff_ms=5000&unknown=ignored",
        );
        assert_eq!(body, long);
        assert_eq!(long, short);
        let envelope = envelope(&body);
        assert_eq!(envelope.partition_override, Some(0));
        assert_eq!(
            envelope.retry_policy,
            Some(RetryPolicy { max_attempts: 5, backoff_ms: 250, max_backoff_ms: 5000 })
        );
    }

    #[test]
    fn what_is_missing() {
        for raw in [r#"{"topic":"t"}"#, r#"{"value":"v"}"#, r#"{"topic":"","value":"v"}"#, "{}"] {
            assert_eq!(json(raw).unwrap_err(), "topic and value are required", "{raw}");
        }
        for raw in ["", "topic=t", "value=v", "topic=t&value=", "topic=+&value=v"] {
            assert_eq!(query(raw).unwrap_err(), "topic and value are required", "{raw}");
        }
    }

    #[test]
    fn null_counts_as_not_given() {
        let produce = json(r#"{"topic":"t","key":null,"value":"v","envelope":null}"#).unwrap();
        assert_eq!((&*produce.key, produce.envelope), ("", None));
        let nulls = json(
            r#"{"topic":"t","value":"v","envelope":{"run_id":null,"partition_override":null,"deadline":null,
            "retry_policy":null}}"#,
        );
        assert_eq!(envelope(&nulls), Envelope::default());
    }

    #[test]
    fn the_envelope_of_a_query_exists_only_if_a_part_of_it_does() {
        assert_eq!(query("topic=t&value=v&run_id=&retry_max_attempts=0").unwrap().envelope, None);
        assert_eq!(envelope(&query("topic=t&value=v&partition_override=0")).partition_override, Some(0));
    }

    #[test]
    fn payloads_keep_their_white_space_in_a_body() {
        let produce = json(r#"{"topic":" t ","value":" v ","key":" k"}"#).unwrap();
        assert_eq!((&*produce.topic, &*produce.value, &*produce.key), ("t", " v ", " k"));
        let produce = query("topic=t&value=+v%0A&key=+k").unwrap();
        assert_eq!((&*produce.value, &*produce.key), ("v", "k"), "the first broker trimmed queries");
    }

    #[test]
    fn deadlines_in_a_query() {
        let noon = Moment::parse("2025-12-21T12:00:00Z");
        for raw in [
            "deadline=2025-12-21T12:00:00Z",
            "deadline_rfc3339=2025-12-21T12:00:00Z",
            "deadline=2025-12-21T13:00:00%2B01:00",
            "deadline=2025-12-21T12:00:00.000Z&deadline_ms=5",
            "deadline_ms=1766318400000",
        ] {
            let raw = format!("topic=t&value=v&{raw}");
            assert_eq!(envelope(&query(&raw)).deadline, noon, "{raw}");
        }
        for (raw, part) in [
            ("deadline=soon", "invalid deadline: "),
            ("deadline=2025-12-21T13:00:00+01:00", "invalid deadline: "),
            ("deadline_rfc3339=2025-12-21", "invalid deadline_rfc3339: "),
            ("deadline_ms=soon", "invalid deadline_ms: "),
            ("deadline_ms=-1", "deadline_ms cannot be negative"),
            ("deadline_ms=9223372036854775807", "invalid deadline_ms: "),
        ] {
            let message = query(&format!("topic=t&value=v&{raw}")).unwrap_err();
            assert!(message.starts_with(part), "{raw}: {message}");
        }
    }

    #[test]
    fn numbers_in_a_query() {
        for (raw, message) in [
            (
                "retry_backoff_ms=5",
                "retry_backoff_ms and retry_max_backoff_ms need retry_max_attempts greater than 0",
            ),
            (
                "retry_max_backoff_ms=0&retry_max_attempts=0",
                "retry_backoff_ms and retry_max_backoff_ms need retry_max_attempts greater than 0",
            ),
            ("retry_max_attempts=-1", "retry_max_attempts cannot be negative"),
            ("retry_max_attempts=1&retry_backoff_ms=-1", "retry_backoff_ms cannot be negative"),
            ("retry_max_attempts=1&retry_max_backoff_ms=-1", "retry_max_backoff_ms cannot be negative"),
            ("retry_max_attempts=x", "invalid retry_max_attempts: expected a whole number"),
            ("retry_max_attempts=4294967296", "retry_max_attempts is out of range"),
            ("partition_override=-1", "partition_override out of range"),
            ("partition_override=4294967296", "partition_override out of range"),
            ("partition_override=one", "invalid partition_override: expected a whole number"),
        ] {
            assert_eq!(query(&format!("topic=t&value=v&{raw}")).unwrap_err(), message, "{raw}");
        }
    }

    #[test]
    fn numbers_in_a_body() {
        for (part, message) in [
            (r#""partition_override":-1"#, "partition_override out of range"),
            (r#""retry_policy":{"max_attempts":-1}"#, "max_attempts cannot be negative"),
            (r#""retry_policy":{"max_attempts":1,"backoff_ms":-1}"#, "backoff_ms cannot be negative"),
            (r#""retry_policy":{"max_attempts":1,"max_backoff_ms":-1}"#, "max_backoff_ms cannot be negative"),
        ] {
            let body = format!(r#"{{"topic":"t","value":"v","envelope":{{{part}}}}}"#);
            assert_eq!(json(&body).unwrap_err(), message, "{body}");
        }
        let unlimited = json(r#"{"topic":"t","value":"v","envelope":{"retry_policy":{"backoff_ms":5}}}"#);
        assert_eq!(
            envelope(&unlimited).retry_policy,
            Some(RetryPolicy { backoff_ms: 5, ..RetryPolicy::default() })
        );
    }

    #[test]
    fn strictness_at_every_depth() {
        for (body, part) in [
            (r#"{"topic":"t","value":"v","idempotency_key":"k"}"#, "unknown field `idempotency_key`"),
            (r#"{"topic":"t","value":"v","envelope":{"labels":{"a":"b"}}}"#, "unknown field `labels`"),
            (r#"{"topic":"t","value":"v","envelope":{"dlq":{}}}"#, "unknown field `dlq`"),
            (
                r#"{"topic":"t","value":"v","envelope":{"retry_policy":{"jitter":1}}}"#,
                "unknown field `jitter`",
            ),
            (r#"{"topic":"t","value":"v","envelope":{"deadline":"soon"}}"#, "RFC 3339"),
            (r#"{"topic":"t","value":"v","envelope":{"deadline":5}}"#, "invalid type: integer"),
            (r#"{"topic":"t","value":{"a":1}}"#, "invalid type: map, expected a string"),
            (r#"{"topic":"t","value":5}"#, "expected a string"),
            (r#"{"topic":"t","value":"v","envelope":[]}"#, "expected an object"),
            (r#"["t","k","v",null]"#, "expected an object"),
            (r#"{"topic":"t","value":"v","value":"w"}"#, "duplicate field `value`"),
            (r#"{"topic":"t","value":"v"}{"#, "trailing characters"),
            (r#"{"topic":"t","value":"v""#, "EOF"),
            (r#"{"topic":"t","value":"\ud800"}"#, "at line 1"),
            ("topic=t&value=v", "at line 1"),
        ] {
            let message = json(body).unwrap_err();
            assert!(
                message.starts_with("invalid json body: ") && message.contains(part),
                "{body}: {message}"
            );
        }
        let bytes = b"{\"topic\":\"t\",\"value\":\"\xff\"}";
        assert!(Produce::from_json(bytes).unwrap_err().message.starts_with("invalid json body: "));
    }
}
