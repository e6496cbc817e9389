//! Effects as bytes, and back.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::ledger::OnLapse;
use crate::log::effect::{put_receipt, status_byte, take_receipt, take_status};
use crate::state::effect::record::{Effect, Effects};
use crate::words::blob::Blob;
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Position, RequestHash, Spotted, Time, TopicId};

/// The least bytes that a record takes.
const RECORD_BYTES_LEAST: usize = 134;

impl Effects {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.len() * 160);
        out.put_u64(self.last);
        out.put_u32(u32::try_from(self.len()).expect("effects are bounded far below 4 Gi"));
        for (number, effect) in self.after(0) {
            out.put_u64(number);
            put_effect(out, &effect);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>, seed: u64) -> Result<Self, Malformed> {
        let mut effects = Self::new(seed);
        effects.last = take.u64()?;
        let mut before = 0;
        for _ in 0..take.count(RECORD_BYTES_LEAST)? {
            let number = take.u64()?;
            let effect = take_effect(take)?;
            if number <= before || number > effects.last || effects.number_of(&effect.identity).is_some() {
                return Err(take.malformed());
            }
            before = number;
            effects.add(number, &effect);
        }
        if effects.last > u64::MAX / 4 {
            return Err(take.malformed());
        }
        Ok(effects)
    }
}

fn put_effect(out: &mut Vec<u8>, effect: &Effect) {
    out.extend_from_slice(&effect.identity.0);
    out.put_u64(effect.request.0);
    out.put_u8(status_byte(effect.status));
    let given = [
        effect.on_lapse == OnLapse::Hold,
        effect.attempts_max.is_some(),
        effect.ending.is_some(),
        effect.tie.is_some(),
        effect.message.is_some(),
        effect.released,
        effect.delivery > 0,
        effect.raised,
    ];
    out.put_u8(given.iter().enumerate().fold(0, |bits, (bit, given)| bits | u8::from(*given) << bit));
    for number in [effect.epoch, effect.attempts, effect.tenant, effect.scope] {
        out.put_u32(number);
    }
    out.put_u64(effect.run);
    put_blob(out, effect.about);
    for long in [effect.digest, effect.caller, effect.ttl_ms] {
        out.put_u64(long);
    }
    for time in [effect.created, effect.begun, effect.until, effect.ended] {
        out.put_u64(time.0);
    }
    out.put_text(&effect.owner);
    if let Some(most) = effect.attempts_max {
        out.put_u32(most);
    }
    if let Some(ending) = effect.ending {
        put_blob(out, ending);
    }
    if let Some(tie) = &effect.tie {
        put_receipt(out, tie);
    }
    if let Some(message) = effect.message {
        out.put_u32(message.topic.0);
        out.put_u32(message.partition);
        out.put_u64(message.offset);
    }
    if effect.delivery > 0 {
        out.put_u32(effect.delivery);
    }
}

fn take_effect(take: &mut Take<'_>) -> Result<Effect, Malformed> {
    let (identity, request) = (take.identity()?, RequestHash(take.u64()?));
    let status = take_status(take)?;
    let given = take.u8()?;
    let given = |bit: u8| given >> bit & 1 != 0;
    let mut effect = Effect {
        identity,
        request,
        status,
        on_lapse: if given(0) { OnLapse::Hold } else { OnLapse::Retry },
        released: given(5),
        raised: given(7),
        epoch: take.u32()?,
        attempts: take.u32()?,
        attempts_max: None,
        tenant: take.u32()?,
        scope: take.u32()?,
        run: take.u64()?,
        about: take_blob(take)?,
        ending: None,
        digest: take.u64()?,
        caller: take.u64()?,
        ttl_ms: take.u64()?,
        created: Time(take.u64()?),
        begun: Time(take.u64()?),
        until: Time(take.u64()?),
        ended: Time(take.u64()?),
        owner: take.text()?.into(),
        tie: None,
        message: None,
        delivery: 0,
    };
    if given(1) {
        effect.attempts_max = Some(take.u32()?).filter(|most| *most > 0);
    }
    if given(2) {
        effect.ending = Some(take_blob(take)?);
    }
    if given(3) {
        effect.tie = Some(Box::new(take_receipt(take)?));
    }
    if given(4) {
        let topic = TopicId(take.u32()?);
        effect.message = Some(Spotted { topic, partition: take.u32()?, offset: take.u64()? });
    }
    if given(6) {
        effect.delivery = take.u32()?;
    }
    Ok(effect)
}

fn put_blob(out: &mut Vec<u8>, blob: Blob) {
    out.put_u64(blob.position.0);
    out.put_u32(blob.length);
    out.put_u32(blob.check);
}

fn take_blob(take: &mut Take<'_>) -> Result<Blob, Malformed> {
    Ok(Blob { position: Position(take.u64()?), length: take.u32()?, check: take.u32()? })
}
