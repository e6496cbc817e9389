//! A log that several servers reach: who may append, what became of an append, and which records count.
//!
//! These are the decisions of the adapters for a database and for a stream, without their connections. They are here so
//! that the simulator attacks the rules that servers follow, and not a copy of them.
//!
//! A claim has a number, its *epoch*. Every record names the claim that it was written under, and says where it expects
//! the log to end. A server whose answer was lost reads what stands there before it says or sends anything else.

#[cfg(test)]
mod tests;

use crate::Lsn;

/// What came back for a record that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the log, where it was expected to be.
    Taken,
    /// It is in the log, but not where it was expected to be.
    Elsewhere,
    /// It is not in the log by this request; an earlier one may have brought it there.
    Refused,
    /// Nothing: it is there, or on its way, or lost.
    Unknown,
}

/// What a server finds where its record should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Its record.
    Ours,
    /// Nothing yet: the log ends in front of it.
    Nothing,
    /// Somebody else's record, or somebody else's claim.
    Foreign,
    /// The log ends earlier than it did: it came back without what it had.
    Shorter,
    /// Whoever was asked does not have everything yet.
    Lags,
}

/// Why a server appends nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another one has claimed the log.
    Fenced,
    /// The log is not what it was, or could not be reached: what it holds is known when it is opened again.
    Failed,
}

/// What is done next about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is durable, and may be told.
    Tell,
    /// It is sent, once more.
    Send,
    /// What stands in the log is read.
    Look,
    /// Nothing more is appended.
    Stop(Stop),
}

impl Sent {
    /// Only an answer that says where the record lies is taken for an answer.
    #[must_use]
    pub const fn next(self) -> Next {
        match self {
            Self::Taken => Next::Tell,
            Self::Refused | Self::Unknown => Next::Look,
            Self::Elsewhere => Next::Stop(Stop::Failed),
        }
    }
}

impl Looked {
    /// A record that is sent again may meet its first copy: whichever comes second is refused.
    #[must_use]
    pub const fn next(self) -> Next {
        match self {
            Self::Ours => Next::Tell,
            Self::Nothing => Next::Send,
            Self::Lags => Next::Look,
            Self::Foreign => Next::Stop(Stop::Fenced),
            Self::Shorter => Next::Stop(Stop::Failed),
        }
    }
}

impl Stop {
    /// Whether the server steps down for good, rather than open the log again.
    #[must_use]
    pub const fn is_for_good(self) -> bool {
        matches!(self, Self::Fenced)
    }
}

/// Whether a process may claim the log: one that has had it takes it again only from itself.
#[must_use]
pub const fn may_claim(has_had_it: bool, newest_is_own: bool) -> bool {
    !has_had_it || newest_is_own
}

/// What a table of batches says about the place of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The newest claim.
    pub claim: u64,
    /// The claim that the batch at this place was written under, if there is one.
    pub there: Option<u64>,
    /// Where the batch in front of this place ends.
    pub before: Lsn,
}

impl Row {
    /// What that means for the server with claim `own`, for which the batch before this one ended at `previous`.
    #[must_use]
    pub fn looked(&self, own: u64, previous: Lsn) -> Looked {
        if self.there == Some(own) {
            // Nobody else writes under this claim, and this server writes each place once.
            return Looked::Ours;
        }
        if self.claim != own || self.there.is_some() {
            return Looked::Foreign;
        }
        if self.before == previous { Looked::Nothing } else { Looked::Shorter }
    }
}

/// What stands in a stream behind the record that a server knew as the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A record, and whether it is the one that was sent, byte by byte.
    Record {
        /// Whether it is.
        ours: bool,
    },
    /// None was found; the stream is said to end with this sequence.
    Last(u64),
}

impl Behind {
    /// What that means for a server that knew `last` as the last sequence.
    #[must_use]
    pub const fn looked(self, last: u64) -> Looked {
        match self {
            Self::Record { ours: true } => Looked::Ours,
            Self::Record { ours: false } => Looked::Foreign,
            Self::Last(now) if now == last => Looked::Nothing,
            Self::Last(now) if now < last => Looked::Shorter,
            Self::Last(_) => Looked::Lags,
        }
    }
}

/// What is said of a batch in front of each of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The claim that it was written under.
    pub epoch: u64,
    /// Where the batch begins.
    pub frame: Lsn,
    /// Where the one before it ended.
    pub previous: Lsn,
    /// Where it ends.
    pub ended: Lsn,
    /// Which part this is…
    pub part: u32,
    /// …of how many.
    pub parts: u32,
}

impl Head {
    /// Whether the batch is whole with this part.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.part.saturating_add(1) == self.parts
    }
}

/// The marks between the batches of a stream, in order, and what follows from them. A mark is a claim, or names the
/// snapshot that counts.
#[derive(Clone, Debug)]
pub struct Marks<S> {
    all: Vec<Mark<S>>,
}

