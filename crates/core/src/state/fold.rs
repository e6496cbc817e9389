//! What each fact does to the state.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::log::delivery::Place;
use crate::log::fact::MessageFact;
use crate::state::gate::Gate;
use crate::state::group::{Group, Progress};
use crate::state::partition::{Partition, Topic};
use crate::state::slot::{Beside, Lookup, Slot};
use crate::state::{First, GROUPS_PER_TOPIC_MAX, PARTITIONS_MAX, State};
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::id::{GroupId, Identity, Position, Spotted, Time, TopicId};
use crate::words::topic::TopicSettings;

impl State {
    pub(crate) fn on_opened(&mut self, epoch: u64, at: Time, keeps_leases: bool) -> Result<(), Malformed> {
        if epoch <= self.epoch || epoch > u64::MAX / 2 {
            return Err(CONTRADICTION);
        }
        if keeps_leases {
            self.shift_back(self.newest.since_ms(at));
        }
        self.newest = at;
        // Leases count on from the run before only if that run, too, made every superseding delivery durable first.
        if !keeps_leases || self.leases_kept_since == 0 {
            self.void_leases(at);
        }
        self.leases_kept_since = match self.leases_kept_since {
            _ if !keeps_leases => 0,
            0 => epoch,
            since => since,
        };
        self.epoch = epoch;
        Ok(())
    }

    /// Ends every lease: it is not known whether a message was handed to another holder in between.
    fn void_leases(&mut self, at: Time) {
        let mut unwanted = Vec::new();
        for topic in self.topics.iter_mut().flatten() {
            let groups = topic.groups.values_mut();
            for (group, partition, progress) in groups.flat_map(|group| {
                let id = group.id;
                (0_u32..).zip(&mut group.progress).map(move |(partition, progress)| (id, partition, progress))
            }) {
                progress.void_leases(at);
                let cancelled = progress.pending.iter().filter(|(_, pending)| pending.cancelled);
                unwanted.extend(cancelled.map(|(&sequence, _)| (topic.id, group, partition, sequence)));
            }
        }
        // No holder works on them any more, and none is to begin again.
        for (topic, group, partition, sequence) in unwanted {
            self.settle(topic, group, partition, sequence);
        }
    }

    pub(crate) fn on_topic_created(
        &mut self,
        (id, partitions, scoped): (TopicId, u32, bool),
        at: Time,
        name: &str,
        tenant: Option<&str>,
    ) -> Result<(), Malformed> {
        if TopicId::new(self.shard, self.topics.len()) != Some(id)
            || partitions == 0
            || partitions > PARTITIONS_MAX
            || self.names.contains_key(name)
        {
            return Err(CONTRADICTION);
        }
        let name: Arc<str> = name.into();
        let tenant: Option<Arc<str>> = tenant.map(Arc::from);
        if let Some(tenant) = &tenant {
            self.tenants.add_topic(tenant);
        }
        self.names.insert(Arc::clone(&name), id);
        self.topics.push(Some(Box::new(Topic {
            id,
            name,
            created: at,
            scoped,
            tenant,
            settings: TopicSettings::default(),
            paused: None,
            next_offset: 0,
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            groups: BTreeMap::new(),
            group_names: BTreeMap::new(),
        })));
        Ok(())
    }

    pub(crate) fn on_topic_deleted(&mut self, id: TopicId) -> Result<(), Malformed> {
        let topic =
            self.place_of(id).and_then(|place| self.topics.get_mut(place)?.take()).ok_or(CONTRADICTION)?;
        self.names.remove(&topic.name);
        self.tenants.remove_topic(&topic);
        for group in topic.groups.values() {
            self.done_records -= group.done.len() as u64;
        }
        for (_, slot) in topic.partitions.iter().flat_map(|lane| lane.slots.iter()) {
            self.policies.release(slot.policy);
            self.unpin(slot.position.segment(), slot.length);
            self.runs.close_step(id, slot.offset);
        }
        for lane in &topic.partitions {
            for (sequence, _) in lane.slots.iter() {
                self.descent.remove(lane.slots.origin(sequence));
            }
        }
        Ok(())
    }

