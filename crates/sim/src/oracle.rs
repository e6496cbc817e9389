//! What a client may rely on, checked from outside: the oracle sees only what clients see.

use std::collections::{BTreeMap, BTreeSet};

use driftq_core::{Delivery, Reject, RetryPolicy, Time, Token, TopicId};

use crate::view::{Acked, Group, Hold, Released, Standing, ensure};

/// A promise that was broken.
pub type Verdict = Result<(), String>;

/// A message as its producer knows it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Where it was sent.
    pub topic: TopicId,
    /// Its partition.
    pub partition: u32,
    /// Its idempotency key, if it has one.
    pub key: Option<u64>,
    /// Its retry policy.
    pub policy: Option<RetryPolicy>,
    /// When the last try may be made: later the gate may have forgotten it.
    pub retry_until: Time,
    /// Whether the broker answered that it is stored, and under which offset.
    pub answered: Option<u64>,
}

/// Everything that clients have seen.
#[derive(Debug)]
pub struct Oracle {
    /// By message number.
    pub sent: BTreeMap<u64, Sent>,
    stored: BTreeMap<(TopicId, u64), u64>,
    places: BTreeMap<u64, u64>,
    groups: BTreeMap<(TopicId, String), Group>,
    tokens: BTreeSet<Token>,
    first_of_key: BTreeMap<(TopicId, u64), Time>,
    life: u64,
    window: usize,
    ttl_ms: u64,
}

impl Oracle {
    /// Nothing was seen yet. `window` is `max_in_flight`, `ttl_ms` the life of an idempotency record.
    #[must_use]
    pub fn new(window: u32, ttl_ms: u64) -> Self {
        Self {
            sent: BTreeMap::new(),
            stored: BTreeMap::new(),
            places: BTreeMap::new(),
            groups: BTreeMap::new(),
            tokens: BTreeSet::new(),
            first_of_key: BTreeMap::new(),
            life: 0,
            window: window as usize,
            ttl_ms,
        }
    }

    /// A group exists for certain.
    pub fn join(&mut self, topic: TopicId, group: &str) {
        self.groups.entry((topic, group.into())).or_default();
    }

    /// The server began a new life: what was decided and not answered may or may not have happened.
    pub fn restart(&mut self) {
        self.life += 1;
        for group in self.groups.values_mut() {
            let unanswered: Vec<u64> =
                group.acked.iter().filter(|(_, acked)| !acked.answered).map(|(offset, _)| *offset).collect();
            for offset in unanswered {
                group.acked.remove(&offset);
                group.uncertain.insert(offset);
            }
            group.done.retain(|_, (_, _, answered)| *answered);
            group.first_seen.clear();
        }
    }

    /// An offset always means the same message once anybody has seen it.
    fn witness(&mut self, topic: TopicId, offset: u64, id: u64) -> Verdict {
        let before = *self.stored.entry((topic, offset)).or_insert(id);
        ensure(before == id, || {
            format!("stability: offset {offset} of {topic:?} was message {before}, now {id}")
        })?;
        let place = *self.places.entry(id).or_insert(offset);
        ensure(place == offset, || format!("stored once: message {id} lies at {place} and at {offset}"))
    }

    /// The broker said that message `id`, handed over at `decided`, is stored.
    pub fn produced(&mut self, id: u64, offset: u64, duplicate: bool, decided: Time) -> Verdict {
        let sent = self.sent[&id].clone();
        if duplicate {
            // Which message stands for it may not be known yet: its own answer was lost in a crash.
            let first = self.stored.get(&(sent.topic, offset)).copied();
            let same = sent.key.is_some() && first.is_none_or(|first| self.sent[&first].key == sent.key);
            ensure(same, || {
                format!("gate: {id} was called a duplicate of {first:?}, which has another key")
            })?;
        } else {
            self.witness(sent.topic, offset, id)?;
            if let Some(key) = sent.key {
                let ttl = self.ttl_ms;
                let first = self.first_of_key.insert((sent.topic, key), decided);
                let fresh = first.is_none_or(|first| first == decided || first.after_ms(ttl) <= decided);
                ensure(fresh, || {
                    format!("stored once: key {key} was stored at {first:?} and again at {decided:?}")
                })?;
            }
        }
        self.sent.get_mut(&id).expect("it was just read").answered = Some(offset);
        Ok(())
    }

