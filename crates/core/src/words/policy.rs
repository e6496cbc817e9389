//! How often and when a failed message is tried again, as producers and topics say it.

use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take};

/// The longest wait between two attempts, whatever a policy says.
pub(crate) const BACKOFF_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// How often and when a failed message is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct RetryPolicy {
    /// Deliveries before it becomes a dead letter; 0 means no limit.
    pub max_attempts: u32,
    /// Wait before the first retry; doubles with each one.
    pub backoff_ms: u64,
    /// The wait never exceeds this; 0 means no limit of its own.
    pub max_backoff_ms: u64,
    /// How much of a wait chance takes away.
    pub jitter: Jitter,
}

/// How much of a wait chance takes away, so that what failed together does not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub enum Jitter {
    /// Up to half of it: what `/v1` does.
    #[default]
    Half,
    /// Any part of it: the best spread.
    Full,
    /// Nothing.
    None,
}

impl RetryPolicy {
    /// Whether the jitter has to be written: the first kind of it never was.
    pub(crate) fn has_jitter(self) -> bool {
        self.jitter != Jitter::Half
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.put_u32(self.max_attempts);
        out.put_u64(self.backoff_ms);
        out.put_u64(self.max_backoff_ms);
    }

    /// Follows [`RetryPolicy::encode`] wherever [`RetryPolicy::has_jitter`] is noted beside it.
    pub(crate) fn encode_jitter(self, out: &mut Vec<u8>) {
        match self.jitter {
            Jitter::Half => {}
            Jitter::Full => out.put_u8(1),
            Jitter::None => out.put_u8(2),
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>, has_jitter: bool) -> Result<Self, Malformed> {
        let (max_attempts, backoff_ms, max_backoff_ms) = (take.u32()?, take.u64()?, take.u64()?);
        let jitter = match has_jitter.then(|| take.u8()).transpose()? {
            None => Jitter::Half,
            Some(1) => Jitter::Full,
            Some(2) => Jitter::None,
            Some(_) => return Err(take.malformed()),
        };
        Ok(Self { max_attempts, backoff_ms, max_backoff_ms, jitter })
    }
}
