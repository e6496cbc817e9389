//! Records of effects, and the ways to find them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::action::Receipt;
use crate::effect::blob::Blob;
use crate::effect::fact::{EffectPart, Lent};
use crate::effect::rules::{OnLapse, Status};
use crate::id::{GroupId, Identity, RequestHash, Time, TopicId};
use crate::input::Spotted;

/// What is known of an effect without looking into the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) identity: Identity,
    pub(crate) request: RequestHash,
    pub(crate) status: Status,
    pub(crate) on_lapse: OnLapse,
    pub(crate) epoch: u32,
    pub(crate) attempts: u32,
    pub(crate) attempts_max: Option<u32>,
    /// Hashes of tenant and scope: enough to skip most of what a list does not ask for.
    pub(crate) tenant: u32,
    pub(crate) scope: u32,
    /// Who it is, in full.
    pub(crate) about: Blob,
    /// How it ended, in full.
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
    /// Who has or had the newest lease, for people who look.
    pub(crate) owner: Box<str>,
    /// The delivery that the newest lease is tied to.
    pub(crate) tie: Option<Box<Receipt>>,
    /// The message on whose behalf it was begun first.
    pub(crate) message: Option<Spotted>,
    /// Number of the run that it belongs to; zero for none.
    pub(crate) run: u64,
}

impl Effect {
    /// Until when the record counts, if nobody touches it again; never for what may have happened.
    pub(crate) fn expires(&self) -> Time {
        match self.status {
            Status::Succeeded | Status::FailedFinal | Status::FailedRetryable => {
                self.ended.after_ms(self.ttl_ms)
            }
            Status::InProgress if self.on_lapse == OnLapse::Retry => self.until.after_ms(self.ttl_ms),
            Status::InProgress | Status::Unknown => Time::NEVER,
        }
    }

    /// Where a record with this number is found by the delivery that its newest lease is tied to.
    fn tie_key(&self, number: u64) -> Option<(TopicId, u64, GroupId, u64)> {
        self.tie.as_deref().map(|tie| (tie.topic, tie.offset, tie.group, number))
    }

    /// A lease begins.
    pub(crate) fn lend(&mut self, lent: &Lent<'_>) {
        self.status = Status::InProgress;
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
/// Trees and no hash tables: a table that doubles in the middle of a million records holds everybody up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// The number that the next new record gets, less one.
    pub(crate) last: u64,
    records: BTreeMap<u64, Box<Effect>>,
    names: BTreeMap<Identity, u64>,
    /// Records that are not over, by how they stand.
    open: BTreeMap<Status, BTreeSet<u64>>,
    /// Records by the time at which they stop to count.
    expiries: BTreeSet<(Time, u64)>,
    /// Records whose newest lease is tied to a delivery of a message to a group.
    tied: BTreeSet<(TopicId, u64, GroupId, u64)>,
}

impl Effects {
    pub(crate) fn get(&self, number: u64) -> Option<&Effect> {
        self.records.get(&number).map(|effect| &**effect)
    }

    pub(crate) fn find(&self, identity: &Identity) -> Option<(u64, &Effect)> {
        let number = *self.names.get(identity)?;
        Some((number, self.get(number)?))
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// All records, oldest first, beginning after a number.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = (u64, &Effect)> {
        let from = number.saturating_add(1);
        self.records.range(from..).map(|(number, effect)| (*number, &**effect))
    }

    /// Numbers of records that are not over and stand like this, oldest first, beginning after a number.
    pub(crate) fn open_after(&self, status: Status, number: u64) -> impl Iterator<Item = u64> {
        let from = number.saturating_add(1);
        self.open.get(&status).into_iter().flat_map(move |open| open.range(from..).copied())
    }

    /// How many records are not over and stand like this.
    pub(crate) fn open_count(&self, status: Status) -> usize {
        self.open.get(&status).map_or(0, BTreeSet::len)
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

    /// The record that stops to count first, and when.
    pub(crate) fn first_to_go(&self) -> Option<(Time, u64)> {
        self.expiries.first().copied()
    }

    /// Records that stop to count at `now` or earlier, first to go first.
    pub(crate) fn gone_by(&self, now: Time) -> impl Iterator<Item = (u64, &Effect)> {
        let gone = self.expiries.iter().take_while(move |(at, _)| *at <= now);
        gone.filter_map(|(_, number)| Some((*number, self.get(*number)?)))
    }

    /// Adds a record.
    pub(crate) fn add(&mut self, number: u64, effect: Effect) {
        self.list(number, effect.status, effect.expires());
        self.tied.extend(effect.tie_key(number));
        self.names.insert(effect.identity, number);
        self.records.insert(number, Box::new(effect));
    }

    /// Changes a record; `None` if there is none.
    pub(crate) fn change<T>(&mut self, number: u64, change: impl FnOnce(&mut Effect) -> T) -> Option<T> {
        let effect = self.records.get_mut(&number)?;
        let (before, tie_before) = ((effect.status, effect.expires()), effect.tie_key(number));
        let result = change(effect);
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
        Some(result)
    }

    /// Drops a record.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Box<Effect>> {
        let effect = self.records.remove(&number)?;
        self.unlist(number, effect.status, effect.expires());
        if let Some(tie) = effect.tie_key(number) {
            self.tied.remove(&tie);
        }
        self.names.remove(&effect.identity);
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