    /// A reader of `group` got message `id`.
    pub fn delivered(
        &mut self,
        group: &str,
        owner: &str,
        delivery: &Delivery,
        id: u64,
        now: Time,
    ) -> Verdict {
        let receipt = delivery.receipt;
        let offset = receipt.offset;
        ensure(self.tokens.insert(receipt.token), || {
            format!("tokens: {:?} was handed out twice", receipt.token)
        })?;
        self.witness(receipt.topic, offset, id)?;
        let sent = self.sent[&id].clone();
        let (life, window, ttl) = (self.life, self.window, self.ttl_ms);
        let name = format!("{offset} of {:?} for {group}", receipt.topic);
        let Some(view) = self.groups.get_mut(&(receipt.topic, group.into())) else { return Ok(()) };
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
        view.check_order(receipt.partition, offset, delivery.attempt, sent.key, life)?;
        view.check_key(sent.key, offset, life, now, ttl)?;
        let hold = Hold {
            owner: owner.into(),
            attempt: delivery.attempt,
            expires: delivery.expires,
            life,
            failed_at: None,
            token: receipt.token,
            released: Released::No,
            partition: receipt.partition,
            key: sent.key,
        };
        view.holds.insert(offset, hold);
        view.uncertain.remove(&offset);
        // A crash may have forgotten the attempt that looked like the last one.
        view.dying.remove(&offset);
        let live = view.holds.iter().filter(|(offset, hold)| {
            hold.is_live(life, now) && hold.partition == receipt.partition && !view.acked.contains_key(offset)
        });
        let live = live.count();
        ensure(live <= window, || format!("window: {live} deliveries of {name} are on loan at once"))
    }

    /// A dead letter about (topic, group, offset) lies in `dlq` at `at`.
    pub fn letter(&mut self, topic: TopicId, group: &str, offset: u64, dlq: TopicId, at: u64) -> Verdict {
        let Some(view) = self.groups.get_mut(&(topic, group.into())) else {
            return Err(format!("letters: {offset} of {topic:?} died for {group}, which does not exist"));
        };
        let name = format!("{offset} of {topic:?} for {group}");
        ensure(!view.acked.contains_key(&offset), || format!("letters: {name} was acked and died"))?;
        let first = *view.letters.entry(offset).or_insert((dlq, at));
        ensure(first == (dlq, at), || format!("letters: {name} has two, {first:?} and {:?}", (dlq, at)))
    }

    /// An ack by `owner` was handed over at `now` and answered, or will be if `answer` is `None`.
    pub fn acked(
        &mut self,
        at: (TopicId, &str, u64),
        owner: &str,
        refusal: Option<Reject>,
        now: Time,
    ) -> Verdict {
        let life = self.life;
        let key = self.stored.get(&(at.0, at.2)).and_then(|id| self.sent[id].key);
        let Some(view) = self.groups.get_mut(&(at.0, at.1.into())) else { return Ok(()) };
        let (offset, name) = (at.2, format!("ack of {} of {:?} for {} by {owner}", at.2, at.0, at.1));
        if view.dying.contains(&offset) || view.letters.contains_key(&offset) {
            // It races with the burial: whoever is first settles it, and only the answer will tell that it is.
            if refusal.is_none() {
                view.uncertain.insert(offset);
            }
            return Ok(());
        }
        let expected = view.standing(offset, owner, life);
        let fits = match (expected, refusal) {
            (Standing::Unknown, _) => true,
            (Standing::Done | Standing::Holder, refusal) => refusal.is_none(),
            (Standing::Other, refusal) => refusal == Some(Reject::NotOwner),
            (Standing::Nobody, refusal) => refusal == Some(Reject::NotInFlight),
        };
        ensure(fits, || format!("fencing: {name} was answered {refusal:?}, but it stands {expected:?}"))?;
        if refusal.is_none() && matches!(expected, Standing::Holder) {
            view.acked.insert(offset, Acked { answered: false });
            if let Some(key) = key {
                view.done.insert(key, (now, offset, false));
            }
        }
        Ok(())
    }

