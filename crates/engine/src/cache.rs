//! The newest bytes of the log, in memory.

use std::collections::VecDeque;

use bytes::Bytes;
use driftq_core::Position;

/// What one remembered stretch costs beside its bytes; keeps tiny batches from hiding their real price.
const STRETCH_OVERHEAD_BYTES: usize = 96;
/// A payload is cut out of its stretch by copying if the stretch is this many times larger: a reader that stalls
/// with it in hand then pins its own payload and not a whole batch.
const PIN_RATIO_MAX: usize = 4;

/// Stretches of the log in the order in which they were put in, the oldest dropped first.
pub(crate) struct Cache {
    stretches: VecDeque<Stretch>,
    bytes: usize,
    bytes_max: usize,
}

struct Stretch {
    base: Position,
    bytes: Bytes,
}

impl Stretch {
    const fn cost(&self) -> usize {
        self.bytes.len() + STRETCH_OVERHEAD_BYTES
    }

    /// The `length` bytes at `position`, if they lie in here.
    fn cut(&self, position: Position, length: usize) -> Option<Bytes> {
        let start = usize::try_from(position.0.checked_sub(self.base.0)?).ok()?;
        let end = start.checked_add(length)?;
        let bytes = self.bytes.get(start..end)?;
        if self.bytes.len() / PIN_RATIO_MAX > length {
            Some(Bytes::copy_from_slice(bytes))
        } else {
            Some(self.bytes.slice(start..end))
        }
    }
}

impl Cache {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { stretches: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Remembers a stretch, forgetting as many old ones as it needs room. One that is larger than the whole cache
    /// is not remembered.
    pub(crate) fn put(&mut self, base: Position, bytes: Bytes) {
        let stretch = Stretch { base, bytes };
        if stretch.cost() > self.bytes_max {
            return;
        }
        self.bytes += stretch.cost();
        self.stretches.push_back(stretch);
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.stretches.pop_front() else { break };
            self.bytes -= oldest.cost();
        }
    }

    /// The bytes at `position`, if stretches were put in rising order, as batches are.
    pub(crate) fn find_ordered(&self, position: Position, length: usize) -> Option<Bytes> {
        let after = self.stretches.partition_point(|stretch| stretch.base <= position);
        self.stretches.get(after.checked_sub(1)?)?.cut(position, length)
    }

    /// The bytes at `position`, however stretches were put in. Meant for few and large ones.
    pub(crate) fn find_any(&self, position: Position, length: usize) -> Option<Bytes> {
        self.stretches.iter().rev().find_map(|stretch| stretch.cut(position, length))
    }

    pub(crate) fn clear(&mut self) {
        self.stretches.clear();
        self.bytes = 0;
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_the_bound_holds() {
        let mut cache = Cache::new(3 * (10 + STRETCH_OVERHEAD_BYTES));
        for n in 0..5_u64 {
            cache.put(Position(n * 100), Bytes::from(vec![u8::try_from(n).unwrap(); 10]));
        }
        assert_eq!(cache.find_ordered(Position(100), 10), None);
        assert_eq!(cache.find_ordered(Position(203), 4), Some(Bytes::from(vec![2; 4])));
        assert_eq!(cache.find_ordered(Position(203), 8), None, "a stretch does not run on");
        assert_eq!(cache.find_any(Position(409), 1), Some(Bytes::from(vec![4; 1])));
        assert_eq!(cache.find_ordered(Position(50), 1), None);
        assert!(cache.bytes() <= 3 * (10 + STRETCH_OVERHEAD_BYTES));
        cache.put(Position(900), Bytes::from(vec![0; 10_000]));
        assert_eq!(cache.find_ordered(Position(900), 1), None, "larger than the cache");
        cache.clear();
        assert_eq!((cache.bytes(), cache.find_any(Position(400), 1)), (0, None));
    }
}
