//! What holders of tokens and people who look after topics do most.

use driftq_core::{
    Answer, ConsumerId, Delivery, Description, GroupStanding, Input, LeaseRequest, MessageDescription,
    OrderInput, Outcome, Query, SeekTo, Settlement, Spotted, Style, Ticket, Time, TopicId, TopicPatch,
    TopicSettings, Verdict,
};

use super::{LEASE_MS, Rig};

/// A request of group `g` that does not wait.
pub(crate) fn request(topic: TopicId, max: u32) -> LeaseRequest {
    LeaseRequest {
        topic,
        group: "g".into(),
        owner: "o".into(),
        max,
        lease_ms: Some(LEASE_MS),
        wait_ms: 0,
        request: None,
    }
}

/// The same, willing to wait.
pub(crate) fn patient(topic: TopicId, max: u32, wait_ms: u64) -> LeaseRequest {
    LeaseRequest { wait_ms, ..request(topic, max) }
}

pub(crate) fn nack(error: &str) -> Verdict {
    Verdict::Nack { delay_ms: None, dead: false, error: error.into() }
}

pub(crate) fn nack_after(delay_ms: u64) -> Verdict {
    Verdict::Nack { delay_ms: Some(delay_ms), dead: false, error: "later".into() }
}

pub(crate) fn nack_dead(error: &str) -> Verdict {
    Verdict::Nack { delay_ms: None, dead: true, error: error.into() }
}

pub(crate) const EXTEND: Verdict = Verdict::Extend { lease_ms: Some(LEASE_MS), begun: true };

/// Message `offset` of partition 0.
pub(crate) fn spotted(topic: TopicId, offset: u64) -> Spotted {
    Spotted { topic, partition: 0, offset }
}

pub(crate) fn offsets(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries.iter().map(|delivery| delivery.receipt.offset).collect()
}

impl Rig {
    pub(crate) fn topic_with(&mut self, name: &str, partitions: u32, settings: TopicSettings) -> TopicId {
        let name_owned = name.to_owned();
        let answer = self.ask_durably(|ticket| {
            Input::Order(OrderInput::CreateTopic {
                ticket,
                name: name_owned,
                partitions,
                settings,
                tenant: None,
                exact: true,
            })
        });
        assert!(matches!(answer, Answer::TopicReady { .. }), "{answer:?}");
        self.published();
        self.shard.state().topics().find(|topic| *topic.name == *name).expect("the topic was created").id
    }

    /// Asks for messages; whoever waits goes on waiting.
    pub(crate) fn ask_lease(&mut self, request: LeaseRequest) -> Ticket {
        self.ask(|ticket| Input::Lease { ticket, request })
    }

    /// What a lease request got, if it was answered.
    pub(crate) fn leased(&mut self, ticket: Ticket) -> Option<Vec<Delivery>> {
        match self.answer(ticket) {
            None => None,
            Some(Answer::Leased(deliveries)) => Some(deliveries),
            other => panic!("not leased: {other:?}"),
        }
    }

    /// What group `g` gets at once.
    pub(crate) fn lease(&mut self, topic: TopicId, max: u32) -> Vec<Delivery> {
        self.lease_as(request(topic, max))
    }

    pub(crate) fn lease_as(&mut self, request: LeaseRequest) -> Vec<Delivery> {
        let ticket = self.ask_lease(request);
        let at_once = self.leased(ticket);
        // A delivery that supersedes a holder waits for the disk, and for nothing else.
        at_once.unwrap_or_else(|| {
            self.sync();
            self.leased(ticket).expect("who does not wait is answered as soon as it is durable")
        })
    }

    /// Offsets that group `g` gets at once.
    pub(crate) fn lease_offsets(&mut self, topic: TopicId, max: u32) -> Vec<u64> {
        offsets(&self.lease(topic, max))
    }

