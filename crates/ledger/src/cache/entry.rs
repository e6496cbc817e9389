//! A copy of a final outcome, and its bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use driftq_rules as rules;
use serde::{Deserialize, Serialize};

use super::Reading;
use crate::{Begin, Identity, Kept, Moment, OnLapse, Outcome, Resolver, Response, Status, moment, words};

/// The version of the bytes of a copy. Any other is not read.
const VERSION: u8 = 1;
/// How many bytes of a checksum follow the version.
const CHECKSUM_BYTES: usize = 16;
/// What a copy takes in memory in addition to its texts and its payload.
const OVERHEAD_BYTES: usize = 512;

/// A copy of a final outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which effect.
    pub identity: Identity,
    /// The version of the recipe of the record's hash.
    pub hash_version: u16,
    /// The record's hash.
    pub hash: String,
    /// How it ended.
    pub outcome: Outcome,
    /// When this copy stops counting. That is before its record does.
    pub until: Reading,
}

impl Entry {
    /// How much longer this copy answers this question, and that the answer is the outcome; `None` if the store has
    /// to be asked.
    pub(super) fn answers(&self, asked: &Begin, now: Reading) -> Option<Kept> {
        let remains = self.until.left(now);
        if remains.is_zero() || self.identity != asked.identity {
            return None;
        }
        let standing = rules::Standing {
            status: self.outcome.end.into(),
            epoch: self.outcome.epoch,
            attempts: self.outcome.attempt,
            attempts_max: None,
            on_lapse: OnLapse::Hold,
            live: false,
            expired: false,
            released: false,
        };
        let question = rules::Asked {
            same_request: asked.hash.matches(self.hash_version, &self.hash),
            same_call: false,
            reacquire: asked.reacquire,
            attempts_max: asked.terms.attempts_max,
        };
        let is_replay = rules::begin(Some(&standing), question) == rules::Begun::Replay;
        is_replay.then(|| Kept { hash_version: self.hash_version, hash: self.hash.clone(), remains })
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let Outcome { response, error, resolved, .. } = &self.outcome;
        let identity =
            self.identity.principal().len() + self.identity.method().len() + self.identity.key().len();
        let headers: usize = response.headers.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        let resolved = resolved.as_ref().map_or(0, |resolver| resolver.by.len() + resolver.why.len());
        OVERHEAD_BYTES
            + identity
            + self.hash.len()
            + headers
            + response.payload.len()
            + error.len()
            + resolved
    }

    /// As bytes, for a cache that is elsewhere. They say by the wall clock when the copy ends.
    #[must_use]
    pub fn to_bytes(&self, now: Reading) -> Option<Vec<u8>> {
        let Outcome { end, response, error, finished_at, epoch, attempt, resolved } = &self.outcome;
        let left = self.until.left(now);
        let head = Head {
            principal: self.identity.principal().to_owned(),
            method: self.identity.method().to_owned(),
            key: self.identity.key().to_owned(),
            hash_version: self.hash_version,
            hash: self.hash.clone(),
            status: words::of_end(*end).to_owned(),
            code: response.code,
            headers: response.headers.clone(),
            error: error.clone(),
            finished_at: finished_at.micros(),
            epoch: *epoch,
            attempt: *attempt,
            resolved: resolved.clone().map(|resolver| (resolver.by, resolver.why)),
            until: now.wall.after(left).micros(),
            left: moment::micros(left),
        };
        let head = serde_json::to_vec(&head).ok()?;
        let mut body = u32::try_from(head.len()).ok()?.to_le_bytes().to_vec();
        body.extend_from_slice(&head);
        body.extend_from_slice(&response.payload);
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&checksum(&body));
        bytes.extend_from_slice(&body);
        Some(bytes)
    }

    /// From bytes that a process wrote, perhaps on another machine; `None` if they are not a copy that is valid now.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], now: Reading) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (sum, body) = rest.split_at_checked(CHECKSUM_BYTES)?;
        if *version != VERSION || checksum(body) != sum {
            return None;
        }
        let (length, rest) = body.split_at_checked(4)?;
        let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
        let (head, payload) = rest.split_at_checked(length)?;
        let head: Head = serde_json::from_slice(head).ok()?;
        let status = words::status(&head.status).filter(|status: &Status| status.is_final())?;
        let wall = Moment::from_micros(head.until);
        let left = wall.since(now.wall);
        // If there seems to be more left than there was when it was written, this clock is behind the writer's.
        if left.is_zero() || left > Duration::from_micros(u64::try_from(head.left).ok()?) {
            return None;
        }
        let response =
            Response { code: head.code, headers: head.headers, payload: Bytes::copy_from_slice(payload) };
        Some(Self {
            identity: Identity::new(&head.principal, &head.method, &head.key).ok()?,
            hash_version: head.hash_version,
            hash: head.hash,
            outcome: Outcome {
                end: crate::End::of(status)?,
                response,
                error: head.error,
                finished_at: Moment::from_micros(head.finished_at),
                epoch: head.epoch,
                attempt: head.attempt,
                resolved: head.resolved.map(|(by, why)| Resolver { by, why }),
            },
            until: Reading { steady: now.steady.checked_add(left)?, wall },
        })
    }
}

