//! What tests do most.

use driftq_core::{
    Address, Answer, Burial, ConsumerId, DeadLetter, Description, GroupDescription, Input, Message,
    OrderInput, Payload, Query, Receipt, Reject, Stored, Style, Subscription, Tally, TopicDescription,
    TopicId, TopicSettings,
};

use super::{Draft, LEASE_MS, Rig, check, payload};

impl Rig {
    pub(crate) fn topic(&mut self, name: &str, partitions: u32) -> TopicId {
        let answer = self.ask_durably(|ticket| {
            Input::Order(OrderInput::CreateTopic {
                ticket,
                name: name.into(),
                partitions,
                settings: TopicSettings::default(),
                tenant: None,
                exact: false,
            })
        });
        assert!(matches!(answer, Answer::TopicReady { .. }), "{answer:?}");
        self.published();
        self.shard.state().topics().find(|topic| *topic.name == *name).expect("the topic was created").id
    }

    /// Produces and syncs.
    pub(crate) fn try_produce(&mut self, draft: &Draft) -> Answer {
        let message = draft.message();
        self.ask_durably(|ticket| Input::Produce { ticket, message })
    }

    /// Produces and syncs; the offset.
    pub(crate) fn produce(&mut self, draft: &Draft) -> u64 {
        match self.try_produce(draft) {
            Answer::Produced(Stored { offset, .. }) => offset,
            other => panic!("not produced: {other:?}"),
        }
    }

    /// Produces and syncs a plain message per partition named.
    pub(crate) fn produce_to(&mut self, topic: TopicId, partitions: &[u32]) {
        for partition in partitions {
            self.produce(&Draft::to(topic).partition(*partition));
        }
    }

    pub(crate) fn subscription(
        &mut self,
        topic: TopicId,
        group: &str,
        owner: &str,
        credit: u32,
    ) -> Subscription {
        self.consumers += 1;
        let consumer = ConsumerId(self.consumers);
        Subscription {
            consumer,
            topic,
            group: group.into(),
            owner: owner.into(),
            lease_ms: Some(LEASE_MS),
            credit,
            style: Style::Pushed,
        }
    }

    /// Subscribes and syncs.
    pub(crate) fn subscribe(&mut self, topic: TopicId, group: &str, owner: &str, credit: u32) -> ConsumerId {
        let subscription = self.subscription(topic, group, owner, credit);
        let consumer = subscription.consumer;
        let answer = self.ask_durably(|ticket| Input::Subscribe { ticket, subscription });
        assert_eq!(answer, Answer::Subscribed);
        consumer
    }

    /// Acks and syncs.
    pub(crate) fn ack(&mut self, address: &Address, owner: &str) -> Answer {
        let (address, owner) = (address.clone(), owner.to_owned());
        self.ask_durably(|ticket| Input::Ack { ticket, address, owner })
    }

    /// Nacks and syncs.
    pub(crate) fn nack(&mut self, address: &Address, owner: &str, reason: &str) -> Answer {
        let (address, owner, reason) = (address.clone(), owner.to_owned(), reason.to_owned());
        self.ask_durably(|ticket| Input::Nack { ticket, address, owner, reason })
    }

    pub(crate) fn release(&mut self, receipts: &[Receipt]) {
        self.tell(Input::Release { receipts: receipts.to_vec() });
    }

    /// The dead letter of an burial, made from what the log says.
    pub(crate) fn letter(&self, burial: &Burial) -> Payload {
        let bytes = self.log.read(burial.position, burial.length).expect("the message can be read");
        assert_eq!(check(bytes), burial.check);
        let message = Message::decode(bytes).expect("the message is one");
        let letter = DeadLetter {
            topic: burial.topic.to_string().into(),
            partition: burial.receipt.partition,
            offset: burial.receipt.offset,
            attempts: burial.attempts,
            ..DeadLetter::default()
        };
        payload(&message.into_dead_letter(letter, burial.receipt.topic))
    }

    /// Answers an burial; nothing is synced.
    pub(crate) fn bury(&mut self, burial: &Burial) {
        let payload = self.letter(burial);
        self.tell(Input::Bury { receipt: burial.receipt, payload });
    }

    pub(crate) fn describe(&mut self, query: Query) -> Option<Description> {
        let ticket = self.ask(|ticket| Input::Describe { ticket, query });
        let at_once = self.answer(ticket);
        // What must not be taken back waits until it is durable.
        let answer = at_once.or_else(|| {
            self.sync();
            self.answer(ticket)
        });
        match answer {
            Some(Answer::Described(description)) => Some(description),
            Some(Answer::Rejected(Reject::TopicUnknown)) => None,
            other => panic!("not a description: {other:?}"),
        }
    }

    pub(crate) fn tally(&mut self) -> Tally {
        match self.describe(Query::Tally) {
            Some(Description::Tally(tally)) => tally,
            other => panic!("not a tally: {other:?}"),
        }
    }

    pub(crate) fn topic_described(&mut self, topic: TopicId) -> TopicDescription {
        match self.describe(Query::Topic(topic)) {
            Some(Description::Topic(topic)) => topic,
            other => panic!("not a topic: {other:?}"),
        }
    }

    pub(crate) fn group_described(&mut self, topic: TopicId, group: &str) -> Option<GroupDescription> {
        match self.describe(Query::Group(topic, group.into())) {
            Some(Description::Groups(mut groups)) => groups.pop(),
            other => panic!("not groups: {other:?}"),
        }
    }

    /// Messages that the group still owes, over all partitions.
    pub(crate) fn lag(&mut self, topic: TopicId, group: &str) -> u64 {
        let group = self.group_described(topic, group).expect("the group exists");
        group.partitions.iter().map(|partition| partition.lag).sum()
    }
}

/// Message `offset` of partition 0 as group `g` sees it.
pub(crate) fn at(topic: TopicId, offset: u64) -> Address {
    at_partition(topic, 0, offset)
}

pub(crate) fn at_partition(topic: TopicId, partition: u32, offset: u64) -> Address {
    Address { topic, group: "g".into(), partition, offset }
}