    /// The answer to an ack came: it counts for ever.
    pub fn ack_answered(&mut self, at: (TopicId, &str, u64)) {
        let Some(view) = self.groups.get_mut(&(at.0, at.1.into())) else { return };
        if let Some(acked) = view.acked.get_mut(&at.2) {
            acked.answered = true;
            for (_, offset, answered) in view.done.values_mut() {
                *answered |= *offset == at.2;
            }
        } else if view.dying.contains(&at.2) || view.letters.contains_key(&at.2) {
            view.closed.insert(at.2);
        } else {
            // It was uncertain whether an earlier ack had counted; now it is not.
            view.uncertain.remove(&at.2);
            view.acked.insert(at.2, Acked { answered: true });
        }
    }

    /// A nack by `owner` was handed over at `now`.
    pub fn nacked(
        &mut self,
        at: (TopicId, &str, u64),
        owner: &str,
        refusal: Option<Reject>,
        now: Time,
    ) -> Verdict {
        let life = self.life;
        let policy = self.stored.get(&(at.0, at.2)).and_then(|id| self.sent[id].policy);
        let Some(view) = self.groups.get_mut(&(at.0, at.1.into())) else { return Ok(()) };
        let offset = at.2;
        if view.dying.contains(&offset) || view.letters.contains_key(&offset) {
            return Ok(());
        }
        let expected = view.standing(offset, owner, life);
        let fits = match (expected, refusal) {
            (Standing::Unknown, _) | (Standing::Holder, None) => true,
            (Standing::Done | Standing::Nobody, refusal) => refusal == Some(Reject::NotInFlight),
            (Standing::Other, refusal) => refusal == Some(Reject::NotOwner),
            (Standing::Holder, Some(_)) => false,
        };
        ensure(fits, || {
            format!("fencing: nack of {offset} for {} by {owner}: {refusal:?}, {expected:?}", at.1)
        })?;
        if let (Standing::Holder, Some(hold)) = (expected, view.holds.get_mut(&offset))
            && hold.failed_at.is_none()
            && hold.expires > now
        {
            hold.failed_at = Some(now);
            if policy.is_some_and(|policy| policy.max_attempts > 0 && hold.attempt >= policy.max_attempts) {
                view.dying.insert(offset);
            }
        }
        Ok(())
    }

    /// A delivery was given back unused.
    pub fn released(&mut self, topic: TopicId, group: &str, offset: u64, token: Token, now: Time) {
        let life = self.life;
        if let Some(view) = self.groups.get_mut(&(topic, group.into()))
            && let Some(hold) = view.holds.get_mut(&offset)
            && hold.token == token
            && hold.life == life
            && hold.failed_at.is_none()
        {
            hold.released = if hold.expires > now { Released::Yes } else { Released::Perhaps };
        }
    }

    /// Time went on: what lapsed with its last attempt is about to die.
    pub fn elapsed(&mut self, now: Time) {
        let life = self.life;
        for ((topic, _), view) in &mut self.groups {
            for (offset, hold) in &view.holds {
                let policy = self.stored.get(&(*topic, *offset)).and_then(|id| self.sent[id].policy);
                let last = policy.is_some_and(|p| p.max_attempts > 0 && hold.attempt >= p.max_attempts);
                let over = hold.expires <= now || hold.life < life;
                if last && over && hold.released != Released::Yes && !view.acked.contains_key(offset) {
                    view.dying.insert(*offset);
                }
            }
        }
    }

    /// A stored message that a group has neither acked nor lost to a dead letter, if there is one.
    #[must_use]
    pub fn unfinished(&self) -> Option<String> {
        for (id, sent) in &self.sent {
            let Some(offset) = sent.answered else { continue };
            let groups = self.groups.iter().filter(|((topic, _), _)| *topic == sent.topic);
            for ((_, name), view) in groups {
                // One with the same key may stand in for it, whether or not its producer ever got an answer.
                let twins = self.sent.iter().filter(|(_, other)| {
                    sent.key.is_some() && other.key == sent.key && other.topic == sent.topic
                });
                let mut places =
                    twins.filter_map(|(id, other)| other.answered.or_else(|| self.places.get(id).copied()));
                let stood_in = places.any(|offset| view.is_finished(offset));
                if !view.is_finished(offset) && !stood_in {
                    let hold = view.holds.get(&offset);
                    return Some(format!(
                        "message {id} at {offset} of {:?} for {name}: {hold:?}",
                        sent.topic
                    ));
                }
            }
        }
        None
    }
}
