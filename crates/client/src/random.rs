//! Randomness: unique names, and waits that differ between processes.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of numbers for the lengths of waits. They need not be secret, and no decision depends on them.
#[derive(Debug)]
pub(crate) struct Jitter(AtomicU64);

impl Default for Jitter {
    fn default() -> Self {
        // Without randomness from the system the waits are the same in every process, which is the only harm.
        Self(AtomicU64::new(getrandom::u64().unwrap_or(0x9e37_79b9_7f4a_7c15)))
    }
}

impl Jitter {
    /// A number from `low` up to, but not including, `high`.
    pub(crate) fn between(&self, low: f64, high: f64) -> f64 {
        // A step of splitmix64.
        let mut number = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^= number >> 31;
        low + (high - low) * ((number >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// `bytes` random bytes in hex.
///
/// A name that is not unique would make one operation pass for another, so this waits for the system's randomness, and
/// fails if the system has none.
pub(crate) fn name(bytes: usize) -> Result<String, crate::Error> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|error| {
        crate::Error::Invalid(format!(
            "the system has no randomness ({error}); without it no call has a name"
        ))
    })?;
    Ok(hex(&random))
}

/// In lowercase hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_range_and_names_differ() {
        let jitter = Jitter::default();
        for _ in 0..1000 {
            let number = jitter.between(0.5, 1.0);
            assert!((0.5..1.0).contains(&number), "{number}");
        }
        let (one, other) = (name(16).unwrap(), name(16).unwrap());
        assert!(one.len() == 32 && one != other);
        assert_eq!(hex(&[0, 15, 255]), "000fff");
    }
}
