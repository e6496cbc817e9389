//! `GET /v1/consume`.

use std::borrow::Cow;

use serde::Deserialize;

use super::DEFAULT_LEASE_MS;
use crate::fault::Fault;
use crate::object::parse;
use crate::query::Query;
use crate::text::{Text, trim};

/// Open a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consume<'a> {
    /// What to read.
    pub topic: Cow<'a, str>,
    /// For which group.
    pub group: Cow<'a, str>,
    /// Who reads, and will ack.
    pub owner: Cow<'a, str>,
    /// How long each delivery is on loan.
    pub lease_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw<'a> {
    #[serde(borrow, default)]
    topic: Text<'a>,
    #[serde(borrow, default)]
    group: Text<'a>,
    #[serde(borrow, default)]
    owner: Text<'a>,
    lease_ms: Option<i64>,
}

impl<'a> Consume<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let raw: Raw<'a> = parse(body)?;
        Self::checked(raw.topic.0, raw.group.0, raw.owner.0, raw.lease_ms.map(positive))
    }

    /// From a query.
    pub fn from_query(mut query: Query<'a>) -> Result<Self, Fault> {
        let lease = query.get("lease_ms").map(|text| text.trim().parse().ok().and_then(positive));
        Self::checked(query.take("topic"), query.take("group"), query.take("owner"), lease)
    }

    /// Names are trimmed here because they are when a delivery is acked: an owner that only differs by a blank
    /// could never ack.
    fn checked(
        topic: Cow<'a, str>,
        group: Cow<'a, str>,
        owner: Cow<'a, str>,
        lease: Option<Option<u64>>,
    ) -> Result<Self, Fault> {
        let (topic, group, owner) = (trim(topic), trim(group), trim(owner));
        if topic.is_empty() || group.is_empty() || owner.is_empty() {
            return Err(Fault::invalid("topic, group and owner are required"));
        }
        let lease_ms = lease.unwrap_or(Some(DEFAULT_LEASE_MS));
        let lease_ms = lease_ms.ok_or_else(|| Fault::invalid("lease_ms must be a positive integer"))?;
        Ok(Self { topic, group, owner, lease_ms })
    }
}

fn positive(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_and_query() {
        let stream =
            |lease_ms| Ok(Consume { topic: "t".into(), group: "g".into(), owner: "o".into(), lease_ms });
        let required = || Err("topic, group and owner are required".to_owned());
        let lease = || Err("lease_ms must be a positive integer".to_owned());
        for (body, query, expected) in [
            (r#"{"topic":"t","group":"g","owner":"o"}"#, "topic=t&group=g&owner=o", stream(2000)),
            (
                r#"{"topic":"t","group":"g","owner":" o ","lease_ms":5}"#,
                "topic=t&group=g&owner=+o&lease_ms=5",
                stream(5),
            ),
            (
                r#"{"topic":"t","group":"g","owner":"o","lease_ms":null}"#,
                "topic=t&group=g&owner=o&lease_ms=",
                stream(2000),
            ),
            (
                r#"{"topic":"t","group":"g","owner":"o","lease_ms":0}"#,
                "topic=t&group=g&owner=o&lease_ms=0",
                lease(),
            ),
            (
                r#"{"topic":"t","group":"g","owner":"o","lease_ms":-1}"#,
                "topic=t&group=g&owner=o&lease_ms=-1",
                lease(),
            ),
            (r#"{"topic":"t","group":"g"}"#, "topic=t&group=g", required()),
            (r#"{"topic":"t","owner":"o"}"#, "topic=t&owner=o", required()),
            (r#"{"group":"g","owner":"o"}"#, "group=g&owner=o", required()),
        ] {
            let flat = |result: Result<_, Fault>| result.map_err(|fault| fault.message.into_owned());
            assert_eq!(flat(Consume::from_json(body.as_bytes())), expected, "{body}");
            assert_eq!(flat(Consume::from_query(Query::parse(query).unwrap())), expected, "{query}");
        }
        for text in ["x", "1.5", "99999999999999999999"] {
            let raw = format!("topic=t&group=g&owner=o&lease_ms={text}");
            let fault = Consume::from_query(Query::parse(&raw).unwrap()).unwrap_err();
            assert_eq!(fault.message, "lease_ms must be a positive integer", "{text}");
        }
        let unknown = Consume::from_json(br#"{"topic":"t","group":"g","owner":"o","max":5}"#).unwrap_err();
        assert!(unknown.message.contains("unknown field `max`"));
    }
}
