//! On what terms a caller runs an effect.

use std::time::Duration;

use crate::{Identity, OnLapse, RequestHash};

/// Longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest time that an outcome is remembered.
pub const TTL_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// Most attempts that a cap can allow.
pub const ATTEMPTS_MAX: u32 = 1_000_000;
/// Most bytes of an owner's name or of the name of a call.
pub const NOTE_BYTES_MAX: usize = 255;

/// On what terms a caller runs an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long one attempt has the effect to itself, unless it renews.
    pub lease: Duration,
    /// How long the outcome is remembered, from the moment it is finished.
    pub ttl: Duration,
    /// What a lapsed lease means for the next caller.
    pub on_lapse: OnLapse,
    /// The most leases there may be; no cap if `None`.
    pub attempts_max: Option<u32>,
}

impl Default for Terms {
    /// Half a minute, a day, hold, no cap.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(24 * 3600),
            on_lapse: OnLapse::Hold,
            attempts_max: None,
        }
    }
}

impl Terms {
    /// With another lease.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Remembered for another time.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// With another meaning of a lapsed lease.
    #[must_use]
    pub const fn on_lapse(mut self, on_lapse: OnLapse) -> Self {
        self.on_lapse = on_lapse;
        self
    }

    /// With a cap on attempts.
    #[must_use]
    pub const fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = Some(attempts_max);
        self
    }
}

/// A caller wants to run an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Which.
    pub identity: Identity,
    /// What is asked for. Another hash under the same identity is refused.
    pub hash: RequestHash,
    /// On what terms.
    pub terms: Terms,
    /// Whether to take it on if it failed and may be tried again.
    pub reacquire: bool,
    /// How long to wait for another holder that runs it.
    pub wait: Duration,
    /// Names this one call: the same name again, by the same [`owner`](Self::owner), gets the same lease again, so that a
    /// lost answer loses nothing. Without an owner it recognises nobody, because two callers may share it; the ledger
    /// then makes it a name of this call alone, as it makes one up if there is none, and uses it for its own retries.
    pub call: Option<String>,
    /// The holder that runs it, for people to read.
    pub owner: Option<String>,
}

impl Begin {
    /// On the usual terms, without waiting.
    #[must_use]
    pub fn new(identity: Identity, hash: RequestHash) -> Self {
        Self {
            identity,
            hash,
            terms: Terms::default(),
            reacquire: false,
            wait: Duration::ZERO,
            call: None,
            owner: None,
        }
    }

    /// On other terms.
    #[must_use]
    pub fn terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// Also takes on what failed and may be tried again.
    #[must_use]
    pub const fn reacquire(mut self) -> Self {
        self.reacquire = true;
        self
    }

    /// Waits for another holder that runs it.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Under a name of the caller's own.
    #[must_use]
    pub fn call(mut self, call: impl Into<String>) -> Self {
        self.call = Some(call.into());
        self
    }

    /// Says who runs it.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }
}

/// A caller, mostly a retry worker, wants to run again what failed and may be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reacquire {
    /// Which.
    pub identity: Identity,
    /// What is asked for; a worker that goes by the ledger's own list has nothing to compare.
    pub hash: Option<RequestHash>,
    /// On what terms.
    pub terms: Terms,
    /// As in [`Begin::call`].
    pub call: Option<String>,
    /// As in [`Begin::owner`].
    pub owner: Option<String>,
}

impl Reacquire {
    /// On the usual terms.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self { identity, hash: None, terms: Terms::default(), call: None, owner: None }
    }

    /// On other terms.
    #[must_use]
    pub fn terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }
}
