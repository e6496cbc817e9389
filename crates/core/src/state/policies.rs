//! Every retry policy of the messages kept, once.

use crate::words::policy::RetryPolicy;
use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

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

    /// Counts one more message with this policy and returns its number; `None` if the table is full.
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
