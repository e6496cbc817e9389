//! Copies the logs of a directory while a server is at work on them.
//!
//! Each shard has its own log, and no two of them can be read at the same moment. So it is found out first where all of
//! them end, and then how far each may be copied for what they say of each other to be true ([`cut`]). Everything that
//! was acknowledged before the copy began lies below.

mod cut;
mod shard;

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;

use driftq_core::{SHARDS_MAX, ShardId};

use super::{TransferError, logs_in};
use crate::log::Lsn;
use crate::start::shard_directory;
use shard::ShardCopy;

/// A copy under way.
pub struct Copy {
    /// Shards that are not copied yet, lowest first.
    shards: VecDeque<(ShardId, ShardCopy)>,
    /// Where the copies of the others end.
    ends: Vec<Lsn>,
    /// Messages in them.
    messages: u64,
    /// The server has changed what the copy began with.
    is_overtaken: bool,
}

/// One file of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// What it is called in a data directory: the files of the nth shard lie in `shard-n/`, those of the first in the
    /// directory itself.
    pub name: String,
    /// How long it has to be there: what is missing at its end are zeros.
    pub length: u64,
}

/// How a copy ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// Everything up to this position is in it.
    Whole {
        /// As `segment:byte`; if there are several shards, that of each, with commas in between.
        end: String,
        /// Messages in it.
        messages: u64,
        /// How many shards there are.
        shards: u8,
    },
    /// The server has given up a file that it needs: begin again.
    Overtaken,
}

impl Copy {
    /// Begins a copy of what is in `data` now.
    pub fn begin(data: &Path) -> Result<Self, TransferError> {
        let mut shards = look(data)?;
        // Only when every snapshot is in hand: what one of them says of another shard lies below the end of that one.
        shards.iter_mut().try_for_each(ShardCopy::reach)?;
        Self::of(data, shards)
    }

    /// Begins a copy of shards of which it is known where they end.
    fn of(data: &Path, mut shards: Vec<ShardCopy>) -> Result<Self, TransferError> {
        if shards.len() > 1 {
            // Only when every end is known: what is said below one of them of another shard is there by now.
            let crossings = shards.iter_mut().map(ShardCopy::crossings).collect::<Result<Vec<_>, _>>()?;
            let mut cuts: Vec<Lsn> = shards.iter().map(ShardCopy::cut).collect();
            cut::shorten(&mut cuts, &crossings);
            for (shard, cut) in shards.iter_mut().zip(cuts) {
                shard.shorten(cut);
            }
        }
        // A shard that was made meanwhile may have been sent something already.
        let is_new = logs_in(data)?.len() != shards.len();
        let is_overtaken = is_new || shards.iter().any(ShardCopy::is_overtaken);
        let shards = (0..).map(ShardId).zip(shards).collect();
        Ok(Self { shards, ends: Vec::new(), messages: 0, is_overtaken })
    }

    /// Writes the next file; `None` when there is none left, or the rest is no use any more. A file that the server has
    /// given up is passed over.
    pub fn next(&mut self, out: &mut dyn Write) -> Result<Option<Copied>, TransferError> {
        while !self.is_overtaken
            && let Some((shard, copy)) = self.shards.front_mut()
        {
            if let Some(copied) = copy.next(out)? {
                let name = shard_directory(Path::new(""), *shard).join(copied.name).display().to_string();
                return Ok(Some(Copied { name, ..copied }));
            }
            // Its state goes with it: there is never more than one in memory.
            match self.shards.pop_front().and_then(|(_, copy)| copy.finish()) {
                Some((end, messages)) => {
                    self.ends.push(end);
                    self.messages += messages;
                }
                None => self.is_overtaken = true,
            }
        }
        Ok(None)
    }

    /// Says whether a server would start on what was copied.
    pub fn finish(self) -> CopyEnd {
        if self.is_overtaken || !self.shards.is_empty() {
            return CopyEnd::Overtaken;
        }
        let ends: Vec<String> = self.ends.iter().map(ToString::to_string).collect();
        let shards = u8::try_from(ends.len()).unwrap_or(SHARDS_MAX);
        CopyEnd::Whole { end: ends.join(", "), messages: self.messages, shards }
    }
}

