//! What holders of tokens and people who look after topics may do at any time.

use driftq_core::{
    Identity, Input, LeaseRequest, Message, Order, OrderInput, Query, RequestHash, SeekTo, Settlement,
    Spotted, Time, TopicPatch, Verdict,
};

use super::ledger::effect_identity;
use super::world::{Asked, GROUPS, OWNERS, World, pick};
use super::{Draft, payload};

impl World {
    pub(super) fn order(&mut self, kind: u8, a: u8, b: u8, c: u8) {
        match kind {
            32..=34 => self.lease(a, b, c),
            35..=38 => self.settle_tokens(a, b, c),
            39 if a.is_multiple_of(2) => self.retry(a, b),
            39 => self.cancel(a, b),
            40 => self.seek(a, b, c),
            41 => self.pause(a, b, c),
            42 => self.configure(a, b, c),
            43 => self.delete(a, b),
            44 => self.redrive(a),
            45 => self.remove(a, b),
            _ => self.produce_many(a, b, c),
        }
    }

    fn lease(&mut self, a: u8, b: u8, c: u8) {
        let Some(topic) = self.a_topic(a) else { return };
        let group = GROUPS[usize::from(b) % 3];
        let request = LeaseRequest {
            topic,
            group: group.into(),
            owner: OWNERS[usize::from(b / 3) % 2].into(),
            max: u32::from(c % 5),
            lease_ms: [None, Some(1), Some(300), Some(1000)][usize::from(c / 5 % 4)],
            wait_ms: u64::from(b / 32) * 100,
            request: (c >= 128).then(|| Identity::of("", "request", ["r", "s"][usize::from(c % 2)])),
        };
        let ticket = self.rig.ask(|ticket| Input::Lease { ticket, request });
        self.asked.insert(ticket, Asked::Lease(group));
        if b == 255 {
            self.rig.tell(Input::Forsake { ticket });
        }
    }

    fn settle_tokens(&mut self, a: u8, b: u8, c: u8) {
        let epoch = self.rig.shard.state().epoch();
        let mut asked = Vec::new();
        let items: Vec<Settlement> = (0..=b % 3)
            .filter_map(|step| {
                let receipt = pick(&self.deliveries, a.wrapping_add(step * 7))?.0.receipt;
                let verdict = match c % 8 {
                    0..=3 => Verdict::Ack,
                    4 => Verdict::Nack { delay_ms: None, dead: false, error: "no".into() },
                    5 => Verdict::Nack { delay_ms: Some(u64::from(b)), dead: b >= 128, error: "no".into() },
                    6 => {
                        Verdict::Extend { lease_ms: Some(u64::from(b) * 4 + 1), begun: !b.is_multiple_of(3) }
                    }
                    _ if b.is_multiple_of(3) => Verdict::Await {
                        effect: effect_identity(["k", "l", "m", "n"][usize::from(a % 4)]),
                        delay_ms: (b < 200).then_some(u64::from(b) * 4),
                    },
                    _ => Verdict::Release { delay_ms: if b < 128 { 0 } else { u64::from(b) } },
                };
                let message = (receipt.topic, receipt.group, receipt.partition, receipt.offset);
                // What an older run handed out is remembered as acked, or it is stale; neither is news.
                let is_news = receipt.token.epoch == epoch && !self.outmoved.contains(&receipt.token);
                asked.push((message, verdict == Verdict::Ack && is_news));
                Some(Settlement { receipt, verdict })
            })
            .collect();
        let ticket = self.rig.ask(|ticket| Input::Settle { ticket, items });
        self.asked.insert(ticket, Asked::Tokens(asked));
    }

    /// A message that was delivered, or one that perhaps never was there.
    fn a_message(&self, a: u8, b: u8) -> Option<Spotted> {
        if b >= 64 {
            let receipt = pick(&self.deliveries, a)?.0.receipt;
            return Some(Spotted {
                topic: receipt.topic,
                partition: receipt.partition,
                offset: receipt.offset,
            });
        }
        Some(Spotted { topic: self.a_topic(a)?, partition: u32::from(a % 2), offset: u64::from(b) })
    }

    fn cancel(&mut self, a: u8, b: u8) {
        let Some(message) = self.a_message(a, b) else { return };
        self.rig.ask(|ticket| Input::Order(OrderInput::Cancel { ticket, message }));
        self.rig.ask(|ticket| Input::Describe { ticket, query: Query::Message(message) });
    }

    fn retry(&mut self, a: u8, b: u8) {
        let Some(message) = self.a_message(a, b) else { return };
        self.rig.ask(|ticket| Input::Order(OrderInput::Retry { ticket, message }));
    }

    fn remove(&mut self, a: u8, b: u8) {
        let messages: Vec<Spotted> = self.a_message(a, b).into_iter().chain(self.a_message(b, a)).collect();
        self.rig.ask(|ticket| Input::Order(OrderInput::Remove { ticket, messages }));
    }

