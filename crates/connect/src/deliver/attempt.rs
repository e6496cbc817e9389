//! The attempts of a delivery, as its effect remembers them.

use driftq_client::wire::EffectOutcome;
pub use driftq_client::wire::{SendAttempt as Attempt, SendOutcome as Ending};
use serde::{Deserialize, Serialize};

/// Most attempts that are remembered; of more, the last ones.
pub const ATTEMPTS_MAX: usize = 20;
/// Longest body of an outcome: half of what a server takes unless it is told otherwise.
const BODY_BYTES_MAX: usize = 128 << 10;
/// Longest error that is remembered.
const ERROR_BYTES_MAX: usize = 1024;

/// The sends so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// The oldest first.
    pub attempts: Vec<Attempt>,
}

impl Attempts {
    /// As an outcome's body has them; none if there is none.
    #[must_use]
    pub fn of(outcome: &EffectOutcome<'_>) -> Self {
        outcome.bytes().map(|bytes| Self::read(&bytes)).unwrap_or_default()
    }

    /// From the body of an outcome; none if a person wrote another one.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// The number of the next one.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.attempts.last().map_or(1, |last| last.attempt.saturating_add(1))
    }

    /// Adds one, and forgets the oldest if there are too many.
    pub fn push(&mut self, mut attempt: Attempt) {
        attempt.error.truncate(attempt.error.floor_char_boundary(ERROR_BYTES_MAX));
        self.attempts.push(attempt);
        let surplus = self.attempts.len().saturating_sub(ATTEMPTS_MAX);
        self.attempts.drain(..surplus);
    }

    /// As the body of an outcome. If a receiver has said so much that it is too long, what it said first is left out.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let mut kept = self.clone();
        loop {
            let body = serde_json::to_vec(&kept).expect("texts and numbers have a JSON form");
            if body.len() <= BODY_BYTES_MAX || kept.attempts.is_empty() {
                return body;
            }
            match kept.attempts.iter_mut().find(|attempt| !attempt.body.is_empty()) {
                Some(attempt) => attempt.body.clear(),
                None => drop(kept.attempts.remove(0)),
            }
        }
    }
}
