//! When a failed message is tried again.

use crate::words::policy::{BACKOFF_MS_MAX, Jitter, RetryPolicy};

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
}
