//! What a topic was told about itself: settings that override the shard's.

use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take};
use crate::words::policy::RetryPolicy;

/// In which order a group gets the fresh messages of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// By offset; priorities are kept and shown, and change nothing.
    Fifo,
    /// By priority, then by offset. Without priorities this is by offset.
    #[default]
    Priority,
    /// By offset, one message of a key at a time: the next one waits until a group is done with the one before.
    Key,
}

/// Settings of one topic; what is not set is as the shard's [`crate::Settings`] say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TopicSettings {
    /// Messages older than this are dropped, read or not.
    pub retention_ms: Option<u64>,
    /// The oldest messages beyond this many payload bytes per partition are dropped.
    pub retention_bytes: Option<u64>,
    /// Messages that wait for some group, per partition.
    pub messages_max: Option<u64>,
    /// Key and value bytes that wait for some group, per partition.
    pub bytes_max: Option<u64>,
    /// For messages that come without a policy of their own.
    pub retry: Option<RetryPolicy>,
    /// For readers that do not say for how long they borrow.
    pub lease_ms: Option<u64>,
    /// Unacked deliveries at once per group and partition, for every kind of reader.
    pub in_flight_max: Option<u32>,
    /// In which order fresh messages go out.
    pub order: Order,
    /// Of a hundred deliveries, how many may be retries while fresh messages wait.
    pub retry_share: Option<u8>,
    /// What every group is done with stays until it is older than this.
    pub keep_ms: Option<u64>,
    /// What every group is done with stays until there are more key and value bytes of it than this, per partition.
    pub keep_bytes: Option<u64>,
}

/// A change of settings: what is `None` stays, `Some(None)` goes back to the shard's own.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TopicPatch {
    /// See [`TopicSettings::retention_ms`].
    pub retention_ms: Option<Option<u64>>,
    /// See [`TopicSettings::retention_bytes`].
    pub retention_bytes: Option<Option<u64>>,
    /// See [`TopicSettings::messages_max`].
    pub messages_max: Option<Option<u64>>,
    /// See [`TopicSettings::bytes_max`].
    pub bytes_max: Option<Option<u64>>,
    /// See [`TopicSettings::retry`].
    pub retry: Option<Option<RetryPolicy>>,
    /// See [`TopicSettings::lease_ms`].
    pub lease_ms: Option<Option<u64>>,
    /// See [`TopicSettings::in_flight_max`].
    pub in_flight_max: Option<Option<u32>>,
    /// See [`TopicSettings::order`].
    pub order: Option<Order>,
    /// See [`TopicSettings::retry_share`].
    pub retry_share: Option<Option<u8>>,
    /// See [`TopicSettings::keep_ms`].
    pub keep_ms: Option<Option<u64>>,
    /// See [`TopicSettings::keep_bytes`].
    pub keep_bytes: Option<Option<u64>>,
}

impl TopicSettings {
    /// The settings after a change.
    #[must_use]
    pub fn patched(&self, patch: &TopicPatch) -> Self {
        Self {
            retention_ms: patch.retention_ms.unwrap_or(self.retention_ms),
            retention_bytes: patch.retention_bytes.unwrap_or(self.retention_bytes),
            messages_max: patch.messages_max.unwrap_or(self.messages_max),
            bytes_max: patch.bytes_max.unwrap_or(self.bytes_max),
            retry: patch.retry.unwrap_or(self.retry),
            lease_ms: patch.lease_ms.unwrap_or(self.lease_ms),
            in_flight_max: patch.in_flight_max.unwrap_or(self.in_flight_max),
            order: patch.order.unwrap_or(self.order),
            retry_share: patch.retry_share.unwrap_or(self.retry_share),
            keep_ms: patch.keep_ms.unwrap_or(self.keep_ms),
            keep_bytes: patch.keep_bytes.unwrap_or(self.keep_bytes),
        }
    }

    /// Whether anything stays that every group is done with.
    pub(crate) const fn keeps(&self) -> bool {
        self.keep_ms.is_some() || self.keep_bytes.is_some()
    }

