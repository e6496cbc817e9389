//! The audit: who did what to what, when, from where.

use alloc::string::String;
use alloc::vec::Vec;

use crate::words::id::Time;

/// Bytes of who it was.
pub const AUDIT_ACTOR_BYTES_MAX: usize = 64;
/// Bytes of what people wrote on the actor's key.
pub const AUDIT_NOTE_BYTES_MAX: usize = 255;
/// Bytes of what was done.
pub const AUDIT_ACTION_BYTES_MAX: usize = 64;
/// Bytes of what it was done to.
pub const AUDIT_TARGET_BYTES_MAX: usize = 512;
/// Bytes of what came of it.
pub const AUDIT_OUTCOME_BYTES_MAX: usize = 64;
/// Bytes of where it came from.
pub const AUDIT_FROM_BYTES_MAX: usize = 128;
/// Bytes of the request's name.
pub const AUDIT_REQUEST_ID_BYTES_MAX: usize = 128;
/// Bytes of what else is to be known.
pub const AUDIT_DETAIL_BYTES_MAX: usize = 512;
/// Entries that one question looks at; its answer says where to go on.
pub const AUDIT_SCANNED_MAX: usize = 10_000;
/// Entries of one answer.
pub const AUDIT_ENTRIES_MAX: u32 = 1_000;

/// The outcome of what was done, and not refused.
pub const AUDIT_DONE: &str = "done";
/// Asks for every outcome but [`AUDIT_DONE`].
pub const AUDIT_REFUSED: &str = "refused";

/// Stands at the end of a text that was cut.
const CUT_MARK: &str = "…";

/// What is written down about one call.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AuditEntry {
    /// Who: the root key, a key by its public half, or anybody.
    pub actor: String,
    /// What people wrote on the actor's key.
    pub note: String,
    /// What was called.
    pub action: String,
    /// What it was about.
    pub target: String,
    /// [`AUDIT_DONE`], or the code of the refusal.
    pub outcome: String,
    /// Where the call came from.
    pub from: String,
    /// The request's name.
    pub request_id: String,
    /// What else is to be known.
    pub detail: String,
    /// Refusals before this entry that are counted here and have no entry of their own.
    pub suppressed: u32,
}

impl AuditEntry {
    /// With every text cut to its bound.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Self {
        for (text, bytes_max) in [
            (&mut self.actor, AUDIT_ACTOR_BYTES_MAX),
            (&mut self.note, AUDIT_NOTE_BYTES_MAX),
            (&mut self.action, AUDIT_ACTION_BYTES_MAX),
            (&mut self.target, AUDIT_TARGET_BYTES_MAX),
            (&mut self.outcome, AUDIT_OUTCOME_BYTES_MAX),
            (&mut self.from, AUDIT_FROM_BYTES_MAX),
            (&mut self.request_id, AUDIT_REQUEST_ID_BYTES_MAX),
            (&mut self.detail, AUDIT_DETAIL_BYTES_MAX),
        ] {
            cut(text, bytes_max);
        }
        self
    }
}

fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max - CUT_MARK.len()));
        text.push_str(CUT_MARK);
    }
}

/// An entry of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    /// Its number: one more than that of the entry before, since ever.
    pub sequence: u64,
    /// When it was written down.
    pub at: Time,
    /// What it says.
    pub entry: AuditEntry,
}

/// Which entries are wanted. A text that ends with a star stands for all that begin with what is before it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AuditList {
    /// Only those with a higher number.
    pub after: u64,
    /// How many at most.
    pub limit: u32,
    /// Only of this actor.
    pub actor: Option<String>,
    /// Only this action.
    pub action: Option<String>,
    /// Only about this.
    pub target: Option<String>,
    /// Only with this outcome; [`AUDIT_REFUSED`] for every one but [`AUDIT_DONE`].
    pub outcome: Option<String>,
    /// Only from then on.
    pub since: Option<Time>,
    /// Only before then.
    pub until: Option<Time>,
}

