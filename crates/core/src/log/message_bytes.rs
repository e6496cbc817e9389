//! The bytes of facts that store a message.

use alloc::vec::Vec;

use crate::log::fact::MessageFact;
use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::{GroupId, KeyHash, RequestHash, Time, TopicId};
use crate::words::origin::{put_place, take_place};
use crate::words::policy::RetryPolicy;
use crate::words::run::Lineage;

pub(crate) const APPENDED: u8 = 3;
// A message of a run: the run goes before it.
pub(crate) const APPENDED_IN_RUN: u8 = 26;
// A message with more before it than a run: a byte that says what, and then that.
pub(crate) const APPENDED_MORE: u8 = 29;

/// What may go before a message of the kind [`APPENDED_MORE`].
const MORE_LINEAGE: u8 = 1;
const MORE_ORIGIN: u8 = 1 << 1;
const MORE_DEADLINE: u8 = 1 << 2;
/// Whose the run is; only where there is a run.
const MORE_TENANT: u8 = 1 << 3;

impl<'a> MessageFact<'a> {
    /// The kind, and what most messages lack: it goes before the rest.
    fn encode_before(&self, out: &mut Vec<u8>) {
        let tenant = self.lineage.map(|lineage| lineage.tenant).filter(|tenant| !tenant.is_empty());
        if self.origin.is_none() && self.deadline.is_none() && tenant.is_none() {
            out.put_u8(if self.lineage.is_some() { APPENDED_IN_RUN } else { APPENDED });
        } else {
            out.put_u8(APPENDED_MORE);
            let (origin, deadline) = (self.origin.is_some(), self.deadline.is_some());
            let more = [self.lineage.is_some(), origin, deadline, tenant.is_some()];
            out.put_u8(more.iter().enumerate().fold(0, |bits, (bit, given)| bits | u8::from(*given) << bit));
        }
        if let Some(lineage) = &self.lineage {
            lineage.encode(out);
        }
        if let Some(tenant) = tenant {
            out.put_text(tenant);
        }
        if let Some(origin) = self.origin {
            put_place(out, origin);
        }
        if let Some(deadline) = self.deadline {
            out.put_u64(deadline.0);
        }
    }

    /// Reads what [`MessageFact::encode_before`] wrote after the kind.
    fn decode_before(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let more = if kind == APPENDED_MORE { take.u8()? } else { MORE_LINEAGE };
        let odd = more & MORE_TENANT != 0 && more & MORE_LINEAGE == 0;
        if odd || more & !(MORE_LINEAGE | MORE_ORIGIN | MORE_DEADLINE | MORE_TENANT) != 0 {
            return Err(Malformed("message with parts of an unknown kind"));
        }
        let mut lineage = if more & MORE_LINEAGE == 0 { None } else { Some(Lineage::decode(take)?) };
        if let Some(lineage) = lineage.as_mut().filter(|_| more & MORE_TENANT != 0) {
            lineage.tenant = take.text()?;
        }
        Ok(Self {
            lineage,
            origin: if more & MORE_ORIGIN == 0 { None } else { Some(take_place(take)?) },
            deadline: if more & MORE_DEADLINE == 0 { None } else { Some(Time(take.u64()?)) },
            ..Self::default()
        })
    }

    /// Appends the kind and the fields.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_before(out);
        out.put_u32(self.topic.0);
        out.put_u32(self.partition);
        out.put_u64(self.offset);
        out.put_u64(self.at.0);
        out.put_u32(self.size);
        out.put_u32(self.check);
        let options = [
            self.retry.is_some(),
            self.identity.is_some(),
            self.retry.is_some_and(RetryPolicy::has_jitter),
            self.request != RequestHash::NONE,
            self.key != KeyHash::NONE,
            self.priority != 0,
            self.due.is_some(),
            self.only.is_some(),
        ];
        out.put_u8(options.iter().enumerate().fold(0, |bits, (bit, given)| bits | u8::from(*given) << bit));
        if let Some(retry) = self.retry {
            retry.encode(out);
            retry.encode_jitter(out);
        }
        if let Some((identity, until)) = self.identity {
            out.extend_from_slice(&identity.0);
            out.put_u64(until.0);
        }
        if self.request != RequestHash::NONE {
            out.put_u64(self.request.0);
        }
        if self.key != KeyHash::NONE {
            out.put_u64(self.key.0);
        }
        if self.priority != 0 {
            out.put_u8(self.priority);
        }
        if let Some(due) = self.due {
            out.put_u64(due.0);
        }
        if let Some(group) = self.only {
            out.put_u32(group.0);
        }
        out.put_bytes(self.bytes);
    }

    /// Reads what follows the kind, which must be one that stores a message.
    pub(crate) fn decode_kind(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        match kind {
            APPENDED | APPENDED_IN_RUN | APPENDED_MORE => Self::decode(kind, take),
            _ => Err(UNKNOWN_KIND),
        }
    }

    /// Reads what follows the kind.
    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let before = if kind == APPENDED { Self::default() } else { Self::decode_before(kind, take)? };
        let mut fact = Self {
            topic: TopicId(take.u32()?),
            partition: take.u32()?,
            offset: take.u64()?,
            at: Time(take.u64()?),
            size: take.u32()?,
            check: take.u32()?,
            ..before
        };
        let options = take.u8()?;
        let given = |bit: u8| options >> bit & 1 != 0;
        if given(0) {
            fact.retry = Some(RetryPolicy::decode(take, given(2))?);
        }
        if given(1) {
            fact.identity = Some((take.identity()?, Time(take.u64()?)));
        }
        if given(3) {
            fact.request = RequestHash(take.u64()?);
        }
        if given(4) {
            fact.key = KeyHash(take.u64()?);
        }
        if given(5) {
            fact.priority = take.u8()?;
        }
        if given(6) {
            fact.due = Some(Time(take.u64()?));
        }
        if given(7) {
            fact.only = Some(GroupId(take.u32()?));
        }
        fact.bytes = take.bytes()?;
        Ok(fact)
    }
}
