//! Answers to questions about the state.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::delivery::Deliveries;
use crate::effect::desk::EffectDesk;
use crate::state::group::Group;
use crate::state::partition::Topic;
use crate::turn::Turn;
use crate::view::View;
use crate::words::action::{Action, Answer, Output};
use crate::words::description::{
    Description, GroupDescription, GroupPartition, GroupTally, LaneTally, LoanDescription, Member,
    PartitionDescription, Query, SlowestGroup, Tally, TopicDescription,
};
use crate::words::id::{GroupId, NO_TOPIC, Spotted, Ticket, TopicId};
use crate::words::reject::Reject;

/// Partitions of topics that one tally lists, and as many of groups.
const TALLY_ROWS_MAX: usize = 10_000;
/// Loans that the description of a group lists.
const LOANS_SHOWN_MAX: usize = 100;

fn number_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

pub(crate) fn handle_describe(
    turn: &mut Turn,
    deliveries: &Deliveries,
    effects: &EffectDesk,
    (ticket, query): (Ticket, &Query),
    out: &mut Output,
) {
    let answer = match (View { turn, deliveries, effects }).describe(query) {
        Some(description) => Answer::Described(description),
        None => Answer::Rejected(Reject::TopicUnknown),
    };
    match query {
        // Numbers for operators and their graphs: no decision rests on them, and they must come while the disk hangs.
        Query::Tally => out.actions.push(Action::Reply { ticket, answer }),
        // What an answer tells must not be taken back by a crash: it waits until it is durable. An operator who
        // purges what a list showed must not meet another letter in its place.
        _ => turn.journal.reply(out, ticket, answer),
    }
}

impl View<'_> {
    fn describe(&self, query: &Query) -> Option<Description> {
        let state = &self.turn.journal.state;
        Some(match query {
            Query::Topic(topic) => Description::Topic(self.deliveries.describe_topic(state.topic(*topic)?)),
            Query::Groups(topic) => Description::Groups(self.groups(state.topic(*topic)?)),
            Query::Group(topic, name) => Description::Groups(self.group(state.topic(*topic)?, name)),
            Query::Slowest(topic) => Description::Slowest(slowest_group(state.topic(*topic)?)),
            Query::Message(message) => {
                Description::Message(self.deliveries.describe_message(self.turn, *message))
            }
            Query::Payloads(messages) => {
                let lie = messages.iter().map(|message| self.turn.payload_of(*message));
                Description::Payloads(lie.collect())
            }
            Query::Browse(browse) => Description::Browse(self.turn.browse(browse)?),
            Query::Whereabouts(topic, identity) => {
                if topic.shard() == state.shard() {
                    state.topic(*topic)?;
                }
                let first = state.stored.get(identity, self.turn.now);
                Description::Whereabouts(first.map(|first| Spotted {
                    topic: if first.topic == NO_TOPIC { *topic } else { first.topic },
                    partition: first.partition,
                    offset: first.offset,
                }))
            }
            Query::Tally => Description::Tally(self.tally()),
            Query::Effect(identity) => Description::Effect(self.turn.find_effect(identity)),
            Query::Effects(list) => Description::Effects(self.turn.list_effects(list)),
            Query::Datasets(tenant, after, limit) => {
                let (datasets, more) = self.turn.list_datasets(tenant, after.as_deref(), *limit);
                Description::Datasets(datasets, more)
            }
            Query::Dataset(list) => Description::Dataset(self.turn.describe_dataset(list)),
            Query::Outputs(list) => Description::Outputs(self.turn.list_outputs(list)),
            Query::Runs(list) => {
                let (runs, next) = self.turn.list_runs(list);
                Description::Runs(runs, next)
            }
            Query::Run(id, from, limit) => {
                let mut page = self.turn.describe_run(id, *from, *limit);
                if let Some(page) = &mut page {
                    self.deliveries.explain_run(self.turn, page);
                }
                Description::Run(page)
            }
            Query::Commit(name) => Description::Commit(
                state.commits.get(name, self.turn.now).map(|(_, results)| results.shown()),
            ),
            Query::Keys => Description::Keys(state.keys.views()),
            Query::Lease(receipt) => Description::Lease(self.turn.view_lease(receipt)),
            Query::Definitions(kind) => Description::Definitions(state.definitions.page(*kind)),
            Query::Definition(kind, name) => Description::Definition(state.definitions.view(*kind, name)),
            Query::Tenants => Description::Tenants(state.tenants()),
            Query::Tenant(tenant) => Description::Tenant(state.view_tenant(tenant)),
            Query::Audit(list) => Description::Audit(state.audit.list(list)),
            Query::Entity(entity) => Description::Entity(self.turn.describe_entity(entity)),
            Query::Entities(list) => {
                let (entities, more) = self.turn.list_entities(list);
                Description::Entities(entities, more)
            }
        })
    }

    fn groups(&self, topic: &Topic) -> Vec<GroupDescription> {
        let groups = topic.groups.values();
        groups.map(|group| self.deliveries.describe_group(self.turn, topic, group)).collect()
    }

    /// One group, with what it has on loan; none if there is none of this name.
    fn group(&self, topic: &Topic, name: &str) -> Vec<GroupDescription> {
        let group = topic.group_named(name).map(|group| GroupDescription {
            loans: loans_of(topic, group),
            ..self.deliveries.describe_group(self.turn, topic, group)
        });
        group.into_iter().collect()
    }

    /// What metrics need: numbers that are kept anyway, and no walk over what waits or is on loan. Every scrape asks for
    /// it, so that what it looks at is bounded: the first topics and groups, and how many are left out.
    fn tally(&self) -> Tally {
        let state = &self.turn.journal.state;
        let (mut topics, mut groups) = (Vec::new(), Vec::new());
        let (mut topic_rows, mut group_rows, mut group_count) = (0, 0, 0);
        for topic in state.each_topic() {
            let partitions = topic.partitions.len();
            group_count += topic.groups.len() as u64;
            topic_rows += partitions;
            if topic_rows <= TALLY_ROWS_MAX {
                topics.push(TopicDescription { groups: Vec::new(), ..self.deliveries.describe_topic(topic) });
            }
            let fit = TALLY_ROWS_MAX.saturating_sub(group_rows) / partitions.max(1);
            groups.extend(
                topic.groups.values().take(fit).map(|group| self.deliveries.tally_group(topic, group)),
            );
            group_rows += topic.groups.len() * partitions;
        }
        let listed = |rows: usize, listed: usize| rows.saturating_sub(listed) as u64;
        let topics_listed = topics.iter().map(|topic| topic.partitions.len()).sum();
        let groups_listed = groups.iter().map(|group: &GroupTally| group.partitions.len()).sum();
        Tally {
            topic_count: state.names.len() as u64,
            group_count,
            left_out: listed(topic_rows, topics_listed).max(listed(group_rows, groups_listed)),
            topics,
            groups,
            idempotency_records: state.stored.len() as u64 + state.done_records,
            epoch: state.epoch,
            effects: self.effects.tally_effects(self.turn),
            outputs: state.outputs.pointers,
            runs: state.runs.runs.len() as u64,
            entities: state.entities.len() as u64,
            parcels: state.outbox.waiting().count() as u64,
        }
    }
}

