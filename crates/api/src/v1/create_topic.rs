//! `POST /v1/topics`.

use std::borrow::Cow;

use serde::Deserialize;

use crate::fault::Fault;
use crate::object::parse;
use crate::query::Query;
use crate::text::{Text, trim};

/// Create a topic, or confirm that it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopic<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// How many partitions it should have.
    pub partitions: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    partitions: Option<i64>,
}

impl<'a> CreateTopic<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let raw: Raw<'a> = parse(body)?;
        Self::checked(raw.name.trimmed(), raw.partitions)
    }

    /// From a query.
    pub fn from_query(mut query: Query<'a>) -> Result<Self, Fault> {
        let partitions = query.integer("partitions")?;
        Self::checked(trim(query.take("name")), partitions)
    }

    fn checked(name: Cow<'a, str>, partitions: Option<i64>) -> Result<Self, Fault> {
        if name.is_empty() {
            return Err(Fault::invalid("name is required"));
        }
        let partitions = super::natural("partitions", partitions.unwrap_or(0))?;
        // What does not even fit here is beyond any limit that the broker may have; let the broker say so.
        let partitions = u32::try_from(partitions).unwrap_or(u32::MAX).max(1);
        Ok(Self { name, partitions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_and_query() {
        let created = |name: &'static str, partitions| Ok(CreateTopic { name: name.into(), partitions });
        let refused = |message: &'static str| Err(message.to_owned());
        for (body, query, expected) in [
            (r#"{"name":"t","partitions":3}"#, "name=t&partitions=3", created("t", 3)),
            (r#"{"name":"t"}"#, "name=t", created("t", 1)),
            (r#"{"name":"t","partitions":null}"#, "name=t&partitions=", created("t", 1)),
            (r#"{"name":"t","partitions":0}"#, "name=t&partitions=0", created("t", 1)),
            (r#"{"name":" t "}"#, "name=+t+", created("t", 1)),
            (
                r#"{"name":"t","partitions":-1}"#,
                "name=t&partitions=-1",
                refused("partitions cannot be negative"),
            ),
            (
                r#"{"name":"t","partitions":99999999999}"#,
                "name=t&partitions=99999999999",
                created("t", u32::MAX),
            ),
            (r#"{"partitions":1}"#, "partitions=1", refused("name is required")),
            (r#"{"name":" "}"#, "name=", refused("name is required")),
        ] {
            let flat = |result: Result<_, Fault>| result.map_err(|fault| fault.message.into_owned());
            assert_eq!(flat(CreateTopic::from_json(body.as_bytes())), expected, "{body}");
            assert_eq!(flat(CreateTopic::from_query(Query::parse(query).unwrap())), expected, "{query}");
        }
    }

    #[test]
    fn strictness() {
        for (body, part) in [
            (r#"{"name":"t","partition":3}"#, "unknown field `partition`"),
            (r#"{"name":"t","partitions":"3"}"#, "invalid type: string"),
            (r#"{"name":"t","partitions":1.5}"#, "invalid type: floating point"),
            (r#"{"name":5}"#, "expected a string"),
            (r#"{"name":"t"} x"#, "trailing characters"),
            (r#"{"name":"t","name":"u"}"#, "duplicate field `name`"),
            ("", "EOF"),
            ("null", "invalid type: null"),
        ] {
            let message = CreateTopic::from_json(body.as_bytes()).unwrap_err().message;
            assert!(
                message.starts_with("invalid json body: ") && message.contains(part),
                "{body}: {message}"
            );
        }
        let fault = CreateTopic::from_query(Query::parse("name=t&partitions=x").unwrap()).unwrap_err();
        assert_eq!(fault.message, "invalid partitions: expected a whole number");
    }
}
