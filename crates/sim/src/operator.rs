//! An operator that orders things: settings, pauses, moves, cancellations, deletions, retries, redrives.

use driftq_core::{
    Answer, Input, Message, Order, OrderInput, SeekTo, Spotted, Ticket, TopicId, TopicInfo, TopicPatch,
    TopicSettings,
};

use crate::asked::Asked;
use crate::clients::{GROUPS, TOPICS};
use crate::oracle::{CheckResult, Gone, TopicView};
use crate::server::payload;
use crate::world::World;

/// A dead letter as its reader read it.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) place: Spotted,
    /// The message that died, by number.
    pub(crate) id: u64,
    pub(crate) group: String,
    pub(crate) bytes: Vec<u8>,
}

const ORDERS: [Order; 3] = [Order::Fifo, Order::Priority, Order::Key];

impl World {
    /// An order is given and, unless it is refused at once, noted before its consequences are seen.
    fn order(&mut self, ticket: Ticket, input: Input, taken: impl FnOnce(&mut Self)) -> CheckResult {
        let Some(server) = &mut self.server else { return Ok(()) };
        self.trace.note("input", &(self.now.0, &input));
        let actions = server.handle(self.now, input);
        if self.refusal(&actions, ticket).is_none() {
            taken(self);
        }
        self.execute(actions)
    }

    /// Creates what is missing among the topics, one by one.
    pub(crate) fn create_topic(&mut self, number: usize) -> CheckResult {
        let (name, partitions) = TOPICS[number];
        if self.topics.contains_key(name) || self.creating.contains_key(name) {
            return Ok(());
        }
        let turn = usize::try_from(self.settings.seed % 3).expect("small") + self.creations;
        self.creations += 1;
        let order = ORDERS[(number + turn) % ORDERS.len()];
        let in_flight_max =
            self.rng.chance(1, 4).then(|| 2 + u32::try_from(self.rng.below(3)).expect("small"));
        let settings = TopicSettings { order, in_flight_max, ..TopicSettings::default() };
        self.creating.insert(name.into(), settings);
        let ticket = self.ticket(Asked::Nothing);
        let name = name.into();
        self.hand(Input::Order(OrderInput::CreateTopic {
            ticket,
            name,
            partitions,
            settings,
            tenant: None,
            exact: false,
        }))
    }

    /// The catalogue has a topic.
    pub(crate) fn publish(&mut self, topic: &TopicInfo) {
        let settings = self.creating.remove(&*topic.name).unwrap_or_default();
        let view = TopicView::new(&topic.name, topic.partitions, settings.order, settings.in_flight_max);
        self.oracle.topics.entry(topic.id).or_insert(view);
        self.topics.insert(topic.name.to_string(), topic.clone());
    }

    /// A topic that exists, not one for dead letters.
    fn some_topic(&mut self) -> Option<TopicId> {
        let (name, _) = *self.rng.pick(&TOPICS);
        self.topics.get(name).map(|topic| topic.id)
    }

    /// The operator orders something.
    pub(crate) fn operate(&mut self) -> CheckResult {
        if self.rng.chance(1, 3) {
            let number = usize::try_from(self.rng.below(3)).expect("small");
            self.create_topic(number)?;
        }
        match self.rng.below(40) {
            0..6 => self.cancel(),
            6..10 => self.retry(),
            10..16 => self.pause(),
            16..20 => self.resume_all(),
            20..22 => self.seek(),
            22..25 => self.configure(),
            25 => self.delete_group(),
            26 => self.delete_topic(),
            27..37 => self.redrive(),
            _ => self.purge(),
        }
    }

    /// One of the newest messages that are stored for certain.
    fn some_message(&mut self) -> Option<Spotted> {
        let known = self.oracle.sent.values().rev().take(12);
        let known: Vec<Spotted> = known
            .filter_map(|sent| {
                Some(Spotted { topic: sent.topic, partition: sent.partition, offset: sent.answered? })
            })
            .collect();
        (!known.is_empty()).then(|| *self.rng.pick(&known))
    }