/// Some entries.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AuditPage {
    /// Those that were found, oldest first.
    pub entries: Vec<AuditView>,
    /// Everything up to this number was looked at: the next question begins after it.
    pub seen: u64,
    /// Whether there are entries after that.
    pub more: bool,
    /// The oldest entry that is kept, or the number of the next one if none is.
    pub oldest: u64,
}

/// An entry as it lies in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AuditWords<'a> {
    /// As in [`AuditEntry`], and so are the others.
    pub actor: &'a str,
    /// Of the actor's key.
    pub note: &'a str,
    /// What was called.
    pub action: &'a str,
    /// What it was about.
    pub target: &'a str,
    /// What came of it.
    pub outcome: &'a str,
    /// Where it came from.
    pub from: &'a str,
    /// The request's name.
    pub request_id: &'a str,
    /// What else is to be known.
    pub detail: &'a str,
    /// Refusals without an entry of their own.
    pub suppressed: u32,
}

impl<'a> From<&'a AuditEntry> for AuditWords<'a> {
    fn from(entry: &'a AuditEntry) -> Self {
        Self {
            actor: &entry.actor,
            note: &entry.note,
            action: &entry.action,
            target: &entry.target,
            outcome: &entry.outcome,
            from: &entry.from,
            request_id: &entry.request_id,
            detail: &entry.detail,
            suppressed: entry.suppressed,
        }
    }
}

impl AuditWords<'_> {
    /// The same, for itself.
    #[must_use]
    pub fn owned(&self) -> AuditEntry {
        AuditEntry {
            actor: self.actor.into(),
            note: self.note.into(),
            action: self.action.into(),
            target: self.target.into(),
            outcome: self.outcome.into(),
            from: self.from.into(),
            request_id: self.request_id.into(),
            detail: self.detail.into(),
            suppressed: self.suppressed,
        }
    }
}

impl AuditList {
    /// Whether an entry is one of those.
    pub(crate) fn wants(&self, at: Time, words: &AuditWords<'_>) -> bool {
        let outcome = match self.outcome.as_deref() {
            Some(AUDIT_REFUSED) => words.outcome != AUDIT_DONE,
            outcome => fits(outcome, words.outcome),
        };
        outcome
            && fits(self.actor.as_deref(), words.actor)
            && fits(self.action.as_deref(), words.action)
            && fits(self.target.as_deref(), words.target)
            && self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at < until)
    }
}

fn fits(pattern: Option<&str>, text: &str) -> bool {
    pattern.is_none_or(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => pattern == text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_and_say_so() {
        let entry = AuditEntry { target: "é".repeat(400), actor: "root".into(), ..AuditEntry::default() };
        let entry = entry.bounded();
        assert_eq!(entry.actor, "root");
        assert!(entry.target.len() <= AUDIT_TARGET_BYTES_MAX, "{}", entry.target.len());
        assert!(entry.target.ends_with("é…"), "{}", entry.target);
        let mut fits = "x".repeat(AUDIT_TARGET_BYTES_MAX);
        cut(&mut fits, AUDIT_TARGET_BYTES_MAX);
        assert_eq!(fits, "x".repeat(AUDIT_TARGET_BYTES_MAX));
    }

    #[test]
    fn lists_want_what_all_their_conditions_fit() {
        let words =
            AuditWords { actor: "root", target: "topics/orders", outcome: "done", ..AuditWords::default() };
        let of = |text: &str| Some(String::from(text));
        for (list, is_wanted) in [
            (AuditList::default(), true),
            (AuditList { actor: of("root"), target: of("topics/*"), ..AuditList::default() }, true),
            (AuditList { actor: of("roo"), ..AuditList::default() }, false),
            (AuditList { actor: of("root"), target: of("keys/*"), ..AuditList::default() }, false),
            (AuditList { outcome: of(AUDIT_REFUSED), ..AuditList::default() }, false),
            (AuditList { since: Some(Time(5)), until: Some(Time(6)), ..AuditList::default() }, true),
            (AuditList { since: Some(Time(6)), ..AuditList::default() }, false),
            (AuditList { until: Some(Time(5)), ..AuditList::default() }, false),
        ] {
            assert_eq!(list.wants(Time(5), &words), is_wanted, "{list:?}");
        }
    }
}
