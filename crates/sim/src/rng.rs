//! Numbers that depend on the seed alone.

/// SplitMix64: small, fast, and good enough to choose what goes wrong next.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True `part` times out of `whole`.
    pub const fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// One of the things, at random.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        let index = self.below(things.len() as u64);
        &things[usize::try_from(index).expect("an index fits")]
    }

    /// Takes one of the things out, at random.
    pub fn take<T>(&mut self, things: &mut Vec<T>) -> Option<T> {
        if things.is_empty() {
            return None;
        }
        let index = self.below(things.len() as u64);
        Some(things.swap_remove(usize::try_from(index).expect("an index fits")))
    }
}
