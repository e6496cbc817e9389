//! What a client may rely on, checked from outside: the oracle sees only what clients see.

mod catalog;
mod durable;
mod entities;
mod executed;
mod fence;
mod identity;
mod ledger;
mod order;
mod outcome;
mod outputs;
mod redrive;
mod resolvable;
mod settled;
mod tie;
mod unchanged;
pub(crate) mod view;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{
    ConsumerId, Delivery, Receipt, RequestHash, RetryPolicy, Spotted, Start, Time, Token, TopicId,
};

pub(crate) use catalog::{Gone, TopicView};
pub(crate) use durable::Lost;
pub(crate) use entities::Entities;
use executed::Outside;
pub(crate) use fence::{Said, Word};
use identity::Gates;
use ledger::Ledger;
pub(crate) use ledger::{Known, Span};
pub(crate) use outcome::{Finishing, Resolving, Told};
pub(crate) use outputs::{Ordered, OutputOrder, Outputs, Reading};
pub(crate) use redrive::Redrive;
pub(crate) use tie::{Tie, Tied};
pub(crate) use unchanged::Refused;
use view::{Group, Hold, Released, ensure};
pub(crate) use whole::{Committing, Deed, Done};

/// Whether a promise was kept; if not, which one was broken.
pub type CheckResult = Result<(), String>;

/// A message as its producer knows it.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Where it was sent.
    pub topic: TopicId,
    /// Its partition.
    pub partition: u32,
    /// Its idempotency key, if it has one.
    pub key: Option<u64>,
    /// What it asks for, as far as the producer says so.
    pub request: RequestHash,
    /// The key by which it is ordered, if it has one.
    pub order_key: Option<u64>,
    /// Its priority.
    pub priority: u8,
    /// When it may go out, as the producer says it.
    pub start: Start,
    /// The same as a time, from the first time it was handed over.
    pub due: Option<Time>,
    /// Its retry policy.
    pub policy: Option<RetryPolicy>,
    /// When the last try may be made: later the gate may have forgotten it.
    pub retry_until: Time,
    /// Whether it was ever handed to a server.
    pub handed: bool,
    /// Whether it was handed over more than once.
    pub repeated: bool,
    /// Whether the broker answered that it is stored, and under which offset.
    pub answered: Option<u64>,
}

/// Whose request for messages it is: topic, group, owner, and the name of the request.
pub(crate) type Asker = (TopicId, String, String, u64);

/// Who got a message, and how.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) group: String,
    pub(crate) owner: String,
    pub(crate) way: Way,
}

/// How a message was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Pushed into a stream.
    Pushed,
    /// By a stream that never has more than its credit unsettled.
    Borrowed(ConsumerId, u32),
    /// As the answer to a request.
    Leased,
}

/// Everything that clients have seen.
#[derive(Debug)]
pub struct Oracle {
    /// By message number.
    pub sent: BTreeMap<u64, Sent>,
    stored: BTreeMap<(TopicId, u64), u64>,
    places: BTreeMap<u64, u64>,
    pub(crate) topics: BTreeMap<TopicId, TopicView>,
    groups: BTreeMap<(TopicId, String), Group>,
    tokens: BTreeSet<Token>,
    /// Tokens of deliveries that were handed out, and not only decided.
    told: BTreeSet<Token>,
    /// Tokens by which an ack was taken, perhaps.
    acking: BTreeSet<Token>,
    /// Tokens whose ack was answered: it may be repeated for ever.
    acked: BTreeSet<Token>,
    /// Messages that were cancelled, and whether that was answered.
    cancelled: BTreeMap<(TopicId, u64), bool>,
    /// Dead letters that were dropped for certain.
    dropped: BTreeSet<(TopicId, u64)>,
    redrives: Vec<Redrive>,
    /// Where each message was born, once a client has seen it.
    births: BTreeMap<u64, Spotted>,
    /// Tokens of holders whose message may have become a dead letter before its group was moved or deleted.
    buried: BTreeSet<Token>,
    /// Deliveries that a named request was answered with.
    requests: BTreeMap<Asker, Vec<(u64, Token)>>,
    gates: Gates,
    ledger: Ledger,
    /// What really happened to effects.
    pub(crate) outside: Outside,
    /// Commits, by number.
    pub(crate) deeds: Vec<Deed>,
    pub(crate) outputs: Outputs,
    pub(crate) entities: Entities,
    commit_ttl_ms: u64,
    life: u64,
    events: u64,
    /// Windows of the shard: for pushed streams, and for holders of tokens.
    windows: (u32, u32),
    ttl_ms: u64,
}

