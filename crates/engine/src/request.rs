//! What can be asked of a broker, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use driftq_core::{Found, Keyless, Message, RequestHash, Start, Time, TopicId};

/// A reader that wants messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumeRequest {
    /// What it reads.
    pub topic: String,
    /// For which group; created if it is new.
    pub group: String,
    /// The name under which it will ack.
    pub owner: String,
    /// How long each delivery is on loan.
    pub lease_ms: u64,
}

/// A reader that borrows messages with tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BorrowRequest {
    /// What it reads.
    pub topic: String,
    /// For which group; created if it is new.
    pub group: String,
    /// Its name, for display.
    pub owner: String,
    /// How long each delivery is on loan; `None`: as the topic or the server says.
    pub lease_ms: Option<u64>,
    /// The most that it has unsettled.
    pub credit: u32,
}

/// An asker asks for messages, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseCall {
    /// What it reads.
    pub topic: String,
    /// For which group; created if it is new.
    pub group: String,
    /// Its name, for display.
    pub owner: String,
    /// How many at most.
    pub max: u32,
    /// How long each delivery is on loan; `None`: as the topic or the server says.
    pub lease_ms: Option<u64>,
    /// How long it waits for the first one.
    pub wait_ms: u64,
    /// Names the request: asking again under it gives the same messages.
    pub request_id: Option<String>,
}

/// A message to be stored, with what is not part of it.
#[derive(Clone, Debug, Default)]
pub struct Draft<'a> {
    /// The message.
    pub message: Message<'a>,
    /// 0 to 9, the highest first.
    pub priority: u8,
    /// When it may go out for the first time.
    pub start: Start,
    /// What it asks for, so that its idempotency key is not used for something else.
    pub request: RequestHash,
    /// Where it goes if it has no key.
    pub keyless: Keyless,
    /// Whether it came over `/v2`: see [`driftq_core::NewMessage::native`].
    pub native: bool,
}

/// A stored message, looked at without being delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The number of its topic.
    pub topic: TopicId,
    /// What the shard knows of it.
    pub found: Found,
    /// The encoded message; `None` if it was gone, or could not be read, by the time it was read.
    pub payload: Option<Bytes>,
}

/// Messages found in one go, not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The topic's number.
    pub topic: TopicId,
    /// What was found, in the order of partition and offset.
    pub found: Vec<Found>,
    /// How many messages were looked at.
    pub scanned: u64,
    /// Where to go on: partition and offset; `None` at the end.
    pub next: Option<(u32, u64)>,
}

/// Messages looked at in one go.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Sight {
    /// What was found, in the order of partition and offset.
    pub seen: Vec<Seen>,
    /// How many messages were looked at.
    pub scanned: u64,
    /// Where to go on: partition and offset; `None` at the end.
    pub next: Option<(u32, u64)>,
}

/// Long work that the server does by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// What it does.
    pub kind: JobKind,
    /// The topic whose dead letters it works on.
    pub topic: String,
    /// The tenant that the topic belonged to when the job began.
    pub tenant: Option<Arc<str>>,
    /// Whether it only counts.
    pub dry_run: bool,
    /// How it stands.
    pub state: JobState,
    /// When it began.
    pub started: Time,
    /// When it ended.
    pub ended: Option<Time>,
    /// Letters that matched.
    pub matched: u64,
    /// Letters that were dealt with.
    pub done: u64,
    /// Letters that were gone when their turn came.
    pub skipped: u64,
    /// Letters that stay because they must not be dealt with as things are: the group that gave them up is gone.
    pub refused: u64,
    /// Letters that could not be dealt with and are still there.
    pub failed: u64,
    /// Why the last of those was refused or failed, or why the job did.
    pub error: Option<String>,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Dead letters become messages again.
    Redrive,
    /// Dead letters are dropped.
    Purge,
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// At work.
    Running,
    /// All that matched was dealt with.
    Done,
    /// It could not go on.
    Failed,
    /// An operator stopped it.
    Cancelled,
}

/// Which dead letters a job is for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LetterFilter {
    /// Only these, by partition and offset; empty means all that match the rest.
    pub letters: Vec<(u32, u64)>,
    /// Given up by this group.
    pub group: Option<String>,
    /// With this key.
    pub key: Option<Vec<u8>>,
    /// Of this run.
    pub run_id: Option<String>,
    /// Of this tenant.
    pub tenant_id: Option<String>,
    /// With all of these labels.
    pub labels: Vec<(String, String)>,
    /// Given up for this reason.
    pub reason: Option<String>,
    /// With this [`cause`](crate::cause_of).
    pub cause: Option<String>,
    /// Given up before this.
    pub before: Option<Time>,
    /// Given up at or after this.
    pub after: Option<Time>,
}

/// What a job is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCall {
    /// What it does.
    pub kind: JobKind,
    /// The topic whose dead letters it works on, without the prefix.
    pub topic: String,
    /// Which of them.
    pub filter: LetterFilter,
    /// At most this many per second.
    pub rate_per_second: Option<u32>,
    /// Only count.
    pub dry_run: bool,
    /// Messages go there instead of to the topic that they came from.
    pub target_topic: Option<String>,
    /// Names the request: asking again under it gives the same job.
    pub request_key: Option<String>,
}

/// One message that one group is done with, or is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// The topic.
    pub topic: String,
    /// The group.
    pub group: String,
    /// The partition.
    pub partition: u32,
    /// The message's offset.
    pub offset: u64,
    /// Who held it.
    pub owner: String,
}

/// A topic exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicReady {
    /// Partitions that it really has.
    pub partitions: u32,
    /// Whether this call made it.
    pub created: bool,
}

/// A message is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produced {
    /// The topic that it went to.
    pub topic: Arc<str>,
    /// Where.
    pub partition: u32,
    /// Under which offset.
    pub offset: u64,
    /// Whether an earlier message with the same identity stands for it.
    pub duplicate: bool,
}

/// What a start found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Messages kept.
    pub messages: u64,
    /// Topics.
    pub topics: u64,
    /// Consumer groups.
    pub groups: u64,
    /// Bytes of log that were replayed on top of the snapshot.
    pub replayed_bytes: u64,
    /// Batches that were replayed.
    pub replayed_batches: u64,
    /// How long it took.
    pub duration: Duration,
    /// The torn tail that was cut off, in words.
    pub truncated: Option<String>,
    /// The run of the shard that begins.
    pub epoch: u64,
    /// Where in the log the snapshot stands, in words; `None` without one.
    pub snapshot_at: Option<String>,
}

impl Recovery {
    /// This and what another shard found. They recover beside each other: the longest counts.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            topics: self.topics + other.topics,
            groups: self.groups + other.groups,
            replayed_bytes: self.replayed_bytes + other.replayed_bytes,
            replayed_batches: self.replayed_batches + other.replayed_batches,
            duration: self.duration.max(other.duration),
            truncated: self.truncated.or(other.truncated),
            epoch: self.epoch,
            snapshot_at: self.snapshot_at,
        }
    }
}