    pub(crate) fn on_paused(
        &mut self,
        id: TopicId,
        group: Option<GroupId>,
        since: Option<Time>,
    ) -> Result<(), Malformed> {
        let topic = self.topic_mut(id)?;
        match group {
            None => topic.paused = since,
            Some(group) => topic.groups.get_mut(&group).ok_or(CONTRADICTION)?.paused = since,
        }
        Ok(())
    }

    pub(crate) fn on_appended(&mut self, end: Position, message: &MessageFact<'_>) -> Result<(), Malformed> {
        // What topics another shard has, this one cannot know.
        let born = message.origin.and_then(|origin| self.place_of(origin.topic));
        if born.is_some_and(|place| place >= self.topics.len()) {
            return Err(CONTRADICTION);
        }
        let place = self.place_of(message.topic).ok_or(CONTRADICTION)?;
        let policy = self.policies.acquire(message.retry).ok_or(CONTRADICTION)?;
        let topic = self.topics.get_mut(place).and_then(Option::as_deref_mut);
        let topic = topic.ok_or(CONTRADICTION)?;
        let waiting = u16::try_from(topic.groups.len()).map_err(|_| CONTRADICTION)?;
        let lane = topic.partitions.get_mut(message.partition as usize).ok_or(CONTRADICTION)?;
        if message.offset < topic.next_offset || message.offset > u64::MAX / 2 {
            return Err(CONTRADICTION);
        }
        topic.next_offset = message.offset + 1;
        let position = Position(end.0 - message.bytes.len() as u64);
        let length = u32::try_from(message.bytes.len()).map_err(|_| CONTRADICTION)?;
        let (offset, at, size, check) = (message.offset, message.at, message.size, message.check);
        let slot = Slot { offset, position, at, length, size, check, policy, waiting };
        let mut beside = Beside {
            key: message.key,
            due: message.due.unwrap_or_default(),
            priority: message.priority,
            origin: message.origin,
            deadline: message.deadline.unwrap_or_default(),
            ..Beside::default()
        };
        if let Some((identity, _)) = message.identity {
            beside.identity = identity;
        }
        let sequence = lane.slots.push(slot, beside);
        self.descent.add(beside.origin);
        lane.count_in(size, false);
        if let Some(tenant) = &topic.tenant {
            self.tenants.add_message(tenant, size);
        }
        let everybody_else = topic.groups.keys().copied().filter(|group| Some(*group) != message.only);
        let spared: Vec<GroupId> = message.only.into_iter().flat_map(|_| everybody_else.clone()).collect();
        *self.live.entry(position.segment()).or_default() += u64::from(length);
        if let Some((identity, until)) = message.identity
            && until > message.at
        {
            let first = First {
                topic: message.topic,
                partition: message.partition,
                offset,
                request: message.request,
            };
            self.stored.insert(identity, until, first);
        }
        if let Some(lineage) = &message.lineage {
            let MessageFact { topic, partition, offset, at, .. } = *message;
            self.runs.note_message(lineage, Spotted { topic, partition, offset }, at);
        }
        for group in spared {
            self.settle(message.topic, group, message.partition, sequence);
        }
        if let Some(group) = message.only {
            self.forget_done(message.topic, group, message.identity.map(|(identity, _)| identity));
        }
        Ok(())
    }

