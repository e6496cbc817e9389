//! When a failed message is tried again, and the table of the policies in use.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::words::policy::{Jitter, RetryPolicy};

/// The longest wait between two attempts, whatever a policy says.
pub(crate) const BACKOFF_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The longest wait that a worker may ask for: a year.
pub(crate) const DELAY_MS_MAX: u64 = 365 * BACKOFF_MS_MAX;
/// Without a policy a nacked message comes back at once, but from the second failure on it waits: first this…
const NACK_LOOP_MS: u64 = 10;
/// …doubling up to this, so that a handler that always fails does not spin.
const NACK_LOOP_MS_MAX: u64 = 1000;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The worker said so.
    Nacked,
    /// The lease lapsed.
    Lapsed,
}

/// Milliseconds until the next attempt, after `attempts` deliveries. `dice` is any number; it is the jitter.
///
/// The n-th retry waits `min(max_backoff, backoff · 2^(n-1))`, of which the jitter takes away its part.
pub(crate) fn wait_ms(policy: RetryPolicy, attempts: u32, ending: Ending, dice: u64) -> u64 {
    let doublings = |from: u32| attempts.saturating_sub(from).min(40);
    if policy.backoff_ms == 0 {
        return match ending {
            Ending::Nacked if attempts > 1 => (NACK_LOOP_MS << doublings(2)).min(NACK_LOOP_MS_MAX),
            Ending::Nacked | Ending::Lapsed => 0,
        };
    }
    let ceiling = if policy.max_backoff_ms == 0 { BACKOFF_MS_MAX } else { policy.max_backoff_ms };
    let wait = policy.backoff_ms.saturating_mul(1 << doublings(1)).min(ceiling).min(BACKOFF_MS_MAX);
    match policy.jitter {
        Jitter::Half => wait - scramble(dice) % (wait / 2 + 1),
        Jitter::Full => scramble(dice) % (wait + 1),
        Jitter::None => wait,
    }
}

/// Turns neighbouring numbers into unrelated ones (SplitMix64's finaliser).
pub(crate) const fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Every distinct policy of the messages kept, once. Number 0 is "no policy".
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    numbers: BTreeMap<RetryPolicy, u16>,
    /// Policy and how many messages use it; number n lies at n - 1.
    table: Vec<(RetryPolicy, u64)>,
    free: Vec<u16>,
}

impl Policies {
    /// Distinct policies that can be in use at once.
    pub(crate) const MAX: usize = u16::MAX as usize - 1;

    /// Whether `policy` can be counted in.
    pub(crate) fn has_room_for(&self, policy: RetryPolicy) -> bool {
        self.numbers.len() < Self::MAX || self.numbers.contains_key(&policy)
    }

    /// Whether all of these can be counted in.
    pub(crate) fn has_room_for_all(&self, policies: &BTreeSet<RetryPolicy>) -> bool {
        let new = policies.iter().filter(|policy| !self.numbers.contains_key(*policy)).count();
        self.numbers.len() + new <= Self::MAX
    }

    /// Counts one more message with this policy and gives its number; `None` if the table is full.
    pub(crate) fn acquire(&mut self, policy: Option<RetryPolicy>) -> Option<u16> {
        let Some(policy) = policy else { return Some(0) };
        if let Some(&number) = self.numbers.get(&policy) {
            self.table[usize::from(number) - 1].1 += 1;
            return Some(number);
        }
        let number = if let Some(number) = self.free.pop() {
            self.table[usize::from(number) - 1] = (policy, 1);
            number
        } else {
            let number = u16::try_from(self.table.len() + 1).ok()?;
            self.table.push((policy, 1));
            number
        };
        self.numbers.insert(policy, number);
        Some(number)
    }

    /// Counts one message less with this policy.
    pub(crate) fn release(&mut self, number: u16) {
        let Some(entry) = usize::from(number).checked_sub(1).and_then(|i| self.table.get_mut(i)) else {
            return;
        };
        entry.1 -= 1;
        if entry.1 == 0 {
            let policy = entry.0;
            self.numbers.remove(&policy);
            self.free.push(number);
        }
    }

    /// The policy of that number.
    pub(crate) fn get(&self, number: u16) -> Option<RetryPolicy> {
        usize::from(number).checked_sub(1).and_then(|i| self.table.get(i)).map(|(policy, _)| *policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_ceiling_and_jitter_takes_at_most_half() {
        let policy =
            RetryPolicy { max_attempts: 9, backoff_ms: 100, max_backoff_ms: 1000, ..RetryPolicy::default() };
        for (attempts, full) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (4_000_000, 1000)] {
            let waits = (0..200).map(|dice| wait_ms(policy, attempts, Ending::Nacked, dice));
            let (mut least, mut most) = (u64::MAX, 0);
            for wait in waits {
                (least, most) = (least.min(wait), most.max(wait));
            }
            assert!(least >= full / 2 && most <= full && most > least, "{attempts}: {least}..{most}");
        }
    }

    #[test]
    fn without_a_policy_a_nack_is_prompt_but_never_a_tight_loop() {
        let waits = [1, 2, 3, 9, 60].map(|n| wait_ms(RetryPolicy::default(), n, Ending::Nacked, 1));
        assert_eq!(waits, [0, 10, 20, 1000, 1000]);
        assert_eq!(wait_ms(RetryPolicy::default(), 5, Ending::Lapsed, 1), 0);
    }

    #[test]
    fn policies_are_counted_and_their_numbers_used_again() {
        let mut policies = Policies::default();
        let policy = |n| Some(RetryPolicy { max_attempts: n, ..RetryPolicy::default() });
        let numbers = [None, policy(1), policy(2), policy(1)].map(|policy| policies.acquire(policy).unwrap());
        assert_eq!(numbers, [0, 1, 2, 1]);
        policies.release(1);
        assert_eq!(policies.get(1), policy(1));
        policies.release(1);
        assert_eq!(
            (policies.acquire(policy(3)), policies.get(1), policies.get(0)),
            (Some(1), policy(3), None)
        );
    }
}