impl Deliveries {
    fn tally_group(&self, topic: &Topic, group: &Group) -> GroupTally {
        let lanes = group.progress.iter().zip(&topic.partitions);
        GroupTally {
            topic: Arc::clone(&topic.name),
            name: Arc::clone(&group.name),
            consumers: self.crew(group.id).map_or(0, |crew| number_of(crew.consumers.len())),
            partitions: lanes
                .map(|(progress, lane)| LaneTally {
                    lag: progress.lag(lane.slots.next()),
                    in_flight: progress.leased,
                    retrying: number_of(progress.pending.len()) - progress.leased,
                })
                .collect(),
        }
    }

    fn describe_topic(&self, topic: &Topic) -> TopicDescription {
        let partitions = topic.partitions.iter().map(|lane| {
            let oldest = lane.slots.next_wanted(0).and_then(|sequence| lane.slots.get(sequence));
            let earliest = lane.slots.next_alive(0).and_then(|sequence| lane.slots.get(sequence));
            PartitionDescription {
                messages: lane.messages,
                bytes: lane.bytes,
                oldest_offset: oldest.map(|slot| slot.offset),
                oldest_at: oldest.map(|slot| slot.at),
                kept_messages: lane.past_messages,
                kept_bytes: lane.past_bytes,
                earliest_offset: earliest.map(|slot| slot.offset),
            }
        });
        TopicDescription {
            name: Arc::clone(&topic.name),
            tenant: topic.tenant.clone(),
            created: topic.created,
            next_offset: topic.next_offset,
            settings: topic.settings,
            paused: topic.paused,
            scheduled: self.scheduled_in(topic.id),
            dead_letters: self.dead_letters_of(topic.id),
            partitions: partitions.collect(),
            groups: topic.group_names.keys().cloned().collect(),
        }
    }

    fn describe_group(&self, turn: &Turn, topic: &Topic, group: &Group) -> GroupDescription {
        let crew = self.crew(group.id);
        GroupDescription {
            topic: Arc::clone(&topic.name),
            name: Arc::clone(&group.name),
            consumers: crew.map_or(0, |crew| u32::try_from(crew.consumers.len()).unwrap_or(u32::MAX)),
            waiters: crew.map_or(0, |crew| u32::try_from(crew.waiters.len()).unwrap_or(u32::MAX)),
            members: self.members_of(turn, group),
            paused: group.paused,
            topic_paused: topic.paused,
            seen: crew.map_or(group.created, |crew| crew.seen),
            partitions: self.described_partitions(turn, topic.id, group.id),
            loans: Vec::new(),
        }
    }

