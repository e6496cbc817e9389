//! Who is killed, and where: chosen by the seed alone, before anything runs.

use std::collections::VecDeque;

/// Kills of one order. Each costs the time of a lease, one after the other.
pub(super) const KILLS_PER_ORDER_MAX: u32 = 3;

/// Where a worker is when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// The provider has not heard of the charge.
    BeforeCharge,
    /// The provider has charged, and its answer never arrives.
    AfterCharge,
    /// Everything is done but the ack.
    BeforeAck,
}

/// The kills of every order, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) kills: Vec<VecDeque<Point>>,
}

impl Plan {
    pub(super) fn new(seed: u64, orders: u32, kills: u32) -> Self {
        let mut chance = Chance(seed);
        let mut plan = Self { kills: vec![VecDeque::new(); orders as usize] };
        let mut free: Vec<usize> = (0..plan.kills.len()).collect();
        for _ in 0..kills {
            if free.is_empty() {
                break;
            }
            let place = chance.below(free.len());
            let order = free[place];
            plan.kills[order].push_back(chance.point());
            if plan.kills[order].len() == KILLS_PER_ORDER_MAX as usize {
                free.swap_remove(place);
            }
        }
        plan
    }
}

/// Numbers from a seed (SplitMix64).
pub(super) struct Chance(u64);

impl Chance {
    #[cfg(feature = "connect")]
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) const fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Most of them right after the charge: that is where it hurts.
    const fn point(&mut self) -> Point {
        match self.below(10) {
            0..2 => Point::BeforeCharge,
            2..7 => Point::AfterCharge,
            _ => Point::BeforeAck,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_choice() {
        assert_eq!(Plan::new(7, 30, 20), Plan::new(7, 30, 20));
        assert_ne!(Plan::new(7, 30, 20), Plan::new(8, 30, 20));
    }

    #[test]
    fn as_many_as_asked_and_no_order_too_often() {
        for (orders, kills) in [(30, 20), (1, 3), (10, 30), (5, 0)] {
            let plan = Plan::new(1, orders, kills);
            let total: usize = plan.kills.iter().map(VecDeque::len).sum();
            assert_eq!(total, kills as usize);
            assert!(plan.kills.iter().all(|kills| kills.len() <= KILLS_PER_ORDER_MAX as usize));
        }
    }

    #[test]
    fn every_point_is_hit() {
        let plan = Plan::new(1, 100, 100);
        for point in [Point::BeforeCharge, Point::AfterCharge, Point::BeforeAck] {
            assert!(plan.kills.iter().flatten().any(|found| *found == point), "{point:?}");
        }
    }
}