#[derive(Clone, Debug)]
struct Mark<S> {
    sequence: u64,
    epoch: u64,
    snapshot: Option<S>,
}

impl<S> Default for Marks<S> {
    fn default() -> Self {
        Self { all: Vec::new() }
    }
}

impl<S> Marks<S> {
    /// The next mark; one without a snapshot is a claim.
    pub fn push(&mut self, sequence: u64, epoch: u64, snapshot: Option<S>) {
        self.all.push(Mark { sequence, epoch, snapshot });
    }

    /// The sequence of the newest.
    #[must_use]
    pub fn reached(&self) -> u64 {
        self.all.last().map_or(0, |mark| mark.sequence)
    }

    /// The snapshot that counts. One that was named under a claim that was over by then does not.
    #[must_use]
    pub fn snapshot(&self) -> Option<&S> {
        let held = self.all.iter().rev().filter(|mark| self.is_held(mark.sequence, mark.epoch));
        held.filter_map(|mark| mark.snapshot.as_ref()).next()
    }

    /// Whether what stands at this sequence was written under the claim that held there. A deposed server may have had
    /// it on the way when the next one claimed the log: then it never happened.
    #[must_use]
    pub fn is_held(&self, sequence: u64, epoch: u64) -> bool {
        self.newest_before(sequence).is_none_or(|newest| newest == epoch)
    }

    /// Whether a claim that was put at this sequence is newer than all before it.
    #[must_use]
    pub fn is_newest(&self, sequence: u64, epoch: u64) -> bool {
        self.newest_before(sequence).is_none_or(|newest| newest < epoch)
    }

    /// The newest claim in front of this sequence.
    #[must_use]
    pub fn newest_before(&self, sequence: u64) -> Option<u64> {
        let before = &self.all[..self.all.partition_point(|mark| mark.sequence < sequence)];
        before.iter().filter(|mark| mark.snapshot.is_none()).map(|mark| mark.epoch).max()
    }

    /// Marks below this sequence say nothing more about a log that begins at `first`.
    #[must_use]
    pub fn needed_from(&self, first: u64) -> u64 {
        let newest = |found: &dyn Fn(&Mark<S>) -> bool| {
            self.all.iter().rev().find(|mark| found(mark)).map(|mark| mark.sequence)
        };
        let claim = newest(&|mark| mark.sequence < first && mark.snapshot.is_none()).unwrap_or(0);
        // One that a deposed server named too late does not count, and must not have the one that does removed.
        let named = newest(&|mark| mark.snapshot.is_some() && self.is_held(mark.sequence, mark.epoch));
        named.map_or(claim, |named| named.min(claim))
    }

    /// What the part at this sequence says about the end of a log that is read from its end.
    #[must_use]
    pub fn edge(&self, sequence: u64, head: &Head) -> Edge {
        if !self.is_held(sequence, head.epoch) {
            return Edge::Deposed;
        }
        if head.is_last() { Edge::End(head.ended) } else { Edge::Torn(head.previous) }
    }
}

/// What a part says about the end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Nothing: a deposed server had it on the way.
    Deposed,
    /// The log ends with this batch.
    End(Lsn),
    /// The log ends in front of this batch, which was left unfinished.
    Torn(Lsn),
}

/// Puts the parts of batches together. What was left unfinished never happened.
#[derive(Debug, Default)]
pub struct Joiner {
    /// Of the batch that is under way: its claim, where it begins, and how many parts are there.
    under_way: Option<(u64, Lsn, u32)>,
    bytes: Vec<u8>,
}

/// A whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The part alone is all of it.
    Alone,
    /// The bytes of all its parts.
    Parts(Vec<u8>),
}

impl Joiner {
    /// Takes the next part; the batch that it completes, or the words for a damaged one. `bytes_max` bounds a batch.
    pub fn take<S>(
        &mut self,
        sequence: u64,
        head: &Head,
        body: &[u8],
        marks: &Marks<S>,
        bytes_max: usize,
    ) -> Result<Option<Joined>, &'static str> {
        if !marks.is_held(sequence, head.epoch) {
            return Ok(None);
        }
        let Head { epoch, frame, part, parts, .. } = *head;
        if part == 0 {
            self.bytes.clear();
        }
        if part >= parts || self.bytes.len() + body.len() > bytes_max {
            return Err("a batch has more parts than it may");
        }
        let under_way = self.under_way.take();
        if parts == 1 {
            return Ok(Some(Joined::Alone));
        }
        if part > 0 && under_way != Some((epoch, frame, part)) {
            // Who begins to read in the middle of a batch does not want it.
            return Ok(None);
        }
        self.bytes.extend_from_slice(body);
        if head.is_last() {
            return Ok(Some(Joined::Parts(std::mem::take(&mut self.bytes))));
        }
        self.under_way = Some((epoch, frame, part + 1));
        Ok(None)
    }
}
