//! The rules of the ledger: what an effect's record allows, and nothing about where the record is kept.
//!
//! Every store (the shard's own, a table in PostgreSQL, a map in memory) says how a record stands at the moment of the
//! question and does what the answer says. No rule knows a clock: the store that keeps the record decides by its own
//! clock whether a lease is live and whether the record's time is over. What decides ownership is the epoch alone.
//!
//! The crate is `no_std` and depends on nothing.
#![no_std]
#![warn(missing_docs)]

/// What the rules decide, as data (JSON): every way in which a record can stand, every question, and the answer. The
/// rules are tested against it, and so is every store.
pub const DECISIONS: &str = include_str!("../decisions.json");

/// How an effect stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// A holder runs it, or did when its lease lapsed.
    InProgress,
    /// It happened. Never changes.
    Succeeded,
    /// It did not happen and is not to be tried again. Never changes.
    FailedFinal,
    /// It did not happen and may be tried again.
    FailedRetryable,
    /// Its lease lapsed, and whether it happened is not known: a resolver has to find out.
    Unknown,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::InProgress, Self::Succeeded, Self::FailedFinal, Self::FailedRetryable, Self::Unknown];

    /// Whether it stays what it is until it is forgotten.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::FailedFinal)
    }

    /// The same in the words of DriftQ v1.6.
    #[must_use]
    pub const fn v1_word(self) -> &'static str {
        match self {
            Self::InProgress | Self::Unknown => "PENDING",
            Self::Succeeded => "COMMITTED",
            Self::FailedFinal | Self::FailedRetryable => "FAILED",
        }
    }
}

/// What a lapsed lease means for the next asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnLapse {
    /// The effect may run again: repeating it does no harm.
    Retry,
    /// The effect may have happened: no asker repeats it blindly.
    #[default]
    Hold,
}

/// A record at the moment of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How it stands.
    pub status: Status,
    /// The newest lease.
    pub epoch: u32,
    /// Leases given so far, those of this record only.
    pub attempts: u32,
    /// The most there may be, if there is a cap.
    pub attempts_max: Option<u32>,
    /// What a lapse of the newest lease means.
    pub on_lapse: OnLapse,
    /// Whether the newest lease is live; of no meaning unless it is in progress.
    pub live: bool,
    /// Whether the time of the record is over.
    pub expired: bool,
    /// Whether the holder of the newest lease gave it up before anything was sent: nothing can have happened.
    pub released: bool,
}

impl Standing {
    /// Whether the record no longer counts. What a holder may be running, or what may have happened, always counts.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.expired && !self.is_open()
    }

    /// Whether an asker that wants it can do nothing but wait: a holder may be running it, or it may have happened.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self.status {
            Status::InProgress => self.live || self.becomes_unknown(),
            Status::Unknown => true,
            Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => false,
        }
    }

    /// Whether the lapse of its lease leaves behind something that no asker may repeat.
    #[must_use]
    pub fn becomes_unknown(&self) -> bool {
        let stranded = self.status == Status::InProgress && !self.live && !self.released;
        stranded && (self.on_lapse == OnLapse::Hold || self.attempts_left(None) == Some(0))
    }

    /// How many more leases there may be; `asked` is a cap that the asker brings along. The larger one counts: an
    /// operator may have allowed more than the askers know of.
    #[must_use]
    pub fn attempts_left(&self, asked: Option<u32>) -> Option<u32> {
        asked.max(self.attempts_max).map(|most| most.saturating_sub(self.attempts))
    }
}

/// An asker that wants to run an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whether it asks for what the record is about.
    pub same_request: bool,
    /// Whether it is the very call that got the newest lease, once more.
    pub same_call: bool,
    /// Whether it takes on what failed before.
    pub reacquire: bool,
    /// A cap on attempts, instead of the record's.
    pub attempts_max: Option<u32>,
}

/// What an asker that wants to run an effect is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Run it: there is no record, or none that counts. Epoch and attempt are 1.
    First,
    /// Run it, with a newer lease than the holder before had.
    TakeOver {
        /// The new lease.
        epoch: u32,
        /// Which attempt it is.
        attempt: u32,
    },
    /// Run it: the lease is the asker's already.
    Again,
    /// It is over; this is how it ended.
    Replay,
    /// Another holder runs it.
    Running,
    /// It failed and may be tried again.
    Retryable {
        /// How many more attempts there may be, if there is a cap.
        left: Option<u32>,
    },
    /// Whether it happened is not known. If the record still says that it runs, it is to say so from now on.
    Unknown,
    /// It may be tried again, but not by this asker, whose own cap is used up. Nothing changes for others.
    Exhausted,
    /// The key was used for another request. Nothing changes.
    Conflict,
}