impl Oracle {
    /// Nothing was seen yet. `windows` are those of pushed streams and of leases, `ttl_ms` the life of an
    /// idempotency record, `commit_ttl_ms` that of a commit.
    #[must_use]
    pub fn new(windows: (u32, u32), ttl_ms: u64, commit_ttl_ms: u64) -> Self {
        Self {
            sent: BTreeMap::new(),
            stored: BTreeMap::new(),
            places: BTreeMap::new(),
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            tokens: BTreeSet::new(),
            told: BTreeSet::new(),
            acking: BTreeSet::new(),
            acked: BTreeSet::new(),
            cancelled: BTreeMap::new(),
            dropped: BTreeSet::new(),
            redrives: Vec::new(),
            births: BTreeMap::new(),
            buried: BTreeSet::new(),
            requests: BTreeMap::new(),
            gates: Gates::default(),
            ledger: Ledger::default(),
            outside: Outside::default(),
            deeds: Vec::new(),
            outputs: Outputs::default(),
            entities: Entities::default(),
            commit_ttl_ms,
            life: 0,
            events: 0,
            windows,
            ttl_ms,
        }
    }

    /// Counts what happens, so that it can be said what came first.
    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// The server stops in an orderly way, and everything that it decided is written: every delivery that was seen is
    /// in the log.
    pub fn stopped(&mut self) {
        for hold in self.groups.values_mut().flat_map(|group| group.holds.values_mut()) {
            hold.sure = true;
        }
    }

    /// A delivery was handed out.
    pub(crate) fn seen(&mut self, receipt: &Receipt, group: &str) {
        self.told.insert(receipt.token);
        let view = self.groups.get_mut(&(receipt.topic, group.into()));
        let hold = view.and_then(|view| view.holds.get_mut(&receipt.offset));
        if let Some(hold) = hold.filter(|hold| hold.token == receipt.token) {
            hold.seen = true;
        }
    }

    /// The server began a new life: what was decided and not answered may or may not have happened.
    pub fn restart(&mut self, now: Time) {
        self.life += 1;
        self.gates.restart();
        // The names of requests are not written down: asked again by a new life, they get something else.
        self.requests.clear();
        for group in self.groups.values_mut() {
            for hold in group.holds.values_mut() {
                hold.outlive(self.life, now);
            }
            let unanswered: Vec<u64> =
                group.acked.iter().filter(|(_, acked)| !acked.answered).map(|(offset, _)| *offset).collect();
            for offset in unanswered {
                group.acked.remove(&offset);
                group.uncertain.insert(offset);
            }
            group.done.retain(|_, (_, _, answered)| *answered);
            group.first_seen.clear();
            if std::mem::take(&mut group.moving) > 0 {
                group.undone = true;
                // It may stand as it did before it was moved: what came again may have been acked long ago.
                let held = group.holds.keys().filter(|offset| !group.acked.contains_key(offset));
                group.uncertain.extend(held);
                group
                    .uncertain
                    .extend(group.settled.iter().filter(|offset| !group.acked.contains_key(offset)));
                group.holds.clear();
                group.dying.clear();
            }
        }
    }

    /// An offset always means the same message once a client has seen it.
    fn witness(&mut self, topic: TopicId, offset: u64, id: u64) -> CheckResult {
        let before = *self.stored.entry((topic, offset)).or_insert(id);
        ensure(before == id, || {
            format!("stability: offset {offset} of {topic:?} was message {before}, now {id}")
        })?;
        let place = *self.places.entry(id).or_insert(offset);
        ensure(place == offset || self.is_copy(topic, offset, id), || {
            format!("stored once: message {id} lies at {place} and at {offset}")
        })
    }

    /// A reader got message `id`.
    pub(crate) fn delivered(
        &mut self,
        to: &Receiver,
        delivery: &Delivery,
        id: u64,
        now: Time,
    ) -> CheckResult {
        let receipt = delivery.receipt;
        let (topic, offset) = (receipt.topic, receipt.offset);
        ensure(self.tokens.insert(receipt.token), || {
            format!("tokens: {:?} was handed out twice", receipt.token)
        })?;
        self.witness(topic, offset, id)?;
        // Its own topic, or one of the same name that was made since.
        let sent = Sent { topic, ..self.sent[&id].clone() };
        self.check_open(topic, &to.group, offset)?;
        self.check_due(topic, offset, &sent, now)?;
        self.check_copy(topic, &to.group, offset)?;
        self.check_key_order(&to.group, delivery, &sent)?;
        let is_plain = self.is_plain(&sent);
        let (life, ttl, room) = (self.life, self.ttl_ms, self.room(topic, to.way));
        let name = format!("{offset} of {topic:?} for {}", to.group);
        let Some(view) = self.groups.get_mut(&(topic, to.group.clone())) else { return Ok(()) };
        let settled = view.acked.contains_key(&offset) || view.closed.contains(&offset);
        ensure(!settled, || format!("acked: {name} was delivered after its ack"))?;
        ensure(!view.letters.contains_key(&offset), || {
            format!("dead: {name} was delivered after its dead letter")
        })?;
        if let Some(hold) = view.holds.get(&offset) {
            hold.check_next(delivery, sent.policy, life, now).map_err(|error| format!("{error}: {name}"))?;
        }
        let most = sent.policy.map_or(0, |policy| policy.max_attempts);
        ensure(most == 0 || delivery.attempt <= most, || {
            format!("attempts: {name} got attempt {} of {most}", delivery.attempt)
        })?;
        if is_plain {
            view.check_order(&receipt, delivery.attempt, life)?;
        }
        view.check_key(sent.key, offset, life, now, ttl)?;
        // It supersedes a holder: then it was durable before it was handed out.
        let before = view.holds.get(&offset).filter(|hold| hold.life == life && !hold.crashed);
        let sure = delivery.attempt > 1 || before.is_some_and(|hold| hold.released == Released::Yes);
        view.hand_out(offset, Hold { sure, ..hold(to, delivery, &sent, life) });
        // Decided in the order of tokens, and perhaps seen in another one.
        let live = view.live(life, now).filter(|(_, hold)| hold.token <= receipt.token);
        let live = live.filter(|(_, hold)| hold.partition == receipt.partition);
        let (live, pushed) =
            live.fold((0, 0), |(all, pushed), (_, hold)| (all + 1, pushed + u32::from(hold.pushed)));
        ensure(room.allows(live, pushed), || {
            format!("window: {live} deliveries like {name} are on loan at once, {pushed} of them pushed")
        })?;
        let Way::Borrowed(stream, credit) = to.way else { return Ok(()) };
        let unsettled = view.live(life, now).filter(|(_, hold)| hold.stream == Some(stream) && !hold.revived);
        let unsettled = unsettled.count();
        ensure(unsettled <= credit as usize, || {
            format!("credit: {stream:?} has {unsettled} of {credit} unsettled with {name}")
        })
    }

