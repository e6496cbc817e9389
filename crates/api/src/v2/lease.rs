//! Borrowing messages: one call, or a stream.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::item::Item;
use super::limits::{
    CREDIT_DEFAULT, CREDIT_MAX, LEASE_MESSAGES_MAX, LEASE_MS_MAX, NAME_BYTES_MAX, REQUEST_ID_BYTES_MAX,
    WAIT_MS_MAX,
};
use super::parameters::Parameters;
use super::read::{self, number, text};
use crate::fault::Fault;
use crate::query::Query;

/// `POST /v2/topics/{topic}/groups/{group}/lease`: borrow messages, waiting for them if there are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest<'a> {
    /// Who borrows.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub owner: Cow<'a, str>,
    /// Most messages; 1 if not given.
    #[serde(default = "one", deserialize_with = "number::or::<_, _, 1, LEASE_MESSAGES_MAX, 1>")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    pub max: u32,
    /// How long to wait while there are none; 0 if not given.
    #[serde(default, deserialize_with = "number::or::<_, _, 0, WAIT_MS_MAX, 0>")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 60_000)]
    pub wait_ms: u64,
    /// How long each message is on loan; the topic's lease if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, LEASE_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 604_800_000)]
    pub lease_ms: Option<u64>,
    /// Names this call: the same name again answers with the same messages, so that a lost answer loses nothing.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, REQUEST_ID_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 128)]
    pub request_id: Option<Cow<'a, str>>,
}

const fn one() -> u32 {
    1
}

impl<'a> LeaseRequest<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To a lease call: what is borrowed, or nothing after the wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Leased<'a> {
    /// The messages, each with its lease.
    pub messages: Vec<Item<'a>>,
}

/// How the JSON of a [`Leased`] ends.
const LEASED_END: &[u8] = b"]}";

/// Writes a [`Leased`] item by item, without keeping the items.
#[derive(Clone, Debug)]
pub struct LeasedWriter {
    out: Vec<u8>,
    is_first: bool,
}

impl LeasedWriter {
    /// Begins with room for `bytes`.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(br#"{"messages":["#);
        Self { out, is_first: true }
    }

    /// The next message.
    pub fn push(&mut self, item: &Item<'_>) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        item.write(&mut self.out);
    }

    /// Bytes of the whole body, if it ended here.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.out.len() + LEASED_END.len()
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Takes the newest messages back, so that the body has as many bytes as it had before them.
    pub fn cut(&mut self, bytes: usize) {
        self.out.truncate(bytes.saturating_sub(LEASED_END.len()));
    }

    /// The whole body.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(LEASED_END);
        self.out
    }
}

/// `GET /v2/topics/{topic}/groups/{group}/stream`: borrow messages for as long as the connection lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamQuery<'a> {
    /// Who borrows.
    pub owner: Cow<'a, str>,
    /// Most messages that are on loan through this stream at a time.
    pub credit: u32,
    /// How long each message is on loan; the topic's lease if not given.
    pub lease_ms: Option<u64>,
}

impl<'a> StreamQuery<'a> {
    /// From the query of the URL.
    pub fn from_query(query: Query<'a>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let stream = Self {
            owner: parameters
                .text("owner", 1, NAME_BYTES_MAX)?
                .ok_or_else(|| Fault::invalid("owner: must be given"))?,
            credit: parameters.number("credit", 1, CREDIT_MAX)?.unwrap_or(CREDIT_DEFAULT),
            lease_ms: parameters.number("lease_ms", 1, LEASE_MS_MAX)?,
        };
        parameters.finish()?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(raw: &str) -> Result<StreamQuery<'_>, String> {
        StreamQuery::from_query(Query::parse(raw).unwrap()).map_err(|fault| fault.message.into_owned())
    }

    #[test]
    fn defaults_and_round_trip() {
        let request = LeaseRequest::from_json(br#"{"owner":"w"}"#).unwrap();
        let expected =
            LeaseRequest { owner: "w".into(), max: 1, wait_ms: 0, lease_ms: None, request_id: None };
        assert_eq!(request, expected);
        let nulls = br#"{"owner":"w","max":null,"wait_ms":null,"lease_ms":null,"request_id":null}"#;
        assert_eq!(LeaseRequest::from_json(nulls).unwrap(), expected);
        let full = LeaseRequest {
            max: 1000,
            wait_ms: 60_000,
            lease_ms: Some(LEASE_MS_MAX),
            request_id: Some("r".into()),
            ..expected
        };
        let text = serde_json::to_vec(&full).unwrap();
        assert_eq!(LeaseRequest::from_json(&text).unwrap(), full);
    }

    #[test]
    fn the_query_of_a_stream() {
        let plain = StreamQuery { owner: "w".into(), credit: 32, lease_ms: None };
        for (raw, expected) in [
            ("owner=w", Ok(plain.clone())),
            (
                "owner=w&credit=10000&lease_ms=5",
                Ok(StreamQuery { credit: 10_000, lease_ms: Some(5), ..plain }),
            ),
            ("", Err("owner: must be given")),
            ("owner=", Err("owner: must have 1 to 255 bytes, has 0")),
            ("owner=w&credit=0", Err("credit: must be a whole number between 1 and 10000")),
            ("owner=w&credit=10001", Err("credit: must be a whole number between 1 and 10000")),
            ("owner=w&credit=", Err("credit: must be a whole number between 1 and 10000")),
            ("owner=w&credit=%2B5", Err("credit: must be a whole number between 1 and 10000")),
            ("owner=w&lease_ms=604800001", Err("lease_ms: must be a whole number between 1 and 604800000")),
            ("owner=w&owner=v", Err("owner: is given twice")),
            ("owner=w&max=1", Err("max: unknown parameter, expected owner, credit or lease_ms")),
        ] {
            assert_eq!(stream(raw), expected.map_err(str::to_owned), "{raw}");
        }
    }

    #[test]
    fn written_item_by_item() {
        let item: Item<'_> = serde_json::from_str(
            r#"{"topic":"t","partition":0,"offset":1,"value":"v","priority":0,"produced_at":"2025-12-21T12:00:00Z"}"#,
        )
        .unwrap();
        for count in 0..3 {
            let mut writer = LeasedWriter::with_capacity(0);
            let leased = Leased { messages: vec![item.clone(); count] };
            leased.messages.iter().for_each(|item| writer.push(item));
            assert_eq!(writer.finish(), serde_json::to_vec(&leased).unwrap());
        }
    }
}
