//! Topics and groups as operators order them: made, set, paused, deleted.

use crate::delivery::Deliveries;
use crate::log::fact::Fact;
use crate::log::order::OrderFact;
use crate::state::PARTITIONS_MAX;
use crate::state::partition::{DEAD_LETTER_PREFIX, Topic};
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Action, Answer, Output};
use crate::words::id::{GroupId, Ticket, TopicId};
use crate::words::reject::Reject;
use crate::words::route::{NAME_BYTES_MAX, validate_name};
use crate::words::topic::{TopicPatch, TopicSettings};
use alloc::format;
use alloc::vec::Vec;

/// What a topic is to be: its partitions, its settings, its tenant.
type Wanted<'a> = (u32, &'a TopicSettings, Option<&'a str>);

/// Why a topic is refused whose dead letters would lie with another tenant, or the other way round.
const GRAVE_DIFFERS: &str = "a topic and its dead-letter topic belong to the same tenant";

impl Turn {
    pub(crate) fn handle_create_topic(
        &mut self,
        ticket: Ticket,
        name: &str,
        wanted: Wanted<'_>,
        exact: bool,
        out: &mut Output,
    ) {
        let (partitions, settings, tenant) = wanted;
        if let Some(topic) = self.journal.state.topic_named(name) {
            return match difference(topic, wanted, exact) {
                Some(setting) => self.journal.refuse(out, ticket, Reject::SettingsDiffer(setting)),
                None => {
                    let answer = Answer::TopicReady { partitions: topic.info().partitions, created: false };
                    self.journal.reply(out, ticket, answer);
                }
            };
        }
        if let Err(reject) = self.may_create(name, wanted) {
            return self.journal.refuse(out, ticket, reject);
        }
        if self.create_topic(name, partitions, settings, tenant, out).is_none() {
            let why = "topics: their numbers are used up, those of deleted ones included";
            return self.journal.refuse(out, ticket, Reject::Limit(why));
        }
        self.journal.reply(out, ticket, Answer::TopicReady { partitions, created: true });
    }

    fn may_create(&self, name: &str, (partitions, settings, tenant): Wanted<'_>) -> Result<(), Reject> {
        validate_name(name, "topic names have 1 to 255 bytes")?;
        if partitions == 0 || partitions > self.settings.partitions_max.min(PARTITIONS_MAX) {
            return Err(Reject::Invalid("partitions must be between 1 and the server's partitions_max"));
        }
        if let Some(fault) = settings.fault() {
            return Err(Reject::Invalid(fault));
        }
        if tenant.is_some_and(|tenant| tenant.is_empty() || tenant.len() > NAME_BYTES_MAX) {
            return Err(Reject::Invalid("tenants of topics have 1 to 255 bytes"));
        }
        if self.kin_of(name).any(|kin| kin.tenant.as_deref() != tenant) {
            return Err(Reject::TenantDiffers(GRAVE_DIFFERS));
        }
        self.may_own_topic(tenant)?;
        if self.journal.state.names.len() >= self.settings.topics_max as usize {
            return Err(Reject::Limit("topics: there are as many as are allowed"));
        }
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        Ok(())
    }

    /// The topic whose dead letters come to one of this name, and the one to which its own go.
    fn kin_of(&self, name: &str) -> impl Iterator<Item = &Topic> {
        let state = &self.journal.state;
        let source = name.strip_prefix(DEAD_LETTER_PREFIX).and_then(|source| state.topic_named(source));
        let grave = state.topic_named(&format!("{DEAD_LETTER_PREFIX}{name}"));
        source.into_iter().chain(grave)
    }
}

/// In what a topic differs from what is wanted of it. Whose it is comes first: of a topic of another tenant nothing else
/// is told.
fn difference(
    topic: &Topic,
    (partitions, settings, tenant): Wanted<'_>,
    exact: bool,
) -> Option<&'static str> {
    if topic.tenant.as_deref() != tenant && (exact || tenant.is_some()) {
        return Some("tenant");
    }
    if !exact {
        return None;
    }
    if topic.partitions.len() != partitions as usize {
        return Some("partitions");
    }
    topic.settings.difference(settings)
}