    /// A message is not to wait for its next attempt.
    pub(crate) fn retry(&mut self) -> CheckResult {
        let waiting = self.oracle.waiting_for_retry(self.now);
        let message = match waiting.is_empty() || self.rng.chance(1, 4) {
            true => self.some_message(),
            false => Some(*self.rng.pick(&waiting)),
        };
        let Some(message) = message else { return Ok(()) };
        let ticket = self.ticket(Asked::Nothing);
        self.order(ticket, Input::Order(OrderInput::Retry { ticket, message }), |world| {
            world.oracle.hurrying(message, world.now);
        })
    }

    fn cancel(&mut self) -> CheckResult {
        let Some(message) = self.some_message() else { return Ok(()) };
        let Spotted { topic, offset, .. } = message;
        let ticket = self.ticket(Asked::Cancel { topic, offset });
        self.order(ticket, Input::Order(OrderInput::Cancel { ticket, message }), |world| {
            world.oracle.cancelling(topic, offset, false);
        })
    }

    fn pause(&mut self) -> CheckResult {
        let Some(topic) = self.some_topic() else { return Ok(()) };
        let group = self.rng.chance(1, 2).then(|| (*self.rng.pick(&GROUPS)).to_string());
        self.hand_pause(topic, group, true)
    }

    fn hand_pause(&mut self, topic: TopicId, group: Option<String>, paused: bool) -> CheckResult {
        let order = self.oracle.pausing(topic, group.as_deref());
        let ticket = self.ticket(Asked::Pause { topic, group: group.clone(), order });
        self.hand(Input::Order(OrderInput::Pause { ticket, topic, group, paused }))
    }

    /// Everything is resumed.
    pub(crate) fn resume_all(&mut self) -> CheckResult {
        let topics: Vec<TopicId> = self.topics.values().map(|topic| topic.id).collect();
        for topic in topics {
            self.hand_pause(topic, None, false)?;
            for group in GROUPS {
                self.hand_pause(topic, Some(group.into()), false)?;
            }
        }
        Ok(())
    }

    fn seek(&mut self) -> CheckResult {
        let Some(topic) = self.some_topic() else { return Ok(()) };
        let group = (*self.rng.pick(&GROUPS)).to_string();
        let to = match self.rng.below(6) {
            0..3 => SeekTo::Earliest,
            3 => SeekTo::Latest,
            4 => SeekTo::Offset(self.rng.below(60)),
            _ => SeekTo::Time(driftq_core::Time(self.now.0 - self.rng.below(5000))),
        };
        let partition = self.rng.chance(1, 3).then_some(0);
        let ticket = self.ticket(Asked::Move { topic, group: group.clone() });
        let input = Input::Order(OrderInput::Seek { ticket, topic, group: group.clone(), partition, to });
        self.order(ticket, input, |world| {
            world.oracle.seeking(topic, &group, partition, to, world.messages);
        })
    }

    fn configure(&mut self) -> CheckResult {
        let Some(topic) = self.some_topic() else { return Ok(()) };
        let mut patch = TopicPatch::default();
        match self.rng.below(4) {
            0 => patch.order = Some(*self.rng.pick(&ORDERS)),
            1 => patch.retry_share = Some(Some(*self.rng.pick(&[1, 50, 100]))),
            2 => patch.in_flight_max = Some(None),
            _ => patch.in_flight_max = Some(Some(1 + u32::try_from(self.rng.below(4)).expect("small"))),
        }
        let (order, window) = (patch.order, patch.in_flight_max);
        let ticket = self.ticket(Asked::Configure { topic });
        self.order(ticket, Input::Order(OrderInput::ConfigureTopic { ticket, topic, patch }), |world| {
            world.oracle.configuring(topic, order, window);
        })
    }

    fn delete_group(&mut self) -> CheckResult {
        let Some(topic) = self.some_topic() else { return Ok(()) };
        let group = (*self.rng.pick(&GROUPS)).to_string();
        let ticket = self.ticket(Asked::Move { topic, group: group.clone() });
        let input = Input::Order(OrderInput::DeleteGroup { ticket, topic, group: group.clone() });
        self.order(ticket, input, |world| world.oracle.deleting_group(topic, &group))
    }

