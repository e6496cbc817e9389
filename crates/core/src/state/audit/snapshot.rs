//! The audit as bytes, and back.

use alloc::vec::Vec;

use crate::state::audit::record::{Audit, Kept, SEQUENCE_MAX};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::Time;

/// The least bytes that an entry takes: its time, and the length of its texts.
const ENTRY_BYTES_LEAST: usize = 12;

impl Audit {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.next);
        out.put_length(self.entries.len());
        for kept in &self.entries {
            out.put_u64(kept.at.0);
            out.put_bytes(&kept.words);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let mut audit = Self { next: take.u64()?, ..Self::default() };
        let count = take.count(ENTRY_BYTES_LEAST)?;
        // The first entry has the number 1.
        if audit.next == 0 || audit.next > SEQUENCE_MAX || count as u64 >= audit.next {
            return Err(take.malformed());
        }
        for _ in 0..count {
            let at = Time(take.u64()?);
            audit.push(Kept::read(at, take.bytes()?)?);
        }
        Ok(audit)
    }
}
