//! Work that ends by name, by time, or as a dead letter.

use driftq_core::{Reject, Time, Token, TopicId};

use super::view::{Acked, OwnerStanding, Released, ensure};
use super::{CheckResult, Oracle};

impl Oracle {
    /// A dead letter about (topic, group, offset) lies in `dlq` at `at`.
    pub fn letter(&mut self, topic: TopicId, group: &str, offset: u64, dlq: TopicId, at: u64) -> CheckResult {
        ensure(!self.dropped.contains(&(dlq, at)), || {
            format!("removed: letter {at} of {dlq:?} was delivered after it was dropped")
        })?;
        let Some(view) = self.groups.get_mut(&(topic, group.into())) else {
            return Err(format!("letters: {offset} of {topic:?} died for {group}, which does not exist"));
        };
        // A group that was moved or deleted may have had it before, with a letter of its own.
        if view.shaken {
            if !view.acked.contains_key(&offset) {
                view.uncertain.insert(offset);
            }
            return Ok(());
        }
        let name = format!("{offset} of {topic:?} for {group}");
        ensure(!view.acked.contains_key(&offset), || format!("letters: {name} was acked and died"))?;
        let first = *view.letters.entry(offset).or_insert((dlq, at));
        ensure(first == (dlq, at), || format!("letters: {name} has two, {first:?} and {:?}", (dlq, at)))
    }

    /// How the worker that goes by the name of `owner` stands.
    fn standing(&self, at: (TopicId, &str, u64), owner: &str, now: Time) -> Option<OwnerStanding> {
        let view = self.groups.get(&(at.0, at.1.into()))?;
        let skipped = view.holds.get(&at.2).is_some_and(|hold| hold.may_be_skipped(now));
        let settled = view.acked.contains_key(&at.2);
        let hidden =
            !self.is_alive(at.0) || self.cancelled.contains_key(&(at.0, at.2)) || (skipped && !settled);
        Some(if hidden { OwnerStanding::Unknown } else { view.standing(at.2, owner, self.life) })
    }