    pub(crate) fn on_group_created(
        &mut self,
        id: TopicId,
        group: GroupId,
        at: Time,
        name: &str,
    ) -> Result<(), Malformed> {
        if group.0 < self.next_group || group.0 > u32::MAX / 2 {
            return Err(CONTRADICTION);
        }
        let seed = self.seed;
        self.next_group = group.0 + 1;
        let topic = self.topic_mut(id)?;
        if topic.groups.len() >= GROUPS_PER_TOPIC_MAX {
            return Err(CONTRADICTION);
        }
        let name: Arc<str> = name.into();
        if topic.group_names.insert(Arc::clone(&name), group).is_some() {
            return Err(CONTRADICTION);
        }
        let progress = topic.partitions.iter_mut().map(|lane| lane.join(lane.slots.base)).collect();
        let done = Gate::new(seed);
        topic.groups.insert(group, Group { id: group, name, created: at, paused: None, progress, done });
        Ok(())
    }

    /// The message of a delivery that is not settled yet.
    pub(crate) fn unsettled(&mut self, place: Place) -> Result<(&mut Progress, u64), Malformed> {
        let topic = self.topic_mut(place.topic)?;
        let lane = topic.partitions.get(place.partition as usize).ok_or(CONTRADICTION)?;
        let Lookup::Here(sequence) = lane.slots.find(place.offset) else { return Err(CONTRADICTION) };
        let group = topic.groups.get_mut(&place.group).ok_or(CONTRADICTION)?;
        let progress = group.progress.get_mut(place.partition as usize).ok_or(CONTRADICTION)?;
        if progress.is_settled(sequence) {
            return Err(CONTRADICTION);
        }
        Ok((progress, sequence))
    }

    pub(crate) fn on_settled(&mut self, place: Place, remembered: Time) -> Result<(), Malformed> {
        let (progress, sequence) = self.unsettled(place)?;
        progress.settle(sequence);
        let topic = self.topic_mut(place.topic)?;
        let lane = topic.partitions.get_mut(place.partition as usize).ok_or(CONTRADICTION)?;
        if remembered > Time(0)
            && let Some(identity) = lane.slots.identity(sequence)
        {
            let done = &mut topic.groups.get_mut(&place.group).ok_or(CONTRADICTION)?.done;
            let before = done.len();
            done.insert(identity, remembered, ());
            self.done_records += (done.len() - before) as u64;
        }
        self.let_go(place.topic, place.partition, sequence);
        Ok(())
    }

    pub(crate) fn on_retired(&mut self, place: Place, dead: bool) -> Result<(), Malformed> {
        let (progress, sequence) = self.unsettled(place)?;
        if dead && let Some(token) = progress.pending.get(&sequence).map(|pending| pending.token) {
            self.buried.insert(token);
        }
        self.on_settled(place, Time(0))
    }

    /// No group is to get a message any more; a holder that has it on loan may end its work.
    pub(crate) fn on_cancelled(&mut self, id: TopicId, partition: u32, offset: u64) -> Result<(), Malformed> {
        let topic = self.topic_mut(id)?;
        let lane = topic.partitions.get_mut(partition as usize).ok_or(CONTRADICTION)?;
        let Lookup::Here(sequence) = lane.slots.find(offset) else { return Err(CONTRADICTION) };
        lane.slots.cancel(sequence);
        let mut idle = Vec::new();
        for group in topic.groups.values_mut() {
            let progress = group.progress.get_mut(partition as usize).ok_or(CONTRADICTION)?;
            match progress.pending.get_mut(&sequence).filter(|pending| pending.lease.is_some()) {
                Some(pending) => pending.cancelled = true,
                None => idle.push(group.id),
            }
        }
        for group in idle {
            self.settle(id, group, partition, sequence);
        }
        // Without groups, or kept after all of them: no group waits for it that could take it along.
        let lane = self.topic_mut(id)?.partitions.get(partition as usize).ok_or(CONTRADICTION)?;
        if lane.slots.get(sequence).is_some_and(|slot| slot.waiting == 0) {
            self.remove(id, partition, sequence);
        }
        Ok(())
    }

    pub(crate) fn on_removed(&mut self, id: TopicId, partition: u32, offset: u64) -> Result<(), Malformed> {
        let topic = self.topic_mut(id)?;
        let lane = topic.partitions.get(partition as usize).ok_or(CONTRADICTION)?;
        let Lookup::Here(sequence) = lane.slots.find(offset) else { return Err(CONTRADICTION) };
        for group in topic.groups.values_mut() {
            group.progress.get_mut(partition as usize).ok_or(CONTRADICTION)?.settle(sequence);
        }
        self.remove(id, partition, sequence);
        Ok(())
    }

