//! The order in which messages of one key go out.

use driftq_core::{Delivery, Order, TopicId};

use super::view::{Group, ensure};
use super::{CheckResult, Oracle, Sent};

impl Oracle {
    /// Messages that go out in the order of offsets whatever else happens: not scheduled, not ranked, no twins, and
    /// not waiting for others with their key.
    pub(super) fn is_plain(&self, sent: &Sent) -> bool {
        let Some(topic) = self.topics.get(&sent.topic) else { return false };
        let ranked = match topic.order {
            Order::Fifo => false,
            Order::Priority => sent.priority > 0,
            Order::Key => sent.order_key.is_some(),
        };
        !topic.reordered && !ranked && sent.due.is_none() && sent.key.is_none()
    }

    /// One message of a key at a time, in the order of offsets, the next when the one before is settled.
    pub(super) fn check_key_order(&self, group: &str, delivery: &Delivery, sent: &Sent) -> CheckResult {
        let Some(topic) = self.topics.get(&sent.topic) else { return Ok(()) };
        let (Some(key), false) = (sent.order_key, topic.reordered) else { return Ok(()) };
        let Some(view) = self.groups.get(&(sent.topic, group.into())) else { return Ok(()) };
        if topic.order != Order::Key {
            return Ok(());
        }
        let offset = delivery.receipt.offset;
        // A crash may have taken its delivery back: then one that joined late has overtaken nothing yet, and a group
        // that was created for it starts over, perhaps without it.
        let forgotten = |other: &u64| {
            let id = self.stored.get(&(sent.topic, *other));
            let owed = |id: &u64| view.present && *id >= view.owed_from;
            id.is_none_or(|id| self.sent[id].due.is_some() || !owed(id))
        };
        let busy = view.holds.iter().find(|(other, hold)| {
            **other != offset
                && hold.order_key == Some(key)
                && hold.key.is_none()
                && (!hold.crashed || (**other < offset && !forgotten(other)))
                && !self.may_be_over(sent.topic, view, **other)
        });
        ensure(busy.is_none(), || {
            format!("key order: {offset} of key {key} for {group} came while {busy:?} is not settled")
        })?;
        // What joins late may overtake, and what was seen before has had its turn.
        if delivery.attempt > 1 || sent.due.is_some() || view.handouts.contains_key(&offset) {
            return Ok(());
        }
        let overtaken = self.sent.iter().find(|(id, other)| {
            let ready = other.topic == sent.topic
                && other.order_key == Some(key)
                && other.due.is_none()
                && other.key.is_none()
                && view.present
                && **id >= view.owed_from;
            ready
                && other.answered.is_some_and(|at| {
                    at < offset && !view.handouts.contains_key(&at) && !self.may_be_over(sent.topic, view, at)
                })
        });
        ensure(overtaken.is_none(), || {
            format!("key order: {offset} of key {key} for {group} came before {overtaken:?}")
        })
    }

    /// Whether a group may be done with a message, as far as any client can know.
    fn may_be_over(&self, topic: TopicId, view: &Group, offset: u64) -> bool {
        view.is_finished(offset)
            || view.dying.contains(&offset)
            || self.cancelled.contains_key(&(topic, offset))
    }
}
