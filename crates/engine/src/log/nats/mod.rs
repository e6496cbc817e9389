//! The log in a stream of NATS JetStream.
//!
//! A batch is a message, or several if it is larger than one may be. Each message is published with the sequence that
//! the stream is expected to end with, one at a time: a server that lost a race, or whose answer was lost, finds out by
//! reading what stands there instead. A claim is such a message, too. Whoever had the log before expects the stream to
//! end in front of the claim, and is refused from then on. Every message names the claim that it was written under, and
//! a reader drops what came behind a newer one: the servers' promise about sequences is not the only thing relied upon.
//!
//! Positions are those of the files (segment and byte), and every segment is a subject, so that it can be purged.

mod address;
mod append;
mod archive;
mod fault;
mod link;
mod record;
mod register;
mod snapshot;
mod stream;
mod transfer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use driftq_core::{SHARDS_MAX, ShardId};
use driftq_wal::claim::{Edge, Head, may_claim};

use self::address::Address;
use self::append::{NatsWriter, Tail};
use self::archive::{Index, NatsArchive};
use self::fault::Trouble;
use self::link::{Expect, Link, Wanted};
use self::record::{HEAD_BYTES, Mark, Marks, Part};
pub(crate) use self::register::NatsRegister;
use self::stream::troubled;
pub(crate) use self::transfer::{NatsSource, NatsTarget};
use super::extent::{Current, Extent, Patience, START};
use super::{Cursor, Log, Lsn, NatsPlace, Opened};
use crate::failure::StartError;
use crate::locks::lock;

/// Bytes of a message that its headers take.
const HEADERS_BYTES: usize = 1 << 10;
/// Most bytes of a batch in one message, however much the servers would take.
const PART_BYTES_MAX: usize = 1 << 20;

/// A log in JetStream.
pub struct NatsLog {
    place: NatsPlace,
    address: Address,
    names: Arc<Names>,
    /// A segment is full when it has reached this.
    roll_at: u32,
    /// Tells claims of this process from those of others.
    holder: String,
    claimed: Mutex<bool>,
}

/// The stream of a shard: that of the first one is called what the operator called it.
fn stream_of(named: &str, shard: ShardId) -> String {
    if shard.0 == 0 { named.to_owned() } else { format!("{named}_shard{}", shard.0) }
}

/// The names of streams and subjects.
struct Names {
    /// The stream of batches and marks.
    log: String,
    /// The stream of snapshots.
    snapshots: String,
}

impl Names {
    fn new(stream: &str) -> Self {
        Self { log: stream.to_owned(), snapshots: format!("{stream}_snapshots") }
    }

    fn log_subjects(&self) -> String {
        format!("driftq.{}.log.>", self.log)
    }

    fn segments(&self) -> String {
        format!("driftq.{}.log.segment.*", self.log)
    }

    fn segment(&self, number: u32) -> String {
        format!("driftq.{}.log.segment.{number}", self.log)
    }

    fn marks(&self) -> String {
        format!("driftq.{}.log.mark", self.log)
    }

    fn snapshot_subjects(&self) -> String {
        format!("driftq.{}.snapshot.*", self.log)
    }

    fn snapshot(&self, number: i64) -> String {
        format!("driftq.{}.snapshot.{number}", self.log)
    }

    /// The stream of the servers that share the log.
    fn register(&self) -> String {
        format!("{}_cluster", self.log)
    }

    fn register_subjects(&self) -> String {
        format!("driftq.{}.cluster.>", self.log)
    }

    fn seat(&self) -> String {
        format!("driftq.{}.cluster.seat", self.log)
    }

    fn secret(&self) -> String {
        format!("driftq.{}.cluster.secret", self.log)
    }
}

/// What the handles of one open log have in common.
struct Shared {
    link: Link,
    names: Arc<Names>,
    epoch: u64,
    holder: String,
    /// The marks up to the claim: nobody makes another claim without ending this one.
    marks: Marks,
    extent: Extent,
    index: Index,
    tail: Mutex<Tail>,
    snapshot: Mutex<Current>,
    /// Bytes of a batch that one message carries.
    part_bytes: usize,
}

fn fenced(epoch: u64) -> String {
    format!(
        "another server has taken over the log in NATS (this one had claim {epoch}); it serves now. Use that one, or \
         start this one again to take the log back"
    )
}

fn fenced_while_away() -> StartError {
    StartError::Fenced(
        "another server has taken over the log while this one could not reach NATS; it serves now. Use that one, or \
         start this one again to take the log back"
            .into(),
    )
}

fn damaged(what: &str) -> StartError {
    StartError::Damaged(format!("{what}. Nothing was changed; restore the stream from a backup"))
}

/// What a claim found: itself as the last of the marks.
struct Claim {
    sequence: u64,
    epoch: u64,
    marks: Marks,
}

