//! What was asked for, what was answered, and what happened.

use std::collections::BTreeMap;
use std::fmt;

use crate::client::Answer;

/// What one endpoint was asked for and what came of it.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) name: &'static str,
    /// Keys that were sent, with the answer that stays if there was one.
    pub(crate) keys: BTreeMap<String, Option<Answer>>,
    /// How often it happened under each key.
    pub(crate) happened: BTreeMap<String, u64>,
    /// Records that were held because nobody knew, all in all.
    pub(crate) held: u64,
    /// Records of which still nobody knows.
    pub(crate) unknown: u64,
    /// Answers to one request that differed.
    pub(crate) differed: u64,
}

impl Tally {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Notes an answer that stays, and whether it is another one than before.
    pub(crate) fn note(&mut self, key: &str, answer: Answer) {
        let known = self.keys.entry(key.to_owned()).or_default();
        match known {
            Some(known) if known.status != answer.status || known.body != answer.body => self.differed += 1,
            Some(_) => {}
            None => *known = Some(answer),
        }
    }

    /// How often it happened.
    fn times(&self) -> u64 {
        self.happened.values().sum()
    }

    /// How often it happened although it had happened.
    fn duplicates(&self) -> u64 {
        self.times() - self.happened.len() as u64
    }

    /// Keys that were answered with a receipt for something that did not happen, or were never answered.
    fn lost(&self) -> u64 {
        let is_lost = |(key, answer): &(&String, &Option<Answer>)| {
            let receipt = answer.as_ref().is_some_and(|answer| (200..300).contains(&answer.status));
            !receipt || !self.happened.contains_key(*key)
        };
        self.keys.iter().filter(is_lost).count() as u64
    }

    /// Whether every key has happened exactly once and everybody was told so.
    pub(crate) fn is_right(&self) -> bool {
        let all = self.keys.len() as u64;
        self.times() == all && self.duplicates() + self.lost() + self.unknown + self.differed == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, times) = (self.keys.len(), self.times());
        let (duplicates, lost, held) = (self.duplicates(), self.lost(), self.held);
        let (unknown, differed) = (self.unknown, self.differed);
        write!(
            f,
            "{:<10}{keys:>6}{times:>10}{duplicates:>12}{lost:>6}{held:>6}{unknown:>9}{differed:>10}",
            self.name
        )
    }
}

/// The line above the tallies.
pub(crate) const HEAD: &str = "endpoint    keys  happened  duplicates  lost  held  unknown  differed";