/// Everything but the payload, which follows as it is.
#[derive(Serialize, Deserialize)]
struct Head {
    principal: String,
    method: String,
    key: String,
    hash_version: u16,
    hash: String,
    status: String,
    code: Option<i32>,
    headers: BTreeMap<String, String>,
    error: String,
    /// Microseconds since 1970, by the store's clock.
    finished_at: i64,
    epoch: u32,
    attempt: u32,
    resolved: Option<(String, String)>,
    /// When the copy ends: microseconds since 1970, by the writer's wall clock.
    until: i64,
    /// How many microseconds that was away when it was written.
    left: i64,
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut sum = [0; CHECKSUM_BYTES];
    blake3::Hasher::new().update(b"driftq ledger cache 1\0").update(bytes).finalize_xof().fill(&mut sum);
    sum
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{End, RequestHash};

    pub(in crate::cache) fn entry(key: &str, payload: usize) -> Entry {
        let now = Reading::now();
        Entry {
            identity: Identity::new("ann", "pay", key).unwrap(),
            hash_version: 1,
            hash: RequestHash::of_bytes(b"asked").digest().to_owned(),
            outcome: Outcome {
                end: End::Succeeded,
                response: Response::new(vec![7; payload]).code(201).header("a", "ä"),
                error: String::new(),
                finished_at: Moment::from_micros(1_766_318_400_000_001),
                epoch: 3,
                attempt: 2,
                resolved: Some(Resolver { by: "eve".to_owned(), why: "the provider says so".to_owned() }),
            },
            until: now.after(Duration::from_secs(30)).unwrap(),
        }
    }

    #[test]
    fn a_copy_that_was_written_and_read_is_the_same() {
        let now = Reading::now();
        for payload in [0, 1, 100_000] {
            let written = entry("k", payload);
            let bytes = written.to_bytes(now).unwrap();
            let read = Entry::from_bytes(&bytes, now).unwrap();
            assert_eq!(Entry { until: written.until, ..read.clone() }, written);
            assert!(read.until.wall <= written.until.wall && read.until.steady <= written.until.steady);
        }
    }

    #[test]
    fn bytes_that_are_damaged_anywhere_are_no_copy() {
        let now = Reading::now();
        let bytes = entry("k", 20).to_bytes(now).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Entry::from_bytes(&damaged, now), None, "byte {at}");
            assert_eq!(Entry::from_bytes(&bytes[..at], now), None, "cut at {at}");
        }
        let mut newer = bytes;
        newer[0] = VERSION + 1;
        assert_eq!(Entry::from_bytes(&newer, now), None);
    }

    #[test]
    fn a_copy_from_a_clock_that_is_ahead_or_from_the_past_is_none() {
        let now = Reading::now();
        let written = entry("k", 20);
        let bytes = written.to_bytes(now).unwrap();
        let later = |seconds| Reading { wall: now.wall.after(Duration::from_secs(seconds)), ..now };
        assert!(Entry::from_bytes(&bytes, later(29)).is_some());
        assert_eq!(Entry::from_bytes(&bytes, later(31)), None, "its time is over");
        let behind = Reading { wall: Moment::from_micros(now.wall.micros() - 1_000_000), ..now };
        assert_eq!(Entry::from_bytes(&bytes, behind), None, "this clock is behind the writer's");
    }

    #[test]
    fn only_the_same_question_within_its_time_is_answered() {
        let now = Reading::now();
        let copy = entry("k", 20);
        let asked = Begin::new(copy.identity.clone(), RequestHash::of_bytes(b"asked"));
        let kept = copy.answers(&asked, now).unwrap();
        assert!(kept.remains > Duration::from_secs(29) && kept.remains <= Duration::from_secs(31));
        assert_eq!((kept.hash_version, kept.hash), (1, copy.hash.clone()));

        let other = Begin::new(copy.identity.clone(), RequestHash::of_bytes(b"something else"));
        assert_eq!(copy.answers(&other, now), None, "the store says what a conflict is");
        let newer = RequestHash::foreign("x").unwrap();
        let both = Begin::new(copy.identity.clone(), newer.or_before(RequestHash::of_bytes(b"asked")));
        assert!(copy.answers(&both, now).is_some(), "an older recipe of the asker's matches");
        let elsewhere = Begin::new(Identity::new("ann", "pay", "k2").unwrap(), asked.hash.clone());
        assert_eq!(copy.answers(&elsewhere, now), None);
        assert_eq!(copy.answers(&asked, copy.until), None, "its time is over");
        let mut open = copy;
        open.outcome.end = End::FailedRetryable;
        assert_eq!(open.answers(&asked, now), None, "it may be tried again");
    }
}
