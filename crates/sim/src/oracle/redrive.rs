//! Dead letters that are tried again: they keep their identity and the place where they were born, and only the group
//! that gave up gets them.

use driftq_core::{Reject, Spotted, TopicId};

use super::view::ensure;
use super::{CheckResult, Oracle, Sent};

/// One message that was stored again.
#[derive(Clone, Debug)]
pub(crate) struct Redrive {
    /// Its number.
    id: u64,
    pub(super) topic: TopicId,
    group: String,
    pub(super) key: Option<u64>,
    /// Where it lies now, once a client knows.
    pub(super) offset: Option<u64>,
    /// Whether that was answered.
    answered: bool,
    /// It never happened.
    refused: bool,
    /// Messages with its identity that the group was done with before: they do not stand in for it.
    done_before: Vec<u64>,
    since: u64,
}

impl Oracle {
    /// A redrive is taken; returns the number under which its answer is known.
    pub(crate) fn redriving(&mut self, id: u64, topic: TopicId, group: &str) -> usize {
        let since = self.event();
        let sent = Sent { topic, ..self.sent[&id].clone() };
        if let (Some(view), Some(key)) = (self.groups.get_mut(&(sent.topic, group.into())), sent.key) {
            // An operator has decided: the gate lets it through once more.
            view.done.remove(&key);
        }
        let key = sent.key;
        let view = self.groups.get(&(topic, group.into()));
        let done = |offset: &u64| view.is_some_and(|view| view.acked.contains_key(offset));
        let done_before: Vec<u64> = self.twins(&sent).filter(done).collect();
        let copy = Redrive {
            id,
            topic,
            group: group.into(),
            key,
            offset: None,
            answered: false,
            refused: false,
            done_before,
            since,
        };
        self.redrives.push(copy);
        self.redrives.len() - 1
    }

    /// It was refused: it never happened.
    pub(crate) fn redrive_refused(&mut self, number: usize, reject: Reject) -> CheckResult {
        let copy = &mut self.redrives[number];
        copy.refused = true;
        let (topic, group) = (copy.topic, copy.group.clone());
        let gone = reject != Reject::GroupUnknown || !self.is_present(topic, &group);
        ensure(gone, || format!("redrive: refused because {group} is gone, which reads {topic:?}"))
    }

    /// A message was seen, as it is, dead, or tried again, and says where it was born: always the same.
    pub(crate) fn born(&mut self, id: u64, origin: Spotted) -> CheckResult {
        let before = *self.births.entry(id).or_insert(origin);
        ensure(before == origin, || {
            format!("origin: message {id} was born at {before:?}, and says {origin:?} now")
        })
    }

    /// Whether a message may lie in a topic that was made after its own was deleted.
    pub(crate) fn has_moved(&self, id: u64) -> bool {
        let sent = self.sent[&id].topic;
        self.redrives.iter().any(|copy| copy.id == id && copy.topic != sent)
    }

    /// A message died that may have moved: in which of the topics of its name, no client knows. A copy that lies at this
    /// offset is not owed for certain any more.
    pub(crate) fn letter_of_moved(&mut self, id: u64, group: &str, offset: u64) {
        for copy in &self.redrives {
            if copy.id == id
                && copy.group == group
                && copy.offset.is_none_or(|at| at == offset)
                && let Some(view) = self.groups.get_mut(&(copy.topic, group.into()))
                && !view.acked.contains_key(&offset)
            {
                view.uncertain.insert(offset);
            }
        }
    }

    /// The message lies at `offset` now.
    pub(crate) fn redriven(&mut self, number: usize, offset: u64) -> CheckResult {
        let copy = &mut self.redrives[number];
        copy.offset = Some(offset);
        copy.answered = true;
        let (topic, id) = (copy.topic, copy.id);
        self.witness(topic, offset, id)
    }

    /// Whether message `id` may lie at `offset` as well, because it was stored again.
    pub(super) fn is_copy(&mut self, topic: TopicId, offset: u64, id: u64) -> bool {
        let mut copies = self.redrives.iter_mut().filter(|copy| copy.id == id && !copy.refused);
        if copies.any(|copy| copy.offset == Some(offset) && copy.topic == topic) {
            return true;
        }
        // One whose answer was lost: now it is known where it lies.
        let mut copies = self.redrives.iter_mut().filter(|copy| copy.id == id && !copy.refused);
        let Some(copy) = copies.find(|copy| copy.offset.is_none() && copy.topic == topic) else {
            return false;
        };
        copy.offset = Some(offset);
        true
    }

    pub(super) fn is_redriven(&self, topic: TopicId, offset: u64) -> bool {
        self.redrives.iter().any(|copy| copy.topic == topic && copy.offset == Some(offset))
    }

    /// Only the group that gave it up gets it again, even if that group was forgotten since.
    pub(super) fn check_copy(&self, topic: TopicId, group: &str, offset: u64) -> CheckResult {
        let copy = self.redrives.iter().find(|copy| copy.topic == topic && copy.offset == Some(offset));
        let Some(copy) = copy.filter(|copy| copy.group != group) else { return Ok(()) };
        // A group that came or was moved later gets whatever is kept.
        let view = self.groups.get(&(topic, group.into()));
        let later = view.is_none_or(|view| !view.present || view.since > copy.since);
        // The same message may have been sent back twice, and the answer of one of the two lost with the power: then no
        // client knows which of them lies here.
        let twin = |other: &&Redrive| other.id == copy.id && other.group == group && !other.refused;
        let unsure =
            self.redrives.iter().filter(twin).any(|other| !other.answered || other.offset == Some(offset));
        ensure(later || unsure, || {
            format!("redrive: {offset} of {topic:?} is for {} and came to {group}", copy.group)
        })
    }

    /// A message stored again that its group has not settled, if there is one.
    pub(crate) fn unfinished_copy(&self) -> Option<String> {
        let answered = self.redrives.iter().filter(|copy| copy.answered);
        for copy in answered {
            let Some(view) = self.groups.get(&(copy.topic, copy.group.clone())) else { continue };
            let Some(offset) = copy.offset.filter(|_| view.present && view.since < copy.since) else {
                continue;
            };
            let sent = Sent { topic: copy.topic, ..self.sent[&copy.id].clone() };
            if self.is_owed(&sent, offset, view, Some(&copy.done_before)) {
                return Some(format!(
                    "again, {}",
                    self.describe_owed(copy.id, copy.topic, &copy.group, offset)
                ));
            }
        }
        None
    }
}
