//! A server's claim on a shared log: it appends, one batch at a time, and finds out what became of it.
//!
//! Each step asks the log one thing and does what [`driftq_wal::claim`] says, as the adapters for PostgreSQL and
//! JetStream do in a loop; in between anything may happen.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use driftq_wal::claim::{Edge, Head, Joined, Joiner, Marks, Next, Stop};
use driftq_wal::{Cursor, FRAME_BODY_BYTES_MAX, Lsn, ReadError, SegmentInfo, Snapshot};

use crate::engine::{Caller, Claim, Engine, Kind, Part, Reply, START, body_at};
use crate::server::Broken;

/// A segment is full when it has reached this: small, so that rolling and trimming happen all the time.
const ROLL_AT: u32 = 3584;
/// Bytes of a batch that one message of a stream carries: few, so that some take several.
const PART_BYTES: usize = 600;
/// How often the log is asked in vain before the server gives up and opens it again.
const PATIENCE: u32 = 12;

/// The only one that appends, as long as nobody else claims the log.
pub(crate) struct Seat {
    engine: Engine,
    caller: Caller,
    epoch: u64,
    /// The last sequence of the stream, as far as this server knows.
    last: u64,
    /// The marks up to the claim.
    marks: Marks<Snapshot>,
    cursor: Cursor,
    snapshot: Option<Snapshot>,
    under_way: Option<UnderWay>,
    stopped: Option<Stop>,
}

/// A batch on its way.
struct UnderWay {
    parts: Vec<(Head, Vec<u8>)>,
    /// How many of them are there.
    there: usize,
    /// Where the log ends with it.
    cursor: Cursor,
    doing: Doing,
    patience: u32,
}

#[derive(Clone, Copy)]
enum Doing {
    Send,
    Wait(u64),
    Look,
}

impl From<Stop> for Broken {
    fn from(stop: Stop) -> Self {
        if stop.is_for_good() { Self::Fenced } else { Self::Failed }
    }
}

impl Seat {
    /// What the log says after a claim: nobody else appends from here on.
    pub(crate) fn new(engine: &Engine, caller: Caller, claim: Claim) -> Result<Self, String> {
        let Claim { epoch, sequence, marks, snapshot } = claim;
        let end = end(engine, &marks, sequence);
        let upto = snapshot.as_ref().map_or(Lsn::ZERO, |snapshot| snapshot.upto);
        if end < upto {
            return Err(format!("the log ends at {end}, below its own snapshot at {upto}"));
        }
        let cursor = Cursor::new(end, ROLL_AT, ROLL_AT);
        let engine = engine.clone();
        Ok(Self {
            engine,
            caller,
            epoch,
            last: sequence,
            marks,
            cursor,
            snapshot,
            under_way: None,
            stopped: None,
        })
    }

    pub(crate) const fn caller(&self) -> Caller {
        self.caller
    }

