//! Which keys there are, and what their effects are like. Everything follows from the number of a key, so that all
//! processes agree without talking.

use std::time::Duration;

use driftq_ledger::{Begin, End, Ending, Identity, OnLapse, RequestHash, Response, Terms};

use super::history::Answer;

/// A new key comes up this often.
const KEY_EVERY: Duration = Duration::from_millis(40);
/// So many keys are worked on at a time.
const WINDOW: u64 = 60;
/// Long enough that no record's time is over during the test.
const TTL: Duration = Duration::from_secs(3600);

/// Numbers by a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// One of `0..sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides.max(1)
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.roll(to.saturating_sub(from)))
    }
}

/// What the effect of one key is like.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) key: String,
    pub(crate) terms: Terms,
    /// How long it takes.
    pub(crate) takes: Duration,
    /// Renews its lease this often while it runs.
    pub(crate) renews: Option<Duration>,
    /// Fails in a way that may be tried again before this attempt.
    succeeds_from: u32,
    /// Fails for good.
    is_hopeless: bool,
    /// Done by the one call that does it all.
    pub(crate) is_one_call: bool,
    /// Whoever looks it up finds that it happened, so that it never runs again for want of an answer.
    pub(crate) is_found: bool,
}

impl Plan {
    /// A key that is worked on at this time after the beginning.
    pub(crate) fn pick(elapsed: Duration, dice: &mut Dice) -> Self {
        let oldest = u64::try_from(elapsed.as_millis() / KEY_EVERY.as_millis()).unwrap_or(0);
        Self::of(oldest + dice.roll(WINDOW))
    }

    pub(crate) fn of(number: u64) -> Self {
        let millis = Duration::from_millis;
        let terms = |on_lapse, lease| Terms::default().on_lapse(on_lapse).lease(millis(lease)).ttl(TTL);
        let plain = Self {
            key: format!("key-{number}"),
            terms: terms(OnLapse::Hold, 400),
            takes: millis(5),
            renews: None,
            succeeds_from: 1,
            is_hopeless: false,
            is_one_call: false,
            is_found: false,
        };
        match number % 8 {
            0 => plain,
            1 => Self { terms: terms(OnLapse::Retry, 300), ..plain },
            // Fails twice, and has exactly the attempts it needs.
            2 => Self { terms: plain.terms.clone().attempts_max(3), succeeds_from: 3, ..plain },
            // Too slow for its lease, and is taken over; its attempts run out.
            3 => Self { terms: terms(OnLapse::Retry, 250).attempts_max(2), takes: millis(700), ..plain },
            // Slow, and renews.
            4 => Self {
                terms: terms(OnLapse::Retry, 400),
                takes: millis(800),
                renews: Some(millis(130)),
                ..plain
            },
            // Too slow for its lease, and nobody may take over.
            5 => Self { terms: terms(OnLapse::Hold, 250), takes: millis(600), ..plain },
            6 => Self { is_hopeless: true, ..plain },
            _ => Self {
                terms: terms(OnLapse::Retry, 300),
                takes: millis(400),
                succeeds_from: 2,
                is_one_call: true,
                ..plain
            },
        }
    }

    /// The plan that a key belongs to.
    pub(crate) fn of_key(key: &str) -> Option<Self> {
        if let Some(number) = key.strip_prefix("deployed-") {
            return number.parse().ok().map(Self::deployed);
        }
        key.strip_prefix("key-")?.parse().ok().map(Self::of)
    }

    /// A key of the deployment drill: mostly one that is worked on at this time, and now and then any of those that were
    /// worked on before, perhaps by another release.
    pub(crate) fn pick_deployed(elapsed: Duration, dice: &mut Dice) -> Self {
        let oldest = u64::try_from(elapsed.as_millis() / KEY_EVERY.as_millis()).unwrap_or(0);
        Self::deployed(match dice.roll(3) {
            0 => dice.roll(oldest + WINDOW),
            _ => oldest + dice.roll(WINDOW),
        })
    }

    /// Nobody may take over what lapses, and nobody lets it run again: so nothing runs twice, but what has failed in a way
    /// that may be tried again.
    fn deployed(number: u64) -> Self {
        let millis = Duration::from_millis;
        let plain = Self {
            key: format!("deployed-{number}"),
            terms: Terms::default().on_lapse(OnLapse::Hold).lease(millis(500)).ttl(TTL),
            takes: millis(5),
            renews: None,
            succeeds_from: 1,
            is_hopeless: false,
            is_one_call: false,
            is_found: true,
        };
        match number % 5 {
            1 => Self { takes: millis(300), renews: Some(millis(100)), ..plain },
            2 => Self { succeeds_from: 2, ..plain },
            3 => Self { is_hopeless: true, ..plain },
            4 => Self { is_one_call: true, ..plain },
            _ => plain,
        }
    }

    /// The same for somebody who has nothing to prove by being slow.
    pub(crate) fn quick(self) -> Self {
        Self { takes: Duration::ZERO, ..self }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::new("chaos", "effect", &self.key).expect("a plan names a key")
    }

    pub(crate) fn begin(&self, owner: &str) -> Begin {
        let hash = RequestHash::of_bytes(self.key.as_bytes());
        Begin::new(self.identity(), hash).terms(self.terms.clone()).reacquire().owner(owner)
    }

    /// How this attempt ends; `name` tells it from every other.
    pub(crate) fn end(&self, attempt: u32, name: &str) -> Answer {
        if self.is_hopeless {
            Answer::new(End::FailedFinal, name)
        } else if attempt < self.succeeds_from {
            Answer::new(End::FailedRetryable, name)
        } else {
            Answer::new(End::Succeeded, name)
        }
    }
}

/// The same in the ledger's words.
pub(crate) fn ending(answer: &Answer) -> Ending {
    let text = answer.text.clone();
    match answer.end.as_str() {
        "SUCCEEDED" => Ending::succeeded(Response::new(text)),
        "FAILED_FINAL" => Ending::failed_final(text),
        _ => Ending::failed_retryable(text),
    }
}
