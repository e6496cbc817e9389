//! What became of records in memory.

use std::collections::VecDeque;

use super::entry::Entry;
use crate::audit::Trace;
use crate::{AuditFilter, AuditPage, Event, LedgerError, Moment, Note, Status};

/// Most notes kept; the oldest go first.
pub(super) const NOTES_MAX: usize = 10_000;

/// Notes, oldest first, each with its number.
#[derive(Default)]
pub(super) struct Audit {
    notes: VecDeque<(u64, Note)>,
    number_last: u64,
}

impl Audit {
    /// A record was changed.
    pub(super) fn changed(&mut self, event: Event, before: Trace, after: &Entry) {
        let resolved = after.outcome.as_ref().and_then(|outcome| outcome.resolved.as_ref());
        let error = after.outcome.as_ref().map(|outcome| outcome.error.clone());
        let (by, why) = match event {
            Event::Resolved => {
                (resolved.map(|resolver| resolver.by.clone()), resolved.map(|resolver| resolver.why.clone()))
            }
            Event::Ended => (after.owner.clone(), error.filter(|error| !error.is_empty())),
            Event::Lapsed | Event::Removed => (None, None),
            _ => (after.owner.clone(), None),
        };
        let trace = after.trace();
        self.add(Note {
            at: after.updated_at,
            identity: after.identity.clone(),
            event,
            from: before.status,
            to: Some(trace.status),
            epoch: trace.epoch,
            attempt: trace.attempts,
            by,
            why,
        });
    }

    /// A record went, and another one may have taken its place.
    pub(super) fn note(&mut self, event: Event, before: &Entry, after: Option<&Entry>, now: Moment) {
        let trace = after.unwrap_or(before).trace();
        self.add(Note {
            at: now,
            identity: before.identity.clone(),
            event,
            from: before.status,
            to: after.map(|_| Status::InProgress),
            epoch: trace.epoch,
            attempt: trace.attempts,
            by: after.and_then(|after| after.owner.clone()),
            why: None,
        });
    }

    fn add(&mut self, note: Note) {
        if self.notes.len() >= NOTES_MAX {
            self.notes.pop_front();
        }
        self.number_last += 1;
        self.notes.push_back((self.number_last, note));
    }

    pub(super) fn page(&self, filter: &AuditFilter) -> Result<AuditPage, LedgerError> {
        let after = match &filter.cursor {
            None => 0,
            Some(cursor) => cursor.parse::<u64>().map_err(|_| {
                LedgerError::Invalid(format!("{cursor:?} is no cursor that this store gave out"))
            })?,
        };
        let is_wanted = |note: &Note| filter.identity.as_ref().is_none_or(|one| *one == note.identity);
        let mut found = self.notes.iter().filter(|(number, note)| *number > after && is_wanted(note));
        let page: Vec<&(u64, Note)> = found.by_ref().take(filter.limit as usize).collect();
        let cursor = found.next().and_then(|_| page.last()).map(|(number, _)| number.to_string());
        Ok(AuditPage {
            notes: page.into_iter().map(|(_, note)| note.clone()).collect(),
            cursor,
            unreadable: 0,
        })
    }
}