/// Decides about an asker that wants to run an effect.
#[must_use]
pub fn begin(known: Option<&Standing>, asked: Asked) -> Begun {
    let Some(known) = known.filter(|known| !known.is_over()) else { return Begun::First };
    if !asked.same_request {
        return Begun::Conflict;
    }
    let left = known.attempts_left(asked.attempts_max);
    let next =
        Begun::TakeOver { epoch: known.epoch.saturating_add(1), attempt: known.attempts.saturating_add(1) };
    match known.status {
        Status::Succeeded | Status::FailedFinal => Begun::Replay,
        Status::Unknown => Begun::Unknown,
        Status::InProgress if known.live && asked.same_call => Begun::Again,
        Status::InProgress if known.live => Begun::Running,
        Status::InProgress if known.on_lapse == OnLapse::Hold && !known.released => Begun::Unknown,
        Status::InProgress if left != Some(0) => next,
        Status::InProgress if known.becomes_unknown() => Begun::Unknown,
        Status::InProgress => Begun::Exhausted,
        Status::FailedRetryable if asked.reacquire && left != Some(0) => next,
        Status::FailedRetryable => Begun::Retryable { left },
    }
}

/// What a holder that says how an effect ended is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It is written down.
    Commit,
    /// It was written down before, exactly so.
    Already,
    /// The lease is not the newest one, or it said something else before. Nothing changes.
    Stale,
}

/// Decides about the holder of lease `epoch` that says how the effect ended. `fenced`: what the lease was tied to has
/// gone on without its holder. `same`: the record holds exactly this ending.
///
/// A lapse alone takes nothing away: the holder of the newest lease knows best how it went.
#[must_use]
pub fn finish(known: Option<&Standing>, epoch: u32, fenced: bool, same: bool) -> Finished {
    let Some(known) = known.filter(|known| known.epoch == epoch && !known.released) else {
        return Finished::Stale;
    };
    match known.status {
        Status::InProgress | Status::Unknown if fenced => Finished::Stale,
        Status::InProgress | Status::Unknown => Finished::Commit,
        Status::Succeeded | Status::FailedFinal | Status::FailedRetryable if same => Finished::Already,
        Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => Finished::Stale,
    }
}

/// Whether the holder of lease `epoch` may go on for longer. Even if it had lapsed: no other holder has it, and its
/// holder still being at work is the best that can be known.
#[must_use]
pub fn renew(known: Option<&Standing>, epoch: u32, fenced: bool) -> bool {
    let open = |known: &Standing| matches!(known.status, Status::InProgress | Status::Unknown);
    known.is_some_and(|known| known.epoch == epoch && open(known) && !known.released && !fenced)
}

/// What a holder that gives its lease up is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It is free from now on, under a new epoch: the holder that had the lease no longer has a say.
    Commit {
        /// The new epoch.
        epoch: u32,
    },
    /// It was given up before, and no asker has taken it on since.
    Already,
    /// The lease is not the newest one, or its effect has ended. Nothing changes.
    Stale,
}

/// Decides about the holder of lease `epoch` that gives it up because nothing was sent. `fenced`: what the lease was
/// tied to has gone on without its holder. Even after a lapse: the holder of the newest lease knows best that nothing
/// happened.
#[must_use]
pub fn release(known: Option<&Standing>, epoch: u32, fenced: bool) -> Released {
    let Some(known) = known else { return Released::Stale };
    let open = matches!(known.status, Status::InProgress | Status::Unknown);
    if known.epoch == epoch && open && !known.released && !fenced {
        return Released::Commit { epoch: epoch.saturating_add(1) };
    }
    if known.released && epoch.checked_add(1) == Some(known.epoch) {
        return Released::Already;
    }
    Released::Stale
}

/// What a resolver that says how an effect ended is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It is written down, under a new epoch: the holder of the lease before no longer has a say.
    Commit {
        /// The new epoch.
        epoch: u32,
    },
    /// It was written down before, exactly so.
    Already,
    /// There is no record.
    Nothing,
    /// A holder runs it right now.
    Running,
    /// It is over, and stays what it is.
    Final,
    /// The record is not what the resolver has seen.
    Stale,
}

/// Decides about a resolver that says how an effect ended. `seen`: the epoch that it looked at. `same`: the record
/// holds exactly this ending.
#[must_use]
pub fn resolve(known: Option<&Standing>, seen: Option<u32>, same: bool) -> Resolved {
    let Some(known) = known.filter(|known| !known.is_over()) else { return Resolved::Nothing };
    match known.status {
        Status::InProgress if known.live => return Resolved::Running,
        Status::InProgress | Status::Unknown => {}
        Status::Succeeded | Status::FailedFinal | Status::FailedRetryable if same => {
            return Resolved::Already;
        }
        Status::Succeeded | Status::FailedFinal => return Resolved::Final,
        Status::FailedRetryable => {}
    }
    if seen.is_some_and(|seen| seen != known.epoch) {
        return Resolved::Stale;
    }
    Resolved::Commit { epoch: known.epoch.saturating_add(1) }
}