    /// Who reads a group, has just read it, or holds something of it. Walks what is on loan, which the windows bound.
    fn members_of(&self, turn: &Turn, group: &Group) -> Vec<Member> {
        let mut members: BTreeMap<Arc<str>, (bool, u64)> = BTreeMap::new();
        let pending = group.progress.iter().flat_map(|progress| progress.pending.values());
        for pending in pending.filter(|pending| pending.lease.is_some()) {
            members.entry(Arc::clone(&pending.owner)).or_default().1 += 1;
        }
        for consumer in self.crew(group.id).into_iter().flat_map(|crew| &crew.consumers) {
            members.entry(consumer.owner.as_str().into()).or_default().0 = true;
        }
        for waiter in self.crew(group.id).into_iter().flat_map(|crew| &crew.waiters) {
            members.entry(waiter.owner.as_str().into()).or_default();
        }
        for owner in self.crew(group.id).into_iter().flat_map(|crew| crew.recent_pollers(turn.now)) {
            members.entry(owner.into()).or_default();
        }
        let members = members.into_iter();
        members.map(|(owner, (streams, in_flight))| Member { owner, streams, in_flight }).collect()
    }

    /// How a group stands, per partition.
    pub(crate) fn described_partitions(
        &self,
        turn: &Turn,
        id: TopicId,
        group: GroupId,
    ) -> Vec<GroupPartition> {
        let Some(topic) = turn.journal.state.topic(id) else { return Vec::new() };
        let Some(members) = topic.groups.get(&group) else { return Vec::new() };
        let crew = self.crew(group);
        let windows = turn.settings.windows(topic);
        let lanes = (0_usize..).zip(members.progress.iter().zip(&topic.partitions));
        let partitions = lanes.map(|(number, (progress, lane))| {
            let pending = u32::try_from(progress.pending.len()).unwrap_or(u32::MAX);
            let partition = u32::try_from(number).unwrap_or(u32::MAX);
            let aside = crew.map_or(0, |crew| {
                let aside = crew.aside.values().flatten();
                aside.filter(|(waits, _)| *waits == partition).count()
            });
            let scheduled = self.scheduled_at(id, partition);
            let parked = crew.and_then(|crew| crew.lanes.get(number)).map_or(0, |lane| lane.keys.parked());
            GroupPartition {
                lag: progress.lag(lane.slots.next()),
                in_flight: progress.leased,
                retrying: pending - progress.leased,
                scheduled: number_of(scheduled),
                same_identity: number_of(aside),
                is_full: progress.leased >= windows.pushed.max(windows.borrowed),
                key_busy: number_of(parked),
                acked_below: lane.slots.next_alive(progress.floor).map_or_else(
                    || (topic.next_offset > 0).then_some(topic.next_offset),
                    |sequence| lane.slots.get(sequence).map(|slot| slot.offset),
                ),
            }
        });
        partitions.collect()
    }
}

/// What a group has on loan, what lapses first before the rest. Walks what is on loan, which the windows bound.
fn loans_of(topic: &Topic, group: &Group) -> Vec<LoanDescription> {
    let lanes = (0_u32..).zip(group.progress.iter().zip(&topic.partitions));
    let mut loans: Vec<_> = lanes
        .flat_map(|(partition, (progress, lane))| {
            progress.pending.iter().filter_map(move |(&sequence, pending)| {
                Some(LoanDescription {
                    partition,
                    offset: lane.slots.get(sequence)?.offset,
                    owner: Arc::clone(&pending.owner),
                    attempt: pending.attempts,
                    leased: pending.leased_at,
                    expires: pending.lease?,
                })
            })
        })
        .collect();
    loans.sort_by_key(|loan| (loan.expires, loan.partition, loan.offset));
    loans.truncate(LOANS_SHOWN_MAX);
    loans
}

/// A few subtractions per group: it is asked for when a topic is full, which is no time for more.
fn slowest_group(topic: &Topic) -> Option<SlowestGroup> {
    let lag_of = |group: &Group| {
        let lanes = group.progress.iter().zip(&topic.partitions);
        lanes.map(|(progress, lane)| progress.lag(lane.slots.next())).sum::<u64>()
    };
    let (lag, group) =
        topic.groups.values().map(|group| (lag_of(group), group)).max_by_key(|(lag, _)| *lag)?;
    let is_paused = group.paused.is_some() || topic.paused.is_some();
    Some(SlowestGroup { name: Arc::clone(&group.name), lag, is_paused })
}
