//! How the holder of a ticket is found.

use std::hash::Hasher;

/// Tickets count up: they are their own hash.
#[derive(Default)]
pub(crate) struct TicketHasher(u64);

impl Hasher for TicketHasher {
    fn finish(&self) -> u64 {
        // The table takes its control bits from the top: spread the count over the whole word.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
