//! Records of effects, and the ways to find them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, btree_map};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ledger::{OnLapse, Status};
use crate::log::effect::Lent;
use crate::state::effect::packed::Packed;
use crate::state::sorted::Sorted;
use crate::state::table::{SeededHash, Table};
use crate::words::blob::Blob;
use crate::words::effect::EffectPart;
use crate::words::id::{GroupId, Identity, RequestHash, Spotted, Time, TopicId};
use crate::words::receipt::Receipt;

/// What is known of an effect without looking into the log. Kept [packed](Packed): each lookup makes a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) identity: Identity,
    pub(crate) request: RequestHash,
    pub(crate) status: Status,
    pub(crate) on_lapse: OnLapse,
    /// The holder of the newest lease gave it up: nothing was sent.
    pub(crate) released: bool,
    /// It was begun on the condition that entities have certain versions, and has raised them.
    pub(crate) raised: bool,
    pub(crate) epoch: u32,
    pub(crate) attempts: u32,
    pub(crate) attempts_max: Option<u32>,
    /// Hashes of tenant and scope: enough to skip most of what a list does not ask for.
    pub(crate) tenant: u32,
    pub(crate) scope: u32,
    /// Its identity in full.
    pub(crate) about: Blob,
    /// How it ended in full.
    pub(crate) ending: Option<Blob>,
    /// Tells its ending from any other.
    pub(crate) digest: u64,
    /// Names the call that got the newest lease; zero if it has no name.
    pub(crate) caller: u64,
    pub(crate) created: Time,
    /// When the newest lease was given.
    pub(crate) begun: Time,
    /// When the newest lease lapses by its own clock.
    pub(crate) until: Time,
    /// When it ended, or was found to have lapsed; zero while it is in progress.
    pub(crate) ended: Time,
    pub(crate) ttl_ms: u64,
    /// Who has or had the newest lease, for display.
    pub(crate) owner: Arc<str>,
    /// The delivery that the newest lease is tied to.
    pub(crate) tie: Option<Box<Receipt>>,
    /// Where the message was born on whose behalf it was begun first. While that message may come again, in whatever
    /// form, the record counts.
    pub(crate) message: Option<Spotted>,
    /// Which delivery of its message the newest lease was begun for, counted from 1; zero if there is none.
    pub(crate) delivery: u32,
    /// Number of the run that it belongs to; zero for none.
    pub(crate) run: u64,
}

impl Effect {
    /// Until when the record counts, if no asker or holder touches it again; never for what may have happened.
    pub(crate) fn expires(&self) -> Time {
        match self.status {
            Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => {
                self.ended.after_ms(self.ttl_ms)
            }
            Status::InProgress if self.on_lapse == OnLapse::Retry || self.released => {
                self.until.after_ms(self.ttl_ms)
            }
            Status::InProgress | Status::Unknown => Time::NEVER,
        }
    }

    /// Where a record with this number is found by the delivery that its newest lease is tied to.
    fn tie_key(&self, number: u64) -> Option<(TopicId, u64, GroupId, u64)> {
        self.tie.as_deref().map(|tie| (tie.topic, tie.offset, tie.group, number))
    }

    /// A lease begins; `delivery` counts the deliveries of the message that it is tied to, zero if it is not.
    pub(crate) fn lend(&mut self, lent: &Lent<'_>, delivery: u32) {
        let place = lent.tie.map(|tie| (tie.topic, tie.partition, tie.offset));
        if place == self.message.map(|message| (message.topic, message.partition, message.offset)) {
            self.delivery = delivery;
        }
        self.status = Status::InProgress;
        self.released = false;
        self.on_lapse = lent.on_lapse;
        self.epoch = lent.epoch;
        self.attempts = lent.attempt;
        self.attempts_max = lent.attempts_max;
        self.caller = lent.caller;
        self.begun = lent.at;
        self.until = lent.until;
        self.ended = Time(0);
        self.ttl_ms = lent.ttl_ms;
        self.tie = lent.tie.map(Box::new);
        if *self.owner != *lent.owner {
            self.owner = lent.owner.into();
        }
    }