    /// Why these settings make no sense, if they do not.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let zero = |value: Option<u64>| value == Some(0);
        if zero(self.messages_max) || zero(self.bytes_max) {
            return Some("partition_messages_max and partition_bytes_max must be at least 1");
        }
        if zero(self.retention_ms) || zero(self.retention_bytes) {
            return Some("retention_ms and retention_bytes must be at least 1");
        }
        if zero(self.keep_ms) || zero(self.keep_bytes) {
            return Some("keep_ms and keep_bytes must be at least 1");
        }
        if self.in_flight_max == Some(0) {
            return Some("max_in_flight must be at least 1; pause the topic to stop deliveries");
        }
        if zero(self.lease_ms) {
            return Some("lease_ms must be at least 1");
        }
        match self.retry_share {
            Some(0 | 101..) => Some("retry_share_percent must be between 1 and 100"),
            _ => None,
        }
    }

    /// The first setting in which two differ, by its name on the wire.
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            (self.retention_ms != other.retention_ms, "retention_ms"),
            (self.retention_bytes != other.retention_bytes, "retention_bytes"),
            (self.messages_max != other.messages_max, "partition_messages_max"),
            (self.bytes_max != other.bytes_max, "partition_bytes_max"),
            (self.retry != other.retry, "retry_policy"),
            (self.lease_ms != other.lease_ms, "lease_ms"),
            (self.in_flight_max != other.in_flight_max, "max_in_flight"),
            (self.order != other.order, "ordering"),
            (self.retry_share != other.retry_share, "retry_share_percent"),
            (self.keep_ms != other.keep_ms, "keep_ms"),
            (self.keep_bytes != other.keep_bytes, "keep_bytes"),
        ]
        .into_iter()
        .find_map(|(differs, name)| differs.then_some(name))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [
            self.retention_ms,
            self.retention_bytes,
            self.messages_max,
            self.bytes_max,
            self.lease_ms,
            self.in_flight_max.map(u64::from),
            self.retry_share.map(u64::from),
        ];
        let mut given = 0_u16;
        for (bit, number) in numbers.iter().enumerate() {
            given |= u16::from(number.is_some()) << bit;
        }
        given |= u16::from(self.retry.is_some()) << 7;
        given |= u16::from(self.retry.is_some_and(RetryPolicy::has_jitter)) << 8;
        given |= u16::from(self.keep_ms.is_some()) << 9;
        given |= u16::from(self.keep_bytes.is_some()) << 10;
        out.put_u16(given);
        for number in numbers.into_iter().flatten() {
            out.put_u64(number);
        }
        if let Some(retry) = self.retry {
            retry.encode(out);
            retry.encode_jitter(out);
        }
        out.put_u8(match self.order {
            Order::Priority => 0,
            Order::Fifo => 1,
            Order::Key => 2,
        });
        for number in [self.keep_ms, self.keep_bytes].into_iter().flatten() {
            out.put_u64(number);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let given = take.u16()?;
        let mut number = |bit: u16| (given >> bit & 1 != 0).then(|| take.u64()).transpose();
        let (retention_ms, retention_bytes) = (number(0)?, number(1)?);
        let (messages_max, bytes_max, lease_ms) = (number(2)?, number(3)?, number(4)?);
        let (in_flight_max, retry_share) = (number(5)?, number(6)?);
        let fits = |number: Option<u64>| number.map(u32::try_from).transpose().map_err(|_| take.malformed());
        let in_flight_max = fits(in_flight_max)?;
        let retry_share = retry_share.map(u8::try_from).transpose().map_err(|_| take.malformed())?;
        let has_retry = given >> 7 & 1 != 0;
        let retry = has_retry.then(|| RetryPolicy::decode(take, given >> 8 & 1 != 0)).transpose()?;
        let order = match take.u8()? {
            0 => Order::Priority,
            1 => Order::Fifo,
            2 => Order::Key,
            _ => return Err(take.malformed()),
        };
        let mut number = |bit: u16| (given >> bit & 1 != 0).then(|| take.u64()).transpose();
        let (keep_ms, keep_bytes) = (number(9)?, number(10)?);
        Ok(Self {
            retention_ms,
            retention_bytes,
            messages_max,
            bytes_max,
            retry,
            lease_ms,
            in_flight_max,
            order,
            retry_share,
            keep_ms,
            keep_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::policy::Jitter;

    fn full() -> TopicSettings {
        TopicSettings {
            retention_ms: Some(1),
            retention_bytes: Some(2),
            messages_max: Some(3),
            bytes_max: Some(4),
            retry: Some(RetryPolicy { max_attempts: 5, jitter: Jitter::None, ..RetryPolicy::default() }),
            lease_ms: Some(6),
            in_flight_max: Some(7),
            order: Order::Key,
            retry_share: Some(8),
            keep_ms: Some(9),
            keep_bytes: Some(10),
        }
    }

    #[test]
    fn settings_come_back_as_they_were_written() {
        for settings in [full(), TopicSettings::default(), TopicSettings { order: Order::Fifo, ..full() }] {
            let mut bytes = Vec::new();
            settings.encode(&mut bytes);
            let mut take = Take::new(&bytes, "settings");
            assert_eq!(TopicSettings::decode(&mut take), Ok(settings));
            assert_eq!(take.done(), Ok(()));
        }
    }

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_else() {
        let patch = TopicPatch {
            lease_ms: Some(None),
            in_flight_max: Some(Some(70)),
            order: Some(Order::Fifo),
            ..TopicPatch::default()
        };
        let expected =
            TopicSettings { lease_ms: None, in_flight_max: Some(70), order: Order::Fifo, ..full() };
        assert_eq!(full().patched(&patch), expected);
        assert_eq!(full().patched(&TopicPatch::default()), full());
        assert_eq!(full().difference(&expected), Some("lease_ms"));
        assert_eq!(full().difference(&full()), None);
    }
}
