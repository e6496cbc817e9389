//! The handle to a broker: what the edge calls.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use driftq_core::{
    Address, Answer, Description, GroupDescription, Input, Message, Query, Reject, ShardId, SlowestGroup,
    Style, Subscription, Tally, TopicDescription, TopicId, TopicSettings,
};
use tokio::sync::{mpsc, watch};

use crate::counters::Counters;
use crate::failure::Failure;
use crate::house::House;
use crate::inbox::Attach;
use crate::locks::{lock, read};
use crate::request::{AckRequest, BorrowRequest, ConsumeRequest, Draft, Produced, TopicReady};
use crate::shared::Shared;
use crate::status::Status;
use crate::stream::Stream;

/// Said to callers that waited for an answer when the shard was given up.
pub(crate) const INTERRUPTED: &str = "the broker was interrupted; whether this took effect is not known";
/// Said to callers that come while the broker stops.
pub(crate) const STOPPING: &str = "the broker is stopping";

/// The most that one stream may have unsettled.
const BORROW_CREDIT_MAX: u32 = 10_000;
// A stream that ends gives all of it back in one input.
const _: () = assert!(BORROW_CREDIT_MAX as usize <= driftq_core::INPUT_ITEMS_MAX);

/// A handle to a running broker. Cheap to clone. When the last one is dropped the broker stops by itself;
/// [`Broker::stop`] also waits for it.
#[derive(Clone)]
pub struct Broker {
    owner: Arc<Owner>,
}

struct Owner {
    house: Arc<House>,
    /// At least one.
    shards: Vec<Arc<Shared>>,
    decides: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.house.stopping.send_replace(true);
        self.shards.iter().for_each(|shard| shard.inbox.stop());
    }
}

impl Broker {
    /// A handle to shards that serve, with the threads that decide for them.
    pub(crate) fn new(house: Arc<House>, shards: Vec<Arc<Shared>>, decides: Vec<JoinHandle<()>>) -> Self {
        assert!(!shards.is_empty(), "a broker has a shard");
        Self { owner: Arc::new(Owner { house, shards, decides: Mutex::new(decides) }) }
    }

    /// Stops at once and waits until the logs are let go, for a start that failed. Blocks; not for a task.
    pub(crate) fn end(self) {
        self.begin_stop();
        self.shards().iter().for_each(|shard| shard.inbox.stop());
        self.join_all();
    }

    fn join_all(&self) {
        let decides = std::mem::take(&mut *lock(&self.owner.decides));
        for decide in decides {
            // A panic there has been printed.
            let _ = decide.join();
        }
    }

    /// One more thread to wait for at the end.
    pub(crate) fn join_later(&self, decide: JoinHandle<()>) {
        lock(&self.owner.decides).push(decide);
    }

    /// Names of all topics, sorted.
    #[must_use]
    pub fn topics(&self) -> Vec<String> {
        read(&self.house().catalog).iter().map(|topic| topic.name.to_string()).collect()
    }

    /// Names of all topics that a tenant's reader may see, sorted; the reader is asked about whose each is.
    #[must_use]
    pub fn topics_of(&self, is_seen: impl Fn(Option<&str>) -> bool) -> Vec<String> {
        let catalog = read(&self.house().catalog);
        let seen = catalog.iter().filter(|topic| is_seen(topic.tenant.as_deref()));
        seen.map(|topic| topic.name.to_string()).collect()
    }

    /// Whose a topic is: `None` if there is no such topic, nobody's in particular if it belongs to no tenant.
    #[must_use]
    pub fn tenant_of_topic(&self, name: &str) -> Option<Option<Arc<str>>> {
        read(&self.house().catalog).find(name).map(|topic| topic.tenant.clone())
    }

    /// Creates a topic, or confirms that it exists.
    pub async fn create_topic(&self, name: &str, partitions: u32) -> Result<TopicReady, Failure> {
        self.put_topic(name, partitions, TopicSettings::default(), None, false).await
    }

    /// Stores a message; answers when it is durable.
    pub async fn produce(&self, topic: &str, message: Message<'_>) -> Result<Produced, Failure> {
        self.produce_draft(topic, Draft { message, ..Draft::default() }).await
    }

    /// Starts to deliver messages to a reader.
    pub async fn consume(&self, request: ConsumeRequest) -> Result<Stream, Failure> {
        let credit = self.house().config.stream_credit.max(1);
        let ConsumeRequest { topic, group, owner, lease_ms } = request;
        let lease_ms = Some(lease_ms);
        self.open_stream(BorrowRequest { topic, group, owner, lease_ms, credit }, Style::Pushed).await
    }

