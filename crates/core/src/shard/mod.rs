//! One core, one log: inputs in, facts and actions out.

pub(crate) mod bounds;
pub(crate) mod upkeep;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::delivery::lane::{Consumer, Crew};
use crate::delivery::schedule::Schedule;
use crate::effect::{Sleepers, Sweep, Waiting};
use crate::log::fact::Fact;
use crate::state::{GROUPS_PER_TOPIC_MAX, PARTITIONS_MAX, State};
use crate::turn::journal::{Haste, Journal};
use crate::turn::timer::{Due, Timers};
use crate::words::action::{Action, Answer, Output, TopicInfo};
use crate::words::id::{ConsumerId, GroupId, Identity, Position, Ticket, Time, Token, TopicId};
use crate::words::input::{Input, Subscription};
use crate::words::reject::Reject;
use crate::words::route::validate_name;
use crate::words::settings::Settings;
use crate::words::topic::TopicSettings;

/// A group that nobody reads is told for this long what becomes visible.
const REST_AFTER_MS: u64 = 1_000;

/// The deciding part of a broker. See the crate's documentation for the rules it keeps.
#[derive(Debug)]
pub struct Shard {
    pub(crate) settings: Settings,
    pub(crate) journal: Journal,
    pub(crate) timers: Timers,
    /// Every group of every topic, at work or not.
    pub(crate) crews: BTreeMap<GroupId, Crew>,
    /// Groups with at least one reader, by topic.
    pub(crate) active: BTreeMap<TopicId, BTreeSet<GroupId>>,
    /// The group of each reader.
    pub(crate) readers: BTreeMap<ConsumerId, GroupId>,
    /// End of this run's first fact: nothing is delivered before it is durable.
    pub(crate) opened: Position,
    /// Messages that may still be looked at for this input.
    pub(crate) steps: usize,
    /// How often dispatch stopped in the middle.
    pub(crate) turns: u64,
    /// Tokens handed out in this run.
    pub(crate) tokens: u64,
    /// The newest time that was told.
    pub(crate) now: Time,
    /// Whether the log has room for new messages.
    pub(crate) roomy: bool,
    /// Messages dead-lettered in this run, by source topic.
    pub(crate) dead_letters: BTreeMap<TopicId, u64>,
    /// Groups of those who asked for messages and wait.
    pub(crate) waiting: BTreeMap<Ticket, GroupId>,
    /// Messages that are not due yet, by partition.
    pub(crate) scheduled: BTreeMap<(TopicId, u32), Schedule>,
    /// Messages that go on the groups' lists once everything below the position is durable.
    pub(crate) unlisted: VecDeque<(Position, TopicId, u32, u64)>,
    /// Identities of messages that are being routed, and until when they are kept.
    pub(crate) reserved: BTreeMap<Identity, Time>,
    /// Partitions that have a timer for retention: one each, however often they run empty and fill again.
    pub(crate) retaining: BTreeSet<(TopicId, u32)>,
    /// When a partition's history is looked at next: one timer each.
    pub(crate) trimming: BTreeMap<(TopicId, u32), Time>,
    /// Messages with a deadline that has not come yet, by partition.
    pub(crate) deadlines: BTreeMap<(TopicId, u32), Schedule>,
    /// Who waits for an effect that somebody else runs.
    pub(crate) waiting_effects: Waiting,
    /// Messages that wait for an effect.
    pub(crate) sleepers: Sleepers,
    /// When the ledger is swept next.
    pub(crate) sweep_at: Option<Time>,
    pub(crate) sweep: Sweep,
    /// Whether a timer is set that forgets commits.
    pub(crate) forgets_commits: bool,
    /// Runs up to this number have a timer.
    pub(crate) runs_watched: u64,
}