    pub(crate) fn on_sought(
        &mut self,
        id: TopicId,
        group: GroupId,
        partition: u32,
        from: u64,
    ) -> Result<(), Malformed> {
        let topic = self.topic_mut(id)?;
        let lane = topic.partitions.get_mut(partition as usize).ok_or(CONTRADICTION)?;
        let members = topic.groups.get_mut(&group).ok_or(CONTRADICTION)?;
        let progress = members.progress.get_mut(partition as usize).ok_or(CONTRADICTION)?;
        let owed = lane.owed_by(progress);
        // Counted in anew before the old debts go, so that no message is dropped in between.
        *progress = lane.join(lane.sequence_at(from));
        let again = lane.owed_by(progress);
        let identities: Vec<_> = again.iter().filter_map(|sequence| lane.slots.identity(*sequence)).collect();
        for sequence in owed {
            self.let_go(id, partition, sequence);
        }
        for identity in identities {
            self.forget_done(id, group, Some(identity));
        }
        Ok(())
    }

    /// A group is to get again an identity that it may be done with.
    fn forget_done(&mut self, topic: TopicId, group: GroupId, identity: Option<Identity>) {
        let Ok(topic) = self.topic_mut(topic) else { return };
        if let (Some(group), Some(identity)) = (topic.groups.get_mut(&group), identity) {
            let gone = u64::from(group.done.remove(&identity));
            self.done_records -= gone;
        }
    }

    /// A group is done with a message, without an ack.
    fn settle(&mut self, id: TopicId, group: GroupId, partition: u32, sequence: u64) {
        let Ok(topic) = self.topic_mut(id) else { return };
        let progress = topic.groups.get_mut(&group).and_then(|g| g.progress.get_mut(partition as usize));
        if progress.is_some_and(|progress| progress.settle(sequence)) {
            self.let_go(id, partition, sequence);
        }
    }

    /// One group less waits for a message; the last one takes it along, unless the topic keeps what is done.
    fn let_go(&mut self, id: TopicId, partition: u32, sequence: u64) {
        let Ok(topic) = self.topic_mut(id) else { return };
        let (lonely, keeps) = (topic.groups.is_empty(), topic.settings.keeps());
        let Some(lane) = topic.partitions.get_mut(partition as usize) else { return };
        if lane.slots.let_go(sequence) != Some(true) {
            return;
        }
        // Without any group none is done with it: it waits for the next group to come, unless none is to get it.
        if lane.slots.is_cancelled(sequence) || !(lonely || keeps) {
            self.remove(id, partition, sequence);
        } else if !lonely || lane.slots.is_past(sequence) {
            lane.keep(sequence);
            if let Some(offset) = lane.slots.get(sequence).map(|slot| slot.offset) {
                self.runs.close_step(id, offset);
            }
            let first = self.kept_anew.entry((id, partition)).or_insert(sequence);
            *first = sequence.min(*first);
        }
    }

    /// Drops what is kept below an offset although every group is done with it.
    pub(crate) fn on_trimmed(&mut self, id: TopicId, partition: u32, below: u64) -> Result<(), Malformed> {
        let mut from = 0;
        loop {
            let lane = self.topic_mut(id)?.partitions.get(partition as usize).ok_or(CONTRADICTION)?;
            let Some(sequence) = lane.slots.next_kept(from) else { return Ok(()) };
            if lane.slots.get(sequence).is_none_or(|slot| slot.offset >= below) {
                return Ok(());
            }
            self.remove(id, partition, sequence);
            from = sequence + 1;
        }
    }

