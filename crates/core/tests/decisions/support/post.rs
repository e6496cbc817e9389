//! Two shards, and what an engine does between them.

use driftq_core::{
    Action, Answer, Commit, Input, NewMessage, OutboxInput, Parcel, Reject, Settings, ShardId, Stored,
    TopicId,
};

use super::{Draft, Rig};

/// A sender, the first shard, with a topic `here`; and a receiver with a topic `there` of two partitions.
pub(crate) struct Pair {
    pub(crate) here: Rig,
    pub(crate) there: Rig,
    pub(crate) near: TopicId,
    pub(crate) far: TopicId,
}

pub(crate) const SENDER: ShardId = ShardId(0);
pub(crate) const RECEIVER: ShardId = ShardId(1);

impl Pair {
    pub(crate) fn new(settings: &Settings) -> Self {
        let [mut here, mut there] =
            [SENDER, RECEIVER].map(|shard| Rig::new(Settings { shard, ..settings.clone() }));
        let (near, far) = (here.topic("here", 1), there.topic("there", 2));
        Self { here, there, near, far }
    }

    /// A message to the other shard.
    pub(crate) fn letter(&self, value: &str) -> NewMessage {
        Draft::to(self.far).value(value).message()
    }

    /// A commit that stores one message here and sends two, the second under a key.
    pub(crate) fn mixed(&self) -> Commit {
        let keyed = Draft::to(self.far).partition(1).value("b").keyed("k").message();
        let messages = vec![self.letter("a"), Draft::to(self.near).message(), keyed];
        Commit { messages, ..Commit::default() }
    }

    /// What the sender wants to be sent.
    pub(crate) fn posts(&mut self) -> Vec<Parcel> {
        self.here.posts(RECEIVER)
    }

    /// Brings parcels to the receiver, which has them durable.
    pub(crate) fn forward(&mut self, parcels: Vec<Parcel>) -> Vec<Stored> {
        let settled = self.here.shard.outbox_settled();
        self.there.receive(SENDER, settled, parcels).expect("nothing refuses them")
    }

    /// Tells the sender where parcels went.
    pub(crate) fn confirm(&mut self, parcels: &[Parcel], stored: &[Stored]) {
        let stored = parcels.iter().map(|parcel| parcel.number).zip(stored.iter().copied()).collect();
        self.here.tell(Input::Outbox(OutboxInput::Posted { stored }));
    }

    /// Sends what is to be sent, and has the sender told.
    pub(crate) fn deliver(&mut self) -> Vec<Stored> {
        let parcels = self.posts();
        let stored = self.forward(parcels.clone());
        self.confirm(&parcels, &stored);
        stored
    }

    /// The values of the messages that the receiver has, by offset.
    pub(crate) fn arrived(&mut self) -> Vec<String> {
        self.there.sync();
        values(&mut self.there, self.far)
    }
}

/// The values of all messages of a topic that group `g` has not seen yet, by offset.
pub(crate) fn values(rig: &mut Rig, topic: TopicId) -> Vec<String> {
    let mut deliveries = rig.lease(topic, 1000);
    deliveries.sort_by_key(|delivery| delivery.receipt.offset);
    let values = deliveries.iter().map(|delivery| {
        let bytes = rig.log.read(delivery.position, delivery.length).expect("it can be read");
        let message = driftq_core::Message::decode(bytes).expect("it is a message");
        String::from_utf8(message.value.into_owned()).expect("it is a text")
    });
    values.collect()
}

impl Rig {
    /// Takes the parcels that are to be sent so far; they all go to one shard.
    pub(crate) fn posts(&mut self, expected: ShardId) -> Vec<Parcel> {
        let posts = self.actions.extract_if(.., |action| matches!(action, Action::Post { .. }));
        let posts = posts.filter_map(|action| match action {
            Action::Post { to, parcel } => {
                assert_eq!((to, parcel.message.topic.shard()), (expected, expected));
                Some(parcel)
            }
            _ => None,
        });
        posts.collect()
    }

    /// Receives parcels, and has them durable.
    pub(crate) fn receive(
        &mut self,
        from: ShardId,
        settled: u64,
        parcels: Vec<Parcel>,
    ) -> Result<Vec<Stored>, Reject> {
        let answer =
            self.ask_durably(|ticket| Input::Outbox(OutboxInput::Receive { ticket, from, settled, parcels }));
        match answer {
            Answer::Received(stored) => Ok(stored),
            Answer::Rejected(reject) => Err(reject),
            other => panic!("not received: {other:?}"),
        }
    }
}