    /// Settles and syncs.
    pub(crate) fn settle_many(&mut self, items: Vec<Settlement>) -> Vec<Outcome> {
        match self.ask_durably(|ticket| Input::Settle { ticket, items }) {
            Answer::Settlements(outcomes) => outcomes,
            other => panic!("not settled: {other:?}"),
        }
    }

    pub(crate) fn settle(&mut self, delivery: &Delivery, verdict: Verdict) -> Outcome {
        self.settle_many(vec![Settlement { receipt: delivery.receipt, verdict }])[0]
    }

    pub(crate) fn ack_token(&mut self, delivery: &Delivery) -> Outcome {
        self.settle(delivery, Verdict::Ack)
    }

    /// A stream with credit for group `g`.
    pub(crate) fn borrow(&mut self, topic: TopicId, owner: &str, credit: u32) -> ConsumerId {
        let mut subscription = self.subscription(topic, "g", owner, credit);
        subscription.style = Style::Borrowed;
        let consumer = subscription.consumer;
        let answer = self.ask_durably(|ticket| Input::Subscribe { ticket, subscription });
        assert_eq!(answer, Answer::Subscribed);
        consumer
    }

    pub(crate) fn cancel(&mut self, message: Spotted) -> Answer {
        self.ask_durably(|ticket| Input::Order(OrderInput::Cancel { ticket, message }))
    }

    pub(crate) fn remove(&mut self, messages: Vec<Spotted>) -> u64 {
        match self.ask_durably(|ticket| Input::Order(OrderInput::Remove { ticket, messages })) {
            Answer::Removed(count) => count,
            other => panic!("not removed: {other:?}"),
        }
    }

    pub(crate) fn seek(&mut self, topic: TopicId, group: &str, partition: Option<u32>, to: SeekTo) -> Answer {
        let group = group.to_owned();
        self.ask_durably(|ticket| Input::Order(OrderInput::Seek { ticket, topic, group, partition, to }))
    }

    pub(crate) fn pause(&mut self, topic: TopicId, group: Option<&str>, paused: bool) -> Answer {
        let group = group.map(str::to_owned);
        self.ask_durably(|ticket| Input::Order(OrderInput::Pause { ticket, topic, group, paused }))
    }

    pub(crate) fn configure(&mut self, topic: TopicId, patch: TopicPatch) -> Answer {
        self.ask_durably(|ticket| Input::Order(OrderInput::ConfigureTopic { ticket, topic, patch }))
    }

    pub(crate) fn delete_topic(&mut self, topic: TopicId) -> Answer {
        self.ask_durably(|ticket| Input::Order(OrderInput::DeleteTopic { ticket, topic }))
    }

    pub(crate) fn delete_group(&mut self, topic: TopicId, group: &str) -> Answer {
        let group = group.to_owned();
        self.ask_durably(|ticket| Input::Order(OrderInput::DeleteGroup { ticket, topic, group }))
    }

    pub(crate) fn message_described(&mut self, message: Spotted) -> Option<MessageDescription> {
        match self.describe(Query::Message(message)) {
            Some(Description::Message(message)) => message,
            other => panic!("not a message: {other:?}"),
        }
    }

    /// How a group stands to message `offset` of partition 0.
    pub(crate) fn standing(&mut self, topic: TopicId, offset: u64, group: &str) -> GroupStanding {
        let described = self.message_described(spotted(topic, offset)).expect("the message is kept");
        described.groups.into_iter().find(|standing| *standing.group == *group).expect("the group exists")
    }

    /// The state as bytes: two that are equal behave alike.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        self.shard.state().encode()
    }

    /// Deliveries on loan of group `g`, over all partitions.
    pub(crate) fn in_flight(&mut self, topic: TopicId) -> u32 {
        let group = self.group_described(topic, "g").expect("the group exists");
        group.partitions.iter().map(|partition| partition.in_flight).sum()
    }

    /// Power off, the clock is set, power on.
    pub(crate) fn crash_and_set_clock(&mut self, now: Time) {
        self.sync();
        self.now = now;
        self.crash();
    }
}