    /// Why nothing more is appended.
    pub(crate) const fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    pub(crate) fn cursor(&self) -> Cursor {
        self.cursor.clone()
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.cursor.end()
    }

    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        self.snapshot.clone()
    }

    /// Where replay begins without a snapshot.
    pub(crate) fn start(&self) -> Lsn {
        self.snapshot.as_ref().map_or(START, |snapshot| snapshot.upto)
    }

    /// Whether this claim is the newest; `None` if there is no answer.
    pub(crate) fn is_newest(&self) -> Option<bool> {
        self.engine.is_newest(self.caller, self.epoch)
    }

    /// One step of an append; its end when the batch is durable.
    pub(crate) fn append(&mut self, body: &[u8]) -> Result<Option<Lsn>, Broken> {
        if let Some(stop) = self.stopped {
            return Err(stop.into());
        }
        let mut way = match self.under_way.take() {
            Some(way) => way,
            None => self.begin(body),
        };
        let (head, body) = &way.parts[way.there];
        let part = Part { head: *head, body: body.clone(), expected: self.last };
        let next = match way.doing {
            Doing::Send => match self.engine.send(self.caller, &part) {
                Reply::Now(sent) => Some(sent.next()),
                Reply::Later(number) => {
                    way.doing = Doing::Wait(number);
                    None
                }
            },
            Doing::Wait(number) => self.engine.answer(number).map(|sent| sent.next()),
            Doing::Look => {
                way.patience -= 1;
                self.engine.look(self.caller, &part).map(|looked| looked.next())
            }
        };
        match next {
            None => {}
            Some(Next::Tell) => {
                self.last += 1;
                way.there += 1;
                way.doing = Doing::Send;
            }
            Some(Next::Send) => way.doing = Doing::Send,
            Some(Next::Look) => way.doing = Doing::Look,
            Some(Next::Stop(stop)) => return Err(self.stop(stop)),
        }
        if way.there == way.parts.len() {
            self.cursor = way.cursor;
            let end = self.cursor.end();
            self.engine.books(|books| books.told(self.epoch, end));
            return Ok(Some(end));
        }
        if way.patience == 0 {
            return Err(self.stop(Stop::Failed));
        }
        self.under_way = Some(way);
        Ok(None)
    }

    fn stop(&mut self, stop: Stop) -> Broken {
        self.stopped = Some(stop);
        stop.into()
    }

    fn begin(&self, body: &[u8]) -> UnderWay {
        let mut cursor = self.cursor.clone();
        let (frame, previous) = (cursor.next_frame(), cursor.end());
        let ended = cursor.advance(body.len());
        let most = if self.engine.kind() == Kind::Rows { usize::MAX } else { PART_BYTES };
        let pieces: Vec<&[u8]> = if body.is_empty() { vec![body] } else { body.chunks(most).collect() };
        let parts = u32::try_from(pieces.len()).expect("simulated batches are small");
        let head = |part| Head { epoch: self.epoch, frame, previous, ended, part, parts };
        let parts = (0..).zip(pieces).map(|(part, piece)| (head(part), piece.to_vec())).collect();
        UnderWay { parts, there: 0, cursor, doing: Doing::Send, patience: PATIENCE }
    }

    /// Feeds what counts, by the rules of servers; and holds it against the books.
    pub(crate) fn replay(
        &self,
        from: Lsn,
        to: Option<Lsn>,
        each: &mut dyn FnMut(Lsn, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let to = to.unwrap_or_else(|| self.cursor.end());
        let (mut at, mut joiner, mut read) = (from, Joiner::default(), Vec::new());
        for (sequence, Part { head, body, .. }) in self.engine.parts() {
            let whole = match self.engine.kind() {
                Kind::Rows => Some(Joined::Alone),
                Kind::Stream => {
                    joiner.take(sequence, &head, &body, &self.marks, FRAME_BODY_BYTES_MAX as usize)?
                }
            };
            let Some(whole) = whole.filter(|_| head.ended > from && at < to) else { continue };
            if head.previous != at || head.ended > to {
                return Err(format!("replay: the batch that follows {at} does not join on: {head:?}"));
            }
            at = head.ended;
            let body = match whole {
                Joined::Alone => body,
                Joined::Parts(bytes) => bytes,
            };
            read.push((head.frame, body));
        }
        if at < to {
            return Err(format!("replay: the batch that begins at {at} is missing"));
        }
        self.engine.books(|books| books.check_replay(from, to, &read))?;
        // A break is the reader's own affair.
        let _ = read.iter().try_for_each(|(frame, body)| each(body_at(*frame), body));
        Ok(())
    }

    pub(crate) fn read_at(&self, at: Lsn, bytes: u32) -> Result<Vec<u8>, ReadError> {
        if Lsn::new(at.segment(), at.offset() + bytes) > self.cursor.end() {
            return Err(ReadError::OutOfRange);
        }
        // Nothing may lie between two batches.
        if bytes == 0 {
            return Ok(Vec::new());
        }
        self.engine.books(|books| {
            let (frame, batch) = books.batches().range(..=at).next_back().ok_or(ReadError::Gone)?;
            if frame.segment() != at.segment() || batch.ended <= at {
                return Err(ReadError::Gone);
            }
            let from = (at.0 - body_at(*frame).0) as usize;
            batch.body.get(from..from + bytes as usize).map(<[u8]>::to_vec).ok_or(ReadError::OutOfRange)
        })
    }

    pub(crate) fn segments(&self) -> Vec<SegmentInfo> {
        let end = self.cursor.end();
        let mut segments: BTreeMap<u32, u32> = BTreeMap::new();
        self.engine.books(|books| {
            for batch in books.batches().values().filter(|batch| batch.ended <= end) {
                segments.insert(batch.ended.segment(), batch.ended.offset());
            }
        });
        let info = |(number, bytes)| SegmentInfo { number, bytes, active: number == end.segment() };
        segments.into_iter().map(info).collect()
    }

    /// One message at a time: a snapshot waits for the batch that is under way.
    pub(crate) fn put_snapshot(&mut self, upto: Lsn, bytes: &[u8]) -> bool {
        let snapshot = Snapshot { upto, bytes: bytes.to_vec() };
        let ready = self.under_way.is_none() && self.stopped.is_none() && upto >= self.start();
        let put = ready && self.engine.put_snapshot(self.caller, self.epoch, self.last, snapshot.clone());
        if put {
            self.snapshot = Some(snapshot);
            self.last += u64::from(self.engine.kind() == Kind::Stream);
        }
        put
    }

    pub(crate) fn drop_segments(&self, numbers: &[u32]) -> bool {
        let needed_from = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.upto.segment());
        numbers.is_empty()
            || (numbers.iter().all(|number| *number < needed_from)
                && self.engine.trim(self.caller, self.epoch, numbers, &self.marks))
    }
}

/// Where the log ends, as what stands in front of a claim tells it.
fn end(engine: &Engine, marks: &Marks<Snapshot>, claim: u64) -> Lsn {
    let parts = engine.parts();
    if engine.kind() == Kind::Rows {
        return parts.last().map_or(START, |(_, part)| part.head.ended);
    }
    for (sequence, part) in parts.iter().rev().filter(|(sequence, _)| *sequence < claim) {
        match marks.edge(*sequence, &part.head) {
            Edge::Deposed => {}
            Edge::End(at) | Edge::Torn(at) => return at,
        }
    }
    START
}
