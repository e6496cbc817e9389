//! What goes between shards as bytes, and back.

use alloc::vec::Vec;

use crate::log::fact::Fact;
use crate::log::outbox::OutboxFact;
use crate::state::State;
use crate::state::outbox::record::{Arrivals, NUMBER_MAX, Outbox};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{ShardId, Time};
use crate::words::receipt::Stored;

impl Outbox {
    /// Whether nothing was ever sent or received.
    pub(crate) fn is_untouched(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.last);
        out.put_length(self.waiting.len());
        for parcel in self.waiting.values() {
            // When it was sent does not matter any more.
            Fact::Outbox(parcel.fact(Time(0))).encode(out);
        }
        out.put_length(self.arrivals.len());
        for (from, arrivals) in &self.arrivals {
            out.put_u8(from.0);
            out.put_u64(arrivals.below);
            out.put_length(arrivals.places.len());
            for (number, stored) in &arrivals.places {
                out.put_u64(*number);
                stored.encode(out);
            }
        }
    }
}

impl State {
    /// Reads what goes between shards; which of them this is must be known.
    pub(crate) fn take_outbox(&mut self, take: &mut Take<'_>) -> Result<(), Malformed> {
        let last = take.u64()?;
        for _ in 0..take.count(32)? {
            let fact = Fact::decode(take.bytes()?)?;
            let Fact::Outbox(sent @ OutboxFact::Sent { .. }) = fact else { return Err(take.malformed()) };
            self.on_outbox(&sent)?;
        }
        if last < self.outbox.last || last > NUMBER_MAX {
            return Err(take.malformed());
        }
        self.outbox.last = last;
        for _ in 0..take.count(13)? {
            let (from, below) = (ShardId(take.u8()?), take.u64()?);
            let mut arrivals = Arrivals { below, ..Arrivals::default() };
            for _ in 0..take.count(8 + Stored::BYTES)? {
                let (number, stored) = (take.u64()?, Stored::decode(take)?);
                let rises = arrivals.places.last_key_value().is_none_or(|(last, _)| *last < number);
                if number < below || !rises {
                    return Err(take.malformed());
                }
                arrivals.places.insert(number, stored);
            }
            let rises = self.outbox.arrivals.last_key_value().is_none_or(|(last, _)| *last < from);
            if !rises || !self.is_other(from) || arrivals == Arrivals::default() {
                return Err(take.malformed());
            }
            self.outbox.arrivals.insert(from, arrivals);
        }
        Ok(())
    }
}
