//! Moving a group, stopping it, and starting it again.

use std::fmt;

use crate::ToSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::envelope::PARTITION_MAX;
use super::limits::OFFSET_MAX;
use super::read::{self, number};
#[cfg(feature = "openapi")]
use super::shape;
use crate::fault::Fault;
use crate::moment::Moment;

/// `POST /v2/topics/{topic}/groups/{group}/seek`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// Where the group reads on.
    pub to: SeekTo,
    /// Only in this partition; in all of them if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, PARTITION_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 4095)]
    pub partition: Option<u32>,
}

/// A place to read on from: `"earliest"`, `"latest"`, `{"offset": 5}` or `{"time": "2025-12-21T12:00:00Z"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeekTo {
    /// The oldest message kept.
    Earliest,
    /// The next message that is produced.
    Latest,
    /// The first message at or after this offset.
    Offset(u64),
    /// The first message that was produced at or after this time.
    Time(Moment),
}

impl Seek {
    /// From a JSON body.
    pub fn from_json(body: &[u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// The places that are written as objects.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeekObject {
    #[serde(default, deserialize_with = "number::optional::<_, _, 0, OFFSET_MAX>")]
    offset: Option<u64>,
    #[serde(default)]
    time: Option<Moment>,
}

const PLACES: &str = "must be earliest, latest, an offset or a time";

impl<'de> Deserialize<'de> for SeekTo {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SeekToVisitor)
    }
}

struct SeekToVisitor;

impl<'de> Visitor<'de> for SeekToVisitor {
    type Value = SeekTo;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("earliest, latest, an offset or a time")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<SeekTo, E> {
        match word {
            "earliest" => Ok(SeekTo::Earliest),
            "latest" => Ok(SeekTo::Latest),
            _ => Err(E::custom(PLACES)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SeekTo, A::Error> {
        let place = SeekObject::deserialize(MapAccessDeserializer::new(map))?;
        match (place.offset, place.time) {
            (Some(offset), None) => Ok(SeekTo::Offset(offset)),
            (None, Some(time)) => Ok(SeekTo::Time(time)),
            _ => Err(A::Error::custom(PLACES)),
        }
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for SeekTo {
    fn schema() -> shape::Described {
        let offset =
            shape::number(0, OFFSET_MAX).description(Some("The first message at or after this offset."));
        let time = shape::reference::<Moment>("The first message that was produced at or after this time.");
        let places = [
            shape::words(&["earliest", "latest"]),
            shape::closed("offset", offset),
            shape::closed("time", time),
        ];
        shape::one_of(places, "A place to read on from.")
    }
}

#[cfg(feature = "openapi")]
impl ToSchema for SeekTo {
    fn schemas(schemas: &mut Vec<(String, shape::Described)>) {
        schemas.push((Moment::name().into_owned(), <Moment as utoipa::PartialSchema>::schema()));
    }
}

/// To a seek: where the group stands now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sought {
    /// The partitions that were moved, in order.
    pub partitions: Vec<SoughtPartition>,
}

/// Where a group stands in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SoughtPartition {
    /// The partition.
    pub partition: u32,
    /// The offset of the next message for the group, if one is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Messages kept and not yet acked.
    pub lag: u64,
}

/// To pause and resume of a topic or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Paused {
    /// Since when nothing is lent; `null` if messages flow.
    pub paused_at: Option<Moment>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let time = Moment::parse("2025-12-21T12:00:00Z").unwrap();
        for (body, to) in [
            (r#"{"to":"earliest"}"#, SeekTo::Earliest),
            (r#"{"to":"latest"}"#, SeekTo::Latest),
            (r#"{"to":{"offset":9223372036854775807}}"#, SeekTo::Offset(OFFSET_MAX)),
            (r#"{"to":{"time":"2025-12-21T12:00:00Z"}}"#, SeekTo::Time(time)),
        ] {
            let seek = Seek::from_json(body.as_bytes()).unwrap();
            assert_eq!(seek, Seek { to, partition: None });
            assert_eq!(serde_json::to_string(&seek).unwrap(), body);
        }
        assert_eq!(Seek::from_json(br#"{"to":"latest","partition":5}"#).unwrap().partition, Some(5));
        for (body, message) in [
            ("{}", "missing field `to`"),
            (r#"{"to":{"offset":-1}}"#, "to.offset: must be between 0 and 9223372036854775807"),
            (r#"{"to":"now"}"#, "to: must be earliest, latest, an offset or a time"),
            (r#"{"to":{}}"#, "to: must be earliest, latest, an offset or a time"),
            (r#"{"to":{"earliest":null}}"#, "to.earliest: unknown field, expected `offset` or `time`"),
            (r#"{"to":5}"#, "to: invalid type: integer `5`, expected earliest, latest, an offset or a time"),
            (r#"{"to":"latest","partition":4096}"#, "partition: must be between 0 and 4095"),
        ] {
            assert_eq!(Seek::from_json(body.as_bytes()).unwrap_err().message, message, "{body}");
        }
    }

    #[test]
    fn what_flows_says_so() {
        assert_eq!(serde_json::to_string(&Paused { paused_at: None }).unwrap(), r#"{"paused_at":null}"#);
    }
}
