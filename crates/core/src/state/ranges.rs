//! A set of numbers kept as ranges: one entry however many neighbours are in it.

use alloc::collections::BTreeMap;

/// Numbers, as disjoint ranges that never touch: start → end (exclusive).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    /// The range that holds `number`, if any.
    fn around(&self, number: u64) -> Option<(u64, u64)> {
        let (&start, &end) = self.ranges.range(..=number).next_back()?;
        (number < end).then_some((start, end))
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.around(number).is_some()
    }

    /// First number at or after `number` that is not in the set.
    pub(crate) fn next_gap(&self, number: u64) -> u64 {
        self.around(number).map_or(number, |(_, end)| end)
    }

    /// Adds a number that is not in the set yet.
    pub(crate) fn insert(&mut self, number: u64) {
        debug_assert!(!self.contains(number), "callers settle a message once");
        let end = self.ranges.remove(&(number + 1)).unwrap_or(number + 1);
        if let Some((_, previous_end)) = self.ranges.range_mut(..number).next_back()
            && *previous_end == number
        {
            *previous_end = end;
            return;
        }
        self.ranges.insert(number, end);
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Drops the lowest range; false if there is none.
    pub(crate) fn pop_first(&mut self) -> bool {
        self.ranges.pop_first().is_some()
    }

    /// Takes the range that starts at `floor` out of the set and returns its end.
    pub(crate) fn take_from(&mut self, floor: u64) -> Option<u64> {
        self.ranges.remove(&floor)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.ranges.iter().map(|(&start, &end)| (start, end))
    }

    /// Adds a whole range above everything that is in the set, as a snapshot lists them. False if it is not.
    pub(crate) fn push_back(&mut self, start: u64, end: u64) -> bool {
        let fits = start < end && self.ranges.last_key_value().is_none_or(|(_, &last)| last < start);
        if fits {
            self.ranges.insert(start, end);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    #[test]
    fn neighbours_merge() {
        let mut set = Ranges::default();
        for number in [5, 7, 6, 1, 2] {
            set.insert(number);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [(1, 3), (5, 8)]);
        assert_eq!((set.next_gap(1), set.next_gap(3), set.next_gap(6)), (3, 3, 8));
        assert_eq!(set.take_from(1), Some(3));
        assert_eq!(set.take_from(6), None);
        assert!(set.push_back(9, 12) && !set.push_back(12, 13) && !set.push_back(20, 20));
    }

    #[test]
    fn it_is_a_set() {
        let mut state = 1_u64;
        let (mut set, mut model) = (Ranges::default(), BTreeSet::new());
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = state >> 55;
            if model.insert(number) {
                set.insert(number);
            }
            for probe in [number.saturating_sub(1), number, number + 1] {
                assert_eq!(set.contains(probe), model.contains(&probe));
            }
        }
        let listed: Vec<u64> = set.iter().flat_map(|(start, end)| start..end).collect();
        assert_eq!(listed, model.into_iter().collect::<Vec<_>>());
    }
}
