//! What counts in a shared log, by the simulator's own books: at most one writer's facts per epoch.
//!
//! They are kept by whoever sees everything arrive, and share no code with the rules that servers read a log by.

use std::collections::BTreeMap;

use driftq_wal::Lsn;
use driftq_wal::claim::Head;

/// A batch that counts.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) previous: Lsn,
    pub(crate) ended: Lsn,
    pub(crate) body: Vec<u8>,
}

/// The books of one log.
pub(crate) struct Books {
    /// The claim in force.
    claim: u64,
    /// Parts of a batch that is not whole: its claim, where it begins, how many there are, their bytes.
    under_way: Option<(u64, Lsn, u32, Vec<u8>)>,
    /// By where they begin, as far as they were not trimmed.
    batches: BTreeMap<Lsn, Counted>,
    /// Under which claim the batch that ends here was written; nothing is ever forgotten.
    written: BTreeMap<Lsn, u64>,
    end: Lsn,
    /// The first promise that was broken.
    fault: Option<String>,
}

impl Books {
    pub(crate) fn new(start: Lsn) -> Self {
        Self {
            claim: 0,
            under_way: None,
            batches: BTreeMap::new(),
            written: BTreeMap::new(),
            end: start,
            fault: None,
        }
    }

    pub(crate) const fn batches(&self) -> &BTreeMap<Lsn, Counted> {
        &self.batches
    }

    pub(crate) fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    pub(crate) fn complain(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    /// From here on only what is written under this claim counts.
    pub(crate) fn claimed(&mut self, epoch: u64) {
        self.claim = epoch;
        self.under_way = None;
    }

    /// A part was taken into the log. Where readers drop what was late, it may be there and must not count.
    pub(crate) fn arrived(&mut self, head: &Head, body: &[u8], readers_drop: bool) {
        let Head { epoch, frame, previous, ended, part, parts } = *head;
        if epoch != self.claim {
            if !readers_drop {
                let claim = self.claim;
                self.complain(format!("epochs: claim {claim} holds, and {frame} was taken under {epoch}"));
            }
            return;
        }
        let mut bytes = match self.under_way.take() {
            Some((by, at, count, bytes)) if part > 0 && (by, at, count) == (epoch, frame, part) => bytes,
            _ if part == 0 => Vec::new(),
            _ => return self.complain(format!("epochs: part {part} of {frame} joins on to nothing")),
        };
        bytes.extend_from_slice(body);
        if part + 1 < parts {
            self.under_way = Some((epoch, frame, part + 1, bytes));
            return;
        }
        if previous != self.end {
            let end = self.end;
            self.complain(format!("epochs: the log ends at {end}, and {frame} follows {previous}"));
        }
        self.end = ended;
        self.written.insert(ended, epoch);
        self.batches.insert(frame, Counted { previous, ended, body: bytes });
    }

    /// A server takes what lies up to here for durable, and tells its clients.
    pub(crate) fn told(&mut self, epoch: u64, upto: Lsn) {
        let by = self.written.get(&upto).copied();
        if by != Some(epoch) {
            let found = by.map_or_else(|| "nothing".into(), |by| format!("a batch of claim {by}"));
            self.complain(format!(
                "backed: claim {epoch} tells what lies up to {upto}, where {found} counts"
            ));
        }
    }

    /// A reader took these batches, by where they begin, for all that count in between.
    pub(crate) fn check_replay(&self, from: Lsn, to: Lsn, read: &[(Lsn, Vec<u8>)]) -> Result<(), String> {
        let counted = self.batches.iter().filter(|(_, batch)| batch.previous >= from && batch.ended <= to);
        let counted: Vec<(Lsn, &[u8])> = counted.map(|(frame, batch)| (*frame, &batch.body[..])).collect();
        let read: Vec<(Lsn, &[u8])> = read.iter().map(|(frame, body)| (*frame, &body[..])).collect();
        if counted == read {
            return Ok(());
        }
        let places = |batches: &[(Lsn, &[u8])]| -> Vec<String> {
            batches.iter().map(|(frame, body)| format!("{frame}+{}", body.len())).collect()
        };
        let (counted, read) = (places(&counted), places(&read));
        Err(format!("epochs: between {from} and {to} {counted:?} count, and {read:?} were read"))
    }

    pub(crate) fn trim(&mut self, segments: &[u32]) {
        self.batches.retain(|frame, _| !segments.contains(&frame.segment()));
    }
}
