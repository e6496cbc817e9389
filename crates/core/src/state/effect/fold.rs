//! What each fact about an effect does to the state.

use crate::ledger::Status;
use crate::log::effect::{BegunFact, EffectFact, EndedFact};
use crate::state::State;
use crate::state::effect::record::Effect;
use crate::state::slot::Lookup;
use crate::words::blob::Blob;
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::effect::EffectPart;
use crate::words::id::{Position, Spotted, Time};
use crate::words::receipt::Receipt;

impl State {
    pub(crate) fn on_effect(&mut self, end: Position, fact: &EffectFact<'_>) -> Result<(), Malformed> {
        match fact {
            EffectFact::Begun(begun) => self.on_effect_begun(end, begun),
            EffectFact::Taken { number, lent } => {
                self.touch_run_of(*number, lent.at);
                let message = lent.tie.map(|tie| self.origin_of(message_of(&tie)));
                let delivery = lent.tie.map_or(0, |tie| self.delivery_count(&tie));
                let take = |effect: &mut Effect| {
                    effect.lend(lent, delivery);
                    effect.message = effect.message.or(message);
                };
                self.effects.change(*number, take).ok_or(CONTRADICTION)
            }
            EffectFact::Renewed { number, until } => {
                let renew = |effect: &mut Effect| {
                    effect.status = Status::InProgress;
                    effect.until = *until;
                    effect.ended = Time(0);
                };
                self.effects.change(*number, renew).ok_or(CONTRADICTION)
            }
            EffectFact::Ended(ended) => self.on_effect_ended(end, ended),
            EffectFact::Lapsed { number, at } => {
                let lapse = |effect: &mut Effect| {
                    effect.status = Status::Unknown;
                    effect.ended = *at;
                };
                self.effects.change(*number, lapse).ok_or(CONTRADICTION)
            }
            EffectFact::Swept { numbers } => {
                for number in numbers.as_chunks::<8>().0 {
                    self.forget_effect(u64::from_le_bytes(*number));
                }
                Ok(())
            }
            EffectFact::Released { number, epoch, at } => {
                self.touch_run_of(*number, *at);
                self.effects.change(*number, |effect| effect.give_up(*epoch, *at)).ok_or(CONTRADICTION)
            }
            EffectFact::Moved { number, part, bytes } => self.on_effect_moved(end, *number, *part, bytes),
        }
    }

    fn on_effect_begun(&mut self, end: Position, begun: &BegunFact<'_>) -> Result<(), Malformed> {
        if begun.number <= self.effects.last || begun.number > u64::MAX / 2 {
            return Err(CONTRADICTION);
        }
        self.effects.last = begun.number;
        // A record of the same name whose time is over makes room.
        if let Some((old, _)) = self.effects.find(&begun.identity) {
            self.forget_effect(old);
        }
        let about = self.pin(end, begun.bytes, begun.check)?;
        let delivery = begun.lent.tie.map(|tie| message_of(&tie));
        let message = delivery.map(|place| self.origin_of(place));
        let run = self.runs.note_effect(delivery, (begun.whose, begun.run), begun.number, begun.lent.at);
        let mut effect = Effect {
            identity: begun.identity,
            request: begun.request,
            status: Status::InProgress,
            on_lapse: begun.lent.on_lapse,
            released: false,
            raised: false,
            epoch: 0,
            attempts: 0,
            attempts_max: None,
            tenant: begun.tenant,
            scope: begun.scope,
            about,
            ending: None,
            digest: 0,
            caller: 0,
            created: begun.lent.at,
            begun: begun.lent.at,
            until: begun.lent.until,
            ended: Time(0),
            ttl_ms: 0,
            owner: alloc::sync::Arc::default(),
            tie: None,
            message,
            delivery: 0,
            run,
        };
        effect.lend(&begun.lent, begun.lent.tie.map_or(0, |tie| self.delivery_count(&tie)));
        self.effects.add(begun.number, &effect);
        Ok(())
    }

    fn on_effect_ended(&mut self, end: Position, ended: &EndedFact<'_>) -> Result<(), Malformed> {
        let ending = self.pin(end, ended.bytes, ended.check)?;
        let finish = |effect: &mut Effect| {
            effect.status = ended.status;
            effect.released = false;
            effect.epoch = ended.epoch;
            effect.attempts_max = ended.attempts_max;
            effect.ended = ended.at;
            effect.ttl_ms = ended.expires.since_ms(ended.at);
            effect.digest = ended.digest;
            effect.tie = None;
            (effect.ending.replace(ending), effect.run)
        };
        let (before, run) = self.effects.change(ended.number, finish).ok_or(CONTRADICTION)?;
        if let Some(before) = before {
            self.unpin(before.position.segment(), before.length);
        }
        self.runs.touch(run, ended.at);
        Ok(())
    }

    fn on_effect_moved(
        &mut self,
        end: Position,
        number: u64,
        part: EffectPart,
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        let old = self.effects.get(number).and_then(|effect| effect.blob(part)).ok_or(CONTRADICTION)?;
        if old.length as usize != bytes.len() {
            return Err(CONTRADICTION);
        }
        let new = self.pin(end, bytes, old.check)?;
        self.effects.change(number, |effect| effect.relocate(part, new));
        self.unpin(old.position.segment(), old.length);
        Ok(())
    }

    /// Which delivery of its message a receipt stands for, counted from 1; zero if it is not the newest.
    fn delivery_count(&self, receipt: &Receipt) -> u32 {
        let count = || {
            let progress = self.topic(receipt.topic)?.progress(receipt.group, receipt.partition)?;
            let lane = self.lane(receipt.topic, receipt.partition)?;
            let Lookup::Here(sequence) = lane.slots.find(receipt.offset) else { return None };
            let pending = progress.pending.get(&sequence)?;
            (pending.token == receipt.token).then_some(pending.attempts)
        };
        count().unwrap_or(0)
    }

    fn forget_effect(&mut self, number: u64) {
        let Some(effect) = self.effects.remove(number) else { return };
        for blob in [Some(effect.about), effect.ending].into_iter().flatten() {
            self.unpin(blob.position.segment(), blob.length);
        }
        self.runs.forget_effect(effect.run);
    }

    fn touch_run_of(&mut self, number: u64, at: Time) {
        if let Some(effect) = self.effects.get(number) {
            self.runs.touch(effect.run, at);
        }
    }

    /// Counts the bytes of all effects as needed, after a snapshot was read.
    pub(crate) fn pin_effects(&mut self) {
        let blobs = self.effects.after(0).flat_map(|(_, effect)| [Some(effect.about), effect.ending]);
        for blob in blobs.flatten().filter(|blob| blob.length > 0) {
            *self.live.entry(blob.position.segment()).or_default() += u64::from(blob.length);
        }
    }

    /// Counts bytes that lie at the end of a fact as needed.
    fn pin(&mut self, end: Position, bytes: &[u8], check: u32) -> Result<Blob, Malformed> {
        let length = u32::try_from(bytes.len()).map_err(|_| CONTRADICTION)?;
        let position = Position(end.0 - u64::from(length));
        if length > 0 {
            *self.live.entry(position.segment()).or_default() += u64::from(length);
        }
        Ok(Blob { position, length, check })
    }
}

const fn message_of(receipt: &Receipt) -> Spotted {
    Spotted { topic: receipt.topic, partition: receipt.partition, offset: receipt.offset }
}