    /// The holder of the newest lease gives it up.
    pub(crate) fn give_up(&mut self, epoch: u32, at: Time) {
        self.status = Status::InProgress;
        self.released = true;
        self.epoch = epoch;
        self.attempts = self.attempts.saturating_sub(1);
        self.caller = 0;
        self.until = at;
        self.ended = Time(0);
        self.tie = None;
    }

    pub(crate) const fn blob(&self, part: EffectPart) -> Option<Blob> {
        match part {
            EffectPart::About => Some(self.about),
            EffectPart::Ending => self.ending,
        }
    }

    /// The same bytes lie elsewhere now.
    pub(crate) const fn relocate(&mut self, part: EffectPart, blob: Blob) {
        match part {
            EffectPart::About => self.about = blob,
            EffectPart::Ending => self.ending = Some(blob),
        }
    }
}

/// All effects of a shard.
///
/// Small arrays in trees, and a table that grows in parts: what doubles in the middle of a million records holds up
/// every caller.
#[derive(Clone, Debug)]
pub(crate) struct Effects {
    /// The number that the next new record gets, less one.
    pub(crate) last: u64,
    records: Packed,
    /// Numbers by the first half of an identity; the record has the whole of it.
    names: Table<u64, u64>,
    /// Numbers of records whose half another record had when they came.
    namesakes: BTreeMap<Identity, u64>,
    /// Records that are not over, by how they stand.
    open: BTreeMap<Status, Sorted<u64>>,
    /// Records by the time at which they stop counting.
    expiries: Sorted<(Time, u64)>,
    /// Records whose newest lease is tied to a delivery of a message to a group.
    tied: BTreeSet<(TopicId, u64, GroupId, u64)>,
    /// How many records there are by the hash of their tenant.
    of_tenants: BTreeMap<u32, u64>,
}

/// The first half of an identity, which is a digest: hardly ever shared with another one.
fn half(identity: &Identity) -> u64 {
    identity.0.first_chunk().map_or(0, |half| u64::from_be_bytes(*half))
}

impl Effects {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            last: 0,
            records: Packed::default(),
            names: Table::new(SeededHash(seed)),
            namesakes: BTreeMap::new(),
            open: BTreeMap::new(),
            expiries: Sorted::default(),
            tied: BTreeSet::new(),
            of_tenants: BTreeMap::new(),
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<Effect> {
        self.records.get(number)
    }

    pub(crate) fn find(&self, identity: &Identity) -> Option<(u64, Effect)> {
        let number = self.number_of(identity)?;
        Some((number, self.get(number)?))
    }

    /// The number of the record with this identity.
    pub(crate) fn number_of(&self, identity: &Identity) -> Option<u64> {
        let of_half = self.names.get(&half(identity)).copied();
        let own = of_half.filter(|number| self.records.identity(*number) == Some(*identity));
        own.or_else(|| self.namesakes.get(identity).copied())
    }

    pub(crate) const fn len(&self) -> usize {
        self.records.len()
    }

    /// How many records there are of a tenant, by the hash of its name.
    pub(crate) fn count_of_tenant(&self, tenant: u32) -> u64 {
        self.of_tenants.get(&tenant).copied().unwrap_or(0)
    }

    /// The hashes of tenant and scope of all records.
    pub(crate) fn scopes(&self) -> BTreeSet<(u32, u32)> {
        self.after(0).map(|(_, effect)| (effect.tenant, effect.scope)).collect()
    }