impl Deliveries {
    pub(crate) fn handle_configure(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        id: TopicId,
        patch: &TopicPatch,
        out: &mut Output,
    ) {
        let Some(topic) = turn.journal.state.topic(id) else {
            return turn.journal.refuse(out, ticket, Reject::TopicUnknown);
        };
        let (before, after) = (topic.settings, topic.settings.patched(patch));
        if let Some(fault) = after.fault() {
            return turn.journal.refuse(out, ticket, Reject::Invalid(fault));
        }
        let partitions = topic.info().partitions;
        if after != before {
            let fact = Fact::Order(OrderFact::Configured { topic: id, settings: after });
            turn.journal.emit(Haste::Urgent, out, &fact);
            for partition in 0..partitions {
                self.reschedule_retention(turn, id, partition);
                self.review_history(turn, id, partition);
            }
        }
        turn.journal.reply(out, ticket, Answer::Configured { before, after });
        if after.order != before.order {
            self.rebuild_topic(turn, id, out);
        }
        if after != before {
            self.widen(turn, id);
            self.touch_topic(turn, id);
        }
    }

    pub(crate) fn handle_delete_topic(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        id: TopicId,
        out: &mut Output,
    ) {
        let Some(topic) = turn.journal.state.topic(id) else {
            return turn.journal.refuse(out, ticket, Reject::TopicUnknown);
        };
        let info = topic.info();
        let groups: Vec<GroupId> = topic.groups.keys().copied().collect();
        self.forget_topic(id);
        turn.journal.emit(Haste::Urgent, out, &Fact::Order(OrderFact::TopicDeleted { topic: id }));
        // Behind the fact: waiters are told when it is durable.
        for group in groups {
            self.dismiss(turn, group, Reject::TopicUnknown, out);
        }
        turn.journal.after_durable(out, Action::Unpublish(info));
        turn.journal.reply(out, ticket, Answer::Deleted);
    }

    pub(crate) fn handle_delete_group(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        id: TopicId,
        name: &str,
        out: &mut Output,
    ) {
        let group = match turn.group_of(id, name) {
            Ok(group) => group,
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        turn.journal.emit(Haste::Urgent, out, &Fact::GroupExpired { topic: id, group });
        self.dismiss(turn, group, Reject::GroupUnknown, out);
        self.prune_schedule(turn, id);
        turn.journal.reply(out, ticket, Answer::Deleted);
    }

    pub(crate) fn handle_pause(
        &mut self,
        turn: &mut Turn,
        ticket: Ticket,
        id: TopicId,
        group: Option<&str>,
        paused: bool,
        out: &mut Output,
    ) {
        let found = match group {
            None if turn.journal.state.topic(id).is_none() => Err(Reject::TopicUnknown),
            None => Ok(None),
            Some(name) => turn.group_of(id, name).map(Some),
        };
        let group = match found {
            Ok(group) => group,
            Err(reject) => return turn.journal.refuse(out, ticket, reject),
        };
        let topic = turn.journal.state.topic(id);
        let before = topic.and_then(|topic| match group {
            None => topic.paused,
            Some(group) => topic.groups.get(&group)?.paused,
        });
        let since = paused.then(|| before.unwrap_or(turn.now));
        if since != before {
            let fact = Fact::Order(OrderFact::Paused { topic: id, group, since });
            turn.journal.emit(Haste::Urgent, out, &fact);
        }
        if let (Some(before), None) = (before, since) {
            self.note_pause(turn, (id, group), before);
        }
        turn.journal.reply(out, ticket, Answer::Paused(since));
        match group {
            Some(group) => self.touch(group),
            None => self.touch_topic(turn, id),
        }
    }
}