    /// Takes a message out of its partition; its payload is no longer needed.
    fn remove(&mut self, topic: TopicId, partition: u32, sequence: u64) {
        let Ok(topic) = self.topic_mut(topic) else { return };
        let Some(lane) = topic.partitions.get_mut(partition as usize) else { return };
        let Some(slot) = lane.slots.get(sequence).copied() else { return };
        let origin = lane.slots.origin(sequence);
        lane.count_out(slot.size, lane.slots.is_past(sequence));
        lane.slots.remove(sequence);
        let (id, tenant) = (topic.id, topic.tenant.clone());
        if let Some(tenant) = tenant {
            self.tenants.remove_message(&tenant, slot.size);
        }
        self.descent.remove(origin);
        self.runs.close_step(id, slot.offset);
        self.policies.release(slot.policy);
        self.unpin(slot.position.segment(), slot.length);
    }

    pub(crate) fn unpin(&mut self, segment: u32, length: u32) {
        if let Some(live) = self.live.get_mut(&segment) {
            *live -= u64::from(length);
            if *live == 0 {
                self.live.remove(&segment);
            }
        }
    }

    pub(crate) fn on_group_expired(&mut self, id: TopicId, group: GroupId) -> Result<(), Malformed> {
        let topic = self.topic_mut(id)?;
        let group = topic.groups.remove(&group).ok_or(CONTRADICTION)?;
        topic.group_names.remove(&group.name);
        let mut owed = Vec::new();
        for ((partition, progress), lane) in (0_u32..).zip(&group.progress).zip(&topic.partitions) {
            owed.extend(lane.owed_by(progress).into_iter().map(|sequence| (partition, sequence)));
        }
        self.done_records -= group.done.len() as u64;
        for (partition, sequence) in owed {
            self.let_go(id, partition, sequence);
        }
        Ok(())
    }

    pub(crate) fn on_expired(&mut self, id: TopicId, partition: u32, below: u64) -> Result<(), Malformed> {
        let topic = self.topic_mut(id)?;
        let lane = topic.partitions.get(partition as usize).ok_or(CONTRADICTION)?;
        let leaving: Vec<u64> = lane
            .slots
            .iter()
            .take_while(|(_, slot)| slot.offset < below)
            .map(|(sequence, _)| sequence)
            .collect();
        for group in topic.groups.values_mut() {
            let progress = group.progress.get_mut(partition as usize).ok_or(CONTRADICTION)?;
            for &sequence in &leaving {
                progress.settle(sequence);
            }
        }
        for sequence in leaving {
            self.remove(id, partition, sequence);
        }
        Ok(())
    }

    pub(crate) fn on_forgotten(
        &mut self,
        group: Option<(TopicId, GroupId)>,
        upto: Time,
        most: u32,
    ) -> Result<(), Malformed> {
        let Some((topic, group)) = group else {
            self.stored.forget(upto, most);
            return Ok(());
        };
        let done = &mut self.topic_mut(topic)?.groups.get_mut(&group).ok_or(CONTRADICTION)?.done;
        let before = done.len();
        done.forget(upto, most);
        let gone = before - done.len();
        self.done_records -= gone as u64;
        Ok(())
    }

    pub(crate) fn on_moved(
        &mut self,
        end: Position,
        id: TopicId,
        partition: u32,
        offset: u64,
        length: usize,
    ) -> Result<(), Malformed> {
        let lane = self.topic_mut(id)?.partitions.get_mut(partition as usize).ok_or(CONTRADICTION)?;
        let Lookup::Here(sequence) = lane.slots.find(offset) else { return Err(CONTRADICTION) };
        let slot = lane.slots.get_mut(sequence).ok_or(CONTRADICTION)?;
        if slot.length as usize != length {
            return Err(CONTRADICTION);
        }
        let (old, length) = (slot.position.segment(), slot.length);
        slot.position = Position(end.0 - u64::from(length));
        let new = slot.position.segment();
        *self.live.entry(new).or_default() += u64::from(length);
        self.unpin(old, length);
        Ok(())
    }
}