    fn delete_topic(&mut self) -> CheckResult {
        let Some(topic) = self.some_topic() else { return Ok(()) };
        let ticket = self.ticket(Asked::Delete { topic });
        self.order(ticket, Input::Order(OrderInput::DeleteTopic { ticket, topic }), |world| {
            world.oracle.deleting(topic, Gone::Asked);
        })
    }

    /// A dead letter is tried again.
    pub(crate) fn redrive(&mut self) -> CheckResult {
        let Some(letter) = self.rng.take(&mut self.letters) else { return Ok(()) };
        let Some(topic) = self.home_of(letter.id) else { return Ok(()) };
        if self.rng.chance(1, 4) {
            self.letters.push(letter.clone());
        }
        let stored = Message::decode(&letter.bytes).map_err(|error| format!("letters: {error:?}"))?;
        let Some((alive, from)) = stored.from_dead_letter() else {
            return Err(format!("letters: {:?} is none", letter.place));
        };
        let mut message = self.new_message(letter.id, false);
        message.topic = topic;
        message.retry = from.retry_policy;
        message.start = driftq_core::Start::Now;
        message.payload = payload(&alive);
        let number = self.oracle.redriving(letter.id, topic, &letter.group);
        let place = letter.place;
        let ticket = self.ticket(Asked::Redrive { number, place });
        let input = Input::Order(OrderInput::Redrive {
            ticket,
            letter: place,
            message,
            group: Some(letter.group.clone()),
        });
        self.hand(input)
    }

    /// The topic that a dead letter goes back to: the one that it came from, or one of the same name that was made
    /// since. There a key says nothing about its earlier use; messages without one will do.
    fn home_of(&self, id: u64) -> Option<TopicId> {
        let sent = &self.oracle.sent[&id];
        if self.oracle.is_alive(sent.topic) {
            return Some(sent.topic);
        }
        let name = &self.oracle.topics.get(&sent.topic)?.name;
        let anew = self.topics.get(name)?.id;
        (sent.key.is_none() && self.oracle.is_alive(anew)).then_some(anew)
    }

    /// Dead letters are thrown away.
    fn purge(&mut self) -> CheckResult {
        let Some(letter) = self.rng.take(&mut self.letters) else { return Ok(()) };
        let ticket = self.ticket(Asked::Remove { place: letter.place });
        self.hand(Input::Order(OrderInput::Remove { ticket, messages: vec![letter.place] }))
    }

    /// The answer to an order came.
    pub(crate) fn order_answered(&mut self, asked: &Asked, answer: &Answer) -> CheckResult {
        match (asked, answer) {
            (Asked::Cancel { topic, offset }, Answer::Cancelled { .. }) => {
                self.oracle.cancelling(*topic, *offset, true);
            }
            (Asked::Pause { topic, group, order }, Answer::Paused(since)) => {
                self.oracle.paused(*topic, group.as_deref(), *order, since.is_some());
            }
            (Asked::Move { topic, group }, Answer::Sought(_) | Answer::Deleted) => {
                self.oracle.moved(*topic, group);
            }
            (Asked::Configure { topic }, Answer::Configured { after, .. }) => {
                self.oracle.configured(*topic, after.in_flight_max);
            }
            (Asked::Delete { topic }, Answer::Deleted) => self.oracle.deleting(*topic, Gone::Yes),
            (Asked::Redrive { number, place }, Answer::Produced(stored)) => {
                self.counts.redriven += 1;
                self.oracle.removed(place.topic, place.offset);
                return self.oracle.redriven(*number, stored.offset);
            }
            (Asked::Redrive { number, .. }, Answer::Rejected(reject)) => {
                return self.oracle.redrive_refused(*number, *reject);
            }
            (Asked::Remove { place }, Answer::Removed(_)) => {
                self.oracle.removed(place.topic, place.offset);
            }
            _ => {}
        }
        Ok(())
    }
}