/// What the logs of a directory hold now.
fn look(data: &Path) -> Result<Vec<ShardCopy>, TransferError> {
    logs_in(data)?.iter().map(|dir| ShardCopy::begin(dir)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use driftq_core::{Fact, KeyHash, MessageFact, OutboxFact, RequestHash, Stored, Time, TopicId};
    use driftq_wal::{FRAME_HEADER_BYTES, Making, Options, RealDisk, SEGMENT_HEADER_BYTES};

    use super::*;
    use crate::tools::{Outlook, inspect};

    const NUMBER: u64 = 7;
    const STORED: Stored = Stored { topic: None, partition: 0, offset: 0, duplicate: false };

    fn message(topic: TopicId) -> MessageFact<'static> {
        MessageFact {
            topic,
            partition: 0,
            offset: 0,
            at: Time(1),
            size: 1,
            check: 0,
            retry: None,
            identity: None,
            request: RequestHash::default(),
            key: KeyHash::default(),
            priority: 0,
            due: None,
            only: None,
            lineage: None,
            origin: None,
            deadline: None,
            bytes: b"x",
        }
    }

    /// Writes a segment, one batch for each fact, and says where each begins.
    fn segment(dir: &Path, number: u32, is_last: bool, facts: &[Fact<'_>]) -> Vec<Lsn> {
        let (disk, options) = (RealDisk::create(dir).unwrap(), Options::default());
        let options = Options { segment_bytes: driftq_wal::SEGMENT_BYTES_MIN, ..options };
        let mut making = Making::begin(disk, number, &options).unwrap();
        let (mut at, mut frames) = (Lsn::new(number, SEGMENT_HEADER_BYTES), Vec::new());
        for fact in facts {
            let mut body = Vec::new();
            fact.encode(&mut body);
            making.put(at, &body).unwrap();
            frames.push(at);
            let bytes = (FRAME_HEADER_BYTES as usize + body.len()).next_multiple_of(8);
            at = Lsn::new(number, at.offset() + u32::try_from(bytes).unwrap());
        }
        making.finish(is_last, &options).unwrap();
        frames
    }

    /// Copies everything into another directory.
    fn bring(mut copy: Copy, to: &Path) -> CopyEnd {
        loop {
            let mut bytes = Vec::new();
            let Some(Copied { name, length }) = copy.next(&mut bytes).unwrap() else { break };
            bytes.resize(usize::try_from(length).unwrap(), 0);
            let path = to.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        copy.finish()
    }

    /// The first shard has sent a message to the second, and is told that it has arrived.
    fn begun(data: &Path) -> Vec<ShardCopy> {
        let topic = TopicId::new(ShardId(1), 0).unwrap();
        let message = message(topic);
        let sent = OutboxFact::Sent { number: NUMBER, native: true, reserved: false, message };
        segment(data, 1, false, &[Fact::Outbox(sent)]);
        let housed = Fact::Outbox(OutboxFact::Housed { shard: ShardId(1) });
        segment(&data.join("shard-1"), 1, false, &[housed]);
        look(data).unwrap()
    }

    #[test]
    fn a_message_that_arrived_too_late_is_still_on_its_way() {
        let home = tempfile::tempdir().unwrap();
        let [data, copied] = ["data", "copied"].map(|name| home.path().join(name));
        let mut shards = begun(&data);
        shards[1].reach().unwrap();
        let received = OutboxFact::Received { from: ShardId(0), number: NUMBER, stored: STORED };
        segment(&data.join("shard-1"), 2, true, &[Fact::Outbox(received)]);
        let (topic, name) = (TopicId(0), "t");
        let created = |topic| Fact::TopicCreated {
            topic,
            partitions: 1,
            at: Time(1),
            name,
            scoped: false,
            tenant: None,
        };
        let posted = Fact::Outbox(OutboxFact::Posted { number: NUMBER, stored: STORED });
        let stored = Fact::Appended(message(topic));
        let frames = segment(&data, 2, true, &[created(topic), posted, stored]);
        shards[0].reach().unwrap();
        let end = shards[1].cut();
        let copy = Copy::of(&data, shards).unwrap();
        // The topic is in it, and nothing after that: no message, whatever came later.
        let whole = CopyEnd::Whole { end: format!("{}, {end}", frames[1]), messages: 0, shards: 2 };
        assert_eq!(bring(copy, &copied), whole);
        for dir in logs_in(&copied).unwrap() {
            let looked = inspect(&dir, false, &mut |_| {}).unwrap();
            assert_eq!(looked.outlook, Outlook::Sound, "{}", looked.text);
        }
        let again = Copy::begin(&copied).unwrap();
        assert_eq!(bring(again, &home.path().join("again")), whole);
        // Whoever begins later has it all.
        let later = Copy::begin(&data).unwrap();
        let CopyEnd::Whole { messages: 1, .. } = bring(later, &home.path().join("later")) else { panic!() };
    }

    #[test]
    fn a_shard_that_is_made_meanwhile_is_not_left_out() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let mut shards = begun(&data);
        shards.iter_mut().try_for_each(ShardCopy::reach).unwrap();
        fs::create_dir(data.join("shard-2")).unwrap();
        let copy = Copy::of(&data, shards).unwrap();
        assert_eq!(bring(copy, &home.path().join("copied")), CopyEnd::Overtaken);
    }

    /// Not a log of fewer shards, which would look whole.
    #[test]
    fn a_shard_without_a_log_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        begun(&data);
        fs::create_dir(data.join("shard-2")).unwrap();
        let Err(TransferError::Refused { what, .. }) = Copy::begin(&data) else { panic!() };
        assert!(what.contains("shard-2"), "{what}");
        fs::remove_dir_all(data.join("shard-1")).unwrap();
        let Err(TransferError::Failed(what)) = Copy::begin(&data) else { panic!() };
        assert!(what.contains("shard-1"), "{what}");
    }
}
