//! What is remembered of who did what.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::log::audit::{AuditFact, put_words, take_words};
use crate::words::audit::{
    AUDIT_ENTRIES_MAX, AUDIT_SCANNED_MAX, AuditList, AuditPage, AuditView, AuditWords,
};
use crate::words::codec::{CONTRADICTION, Malformed, Take};
use crate::words::id::Time;

/// What an entry takes beside its texts.
pub(crate) const ENTRY_BYTES: u64 = 64;
/// Names what is read, in errors.
const WHAT: &str = "entry of the audit";

/// One entry; its number follows from its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) at: Time,
    /// The texts, as a fact holds them: there can be many entries, and few are ever read.
    pub(crate) words: Box<[u8]>,
}

impl Kept {
    fn new(at: Time, words: &AuditWords<'_>) -> Self {
        let mut bytes = Vec::new();
        put_words(&mut bytes, words);
        Self { at, words: bytes.into() }
    }

    const fn size(&self) -> u64 {
        self.words.len() as u64 + ENTRY_BYTES
    }

    /// Checks what a snapshot holds.
    pub(super) fn read(at: Time, words: &[u8]) -> Result<Self, Malformed> {
        let kept = Self { at, words: words.into() };
        kept.words()?;
        Ok(kept)
    }

    fn words(&self) -> Result<AuditWords<'_>, Malformed> {
        let mut take = Take::new(&self.words, WHAT);
        let words = take_words(&mut take)?;
        take.done()?;
        Ok(words)
    }
}

/// The newest entries, without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Audit {
    /// The number of the next entry; the first one is 1.
    pub(super) next: u64,
    pub(super) entries: VecDeque<Kept>,
    pub(super) bytes: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self { next: 1, entries: VecDeque::new(), bytes: 0 }
    }
}

impl Audit {
    /// Whether nothing was ever written down.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.next == 1
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// The number of the oldest entry, or of the next one if there is none.
    pub(crate) fn oldest(&self) -> u64 {
        self.next - self.entries.len() as u64
    }

    /// When the oldest entry was written down.
    pub(crate) fn oldest_at(&self) -> Option<Time> {
        self.entries.front().map(|kept| kept.at)
    }

    /// The number below which entries have to go: those that are older than that, and the oldest of those that take more
    /// than so many bytes together. The newest one stays if it is not too old.
    pub(crate) fn outlived(&self, since: Time, bytes_max: u64) -> u64 {
        let (mut bytes, mut below) = (self.bytes, self.oldest());
        for kept in &self.entries {
            if kept.at >= since && (bytes <= bytes_max || below + 1 == self.next) {
                break;
            }
            bytes -= kept.size();
            below += 1;
        }
        below
    }

    pub(crate) fn list(&self, list: &AuditList) -> AuditPage {
        let first = list.after.saturating_add(1).clamp(self.oldest(), self.next);
        let skipped = usize::try_from(first - self.oldest()).unwrap_or(usize::MAX);
        let mut page = AuditPage { seen: first - 1, oldest: self.oldest(), more: false, entries: Vec::new() };
        let limit = list.limit.clamp(1, AUDIT_ENTRIES_MAX) as usize;
        for kept in self.entries.iter().skip(skipped).take(AUDIT_SCANNED_MAX) {
            if page.entries.len() == limit {
                break;
            }
            page.seen += 1;
            // What is kept was read once before, when it came.
            let Ok(words) = kept.words() else { continue };
            if list.wants(kept.at, &words) {
                page.entries.push(AuditView { sequence: page.seen, at: kept.at, entry: words.owned() });
            }
        }
        page.more = page.seen + 1 < self.next;
        page
    }

    pub(super) fn push(&mut self, kept: Kept) {
        self.bytes += kept.size();
        self.entries.push_back(kept);
    }

    pub(crate) fn apply(&mut self, fact: &AuditFact<'_>) -> Result<(), Malformed> {
        match fact {
            AuditFact::Recorded { sequence, at, words } => {
                if *sequence != self.next || *sequence >= SEQUENCE_MAX {
                    return Err(CONTRADICTION);
                }
                self.push(Kept::new(*at, words));
                self.next += 1;
            }
            AuditFact::Dropped { below } => {
                if *below > self.next {
                    return Err(CONTRADICTION);
                }
                while self.oldest() < *below {
                    let Some(gone) = self.entries.pop_front() else { break };
                    self.bytes -= gone.size();
                }
            }
        }
        Ok(())
    }
}

/// Above any number that can be reached.
pub(super) const SEQUENCE_MAX: u64 = 1 << 62;
