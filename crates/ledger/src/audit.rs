//! What became of records that did not just begin and end.
//!
//! A record holds how it stands now: the next attempt erases how the one before it ended, and who had resolved it and why.
//! That is kept here, for people who have to account for it. A request that begins, runs and ends leaves no note: its
//! record says all there is to say.

use crate::{Identity, Moment, Status};

/// Something happened to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Its holder said how it ended, and it may be tried again, or it was not the first to hold it, or its outcome had
    /// been unknown.
    Ended,
    /// Its lease lapsed, and whether it happened is unknown from now on.
    Lapsed,
    /// Its outcome was unknown, and its holder turned out to be still at work.
    Returned,
    /// Its lease had lapsed, and another caller took over.
    TakenOver,
    /// It had failed, and a caller tried again.
    Reacquired,
    /// Its holder gave it back before anything was done.
    Released,
    /// An operator or a reconciler said how it ended.
    Resolved,
    /// Its time was over, and its key was begun anew.
    BegunAnew,
    /// It was removed, because its time was over or by hand.
    Removed,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 9] = [
        Self::Ended,
        Self::Lapsed,
        Self::Returned,
        Self::TakenOver,
        Self::Reacquired,
        Self::Released,
        Self::Resolved,
        Self::BegunAnew,
        Self::Removed,
    ];

    /// One word for it, as it is written in a table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ended => "ENDED",
            Self::Lapsed => "LAPSED",
            Self::Returned => "RETURNED",
            Self::TakenOver => "TAKEN_OVER",
            Self::Reacquired => "REACQUIRED",
            Self::Released => "RELEASED",
            Self::Resolved => "RESOLVED",
            Self::BegunAnew => "BEGUN_ANEW",
            Self::Removed => "REMOVED",
        }
    }

    /// What a word means; `None` if it means nothing.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.word() == word)
    }
}

/// A note of something that happened to a record. It is never changed, and removed when its time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When, by the store's clock.
    pub at: Moment,
    /// To which effect.
    pub identity: Identity,
    /// What.
    pub event: Event,
    /// How the record stood before.
    pub from: Status,
    /// How it has stood since; `None` if it is gone.
    pub to: Option<Status>,
    /// The newest lease or resolution since.
    pub epoch: u32,
    /// Leases given so far.
    pub attempt: u32,
    /// Who did it: the resolver, or the owner of the lease, if it has said who it is.
    pub by: Option<String>,
    /// Why: what the resolver said, or the error.
    pub why: Option<String>,
}

/// Which notes to list: oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Only those about this effect.
    pub identity: Option<Identity>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// The most to list.
    pub limit: u32,
}

/// Some notes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AuditPage {
    /// The notes.
    pub notes: Vec<Note>,
    /// Where to go on; `None` if that was all.
    pub cursor: Option<String>,
    /// Notes that could not be read and were passed over.
    pub unreadable: u64,
}

/// What of a record says whether a change of it is worth a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) status: Status,
    pub(crate) epoch: u32,
    pub(crate) attempts: u32,
}

/// What a change of a record comes to; `None` if it is not worth a note. The trigger in PostgreSQL decides the same.
pub(crate) fn event(before: Trace, after: Trace) -> Option<Event> {
    if after.epoch != before.epoch {
        return Some(match after.status {
            Status::InProgress if after.attempts < before.attempts => Event::Released,
            Status::InProgress if before.status == Status::FailedRetryable => Event::Reacquired,
            Status::InProgress => Event::TakenOver,
            _ => Event::Resolved,
        });
    }
    if after.status == before.status {
        return None;
    }
    match after.status {
        Status::Unknown => Some(Event::Lapsed),
        Status::InProgress => Some(Event::Returned),
        Status::FailedRetryable => Some(Event::Ended),
        Status::Succeeded | Status::FailedFinal => {
            (before.status != Status::InProgress || before.epoch > 1).then_some(Event::Ended)
        }
    }
}

/// Whether it is worth a note that a record is gone.
pub(crate) const fn is_worth_a_removal(before: Trace) -> bool {
    before.epoch > 1 || !before.status.is_final()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_understood_and_no_other() {
        for known in Event::ALL {
            assert_eq!(Event::of(known.word()), Some(known));
        }
        assert_eq!(Event::of("ended"), None);
    }

    #[test]
    fn what_just_begins_and_ends_leaves_no_note() {
        let running = Trace { status: Status::InProgress, epoch: 1, attempts: 1 };
        for (status, noted) in [
            (Status::InProgress, None),
            (Status::Succeeded, None),
            (Status::FailedFinal, None),
            (Status::FailedRetryable, Some(Event::Ended)),
            (Status::Unknown, Some(Event::Lapsed)),
        ] {
            assert_eq!(event(running, Trace { status, ..running }), noted, "{status:?}");
        }
        let second = Trace { epoch: 2, attempts: 2, ..running };
        assert_eq!(event(running, second), Some(Event::TakenOver));
        assert_eq!(event(second, Trace { status: Status::Succeeded, ..second }), Some(Event::Ended));
    }
}
