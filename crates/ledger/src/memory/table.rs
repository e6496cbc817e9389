//! All records in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio::sync::watch;

use super::audit::Audit;
use super::entry::Entry;
use crate::audit;
use crate::{Event, Filter, Identity, LedgerError, Moment, Page, Stats, Status, Sweep, Swept, words};

/// Records that one page looks at: what it costs at the most. A page may be short, and still not the last.
const SCAN_MAX: usize = 2_000;
/// Records removed at the most to make room for a new one.
const ROOM_MAX: u32 = 64;

/// All records. What is decided about an effect depends on `records` alone; the two indexes only say where to look, so
/// a wrong one hides a record from a list or a sweep and never from a caller that begins.
pub(super) struct Table {
    records: HashMap<Identity, Entry>,
    /// By how they are written down, oldest first.
    listed: BTreeMap<Status, BTreeMap<i64, Identity>>,
    /// By when a sweep finds something to do about them.
    due: BTreeMap<(Moment, i64), Identity>,
    number_last: i64,
    pub(super) records_max: usize,
    pub(super) audit: Audit,
    /// The latest time that was seen: it never gets earlier.
    latest: Moment,
}

impl Table {
    pub(super) fn new(records_max: usize) -> Self {
        Self {
            records: HashMap::new(),
            listed: BTreeMap::new(),
            due: BTreeMap::new(),
            number_last: 0,
            records_max,
            audit: Audit::default(),
            latest: Moment::from_micros(i64::MIN),
        }
    }

    /// What time it is, by a clock that says so; never earlier than before.
    pub(super) fn time(&mut self, clock: Moment) -> Moment {
        self.latest = self.latest.max(clock);
        self.latest
    }

    pub(super) fn get(&self, identity: &Identity) -> Option<&Entry> {
        self.records.get(identity)
    }

    /// Adds a record in the place of one whose time is over.
    pub(super) fn add(
        &mut self,
        identity: &Identity,
        now: Moment,
        make: impl FnOnce(i64) -> Entry,
    ) -> Result<&Entry, LedgerError> {
        let before = self.remove(identity);
        if self.records.len() >= self.records_max {
            self.sweep(Sweep { dry_run: false, limit: ROOM_MAX }, now);
        }
        if self.records.len() >= self.records_max {
            let most = self.records_max;
            return Err(LedgerError::Full(format!("it keeps {most} records in memory at the most")));
        }
        self.number_last += 1;
        let entry = make(self.number_last);
        if let Some(before) = before {
            self.audit.note(Event::BegunAnew, &before, Some(&entry), now);
        }
        self.list(&entry);
        Ok(self.records.entry(identity.clone()).insert_entry(entry).into_mut())
    }

    /// Changes a record, if there is one, and wakes its waiters.
    pub(super) fn change(&mut self, identity: &Identity, change: impl FnOnce(&mut Entry)) -> Option<&Entry> {
        let mut entry = self.records.remove(identity)?;
        self.unlist(&entry);
        let before = entry.trace();
        change(&mut entry);
        if let Some(event) = audit::event(before, entry.trace()) {
            self.audit.changed(event, before, &entry);
        }
        entry.changed = None;
        self.list(&entry);
        Some(self.records.entry(identity.clone()).insert_entry(entry).into_mut())
    }

    /// A receiver that closes when the record changes.
    pub(super) fn watch(&mut self, identity: &Identity) -> Option<watch::Receiver<()>> {
        let entry = self.records.get_mut(identity)?;
        Some(entry.changed.get_or_insert_with(|| watch::Sender::new(())).subscribe())
    }

    /// Removes a record, if there is one, and wakes its waiters.
    pub(super) fn remove(&mut self, identity: &Identity) -> Option<Entry> {
        let entry = self.records.remove(identity)?;
        self.unlist(&entry);
        Some(entry)
    }

    fn list(&mut self, entry: &Entry) {
        self.listed.entry(entry.status).or_default().insert(entry.number, entry.identity.clone());
        if let Some(at) = entry.due_at() {
            self.due.insert((at, entry.number), entry.identity.clone());
        }
    }

    fn unlist(&mut self, entry: &Entry) {
        if let Some(listed) = self.listed.get_mut(&entry.status) {
            listed.remove(&entry.number);
        }
        if let Some(at) = entry.due_at() {
            self.due.remove(&(at, entry.number));
        }
    }

    /// Some records, oldest first. Those of a status are found by it; principal and method are looked for among them.
    pub(super) fn page(&self, filter: &Filter, now: Moment) -> Result<Page, LedgerError> {
        let after = match &filter.cursor {
            None => 0,
            Some(cursor) => cursor.parse::<i64>().map_err(|_| {
                LedgerError::Invalid(format!("{cursor:?} is no cursor that this store gave out"))
            })?,
        };
        // A lease that lapsed may be written down as in progress, and be unknown all the same.
        let places: &[Status] = match filter.status {
            None => &Status::ALL,
            Some(Status::Unknown) => &[Status::InProgress, Status::Unknown],
            Some(ref status) => std::slice::from_ref(status),
        };
        let from = after.saturating_add(1)..;
        let mut looked_at: Vec<(&i64, &Identity)> = Vec::new();
        for listed in places.iter().filter_map(|status| self.listed.get(status)) {
            looked_at.extend(listed.range(from.clone()).take(SCAN_MAX + 1));
        }
        looked_at.sort_unstable();
        let mut page = Page::default();
        let mut last = after;
        for (scanned, (number, identity)) in looked_at.into_iter().enumerate() {
            // The page ends only when there is another record: otherwise an empty page would follow it.
            if scanned == SCAN_MAX || page.records.len() == filter.limit as usize {
                page.cursor = Some(last.to_string());
                break;
            }
            last = *number;
            let entry = self.records.get(identity).filter(|entry| !entry.standing(now).is_over());
            page.records.extend(entry.map(|entry| entry.view(now)).filter(|record| {
                filter.status.is_none_or(|status| record.status == status)
                    && filter.principal.as_ref().is_none_or(|one| record.identity.principal() == one)
                    && filter.method.as_ref().is_none_or(|one| record.identity.method() == one)
            }));
        }
        Ok(page)
    }

