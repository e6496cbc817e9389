//! Looking through messages without a group.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::envelope::PARTITION_MAX;
use super::item::Item;
use super::labels::Labels;
use super::limits::{IDENTITY_BYTES_MAX, KEY_BYTES_MAX, OFFSET_MAX};
use super::page::{LIMIT_DEFAULT, LIMIT_MAX};
use super::parameters::Parameters;
use super::state::DeliveryState;
use crate::fault::Fault;
use crate::query::Query;

/// A place in a topic, and as a cursor the last message of the page before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
}

/// Digits of a position's cursor: four bytes of partition, eight of offset.
const CURSOR_DIGITS: usize = 24;

impl Position {
    /// The cursor of the page after the one that ends here. Opaque to clients, so that its content can change.
    #[must_use]
    pub fn cursor(self) -> String {
        format!("{:08x}{:016x}", self.partition, self.offset)
    }

    /// The position of a cursor.
    pub fn from_cursor(cursor: &str) -> Result<Self, Fault> {
        let is_ours = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if cursor.len() != CURSOR_DIGITS || !cursor.bytes().all(is_ours) {
            return Err(Fault::invalid("cursor: must be the cursor of the page before, unchanged"));
        }
        let (partition, offset) = cursor.split_at(8);
        match (u32::from_str_radix(partition, 16), u64::from_str_radix(offset, 16)) {
            (Ok(partition), Ok(offset)) => Ok(Self { partition, offset }),
            _ => Err(Fault::invalid("cursor: must be the cursor of the page before, unchanged")),
        }
    }
}

/// `limit` and `cursor` of a list of messages.
pub(super) fn page(parameters: &mut Parameters<'_>) -> Result<(usize, Option<Position>), Fault> {
    let limit = parameters.number("limit", 1, LIMIT_MAX as u64)?.unwrap_or(LIMIT_DEFAULT);
    let cursor = parameters.text("cursor", 1, CURSOR_DIGITS)?;
    Ok((limit, cursor.map(|cursor| Position::from_cursor(&cursor)).transpose()?))
}

/// `GET /v2/topics/{topic}/messages`: which messages. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BrowseQuery<'a> {
    /// Only of this partition.
    pub partition: Option<u32>,
    /// Only from this offset on.
    pub from: Option<u64>,
    /// Only with this key.
    pub key: Option<Cow<'a, str>>,
    /// Only of this run.
    pub run_id: Option<Cow<'a, str>>,
    /// Only of this tenant.
    pub tenant_id: Option<Cow<'a, str>>,
    /// Only with this idempotency key.
    pub idempotency_key: Option<Cow<'a, str>>,
    /// Only with all of these labels.
    pub labels: Labels<'a>,
    /// Only in this state with at least one group.
    pub state: Option<DeliveryState>,
    /// Most messages on the page.
    pub limit: usize,
    /// Only after this one.
    pub after: Option<Position>,
}

impl<'a> BrowseQuery<'a> {
    /// From the query of the URL.
    pub fn from_query(query: Query<'a>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let browse = Self {
            partition: parameters.number("partition", 0, PARTITION_MAX)?,
            from: parameters.number("from", 0, OFFSET_MAX)?,
            key: parameters.text("key", 1, KEY_BYTES_MAX)?,
            run_id: parameters.text("run_id", 1, IDENTITY_BYTES_MAX)?,
            tenant_id: parameters.text("tenant_id", 1, IDENTITY_BYTES_MAX)?,
            idempotency_key: parameters.text("idempotency_key", 1, IDENTITY_BYTES_MAX)?,
            labels: parameters.labels()?,
            state: parameters.word("state", &DeliveryState::WORDS)?,
            limit: LIMIT_DEFAULT,
            after: None,
        };
        let (limit, after) = page(&mut parameters)?;
        parameters.finish()?;
        Ok(Self { limit, after, ..browse })
    }
}

/// To `GET /v2/topics/{topic}/messages`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Browsed<'a> {
    /// Messages by partition and offset, without leases.
    pub messages: Vec<Item<'a>>,
    /// Cursor of the next page, if there may be one. A page can be empty and have a next one: the server looks at
    /// a bounded number of messages per call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Messages that were looked at.
    pub scanned: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browse(raw: &str) -> Result<BrowseQuery<'_>, String> {
        BrowseQuery::from_query(Query::parse(raw).unwrap()).map_err(|fault| fault.message.into_owned())
    }

    #[test]
    fn every_condition() {
        let empty = BrowseQuery { limit: LIMIT_DEFAULT, ..BrowseQuery::default() };
        assert_eq!(browse("").unwrap(), empty);
        let cursor = Position { partition: 3, offset: 9 }.cursor();
        let raw = format!(
            "partition=4095&from=7&key=k&run_id=r&tenant_id=t&idempotency_key=i&label.b=2&label.a=1&state=backoff\
             &limit=1000&cursor={cursor}"
        );
        let expected = BrowseQuery {
            partition: Some(4095),
            from: Some(7),
            key: Some("k".into()),
            run_id: Some("r".into()),
            tenant_id: Some("t".into()),
            idempotency_key: Some("i".into()),
            labels: Labels::new(vec![("a".into(), "1".into()), ("b".into(), "2".into())]).unwrap(),
            state: Some(DeliveryState::Backoff),
            limit: 1000,
            after: Some(Position { partition: 3, offset: 9 }),
        };
        assert_eq!(browse(&raw).unwrap(), expected);
    }

    #[test]
    fn refusals() {
        let cursor = "cursor: must be the cursor of the page before, unchanged";
        for (raw, message) in [
            ("partition=4096", "partition: must be a whole number between 0 and 4095"),
            ("from=-1", "from: must be a whole number between 0 and 9223372036854775807"),
            ("key=", "key: must have 1 to 4096 bytes, has 0"),
            ("label.=1", "label: a label's name must have 1 to 128 bytes, has 0"),
            ("label.a=1&label.a=2", "label: label \"a\" is given twice"),
            ("limit=0", "limit: must be a whole number between 1 and 1000"),
            ("limit=1001", "limit: must be a whole number between 1 and 1000"),
            ("cursor=00000000000000000000000g", cursor),
            ("cursor=0", cursor),
            ("cursor=00000000000000000000000F", cursor),
        ] {
            assert_eq!(browse(raw).unwrap_err(), message, "{raw}");
        }
        assert!(
            browse("state=lost").unwrap_err().starts_with("state: must be ready, scheduled, in_flight, ")
        );
        assert!(
            browse("stat=ready").unwrap_err().starts_with("stat: unknown parameter, expected partition, ")
        );
    }

    #[test]
    fn cursors_round_trip() {
        for (partition, offset) in [(0, 0), (1, 2), (u32::MAX, u64::MAX)] {
            let position = Position { partition, offset };
            assert_eq!(Position::from_cursor(&position.cursor()), Ok(position));
        }
    }
}
