//! Tokens whose work is over, for holders that settle twice.
//!
//! Tokens count up within a run of the shard and nearly all of them end the same way, so that a set of ranges holds
//! millions of them in a few entries. Only a gap costs memory, and the oldest entries go first.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::state::ranges::Ranges;
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::Token;

/// Ranges that are remembered, over all runs.
const RANGES_MAX: usize = 1 << 16;

/// A set of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    runs: BTreeMap<u64, Ranges>,
    /// Ranges of all runs.
    ranges: usize,
}

impl Spent {
    pub(crate) fn contains(&self, token: Token) -> bool {
        self.runs.get(&token.epoch).is_some_and(|run| run.contains(token.n))
    }

    pub(crate) fn insert(&mut self, token: Token) {
        // No shard counts that far; a range could not end after it.
        if token == Token::default() || token.n == u64::MAX || self.contains(token) {
            return;
        }
        let run = self.runs.entry(token.epoch).or_default();
        let before = run.len();
        run.insert(token.n);
        self.ranges = self.ranges + run.len() - before;
        while self.ranges > RANGES_MAX {
            let Some(mut oldest) = self.runs.first_entry() else { break };
            self.ranges -= usize::from(oldest.get_mut().pop_first());
            if oldest.get().len() == 0 {
                oldest.remove();
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(u32::try_from(self.ranges).expect("ranges are bounded"));
        for (epoch, run) in &self.runs {
            for (start, end) in run.iter() {
                out.put_u64(*epoch);
                out.put_u64(start);
                out.put_u64(end);
            }
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let mut spent = Self::default();
        for _ in 0..take.count(24)? {
            let (epoch, start, end) = (take.u64()?, take.u64()?, take.u64()?);
            let rises = spent.runs.last_key_value().is_none_or(|(last, _)| *last <= epoch);
            if !rises || !spent.runs.entry(epoch).or_default().push_back(start, end) {
                return Err(take.malformed());
            }
            spent.ranges += 1;
        }
        if spent.ranges > RANGES_MAX {
            return Err(take.malformed());
        }
        Ok(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(epoch: u64, n: u64) -> Token {
        Token { epoch, n }
    }

    #[test]
    fn a_million_neighbours_are_one_entry() {
        let mut spent = Spent::default();
        for n in (1..=1_000_000).filter(|n| n % 2 == 0).take(10) {
            spent.insert(token(1, n));
        }
        assert_eq!(spent.ranges, 10);
        for n in 1..=100_000 {
            spent.insert(token(1, n));
            spent.insert(token(1, n));
        }
        assert_eq!(spent.ranges, 1);
        assert!(spent.contains(token(1, 77_777)) && !spent.contains(token(2, 7)));
        assert!(!spent.contains(Token::default()));
    }

    #[test]
    fn the_oldest_entries_go_first_and_what_is_written_comes_back() {
        let mut spent = Spent::default();
        for n in 0..RANGES_MAX as u64 + 10 {
            spent.insert(token(1 + n / 1000, 2 * n + 1));
        }
        assert_eq!(spent.ranges, RANGES_MAX);
        assert!(!spent.contains(token(1, 1)) && spent.contains(token(1, 41)));
        let mut bytes = Vec::new();
        spent.encode(&mut bytes);
        assert_eq!(Spent::decode(&mut Take::new(&bytes, "spent")), Ok(spent));
    }
}
