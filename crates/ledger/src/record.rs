//! Records, as people and retry workers look at them.

use std::collections::BTreeMap;

use crate::{Identity, Moment, OnLapse, Outcome, Status};

/// A record of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which effect.
    pub identity: Identity,
    /// How it stands now: a lease that lapsed and may not be taken over counts as unknown, whether or not that has been
    /// written down.
    pub status: Status,
    /// The newest lease or resolution.
    pub epoch: u32,
    /// Leases given so far.
    pub attempts: u32,
    /// The most there may be.
    pub attempts_max: Option<u32>,
    /// What a lapse of the newest lease means.
    pub on_lapse: OnLapse,
    /// When the newest lease lapses; `None` unless it is in progress or unknown.
    pub lease_expires_at: Option<Moment>,
    /// Whether the newest lease is live.
    pub lease_live: bool,
    /// What was asked for, as it was hashed.
    pub request_hash: String,
    /// Who had the newest lease.
    pub owner: Option<String>,
    /// When the record was made.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
    /// When its time is over; `None` while what it stands for may still be running or may have happened.
    pub expires_at: Option<Moment>,
    /// How it ended, if it has.
    pub outcome: Option<Outcome>,
}

/// Which records to list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only those that have this status now.
    pub status: Option<Status>,
    /// Only those of this principal.
    pub principal: Option<String>,
    /// Only those of this method.
    pub method: Option<String>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// The most to list; the store may list fewer.
    pub limit: u32,
}

/// Most records of one page.
pub const PAGE_MAX: u32 = 1000;

/// Some records.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// The records. Payloads and headers may be left out.
    pub records: Vec<Record>,
    /// Where to go on; `None` if that was all.
    pub cursor: Option<String>,
    /// Rows that could not be read and were passed over.
    pub unreadable: u64,
}

/// One round of removing what is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Only counts.
    pub dry_run: bool,
    /// The most records to look at in this round.
    pub limit: u32,
}

impl Default for Sweep {
    fn default() -> Self {
        Self { dry_run: false, limit: PAGE_MAX }
    }
}

/// What a sweep did, or would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Swept {
    /// Records whose time was over, removed.
    pub removed: u64,
    /// Records whose lease lapsed and that no caller may take over: unknown from now on.
    pub held: u64,
    /// Rows that could not be read and were passed over. They stay until somebody looks at them.
    pub unreadable: u64,
    /// Whether there is more to do.
    pub more: bool,
    /// Whether the store does this by itself, so that there was nothing to do here.
    pub by_itself: bool,
}

/// How many records there are.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// By how they stand now.
    pub by_status: BTreeMap<&'static str, u64>,
    /// Of those in progress, how many have a lease that lapsed and may be taken over.
    pub lapsed: u64,
    /// Of all, how many are over and not swept yet; `None` if the store does not say. What has been over for a few
    /// minutes only may still be counted by its status.
    pub over: Option<u64>,
    /// Rows with a status that this release does not know.
    pub unreadable: u64,
    /// About how many records no sweep has looked over yet and that are in none of the counts, because there are too
    /// many to count them now; 0 if the counts are complete.
    pub uncounted: u64,
}
