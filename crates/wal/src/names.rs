//! What each file name in the data directory means.

use std::collections::BTreeMap;

use crate::Lsn;
use crate::disk::Entry;
use crate::segment::SegmentHeader;

/// Held locked while the directory is in use; its contents mean nothing.
pub(crate) const LOCK: &str = "LOCK";
/// Space that is given up to fit a snapshot onto a full disk.
pub(crate) const RESERVE: &str = "reserve";
/// Names the newest segment.
pub(crate) const NEWEST: &str = "newest";
/// A file that is still being made. Whatever is found under such a name was never finished.
pub(crate) const TEMP: &str = ".tmp";

/// Name of a segment in use.
pub fn segment(number: u32) -> String {
    format!("seg-{number:08x}.log")
}

/// The number in a segment's name.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    hex(name, "seg-", 8, ".log").and_then(|number| u32::try_from(number).ok())
}

/// Name of a segment file waiting to be used.
pub(crate) fn spare(number: u64) -> String {
    format!("spare-{number:08x}.seg")
}

/// Name of the snapshot of everything below `upto`.
pub(crate) fn snapshot(upto: Lsn) -> String {
    format!("snap-{:016x}.snap", upto.0)
}

/// Name under which repair keeps what it cuts out from `from` on.
pub(crate) fn damaged(from: Lsn) -> String {
    format!("damaged-{:016x}.bin", from.0)
}

/// The name a file has until it is complete.
pub(crate) fn temp(name: &str) -> String {
    format!("{name}{TEMP}")
}

/// The directory, sorted by meaning. Names the log does not use are left alone.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Length of each segment file, by number.
    pub(crate) segments: BTreeMap<u32, u64>,
    /// Headers to believe instead of the ones on disk; a repair plans with what it has not done yet.
    pub(crate) headers: BTreeMap<u32, SegmentHeader>,
    /// Length of each snapshot file, by the position in its name.
    pub(crate) snapshots: BTreeMap<Lsn, u64>,
    /// Length of each spare, by number.
    pub(crate) spares: BTreeMap<u64, u64>,
    /// Unfinished files.
    pub(crate) temps: Vec<String>,
    /// Length of the reserve, if there is one.
    pub(crate) reserve: Option<u64>,
    /// The newest segment that is known to have been there.
    pub(crate) newest: Option<u32>,
    /// Length of all files of the log together.
    pub(crate) bytes: u64,
}

impl Survey {
    /// Sorts a listing.
    pub(crate) fn of(entries: Vec<Entry>) -> Self {
        let mut survey = Self::default();
        for Entry { name, bytes } in entries {
            if let Some(number) = segment_number(&name) {
                survey.segments.insert(number, bytes);
            } else if let Some(upto) = hex(&name, "snap-", 16, ".snap") {
                survey.snapshots.insert(Lsn(upto), bytes);
            } else if let Some(number) = hex(&name, "spare-", 8, ".seg") {
                survey.spares.insert(number, bytes);
            } else if name.ends_with(TEMP) && is_ours(&name) {
                survey.temps.push(name);
            } else if name == RESERVE {
                survey.reserve = Some(bytes);
            } else {
                continue;
            }
            survey.bytes += bytes;
        }
        survey
    }
}

/// The number between prefix and suffix, in at least `width` digits, if the name is exactly how this crate spells it.
fn hex(name: &str, prefix: &str, width: usize, suffix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    let lower = digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if digits.len() < width || !lower {
        return None;
    }
    let number = u64::from_str_radix(digits, 16).ok()?;
    // Without this, a name with spare leading zeros would alias another file.
    (format!("{number:0width$x}") == digits).then_some(number)
}

fn is_ours(name: &str) -> bool {
    ["seg-", "snap-", "spare-", "reserve", "damaged-"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{Survey, damaged, segment, snapshot, spare, temp};
    use crate::{Entry, Lsn};

    #[test]
    fn names_round_trip_and_strangers_are_left_alone() {
        let names = [
            segment(5),
            spare(0x1_2345_6789),
            snapshot(Lsn::new(5, 64)),
            temp(&segment(6)),
            "reserve".into(),
            damaged(Lsn::new(1, 64)),
            "seg-5.log".into(),
            "seg-000000005.log".into(),
            "seg-0000000G.log".into(),
            "notes.tmp".into(),
        ];
        let entries = names.map(|name| Entry { name, bytes: 1 });
        let survey = Survey::of(entries.to_vec());
        assert_eq!(survey.segments.keys().collect::<Vec<_>>(), [&5]);
        assert_eq!(survey.spares.keys().collect::<Vec<_>>(), [&0x1_2345_6789]);
        assert_eq!(survey.snapshots.keys().collect::<Vec<_>>(), [&Lsn::new(5, 64)]);
        assert_eq!(survey.temps, ["seg-00000006.log.tmp"]);
        assert_eq!((survey.reserve, survey.bytes), (Some(1), 5));
    }
}