    /// All records, oldest first, beginning after a number.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = (u64, Effect)> {
        self.records.from(number.saturating_add(1))
    }

    /// Numbers of records that are not over and stand like this, oldest first, beginning after a number.
    pub(crate) fn open_after(&self, status: Status, number: u64) -> impl Iterator<Item = u64> {
        let from = number.saturating_add(1);
        self.open.get(&status).into_iter().flat_map(move |open| open.from(from))
    }

    /// How many records are not over and stand like this.
    pub(crate) fn open_count(&self, status: Status) -> usize {
        self.open.get(&status).map_or(0, Sorted::len)
    }

    /// Records whose newest lease is tied to a delivery of a message to a group.
    pub(crate) fn tied_to(&self, topic: TopicId, offset: u64, group: GroupId) -> Vec<u64> {
        // Nearly always: most messages have no effects.
        if self.tied.is_empty() {
            return Vec::new();
        }
        let range = (topic, offset, group, 0)..=(topic, offset, group, u64::MAX);
        self.tied.range(range).map(|(.., number)| *number).collect()
    }

    /// The record that stops counting first, and when.
    pub(crate) fn first_to_go(&self) -> Option<(Time, u64)> {
        self.expiries.first()
    }

    /// Records that stop counting at `now` or earlier, first to go first, beginning after one of them.
    pub(crate) fn gone_by(
        &self,
        now: Time,
        past: (Time, u64),
    ) -> impl Iterator<Item = ((Time, u64), Effect)> {
        let gone = self
            .expiries
            .from(past)
            .skip_while(move |place| *place <= past)
            .take_while(move |(at, _)| *at <= now);
        gone.filter_map(|place| Some((place, self.get(place.1)?)))
    }

    pub(crate) fn add(&mut self, number: u64, effect: &Effect) {
        self.list(number, effect.status, effect.expires());
        self.tied.extend(effect.tie_key(number));
        if self.names.get(&half(&effect.identity)).is_none() {
            self.names.insert(half(&effect.identity), number);
        } else {
            self.namesakes.insert(effect.identity, number);
        }
        *self.of_tenants.entry(effect.tenant).or_default() += 1;
        self.records.put(number, effect);
    }

    /// Changes a record; `None` if there is none.
    pub(crate) fn change<T>(&mut self, number: u64, change: impl FnOnce(&mut Effect) -> T) -> Option<T> {
        let mut effect = self.get(number)?;
        let (before, tie_before) = ((effect.status, effect.expires()), effect.tie_key(number));
        let result = change(&mut effect);
        let (after, tie_after) = ((effect.status, effect.expires()), effect.tie_key(number));
        if tie_before != tie_after {
            if let Some(tie) = tie_before {
                self.tied.remove(&tie);
            }
            self.tied.extend(tie_after);
        }
        if before != after {
            self.unlist(number, before.0, before.1);
            self.list(number, after.0, after.1);
        }
        self.records.put(number, &effect);
        Some(result)
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Effect> {
        let effect = self.records.remove(number)?;
        self.unlist(number, effect.status, effect.expires());
        if let Some(tie) = effect.tie_key(number) {
            self.tied.remove(&tie);
        }
        if self.namesakes.remove(&effect.identity).is_none() {
            self.names.remove(&half(&effect.identity));
        }
        if let btree_map::Entry::Occupied(mut count) = self.of_tenants.entry(effect.tenant) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(effect)
    }

    fn list(&mut self, number: u64, status: Status, expires: Time) {
        if !status.is_final() {
            self.open.entry(status).or_default().insert(number);
        }
        if expires < Time::NEVER {
            self.expiries.insert((expires, number));
        }
    }

    fn unlist(&mut self, number: u64, status: Status, expires: Time) {
        if let Some(open) = self.open.get_mut(&status) {
            open.remove(&number);
        }
        self.expiries.remove(&(expires, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::effect::packed::tests::drawn;

    /// Identities are digests; these share their first halves by intent.
    #[test]
    fn records_are_told_apart_though_their_identities_begin_alike() {
        let (mut effects, mut known, mut seed) = (Effects::new(1), BTreeMap::new(), 1);
        let identity = |half: u64, rest: u64| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(half % 5).to_be_bytes());
            bytes[8..].copy_from_slice(&(rest % 7).to_be_bytes());
            Identity(bytes)
        };
        for number in 1..20_000_u64 {
            let effect = Effect { identity: identity(number, number / 5), ..drawn(&mut seed) };
            // The one that was there makes room, as a record does whose time is over.
            if let Some(before) = known.insert(effect.identity, number) {
                assert_eq!(effects.remove(before).map(|before| before.identity), Some(effect.identity));
            }
            effects.add(number, &effect);
            let gone = identity(number * 3, number / 11);
            if number % 2 == 0
                && let Some(gone) = known.remove(&gone)
            {
                effects.remove(gone);
            }
            for (half, rest) in (0..5).flat_map(|half| (0..7).map(move |rest| (half, rest))) {
                let identity = identity(half, rest);
                assert_eq!(effects.number_of(&identity), known.get(&identity).copied(), "after {number}");
            }
            assert_eq!(effects.len(), known.len());
        }
    }
}