    /// Starts to lend messages to a reader: never more than its credit unsettled, each with a token.
    pub async fn borrow(&self, request: BorrowRequest) -> Result<Stream, Failure> {
        self.open_stream(request, Style::Borrowed).await
    }

    async fn open_stream(&self, request: BorrowRequest, style: Style) -> Result<Stream, Failure> {
        if *self.house().stopping.borrow() {
            return Err(Failure::Unavailable(STOPPING.into()));
        }
        let topic = self.topic(&request.topic)?;
        let shared = self.at(topic);
        let (consumer, credit) = (shared.consumer(), request.credit.clamp(1, BORROW_CREDIT_MAX));
        let unwritten = match style {
            Style::Pushed => credit,
            Style::Borrowed => credit.min(shared.config.settings.stream_unwritten_max.max(1)),
        };
        let (deliveries, received) = mpsc::channel(unwritten as usize);
        // Made before the question is asked: if the caller gives up while it waits, the stream's end tells the shard.
        let mut stream = Stream::new(Arc::clone(shared), consumer, received, style);
        let BorrowRequest { group, owner, lease_ms, .. } = request;
        let subscription = Subscription { consumer, topic, group, owner, lease_ms, credit, style };
        let attach = Box::new(Attach { consumer, deliveries });
        let input = |ticket| Input::Subscribe { ticket, subscription };
        match shared.ask_with(0, false, Some(attach), input).await {
            Ok(Answer::Subscribed) => Ok(stream),
            Ok(other) => Err(unexpected(&other)),
            Err(failure) => {
                // Only a request that never got in is unknown to the decide thread.
                stream.subscribed = failure != Failure::Busy;
                Err(failure)
            }
        }
    }

    /// The work on a message is done.
    pub async fn ack(&self, request: AckRequest) -> Result<(), Failure> {
        let (address, owner) = self.address(request)?;
        let shared = self.at(address.topic);
        let answer = shared.ask(0, true, |ticket| Input::Ack { ticket, address, owner }).await?;
        shared.meters.acked.one();
        settled(&answer)
    }

    /// The work on a message failed.
    pub async fn nack(&self, request: AckRequest, reason: String) -> Result<(), Failure> {
        let (address, owner) = self.address(request)?;
        let bytes = reason.len();
        let shared = self.at(address.topic);
        let answer = shared.ask(bytes, true, |ticket| Input::Nack { ticket, address, owner, reason }).await?;
        shared.meters.nacked.one();
        settled(&answer)
    }

    /// One topic, described.
    pub async fn describe_topic(&self, topic: &str) -> Result<TopicDescription, Failure> {
        let topic = self.topic(topic)?;
        match self.at(topic).describe(Query::Topic(topic)).await? {
            Description::Topic(topic) => Ok(topic),
            other => Err(unexpected(&other)),
        }
    }

    /// The groups of a topic, or the one of that name, described.
    pub async fn describe_groups(
        &self,
        topic: &str,
        group: Option<&str>,
    ) -> Result<Vec<GroupDescription>, Failure> {
        let topic = self.topic(topic)?;
        let query = match group {
            None => Query::Groups(topic),
            Some(group) => Query::Group(topic, group.to_owned()),
        };
        match self.at(topic).describe(query).await? {
            Description::Groups(groups) => Ok(groups),
            other => Err(unexpected(&other)),
        }
    }

    /// The group of a topic that is furthest behind, if it has one.
    pub async fn slowest_group(&self, topic: &str) -> Result<Option<SlowestGroup>, Failure> {
        let topic = self.topic(topic)?;
        match self.at(topic).describe(Query::Slowest(topic)).await? {
            Description::Slowest(group) => Ok(group),
            other => Err(unexpected(&other)),
        }
    }

    /// Everything that metrics need to know about the state of all shards.
    pub async fn tally(&self) -> Result<Tally, Failure> {
        let mut whole: Option<Tally> = None;
        for shard in self.shards() {
            let tally = match shard.describe(Query::Tally).await? {
                Description::Tally(tally) => tally,
                other => return Err(unexpected(&other)),
            };
            whole = Some(match whole {
                None => tally,
                Some(whole) => whole.with(tally),
            });
        }
        Ok(whole.unwrap_or_default())
    }