    /// No message goes out before it is due.
    fn check_due(&self, topic: TopicId, offset: u64, sent: &Sent, now: Time) -> CheckResult {
        let early = sent.due.is_some_and(|due| due > now) && !self.is_redriven(topic, offset);
        ensure(!early, || format!("schedule: {offset} of {topic:?} came at {now:?}, due at {:?}", sent.due))
    }

    /// A stored message that a group has neither acked nor lost to a dead letter, if there is one.
    #[must_use]
    pub fn unfinished(&self) -> Option<String> {
        for (id, sent) in &self.sent {
            let Some(offset) = sent.answered else { continue };
            // A duplicate is owed like the first one; which that is may not be known.
            let first = self.stored.get(&(sent.topic, offset)).copied().unwrap_or(0);
            let groups = self.groups.iter().filter(|((topic, _), _)| *topic == sent.topic);
            for ((_, name), view) in groups {
                if view.present && first.min(*id) >= view.owed_from && self.is_owed(sent, offset, view, None)
                {
                    return Some(self.describe_owed(*id, sent.topic, name, offset));
                }
            }
        }
        self.unfinished_copy()
    }

    /// Whether a group still has to settle a message. One with the same key may stand in for it; for one that was
    /// stored again only if it did not die, and was not acked `before`.
    fn is_owed(&self, sent: &Sent, offset: u64, view: &Group, before: Option<&[u64]>) -> bool {
        let gone = !self.is_alive(sent.topic) || self.cancelled.contains_key(&(sent.topic, offset));
        if gone || view.is_finished(offset) {
            return false;
        }
        !self.twins(sent).any(|offset| match before {
            None => view.is_finished(offset),
            Some(before) => {
                let alive = !view.letters.contains_key(&offset);
                alive && view.is_finished(offset) && !before.contains(&offset)
            }
        })
    }

    /// Where messages with the same key lie, whether or not their producers ever got an answer.
    fn twins(&self, sent: &Sent) -> impl Iterator<Item = u64> {
        let (topic, key) = (sent.topic, sent.key);
        let twins = self
            .sent
            .iter()
            .filter(move |(_, other)| key.is_some() && other.key == key && other.topic == topic);
        // Both: what was a duplicate once is stored when it is repeated after the gate has forgotten the first.
        let places =
            twins.flat_map(|(id, other)| other.answered.into_iter().chain(self.places.get(id).copied()));
        let copies =
            self.redrives.iter().filter(move |copy| key.is_some() && copy.topic == topic && copy.key == key);
        places.chain(copies.filter_map(|copy| copy.offset))
    }

    fn describe_owed(&self, id: u64, topic: TopicId, group: &str, offset: u64) -> String {
        let view = self.groups.get(&(topic, group.into()));
        let hold = view.and_then(|view| view.holds.get(&offset));
        format!("message {id} at {offset} of {topic:?} for {group}: {hold:?}")
    }
}

fn hold(to: &Receiver, delivery: &Delivery, sent: &Sent, life: u64) -> Hold {
    Hold {
        owner: to.owner.clone(),
        attempt: delivery.attempt,
        expires: delivery.expires,
        life,
        sure: false,
        seen: false,
        extending: 0,
        crashed: false,
        nacked: false,
        failed_at: None,
        failed_late: false,
        token: delivery.receipt.token,
        released: Released::No,
        partition: delivery.receipt.partition,
        key: sent.key,
        order_key: sent.order_key,
        pushed: to.way == Way::Pushed,
        stream: match to.way {
            Way::Borrowed(stream, _) => Some(stream),
            Way::Pushed | Way::Leased => None,
        },
        revived: false,
        unsure: false,
        not_before: Time(0),
        delay_ms: None,
        hurried: false,
    }
}