    /// An ack by `owner` was handed over at `now`, and taken if `refusal` is `None`.
    pub fn acked(
        &mut self,
        at: (TopicId, &str, u64),
        owner: &str,
        refusal: Option<Reject>,
        now: Time,
    ) -> CheckResult {
        let key = self.stored.get(&(at.0, at.2)).and_then(|id| self.sent[id].key);
        let Some(expected) = self.standing(at, owner, now) else { return Ok(()) };
        let Some(view) = self.groups.get_mut(&(at.0, at.1.into())) else { return Ok(()) };
        let (offset, name) = (at.2, format!("ack of {} of {:?} for {} by {owner}", at.2, at.0, at.1));
        if view.dying.contains(&offset) || view.letters.contains_key(&offset) {
            // It races with the burial: the first of the two settles it, and only the answer will tell which it was.
            if refusal.is_none() {
                view.uncertain.insert(offset);
            }
            return Ok(());
        }
        let fits = match (expected, refusal) {
            (OwnerStanding::Unknown, _) => true,
            (OwnerStanding::Done | OwnerStanding::Holder, refusal) => refusal.is_none(),
            (OwnerStanding::Other, refusal) => refusal == Some(Reject::NotOwner),
            (OwnerStanding::NeverHeld, refusal) => refusal == Some(Reject::NotInFlight),
        };
        ensure(fits, || format!("fencing: {name} was answered {refusal:?}, but it stands {expected:?}"))?;
        if refusal.is_none() && matches!(expected, OwnerStanding::Holder) {
            view.acked.insert(offset, Acked { answered: false });
            if let Some(key) = key {
                view.done.insert(key, (now, offset, false));
            }
        } else if refusal.is_none() && matches!(expected, OwnerStanding::Unknown) {
            view.doubt(offset);
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
    ) -> CheckResult {
        let Some(expected) = self.standing(at, owner, now) else { return Ok(()) };
        let Some(view) = self.groups.get_mut(&(at.0, at.1.into())) else { return Ok(()) };
        let offset = at.2;
        if view.dying.contains(&offset) || view.letters.contains_key(&offset) {
            return Ok(());
        }
        let fits = match (expected, refusal) {
            (OwnerStanding::Unknown, _) | (OwnerStanding::Holder, None) => true,
            (OwnerStanding::Done | OwnerStanding::NeverHeld, refusal) => refusal == Some(Reject::NotInFlight),
            (OwnerStanding::Other, refusal) => refusal == Some(Reject::NotOwner),
            (OwnerStanding::Holder, Some(_)) => false,
        };
        ensure(fits, || {
            format!("fencing: nack of {offset} for {} by {owner}: {refusal:?}, {expected:?}", at.1)
        })?;
        if expected == OwnerStanding::Unknown && refusal.is_none() {
            view.doubt(offset);
            self.may_die(at, false);
        } else if expected == OwnerStanding::Holder {
            self.failed(at, None, now);
        }
        Ok(())
    }

    /// The holder of the message says that the attempt failed; `delay_ms` instead of what the policy says.
    pub(super) fn failed(&mut self, at: (TopicId, &str, u64), delay_ms: Option<u64>, now: Time) {
        let policy = self.stored.get(&(at.0, at.2)).and_then(|id| self.sent[id].policy);
        let Some(view) = self.groups.get_mut(&(at.0, at.1.into())) else { return };
        if let Some(hold) = view.holds.get_mut(&at.2)
            && hold.failed_at.is_none()
            && hold.expires > now
        {
            hold.failed_at = Some(now);
            hold.delay_ms = delay_ms;
            if policy.is_some_and(|policy| policy.max_attempts > 0 && hold.attempt >= policy.max_attempts) {
                view.dying.insert(at.2);
            }
        } else if let Some(hold) = view.holds.get_mut(&at.2) {
            // Its time is up; whether that was noticed before decides which wait counts, and who has the last word.
            hold.failed_late |= hold.failed_at.is_none();
            hold.unsure |= delay_ms.is_some();
        }
    }

    /// A failure that perhaps counted was the last one, perhaps: an ack may be told that all is settled.
    pub(super) fn may_die(&mut self, at: (TopicId, &str, u64), dead: bool) {
        let policy = self.stored.get(&(at.0, at.2)).and_then(|id| self.sent[id].policy);
        let most = policy.map_or(0, |policy| policy.max_attempts);
        let Some(view) = self.groups.get_mut(&(at.0, at.1.into())) else { return };
        let last = view.holds.get(&at.2).is_some_and(|hold| most > 0 && hold.attempt >= most);
        if (dead || last) && !view.acked.contains_key(&at.2) {
            view.dying.insert(at.2);
        }
    }

    /// A delivery was given back unused.
    pub fn released(&mut self, topic: TopicId, group: &str, offset: u64, token: Token, now: Time) {
        let life = self.life;
        let cancelled = self.cancelled.contains_key(&(topic, offset));
        if let Some(view) = self.groups.get_mut(&(topic, group.into()))
            && let Some(hold) = view.holds.get_mut(&offset)
            && hold.token == token
            && hold.life == life
            && hold.failed_at.is_none()
        {
            let certain = hold.expires > now && !hold.unsure && !cancelled;
            hold.released = if certain { Released::Yes } else { Released::Perhaps };
        }
    }

    /// Time went on: what lapsed with its last attempt is about to die.
    pub fn elapsed(&mut self, now: Time) {
        for ((topic, _), view) in &mut self.groups {
            for (offset, hold) in &view.holds {
                let policy = self.stored.get(&(*topic, *offset)).and_then(|id| self.sent[id].policy);
                let last = policy.is_some_and(|p| p.max_attempts > 0 && hold.attempt >= p.max_attempts);
                let over = hold.expires <= now || hold.crashed;
                let given_back = hold.released == Released::Yes && !hold.crashed;
                if last && over && !given_back && !view.acked.contains_key(offset) {
                    view.dying.insert(*offset);
                }
            }
        }
    }
}
