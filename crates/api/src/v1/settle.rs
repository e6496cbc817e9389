//! `POST /v1/ack` and `POST /v1/nack`.

use std::borrow::Cow;

use serde::Deserialize;

use super::natural;
use crate::fault::Fault;
use crate::object::parse;
use crate::query::Query;
use crate::text::{Text, trim};

/// Why a nack without a reason failed.
pub const DEFAULT_NACK_REASON: &str = "nack";

/// The work on a delivery is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The group.
    pub group: Cow<'a, str>,
    /// Who held it.
    pub owner: Cow<'a, str>,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
}

/// The work on a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack<'a> {
    /// Which one.
    pub delivery: Ack<'a>,
    /// Why.
    pub reason: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAck<'a> {
    #[serde(borrow, default)]
    topic: Text<'a>,
    #[serde(borrow, default)]
    group: Text<'a>,
    #[serde(borrow, default)]
    owner: Text<'a>,
    partition: Option<i64>,
    offset: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNack<'a> {
    #[serde(borrow, default)]
    topic: Text<'a>,
    #[serde(borrow, default)]
    group: Text<'a>,
    #[serde(borrow, default)]
    owner: Text<'a>,
    partition: Option<i64>,
    offset: Option<i64>,
    #[serde(borrow, default)]
    reason: Text<'a>,
}

impl<'a> Ack<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let raw: RawAck<'a> = parse(body)?;
        checked([raw.topic.0, raw.group.0, raw.owner.0], raw.partition, raw.offset)
    }

    /// From a query.
    pub fn from_query(mut query: Query<'a>) -> Result<Self, Fault> {
        delivery_from_query(&mut query)
    }
}

impl<'a> Nack<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        let raw: RawNack<'a> = parse(body)?;
        let delivery = checked([raw.topic.0, raw.group.0, raw.owner.0], raw.partition, raw.offset)?;
        Ok(Self { delivery, reason: reason_or_default(raw.reason.0) })
    }

    /// From a query.
    pub fn from_query(mut query: Query<'a>) -> Result<Self, Fault> {
        let delivery = delivery_from_query(&mut query)?;
        Ok(Self { delivery, reason: reason_or_default(query.take_any(&["reason", "error"])) })
    }
}

fn reason_or_default(reason: Cow<'_, str>) -> Cow<'_, str> {
    let reason = trim(reason);
    if reason.is_empty() { Cow::Borrowed(DEFAULT_NACK_REASON) } else { reason }
}

fn delivery_from_query<'a>(query: &mut Query<'a>) -> Result<Ack<'a>, Fault> {
    let (partition, offset) = (query.integer("partition")?, query.integer("offset")?);
    checked([query.take("topic"), query.take("group"), query.take("owner")], partition, offset)
}

fn checked(names: [Cow<'_, str>; 3], partition: Option<i64>, offset: Option<i64>) -> Result<Ack<'_>, Fault> {
    let [topic, group, owner] = names.map(trim);
    if topic.is_empty() || group.is_empty() || owner.is_empty() {
        return Err(Fault::invalid("topic, group and owner are required"));
    }
    let (Some(partition), Some(offset)) = (partition, offset) else {
        return Err(Fault::invalid("partition and offset are required"));
    };
    let (partition, offset) = (natural("partition", partition)?, natural("offset", offset)?);
    let partition = u32::try_from(partition).map_err(|_| Fault::invalid("partition out of range"))?;
    Ok(Ack { topic, group, owner, partition, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack() -> Ack<'static> {
        Ack { topic: "t".into(), group: "g".into(), owner: "o".into(), partition: 0, offset: 12 }
    }

    #[test]
    fn body_and_query() {
        let refused = |message: &str| Err(message.to_owned());
        for (body, query, expected) in [
            (
                r#"{"topic":" t","group":"g ","owner":"\to","partition":0,"offset":12}"#,
                "topic=t+&group=+g&owner=o%09&partition=0&offset=12",
                Ok(ack()),
            ),
            (
                r#"{"topic":"t","group":"g","partition":0,"offset":12}"#,
                "topic=t&group=g&owner=+&partition=0&offset=12",
                refused("topic, group and owner are required"),
            ),
            (
                r#"{"topic":"t","group":"g","owner":"o","offset":12}"#,
                "topic=t&group=g&owner=o&offset=12",
                refused("partition and offset are required"),
            ),
            (
                r#"{"topic":"t","group":"g","owner":"o","partition":0}"#,
                "topic=t&group=g&owner=o&partition=0&offset=",
                refused("partition and offset are required"),
            ),
            (
                r#"{"topic":"t","group":"g","owner":"o","partition":-1,"offset":12}"#,
                "topic=t&group=g&owner=o&partition=-1&offset=12",
                refused("partition cannot be negative"),
            ),
            (
                r#"{"topic":"t","group":"g","owner":"o","partition":0,"offset":-12}"#,
                "topic=t&group=g&owner=o&partition=0&offset=-12",
                refused("offset cannot be negative"),
            ),
            (
                r#"{"topic":"t","group":"g","owner":"o","partition":4294967296,"offset":12}"#,
                "topic=t&group=g&owner=o&partition=4294967296&offset=12",
                refused("partition out of range"),
            ),
        ] {
            let flat = |result: Result<_, Fault>| result.map_err(|fault| fault.message.into_owned());
            assert_eq!(flat(Ack::from_json(body.as_bytes())), expected, "{body}");
            assert_eq!(flat(Ack::from_query(Query::parse(query).unwrap())), expected, "{query}");
            let nack = expected.map(|delivery| Nack { delivery, reason: "nack".into() });
            assert_eq!(flat_nack(Nack::from_json(body.as_bytes())), nack, "{body}");
            assert_eq!(flat_nack(Nack::from_query(Query::parse(query).unwrap())), nack, "{query}");
        }
    }

    fn flat_nack(result: Result<Nack<'_>, Fault>) -> Result<Nack<'_>, String> {
        result.map_err(|fault| fault.message.into_owned())
    }

    #[test]
    fn reasons() {
        for (part, reason) in [
            ("", "nack"),
            ("&reason=", "nack"),
            ("&reason=+", "nack"),
            ("&reason=+boom+", "boom"),
            ("&error=boom", "boom"),
            ("&error=second&reason=first", "first"),
        ] {
            let raw = format!("topic=t&group=g&owner=o&partition=0&offset=12{part}");
            assert_eq!(Nack::from_query(Query::parse(&raw).unwrap()).unwrap().reason, reason, "{part}");
        }
        for (part, reason) in [(r#","reason":null"#, "nack"), (r#","reason":" boom ""#, "boom")] {
            let raw = format!(r#"{{"topic":"t","group":"g","owner":"o","partition":0,"offset":12{part}}}"#);
            assert_eq!(Nack::from_json(raw.as_bytes()).unwrap().reason, reason, "{part}");
        }
    }

    #[test]
    fn strictness() {
        let with =
            |part: &str| format!(r#"{{"topic":"t","group":"g","owner":"o","partition":0,"offset":1{part}}}"#);
        for part in [r#","reason":"r""#, r#","attempt":1"#] {
            let message = Ack::from_json(with(part).as_bytes()).unwrap_err().message;
            assert!(message.contains("unknown field"), "{message}");
        }
        let message = Nack::from_json(with(r#","error":"r""#).as_bytes()).unwrap_err().message;
        assert!(message.contains("unknown field `error`"), "{message}");
        let fault = Ack::from_query(Query::parse("topic=t&group=g&owner=o&partition=x&offset=1").unwrap());
        assert_eq!(fault.unwrap_err().message, "invalid partition: expected a whole number");
    }
}