    fn seek(&mut self, a: u8, b: u8, c: u8) {
        let Some(topic) = self.a_topic(a) else { return };
        let to = match c % 5 {
            0 | 1 => SeekTo::Earliest,
            2 => SeekTo::Latest,
            3 => SeekTo::Offset(u64::from(b) / 4),
            _ => SeekTo::Time(Time(self.rig.now.0.saturating_sub(u64::from(b) * 20))),
        };
        let (group, partition) =
            (GROUPS[usize::from(b) % 3].to_owned(), (c >= 128).then_some(u32::from(c % 3)));
        // What it was done with it may get again.
        self.acked.retain(|(acked, ..)| *acked != topic);
        let out = self.deliveries.iter().map(|(delivery, _)| delivery.receipt);
        self.outmoved.extend(out.filter(|receipt| receipt.topic == topic).map(|receipt| receipt.token));
        let pending = self.asked.values_mut();
        pending.for_each(|asked| {
            if let Asked::Settle { ack, .. } = asked {
                *ack = false;
            } else if let Asked::Tokens(messages) = asked {
                messages.clear();
            } else if let Asked::Commit { acked, .. } = asked {
                acked.clear();
            }
        });
        self.rig.ask(|ticket| Input::Order(OrderInput::Seek { ticket, topic, group, partition, to }));
    }

    fn pause(&mut self, a: u8, b: u8, c: u8) {
        let Some(topic) = self.a_topic(a) else { return };
        let group = (b >= 128).then(|| GROUPS[usize::from(b) % 3].to_owned());
        self.rig.ask(|ticket| {
            Input::Order(OrderInput::Pause { ticket, topic, group, paused: c.is_multiple_of(3) })
        });
    }

    fn configure(&mut self, a: u8, b: u8, c: u8) {
        let Some(topic) = self.a_topic(a) else { return };
        let patch = TopicPatch {
            order: (b >= 128).then_some([Order::Priority, Order::Key, Order::Fifo][usize::from(c) % 3]),
            in_flight_max: b.is_multiple_of(3).then_some((!c.is_multiple_of(2)).then_some(u32::from(c % 4))),
            retention_ms: b.is_multiple_of(7).then_some((c >= 200).then_some(3000)),
            keep_ms: b.is_multiple_of(5).then_some((c % 4 < 2).then_some(u64::from(c) * 20 + 1)),
            keep_bytes: (b % 5 == 1).then_some((c % 4 < 3).then_some(u64::from(c) + 1)),
            ..TopicPatch::default()
        };
        self.rig.ask(|ticket| Input::Order(OrderInput::ConfigureTopic { ticket, topic, patch }));
    }

    fn delete(&mut self, a: u8, b: u8) {
        let Some(topic) = self.a_topic(a) else { return };
        match b {
            0..20 => drop(self.rig.ask(|ticket| Input::Order(OrderInput::DeleteTopic { ticket, topic }))),
            20..80 => {
                let group = GROUPS[usize::from(b) % 3].to_owned();
                self.rig.ask(|ticket| Input::Order(OrderInput::DeleteGroup { ticket, topic, group }));
            }
            _ => {
                let (identity, request) =
                    (Draft::to(topic).keyed("k").identity, RequestHash(u64::from(b % 3)));
                let Some(identity) = identity else { return };
                self.rig.ask(|ticket| Input::Reserve { ticket, identity, request });
                if b >= 128 {
                    self.rig.tell(Input::Unreserve { identity });
                }
            }
        }
    }

    /// Sends the oldest letter that can be read back to where it came from.
    fn redrive(&mut self, a: u8) {
        let state = self.rig.shard.state();
        let source = state.topics().find(|topic| *topic.name == *"a").map(|topic| topic.id);
        let graves = state.topics().find(|topic| *topic.name == *"dlq.a").map(|topic| topic.id);
        let (Some(topic), Some(dlq)) = (source, graves) else { return };
        let live: Vec<u32> = state.live_bytes().keys().copied().collect();
        let letters = live.into_iter().flat_map(|segment| state.pinned_in(segment, usize::MAX));
        let letters: Vec<_> = letters.filter(|pinned| pinned.topic == dlq).collect();
        let Some(pinned) = pick(&letters, a) else { return };
        let Some(bytes) = self.rig.log.read(pinned.position, pinned.length) else { return };
        let Some((message, _)) = Message::decode(bytes).ok().and_then(Message::from_dead_letter) else {
            return;
        };
        let mut again = Draft::to(topic).partition(0).message();
        again.payload = payload(&message);
        let letter = Spotted { topic: dlq, partition: pinned.partition, offset: pinned.offset };
        let group = GROUPS[usize::from(a) % 3].to_owned();
        let group = Some(group).filter(|_| !a.is_multiple_of(5));
        self.rig.ask(|ticket| Input::Order(OrderInput::Redrive { ticket, letter, message: again, group }));
    }

    fn produce_many(&mut self, a: u8, b: u8, c: u8) {
        let Some(topic) = self.a_topic(a) else { return };
        let messages = (0..b % 4).map(|n| {
            let mut draft = Draft::to(topic).partition(u32::from(c % 3));
            draft.priority = n;
            draft.message()
        });
        let messages = messages.collect();
        self.rig.ask(|ticket| Input::ProduceMany { ticket, messages });
    }
}