    /// Numbers about the engine's own work.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let of_shard =
            |shard: &Arc<Shared>| Counters { queue_length: shard.inbox.len() as u64, ..shard.meters.read() };
        self.shards().iter().map(of_shard).fold(Counters::default(), Counters::with)
    }

    /// What the broker can do right now, and why not more: what all of its shards can do.
    #[must_use]
    pub fn status(&self) -> Status {
        let home = self.home().status_board.read();
        self.shards()[1..].iter().fold(home, |status, shard| status.with(shard.id, shard.status_board.read()))
    }

    /// Becomes true as soon as the broker begins to stop.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.house().stopping.subscribe()
    }

    /// Turns true when another server has opened the log: this one serves nothing more.
    pub fn fenced(&self) -> watch::Receiver<bool> {
        self.house().fenced.subscribe()
    }

    /// Lets open streams end (they return `None` from now on) without waiting for anything: the first half of
    /// [`Broker::stop`], for an edge that has connections of its own to close in between.
    pub fn begin_stop(&self) {
        self.house().stopping.send_replace(true);
    }

    /// Stops gracefully: streams end, what they did not write out is given back, everything accepted is made
    /// durable, a snapshot is written, the threads end.
    pub async fn stop(self) {
        self.begin_stop();
        let grace = self.house().config.stop_grace;
        if tokio::time::timeout(grace, self.streams_ended()).await.is_err() {
            tracing::warn!(streams = self.streams(), "stopping although streams are still open");
        }
        self.shards().iter().for_each(|shard| shard.inbox.stop());
        for shard in self.shards() {
            // The sender lives in `shard`, so this cannot fail.
            let _ = shard.ended.subscribe().wait_for(|ended| *ended).await;
        }
        // They have said that they ended: this waits for a few instructions.
        self.join_all();
    }

    /// Resolves when no stream is open.
    async fn streams_ended(&self) {
        loop {
            let ended = self.house().stream_ended.notified();
            tokio::pin!(ended);
            // Registered before the count is read, so that the last stream cannot end unnoticed in between.
            ended.as_mut().enable();
            if self.streams() == 0 {
                return;
            }
            ended.await;
        }
    }

    fn streams(&self) -> u64 {
        self.shards().iter().map(|shard| shard.meters.streams.get()).sum()
    }

    /// What all shards have in common.
    pub(crate) fn house(&self) -> &House {
        &self.owner.house
    }

    /// All shards.
    pub(crate) fn shards(&self) -> &[Arc<Shared>] {
        &self.owner.shards
    }

    /// How many shards there are.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards().len()
    }

    /// The shard that has what belongs to no topic.
    pub(crate) fn home(&self) -> &Arc<Shared> {
        &self.owner.shards[0]
    }

    /// The shard of that number. If there is none, the first one will say that it knows nothing of what it is asked.
    pub(crate) fn shard(&self, id: ShardId) -> &Arc<Shared> {
        self.owner.shards.get(usize::from(id.0)).unwrap_or(&self.owner.shards[0])
    }

    /// The shard that a topic lives in.
    pub(crate) fn at(&self, topic: TopicId) -> &Arc<Shared> {
        self.shard(topic.shard())
    }

    pub(crate) fn topic(&self, name: &str) -> Result<TopicId, Failure> {
        self.topic_number(name).ok_or(Failure::Reject(Reject::TopicUnknown))
    }

    /// The number of the topic that has a name now.
    #[must_use]
    pub fn topic_number(&self, name: &str) -> Option<TopicId> {
        read(&self.house().catalog).find(name).map(|topic| topic.id)
    }

    fn address(&self, request: AckRequest) -> Result<(Address, String), Failure> {
        let topic = self.topic(&request.topic)?;
        let AckRequest { group, partition, offset, owner, .. } = request;
        Ok((Address { topic, group, partition, offset }, owner))
    }
}

fn settled(answer: &Answer) -> Result<(), Failure> {
    match answer {
        Answer::Settled => Ok(()),
        other => Err(unexpected(other)),
    }
}

/// The shard answers each input with its own kind of answer; anything else is a bug of ours.
pub(crate) fn unexpected(answer: &impl std::fmt::Debug) -> Failure {
    tracing::error!(?answer, "the shard gave an answer of the wrong kind");
    Failure::Unavailable("internal fault: an answer of the wrong kind".into())
}