impl Shard {
    /// A shard over a recovered state. It serves nothing before [`Shard::open`].
    #[must_use]
    pub fn new(settings: Settings, state: State) -> Self {
        Self {
            settings,
            journal: Journal::new(state),
            timers: Timers::default(),
            crews: BTreeMap::new(),
            active: BTreeMap::new(),
            readers: BTreeMap::new(),
            opened: Position(0),
            steps: 0,
            turns: 0,
            tokens: 0,
            now: Time(0),
            roomy: true,
            dead_letters: BTreeMap::new(),
            waiting: BTreeMap::new(),
            scheduled: BTreeMap::new(),
            unlisted: VecDeque::new(),
            reserved: BTreeMap::new(),
            retaining: BTreeSet::new(),
            trimming: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            waiting_effects: Waiting::default(),
            sleepers: Sleepers::default(),
            sweep_at: None,
            sweep: Sweep::default(),
            forgets_commits: false,
            runs_watched: 0,
        }
    }

    /// Begins a run: a new epoch, durable before anything is served. `base` is where the first batch will lie;
    /// `secret` becomes the shard's if it has none yet, and should be nobody else's.
    pub fn open(&mut self, now: Time, base: Position, secret: [u8; 32], out: &mut Output) {
        self.now = now;
        self.journal.start(base);
        let epoch = self.journal.state.epoch + 1;
        self.journal.emit(Haste::Urgent, out, &Fact::Opened { epoch, at: now, keeps_leases: true });
        if self.journal.state.secret == [0; 32] {
            self.journal.emit(Haste::Urgent, out, &Fact::Keyed { secret });
        }
        self.opened = base.plus(out.facts.len());
        self.rebuild_schedule();
        self.rebuild_crews(out);
        self.schedule_upkeep();
    }

    /// Tells where the next batch will lie; the shell has taken the facts of the one before.
    pub const fn begin_batch(&mut self, base: Position) {
        self.journal.base = base;
    }

