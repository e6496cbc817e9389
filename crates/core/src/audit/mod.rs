//! The audit: what people and their programs did is written down, and kept for a time and a number of bytes.
//!
//! Entries are numbered without a gap, and no number is given twice: whoever reads them sees what is no longer there.

use crate::log::audit::AuditFact;
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::turn::timer::{Due, FORGET_SLACK_MS};
use crate::words::action::{Answer, Output};
use crate::words::audit::{AuditEntry, AuditWords};
use crate::words::id::{Ticket, Time};
use crate::words::reject::Reject;

impl Turn {
    /// Writes an entry down. What was done is written down on a full disk, too, as its doing was; what was refused can be
    /// left out, or a stranger could fill what is kept free for acks.
    pub(crate) fn handle_record(
        &mut self,
        ticket: Ticket,
        entry: AuditEntry,
        is_dispensable: bool,
        out: &mut Output,
    ) {
        if is_dispensable && !self.roomy {
            return self.journal.refuse(out, ticket, Reject::DiskFull);
        }
        let (sequence, entry) = (self.journal.state.audit.next(), entry.bounded());
        let fact = AuditFact::Recorded { sequence, at: self.now, words: AuditWords::from(&entry) };
        self.journal.emit(Haste::Urgent, out, &Fact::Audit(fact));
        self.drop_outlived(out);
        self.schedule_audit();
        self.journal.reply(out, ticket, Answer::Recorded { sequence });
    }

    /// Sets the timer that drops entries, unless one is set.
    pub(crate) fn schedule_audit(&mut self) {
        if self.drops_audit {
            return;
        }
        if let Some(oldest) = self.journal.state.audit.oldest_at() {
            let due = oldest.after_ms(self.settings.audit_keep_ms).max(self.now);
            self.timers.set(due.after_ms(FORGET_SLACK_MS), Due::DropAudit);
            self.drops_audit = true;
        }
    }

    pub(crate) fn on_drop_audit(&mut self, out: &mut Output) {
        self.drops_audit = false;
        self.drop_outlived(out);
        self.schedule_audit();
    }

    fn drop_outlived(&mut self, out: &mut Output) {
        let audit = &self.journal.state.audit;
        let since = Time(self.now.0.saturating_sub(self.settings.audit_keep_ms));
        let below = audit.outlived(since, self.settings.audit_keep_bytes);
        if below > audit.oldest() {
            self.journal.emit(Haste::Lazy, out, &Fact::Audit(AuditFact::Dropped { below }));
        }
    }
}