    /// Goes through what is due, and through nothing else.
    pub(super) fn sweep(&mut self, sweep: Sweep, now: Moment) -> Swept {
        let mut swept = Swept::default();
        let mut due = self.due.range(..=(now, i64::MAX)).map(|(key, identity)| (*key, identity.clone()));
        let round: Vec<_> = due.by_ref().take(sweep.limit as usize).collect();
        swept.more = due.next().is_some();
        for (key, identity) in round {
            let Some(standing) = self.records.get(&identity).map(|entry| entry.standing(now)) else {
                self.due.remove(&key);
                continue;
            };
            let (is_over, becomes_unknown) = (standing.is_over(), standing.becomes_unknown());
            swept.removed += u64::from(is_over);
            swept.held += u64::from(becomes_unknown);
            match (sweep.dry_run, is_over, becomes_unknown) {
                (true, ..) => {}
                (false, true, _) => {
                    let gone = self.remove(&identity).filter(|gone| audit::is_worth_a_removal(gone.trace()));
                    if let Some(gone) = gone {
                        self.audit.note(Event::Removed, &gone, None, now);
                    }
                }
                (false, false, true) => {
                    self.change(&identity, |entry| entry.hold(now));
                }
                // It was due by mistake. The mistake must not come up in every round.
                (false, false, false) => {
                    self.due.remove(&key);
                }
            }
        }
        swept
    }

    /// Counts. This goes through what is in progress and through what is due, not through what has ended.
    pub(super) fn stats(&self, now: Moment) -> Stats {
        let mut stats = Stats::default();
        for status in Status::ALL {
            let count = self.listed.get(&status).map_or(0, BTreeMap::len);
            stats.by_status.insert(words::of_status(status), count as u64);
        }
        let running = self.listed.get(&Status::InProgress).into_iter().flat_map(BTreeMap::values);
        for entry in running.filter_map(|identity| self.records.get(identity)) {
            let standing = entry.standing(now);
            if standing.becomes_unknown() {
                *stats.by_status.entry(words::of_status(Status::InProgress)).or_default() -= 1;
                *stats.by_status.entry(words::of_status(Status::Unknown)).or_default() += 1;
            } else if !standing.live {
                stats.lapsed += 1;
            }
        }
        let due: BTreeSet<&Identity> =
            self.due.range(..=(now, i64::MAX)).map(|(_, identity)| identity).collect();
        let over = due.into_iter().filter_map(|identity| self.records.get(identity));
        stats.over = Some(over.filter(|entry| entry.standing(now).is_over()).count() as u64);
        stats
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::entry::Lent;
    use super::*;
    use crate::{Ending, RequestHash, Response, Terms};

    const START: Moment = Moment::from_millis(1_766_318_400_000);

    fn identity(key: &str) -> Identity {
        Identity::new("ann", "pay", key).unwrap()
    }

    fn add(table: &mut Table, key: &str, now: Moment) {
        let terms = Terms::default();
        let lent = Lent { epoch: 1, attempt: 1, terms: &terms, call: None, owner: None };
        let (identity, hash) = (identity(key), RequestHash::of_bytes(b"request"));
        let make = |number| Entry::new(number, identity.clone(), &hash, &lent, now);
        table.add(&identity, now, make).unwrap();
    }

    #[test]
    fn indexes_that_are_lost_or_wrong_hide_nothing_from_whoever_begins() {
        let mut table = Table::new(10);
        add(&mut table, "k", START);
        table.listed.clear();
        table.due.clear();
        assert_eq!(table.get(&identity("k")).unwrap().epoch, 1);
        let ending = Ending::succeeded(Response::new("done"));
        table.change(&identity("k"), |entry| entry.end(&ending, None, START)).unwrap();
        assert_eq!(table.get(&identity("k")).unwrap().status, Status::Succeeded);
        // A change lists it anew, so that it is found and swept after all.
        let after = START.after(Terms::default().ttl);
        let filter = Filter { limit: 10, ..Filter::default() };
        assert_eq!(table.page(&filter, START).unwrap().records.len(), 1);
        assert_eq!(table.sweep(Sweep::default(), after).removed, 1);
        assert!(table.get(&identity("k")).is_none());
    }

    #[test]
    fn a_sweep_forgets_what_was_due_by_mistake_and_leaves_the_record() {
        let mut table = Table::new(10);
        add(&mut table, "live", START);
        table.due.insert((START, 1), identity("live"));
        table.due.insert((START, 7), identity("nothing"));
        let swept = table.sweep(Sweep::default(), START);
        assert_eq!(swept, Swept::default());
        assert_eq!(table.due.len(), 1, "only what is due in truth");
        assert!(table.get(&identity("live")).is_some());
        assert_eq!(table.sweep(Sweep::default(), START.after(Duration::from_secs(30))).held, 1);
    }
}
