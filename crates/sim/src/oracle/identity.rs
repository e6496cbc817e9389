//! One stored message per identity, as producers see it.

use std::collections::BTreeMap;

use driftq_core::{Reject, Time, TopicId};

use super::view::ensure;
use super::{CheckResult, Oracle, Sent};

/// What producers know about identities.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// When a message of a key was last stored for certain.
    stored: BTreeMap<(TopicId, u64), Time>,
    /// Identities that a producer keeps for a message that is being routed, and until when for certain.
    reserved: BTreeMap<(TopicId, u64), Time>,
}

/// How long a reservation lasts that the producer does not give back.
const RESERVATION_MS: u64 = 60_000;

impl Gates {
    /// Reservations do not outlive a life of the server.
    pub(super) fn restart(&mut self) {
        self.reserved.clear();
    }
}

impl Oracle {
    /// A message is handed over: whether its identity is kept for another one, so that it must not be stored, and
    /// whether it may be.
    pub(crate) fn offering(&mut self, id: u64, reserved: bool, now: Time) -> (bool, bool) {
        let sent = self.sent.get_mut(&id).expect("a producer that offers it has sent it");
        sent.repeated |= sent.handed;
        sent.handed = true;
        let due = match sent.start {
            driftq_core::Start::Now => None,
            driftq_core::Start::At(due) => Some(due),
            driftq_core::Start::After(ms) => Some(now.after_ms(ms)),
        };
        sent.due = sent.due.or(due);
        let identity = sent.key.map(|key| (sent.topic, key));
        let kept = identity.and_then(|identity| self.gates.reserved.get(&identity));
        (!reserved && kept.is_some_and(|until| *until > now), kept.is_some())
    }

    /// The broker said that message `id`, handed over at `decided`, is stored.
    pub(crate) fn produced(
        &mut self,
        id: u64,
        offset: u64,
        duplicate: bool,
        decided: Time,
        blocked: bool,
    ) -> CheckResult {
        let sent = self.sent[&id].clone();
        if duplicate {
            self.check_duplicate(id, &sent, offset)?;
        } else {
            ensure(!blocked, || format!("reservation: {id} was stored while its identity was kept"))?;
            self.witness(sent.topic, offset, id)?;
            if let Some(key) = sent.key {
                let ttl = self.ttl_ms;
                let first = self.gates.stored.insert((sent.topic, key), decided);
                let fresh = first.is_none_or(|first| first == decided || first.after_ms(ttl) <= decided);
                ensure(fresh, || {
                    format!("stored once: key {key} was stored at {first:?} and again at {decided:?}")
                })?;
            }
        }
        self.sent.get_mut(&id).expect("it was just read").answered = Some(offset);
        Ok(())
    }

    /// A duplicate has a first, with the same key, in the same life of the topic, that asked for the same.
    fn check_duplicate(&self, id: u64, sent: &Sent, offset: u64) -> CheckResult {
        let first = self.stored.get(&(sent.topic, offset)).copied();
        let fits = |other: &Sent| {
            other.handed
                && other.topic == sent.topic
                && other.key == sent.key
                && other.request.agrees(sent.request)
        };
        let known = match first {
            Some(first) => fits(&self.sent[&first]),
            // Which message stands for it may not be known yet: its own answer was lost in a crash.
            None => self.sent.values().any(fits),
        };
        ensure(sent.key.is_some() && known, || {
            format!("gate: {id} was called a duplicate of {first:?}, which is another one")
        })?;
        // With itself it always agrees: it must have been handed over before, or another message with its key was.
        let others = self.sent.iter().any(|(other, twin)| *other != id && fits(twin));
        ensure(others || sent.repeated, || {
            format!("gate: {id} was called a duplicate, and is the first with its key")
        })
    }

    /// Whether a refusal of message `id` can be; `kept` if its identity was reserved when it was handed over.
    pub(crate) fn refused(&self, id: u64, reject: Reject, kept: bool) -> CheckResult {
        use driftq_core::Overload::{PartitionBytes, PartitionMessages};
        let sent = &self.sent[&id];
        let fits = match reject {
            Reject::Overloaded(PartitionMessages | PartitionBytes) | Reject::DiskFull => true,
            Reject::TopicUnknown => !self.is_alive(sent.topic),
            Reject::KeyInFlight => {
                kept || sent.key.is_some_and(|key| self.gates.reserved.contains_key(&(sent.topic, key)))
            }
            Reject::KeyReused => self.sent.values().any(|other| {
                other.handed
                    && other.topic == sent.topic
                    && sent.key.is_some()
                    && other.key == sent.key
                    && !other.request.agrees(sent.request)
            }),
            _ => false,
        };
        ensure(fits, || format!("produce: {id} was refused with {reject:?}"))
    }

    /// An identity is kept for message `id`.
    pub(crate) fn reserved(&mut self, id: u64, now: Time) -> CheckResult {
        let sent = &self.sent[&id];
        let Some(key) = sent.key else { return Ok(()) };
        let before = self.gates.reserved.insert((sent.topic, key), now.after_ms(RESERVATION_MS));
        ensure(before.is_none_or(|until| until <= now), || {
            format!("reservation: key {key} is kept until {before:?}, and was given away again")
        })
    }

    /// It is given back.
    pub(crate) fn unreserved(&mut self, id: u64) {
        let sent = &self.sent[&id];
        if let Some(key) = sent.key {
            self.gates.reserved.remove(&(sent.topic, key));
        }
    }
}