    /// When [`Input::Tick`] is wanted.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// What the facts have made so far.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.journal.state
    }

    /// What is decided and waits for the disk before it may be told, in order.
    pub fn held(&self) -> impl Iterator<Item = &Action> {
        self.journal.held()
    }

    /// Gives the shard up and lists who still waits for an answer.
    #[must_use]
    pub fn abandon(self) -> Vec<Ticket> {
        self.journal.into_waiting()
    }

    fn begin_turn(&mut self, now: Time) {
        assert!(now >= self.now, "the shell's clock never goes back");
        self.now = now;
        self.steps = self.settings.turn_steps_max as usize;
    }

    /// Handles one input. Total: every input has an answer, none panics.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Output) {
        self.begin_turn(now);
        match input {
            Input::CreateTopic { ticket, name, partitions, settings, exact } => {
                self.handle_create_topic(ticket, &name, partitions, (&settings, exact), out);
            }
            Input::ConfigureTopic { ticket, topic, patch } => {
                self.handle_configure(ticket, topic, &patch, out)
            }
            Input::DeleteTopic { ticket, topic } => self.handle_delete_topic(ticket, topic, out),
            Input::Pause { ticket, topic, group, paused } => {
                self.handle_pause(ticket, topic, group.as_deref(), paused, out);
            }
            Input::Produce { ticket, message } => self.handle_produce(ticket, &message, out),
            Input::ProduceMany { ticket, messages } => self.handle_produce_many(ticket, &messages, out),
            Input::Reserve { ticket, identity, request } => {
                self.handle_reserve(ticket, identity, request, out)
            }
            Input::Unreserve { identity } => self.unreserve(identity),
            Input::Lease { ticket, request } => self.handle_lease(ticket, request, out),
            Input::Forsake { ticket } => self.handle_forsake(ticket),
            Input::Settle { ticket, items } => self.handle_settle(ticket, &items, out),
            Input::Cancel { ticket, message } => self.handle_cancel(ticket, message, out),
            Input::Seek { ticket, topic, group, partition, to } => {
                self.handle_seek(ticket, topic, &group, partition, to, out);
            }
            Input::DeleteGroup { ticket, topic, group } => {
                self.handle_delete_group(ticket, topic, &group, out)
            }
            Input::Redrive { ticket, letter, message, group } => {
                self.handle_redrive(ticket, letter, message, group.as_deref(), out);
            }
            Input::Remove { ticket, messages } => self.handle_remove(ticket, &messages, out),
            Input::Subscribe { ticket, subscription } => self.handle_subscribe(ticket, subscription, out),
            Input::Unsubscribe { consumer } => self.handle_unsubscribe(consumer),
            Input::Credit { consumer, count } => self.handle_credit(consumer, count, out),
            Input::Written { consumer, count } => self.handle_written(consumer, count, out),
            Input::Ack { ticket, address, owner } => self.handle_ack(ticket, &address, &owner, out),
            Input::Nack { ticket, address, owner, reason } => {
                self.handle_nack(ticket, &address, &owner, &reason, out);
            }
            Input::Release { receipts } => self.handle_release(&receipts, out),
            Input::Bury { receipt, payload } => self.handle_bury(receipt, &payload, out),
            Input::FetchFailed { receipt } => self.handle_fetch_failed(receipt),
            Input::Relocate { topic, partition, offset, from, payload } => {
                self.handle_relocate((topic, partition, offset), from, &payload, out);
            }
            Input::BeginEffect { .. }
            | Input::BeginEffects { .. }
            | Input::FinishEffect { .. }
            | Input::RenewEffect { .. }
            | Input::ReleaseEffect { .. }
            | Input::ResolveEffect { .. }
            | Input::RelocateEffect { .. } => self.handle_effect(input, out),
            Input::Commit { .. }
            | Input::Commits { .. }
            | Input::CutOver { .. }
            | Input::RollBack { .. }
            | Input::SealVersion { .. }
            | Input::DropVersion { .. } => self.handle_commit_or_output(input, out),
            Input::ForgetEntity { ticket, entity } => self.handle_forget_entity(ticket, &entity, out),
            Input::Durable { upto } => self.handle_durable(upto, out),
            Input::Space { roomy } => self.roomy = roomy,
            Input::Tick => self.handle_tick(out),
            Input::Describe { ticket, query } => self.handle_describe(ticket, &query, out),
        }
        self.watch_history();
    }

    /// What happens to effects.
    fn handle_effect(&mut self, input: Input, out: &mut Output) {
        match input {
            Input::BeginEffect { ticket, ask } => self.handle_begin_effect(ticket, *ask, out),
            Input::BeginEffects { ticket, asks } => self.handle_begin_effects(ticket, asks, out),
            Input::FinishEffect { ticket, finish } => self.handle_finish_effect(ticket, &finish, out),
            Input::RenewEffect { ticket, receipt, lease_ms } => {
                self.handle_renew_effect(ticket, receipt, lease_ms, out);
            }
            Input::ReleaseEffect { ticket, receipt, uncertain } => {
                self.handle_release_effect(ticket, receipt, uncertain, out);
            }
            Input::ResolveEffect { ticket, resolve } => self.handle_resolve_effect(ticket, &resolve, out),
            Input::RelocateEffect { number, part, from, copy } => {
                self.handle_relocate_effect(number, part, from, &copy, out);
            }
            // No other input is handed over.
            _ => {}
        }
    }

    /// What happens together, and to outputs.
    fn handle_commit_or_output(&mut self, input: Input, out: &mut Output) {
        match input {
            Input::Commit { ticket, commit } => self.handle_commit(ticket, &commit, out),
            Input::Commits { ticket, commits } => self.handle_commits(ticket, &commits, out),
            Input::CutOver { ticket, dataset, version, expect } => {
                self.handle_cut_over(ticket, (&dataset, &version), expect.as_deref(), out);
            }
            Input::RollBack { ticket, dataset, from } => self.handle_roll_back(ticket, &dataset, &from, out),
            Input::SealVersion { ticket, dataset, version } => {
                self.handle_seal_version(ticket, (&dataset, &version), out);
            }
            Input::DropVersion { ticket, dataset, version } => {
                self.handle_drop_version(ticket, (&dataset, &version), out);
            }
            // No other input is handed over.
            _ => {}
        }
    }

    /// A token that was never handed out before: the epoch is this run's alone.
    pub(crate) const fn next_token(&mut self) -> Token {
        self.tokens += 1;
        Token { epoch: self.journal.state.epoch, n: self.tokens }
    }

    fn handle_create_topic(
        &mut self,
        ticket: Ticket,
        name: &str,
        partitions: u32,
        (settings, exact): (&TopicSettings, bool),
        out: &mut Output,
    ) {
        if let Some(topic) = self.journal.state.topic_named(name) {
            let kept = topic.info().partitions;
            let difference =
                if kept == partitions { topic.settings.difference(settings) } else { Some("partitions") };
            return match difference.filter(|_| exact) {
                Some(setting) => self.journal.refuse(out, ticket, Reject::SettingsDiffer(setting)),
                None => {
                    let answer = Answer::TopicReady { partitions: kept, created: false };
                    self.journal.reply(out, ticket, answer);
                }
            };
        }
        if let Err(reject) = self.may_create(name, partitions, settings) {
            return self.journal.refuse(out, ticket, reject);
        }
        self.create_topic(name, partitions, settings, out);
        self.journal.reply(out, ticket, Answer::TopicReady { partitions, created: true });
    }

    fn may_create(&self, name: &str, partitions: u32, settings: &TopicSettings) -> Result<(), Reject> {
        validate_name(name, "topic names have 1 to 255 bytes")?;
        if partitions == 0 || partitions > self.settings.partitions_max.min(PARTITIONS_MAX) {
            return Err(Reject::Invalid("partitions must be between 1 and the server's partitions_max"));
        }
        if let Some(fault) = settings.fault() {
            return Err(Reject::Invalid(fault));
        }
        if self.journal.state.names.len() >= self.settings.topics_max as usize {
            return Err(Reject::Limit("topics: there are as many as are allowed"));
        }
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        Ok(())
    }

    /// Creates a topic that does not exist, and has the catalogue told once it is durable.
    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        partitions: u32,
        settings: &TopicSettings,
        out: &mut Output,
    ) -> TopicInfo {
        let topic =
            TopicId(u32::try_from(self.journal.state.topics.len()).expect("topics are counted in u32"));
        let fact = Fact::TopicCreated { topic, partitions, at: self.now, name, scoped: true };
        self.journal.emit(Haste::Urgent, out, &fact);
        if *settings != TopicSettings::default() {
            self.journal.emit(Haste::Urgent, out, &Fact::Configured { topic, settings: *settings });
        }
        let info = TopicInfo { id: topic, name: name.into(), partitions, scoped: true };
        self.journal.after_durable(out, Action::Publish(info.clone()));
        info
    }

    fn handle_subscribe(&mut self, ticket: Ticket, subscription: Subscription, out: &mut Output) {
        let group = match self.may_subscribe(&subscription) {
            Ok(Some(group)) => group,
            Ok(None) => self.create_group(subscription.topic, &subscription.group, out),
            Err(reject) => return self.journal.refuse(out, ticket, reject),
        };
        let Subscription { consumer, topic, owner, lease_ms, credit, style, .. } = subscription;
        self.attend(topic, group);
        let lease_ms = self.lease_ms(topic, lease_ms);
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.consumers.push(Consumer { id: consumer, owner, lease_ms, credit, unwritten: 0, style });
        self.readers.insert(consumer, group);
        self.journal.reply(out, ticket, Answer::Subscribed);
        self.dispatch(group, out);
    }

    /// Somebody reads a group: from now on it is told what becomes visible.
    pub(crate) fn attend(&mut self, topic: TopicId, group: GroupId) {
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.seen = self.now;
        if self.active.entry(topic).or_default().insert(group) {
            crew.heat_all();
        } else {
            crew.heat_full();
        }
    }

    /// The group is not told any more what becomes visible.
    pub(crate) fn deactivate(&mut self, topic: TopicId, group: GroupId) {
        if let Some(groups) = self.active.get_mut(&topic) {
            groups.remove(&group);
            if groups.is_empty() {
                self.active.remove(&topic);
            }
        }
    }

    /// Groups that nobody has read for a while are not told any more what becomes visible. Not at once: between two
    /// requests of a worker that asks again and again, nobody reads either.
    fn leave_to_rest(&mut self, topic: TopicId) {
        let Some(groups) = self.active.get_mut(&topic) else { return };
        let (crews, now) = (&self.crews, self.now);
        groups.retain(|group| {
            let crew = crews.get(group);
            crew.is_some_and(|crew| crew.is_attended() || now.since_ms(crew.seen) < REST_AFTER_MS)
        });
        if groups.is_empty() {
            self.active.remove(&topic);
        }
    }

    fn may_subscribe(&self, subscription: &Subscription) -> Result<Option<GroupId>, Reject> {
        if self.readers.len() >= self.settings.consumers_max as usize {
            return Err(Reject::Limit("consumers: there are as many as are allowed"));
        }
        let Subscription { topic, group, owner, lease_ms, .. } = subscription;
        self.may_read(*topic, group, owner, *lease_ms)
    }

    /// The group, or `None` if it has to be created first.
    pub(crate) fn may_read(
        &self,
        topic: TopicId,
        group: &str,
        owner: &str,
        lease_ms: Option<u64>,
    ) -> Result<Option<GroupId>, Reject> {
        let topic = self.journal.state.topic(topic).ok_or(Reject::TopicUnknown)?;
        validate_name(group, "group names have 1 to 255 bytes")?;
        validate_name(owner, "owner names have 1 to 255 bytes")?;
        if lease_ms.is_some_and(|ms| ms == 0 || ms > self.settings.lease_ms_max) {
            return Err(Reject::Invalid("lease_ms must be positive and at most the server's lease_ms_max"));
        }
        if let Some(group) = topic.group_named(group) {
            return Ok(Some(group.id));
        }
        if topic.groups.len() >= (self.settings.groups_max as usize).min(GROUPS_PER_TOPIC_MAX) {
            return Err(Reject::Limit("groups: the topic has as many as are allowed"));
        }
        Ok(None)
    }

    pub(crate) fn create_group(&mut self, topic: TopicId, name: &str, out: &mut Output) -> GroupId {
        let group = GroupId(self.journal.state.next_group);
        self.journal.emit(Haste::Urgent, out, &Fact::GroupCreated { topic, group, at: self.now, name });
        self.add_crew(topic, group);
        self.watch_topic_deadlines(topic);
        group
    }

    fn handle_unsubscribe(&mut self, consumer: ConsumerId) {
        let Some(group) = self.readers.remove(&consumer) else { return };
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.consumers.retain(|candidate| candidate.id != consumer);
        crew.turn = 0;
        crew.seen = self.now;
        crew.loans.retain(|_, taker| *taker != consumer);
        if crew.is_attended() {
            return;
        }
        let topic = crew.topic;
        if !core::mem::replace(&mut crew.watched, true) {
            self.timers.set(self.now.after_ms(self.settings.group_expiry_ms), Due::Idle(topic, group));
        }
        // A stream that ends does not come back in a moment, as a worker that asks again and again does.
        self.deactivate(topic, group);
    }

    fn handle_credit(&mut self, consumer: ConsumerId, count: u32, out: &mut Output) {
        let Some(&group) = self.readers.get(&consumer) else { return };
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.add_credit(consumer, count);
        self.dispatch(group, out);
    }

    fn handle_written(&mut self, consumer: ConsumerId, count: u32, out: &mut Output) {
        let Some(&group) = self.readers.get(&consumer) else { return };
        let Some(crew) = self.crews.get_mut(&group) else { return };
        crew.on_written(consumer, count, self.settings.stream_unwritten_max);
        self.dispatch(group, out);
    }

    fn handle_durable(&mut self, upto: Position, out: &mut Output) {
        let was_open = self.journal.durable >= self.opened;
        let mut touched = BTreeSet::new();
        let mut topics = BTreeSet::new();
        let (active, crews) = (&self.active, &mut self.crews);
        self.journal.advance(upto, out, |topic, partition| {
            topics.insert(topic);
            for group in active.get(&topic).into_iter().flatten() {
                if let Some(crew) = crews.get_mut(group) {
                    crew.hot.insert(partition);
                    touched.insert(*group);
                }
            }
        });
        self.list_durable();
        if !was_open {
            touched.extend(self.readers.values());
            touched.extend(self.waiting.values());
        }
        for topic in topics {
            self.leave_to_rest(topic);
        }
        for group in touched {
            self.dispatch(group, out);
        }
    }
}