/// The end of the log, as the messages in front of a claim tell it.
struct End {
    at: Lsn,
    /// What was cut off, in words.
    torn: Option<String>,
}

impl NatsLog {
    /// The log of a shard in this place, in segments of about this size. Nothing is connected yet.
    pub fn new(place: NatsPlace, shard: ShardId, segment_bytes: u32) -> Result<Self, StartError> {
        let help = address::FORM.to_owned();
        let address = Address::parse(&place.url).map_err(|what| StartError::Database { what, help })?;
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| StartError::Log(format!("no randomness: {error}")))?;
        Ok(Self {
            names: Arc::new(Names::new(&stream_of(&address.stream, shard))),
            roll_at: segment_bytes - segment_bytes / 8,
            holder: nonce.iter().map(|byte| format!("{byte:02x}")).collect(),
            claimed: Mutex::new(false),
            place,
            address,
        })
    }

    /// How many shards there are in this place.
    pub(crate) fn shards(&self) -> Result<u8, StartError> {
        let link = Link::new(&self.address).map_err(|trouble| troubled(&trouble))?;
        let is_there = |number: u8| {
            let stream = stream_of(&self.address.stream, ShardId(number));
            let look = |link: &Link| match stream::info(link, &stream, None) {
                Err(trouble) if trouble.is_absence() => Ok(false),
                found => found.map(|_| true),
            };
            link.patiently(look).map_err(|trouble| troubled(&trouble))
        };
        for number in 1..SHARDS_MAX {
            if !is_there(number)? {
                return Ok(number);
            }
        }
        Ok(SHARDS_MAX)
    }

    /// Takes the log: nobody who had it before can append after this. A process that has had it takes it again only
    /// from itself.
    fn claim(&self, link: &Link) -> Result<Claim, StartError> {
        let mut claimed = lock(&self.claimed);
        let mut patience = Patience::new();
        let mut last = None;
        loop {
            let trouble = match self.try_claim(link, *claimed, last) {
                Ok(Some(claim)) => {
                    *claimed = true;
                    return Ok(claim);
                }
                Ok(None) => return Err(fenced_while_away()),
                Err(trouble) => trouble,
            };
            // A server at work is quick: what it has just put is followed at once, without asking where the stream ends.
            last = trouble.last_sequence().filter(|_| !*claimed);
            let again = trouble.passes() || trouble.is_lost_race();
            if !again || (last.is_none() && !patience.wait()) {
                return Err(troubled(&trouble));
            }
        }
    }

    /// One attempt. `None` if somebody else has the log that this one had.
    fn try_claim(&self, link: &Link, claimed: bool, last: Option<u64>) -> Result<Option<Claim>, Trouble> {
        let Names { log, .. } = &*self.names;
        let newest = link.last(log, &self.names.marks())?;
        let newest = newest.and_then(|message| Mark::decoded(&message.payload));
        let newest_is_own = newest.as_ref().is_some_and(|mark| mark.holder == self.holder);
        if !may_claim(claimed, newest_is_own) {
            return Ok(None);
        }
        let epoch = newest.map_or(0, |mark| mark.epoch) + 1;
        let last = match last {
            Some(last) => last,
            None => stream::info(link, log, None)?.state.last_seq,
        };
        let mark = Mark { epoch, holder: self.holder.clone(), snapshot: None };
        let sequence = link.publish(log, &self.names.marks(), &Expect::Last(last), mark.encoded())?;
        let marks = self.marks(link, sequence)?;
        if marks.last() != Some(&mark) || !marks.rules.is_newest(sequence, epoch) {
            return Err(Trouble::Unsure("another server claimed the log at the same time".into()));
        }
        Ok(Some(Claim { sequence, epoch, marks }))
    }

    /// All marks up to this one.
    fn marks(&self, link: &Link, upto: u64) -> Result<Marks, Trouble> {
        let mut marks = Marks::default();
        while marks.rules.reached() < upto {
            let (subject, from) = (self.names.marks(), marks.rules.reached() + 1);
            let wanted = Wanted::many(from, Some(&subject));
            let page = link.patiently(|link| match link.fetch(&self.names.log, wanted)? {
                page if page.is_empty() => Err(Trouble::Unsure("a replica lags behind".into())),
                page => Ok(page),
            })?;
            for message in page {
                let mark = Mark::decoded(&message.payload);
                let mark =
                    mark.ok_or_else(|| Trouble::Refused("a mark in the log is damaged".into(), None))?;
                marks.push(message.sequence, mark);
            }
        }
        Ok(marks)
    }

    /// Where the log ends: the last batch in front of the claim that is whole and was written under the claim of its
    /// time. Read one by one, each by its number: no replica can be wrong about what stands there.
    fn end(&self, link: &Link, claim: &Claim) -> Result<End, StartError> {
        let mut torn = None;
        for sequence in (1..claim.sequence).rev() {
            let wanted = Wanted::one(sequence, None);
            let found = link.patiently(|link| match link.fetch(&self.names.log, wanted)?.pop() {
                None => Err(Trouble::Unsure("a replica lags behind".into())),
                Some(message) => Ok(message),
            });
            let message = found.map_err(|trouble| troubled(&trouble))?;
            if message.sequence != sequence || message.subject == self.names.marks() {
                continue;
            }
            let part = Part::decoded(&message.payload);
            let part = part.ok_or_else(|| damaged("the last batch of the log in NATS is damaged"))?;
            let Head { frame, part: number, parts, .. } = part.head;
            match claim.marks.rules.edge(sequence, &part.head) {
                Edge::Deposed => torn = Some(format!("what a deposed server had on the way to {frame}")),
                Edge::End(at) => return Ok(End { at, torn }),
                Edge::Torn(at) => {
                    let has = number + 1;
                    let torn = Some(format!("{has} of {parts} messages of an unfinished batch at {frame}"));
                    return Ok(End { at, torn });
                }
            }
        }
        Ok(End { at: START, torn })
    }

    /// The end of every segment.
    fn segments(&self, link: &Link, claim: &Claim, end: Lsn) -> Result<BTreeMap<u32, u32>, Trouble> {
        let Names { log, .. } = &*self.names;
        let info = link.patiently(|link| match stream::info(link, log, Some(&self.names.segments()))? {
            info if info.state.last_seq < claim.sequence => {
                Err(Trouble::Unsure("a leader lags behind".into()))
            }
            info => Ok(info),
        })?;
        let mut segments = BTreeMap::new();
        for subject in info.state.subjects.keys() {
            let number = subject.rsplit_once('.').and_then(|(_, number)| number.parse().ok());
            let Some(number) = number.filter(|number| *number < end.segment()) else { continue };
            let last = link.patiently(|link| link.last(log, subject))?;
            if let Some(part) = last.and_then(|last| Part::decoded(&last.payload)) {
                segments.insert(number, part.head.ended.offset());
            }
        }
        if end > START {
            segments.insert(end.segment(), end.offset());
        }
        Ok(segments)
    }

    /// Claims the log of streams that are there, and finds out how far it reaches; with what was cut off, in words.
    fn attach(&self, link: Link) -> Result<(Arc<Shared>, Option<String>), StartError> {
        let claim = self.claim(&link)?;
        // From here on nobody else appends: what is read now is the log.
        let End { at: end, torn } = self.end(&link, &claim)?;
        let segments = self.segments(&link, &claim, end).map_err(|trouble| troubled(&trouble))?;
        let stored = claim.marks.rules.snapshot().copied();
        let upto = stored.map_or(Lsn::ZERO, |stored| stored.upto);
        if end < upto {
            let what = format!("the log ends at {end}, below its own snapshot at {upto}");
            return Err(StartError::Database { what, help: append::LOST.into() });
        }
        let part_bytes = (link.server().max_payload - HEADERS_BYTES - HEAD_BYTES).min(PART_BYTES_MAX);
        let shared = Shared {
            link,
            names: Arc::clone(&self.names),
            epoch: claim.epoch,
            holder: self.holder.clone(),
            marks: claim.marks,
            extent: Extent::new(segments, upto),
            index: Index::default(),
            tail: Mutex::new(Tail::new(claim.sequence)),
            snapshot: Mutex::new(Current { stored, put: 0 }),
            part_bytes,
        };
        Ok((Arc::new(shared), torn))
    }
}

impl Log for NatsLog {
    type Writer = NatsWriter;
    type Archive = NatsArchive;
    const CAN_BE_DEPOSED: bool = true;

    fn open(&self) -> Result<Opened<Self>, StartError> {
        let link = Link::new(&self.address).map_err(|trouble| troubled(&trouble))?;
        stream::make_sure(&link, &self.address, &self.names, &self.place.cluster)?;
        let (shared, torn) = self.attach(link)?;
        let archive = NatsArchive { shared: Arc::clone(&shared) };
        let stored = lock(&shared.snapshot).stored;
        archive.clear(stored);
        let snapshot = archive.stored_snapshot().map_err(|error| StartError::Damaged(error.to_string()))?;
        let (start, end) = (shared.extent.snapshot_upto().max(START), shared.extent.durable());
        let replay_bytes = shared.extent.bytes_from(start);
        let writer = NatsWriter::new(shared, Cursor::new(end, self.roll_at, self.roll_at));
        Ok(Opened { writer, archive, snapshot, start, end, replay_bytes, torn })
    }
}
