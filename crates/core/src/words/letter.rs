//! What a dead letter says about where it came from.

use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{Time, TopicId};
use crate::words::message::Text;
use crate::words::origin::Origin;
use crate::words::policy::RetryPolicy;
use alloc::sync::Arc;

/// Why a message was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its attempts are used up.
    AttemptsReached,
    /// A worker said that there is no use in trying again.
    NackedDead,
    /// Its deadline has passed.
    DeadlinePassed,
    /// Its bytes in the log are not those that were stored, so that it can never be delivered.
    PayloadDamaged,
}

impl Reason {
    /// As metrics and dead letters say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AttemptsReached => "max_attempts_reached",
            Self::NackedDead => "nacked_dead",
            Self::DeadlinePassed => "deadline_passed",
            Self::PayloadDamaged => "payload_damaged",
        }
    }
}

/// Where a dead letter came from and why it is dead.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeadLetter<'a> {
    /// The source topic.
    pub topic: Text<'a>,
    /// The source partition.
    pub partition: u32,
    /// The source offset.
    pub offset: u64,
    /// The group that gave up.
    pub group: Text<'a>,
    /// How often it was delivered.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub last_error: Text<'a>,
    /// Why it was given up.
    pub reason: Text<'a>,
    /// Its tenant.
    pub tenant_id: Text<'a>,
    /// Its idempotency key.
    pub idempotency_key: Text<'a>,
    /// When it was given up.
    pub at: Time,
    /// How it was tried, for the day on which it is tried again.
    pub retry_policy: Option<RetryPolicy>,
    /// Its last attempts, oldest first.
    pub history: Vec<Attempt<'a>>,
}

/// One attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Attempt<'a> {
    /// Which one, counted from 1.
    pub number: u32,
    /// Who held the message.
    pub owner: Text<'a>,
    /// Why it failed.
    pub error: Text<'a>,
    /// When it began.
    pub leased: Time,
    /// When it ended.
    pub ended: Time,
}

impl<'a> DeadLetter<'a> {
    /// Where it came from, in a topic of that number.
    #[must_use]
    pub fn source(&self, incarnation: TopicId) -> Origin<'a> {
        let (partition, offset) = (self.partition, self.offset);
        Origin { topic: self.topic.clone(), incarnation, partition, offset }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.partition);
        out.put_u64(self.offset);
        out.put_u32(self.attempts);
        out.put_u64(self.at.0);
        for text in
            [&self.topic, &self.group, &self.last_error, &self.reason, &self.tenant_id, &self.idempotency_key]
        {
            out.put_text(text);
        }
    }

    /// Whether there is a policy or a history to be written: the first letters had neither.
    pub(crate) fn has_more(&self) -> bool {
        self.retry_policy.is_some() || !self.history.is_empty()
    }

    /// Follows [`DeadLetter::encode`] wherever [`DeadLetter::has_more`] is noted before it.
    pub(crate) fn encode_more(&self, out: &mut Vec<u8>) {
        if !self.has_more() {
            return;
        }
        let has_jitter = self.retry_policy.is_some_and(RetryPolicy::has_jitter);
        out.put_u8(u8::from(self.retry_policy.is_some()) | u8::from(has_jitter) << 1);
        if let Some(policy) = self.retry_policy {
            policy.encode(out);
            policy.encode_jitter(out);
        }
        put_attempts(out, &self.history);
    }

    pub(crate) fn decode(take: &mut Take<'a>, has_more: bool) -> Result<Self, Malformed> {
        let mut letter = Self {
            partition: take.u32()?,
            offset: take.u64()?,
            attempts: take.u32()?,
            at: Time(take.u64()?),
            topic: take.text()?.into(),
            group: take.text()?.into(),
            last_error: take.text()?.into(),
            reason: take.text()?.into(),
            tenant_id: take.text()?.into(),
            idempotency_key: take.text()?.into(),
            ..Self::default()
        };
        if has_more {
            let options = take.u8()?;
            if options & 1 != 0 {
                letter.retry_policy = Some(RetryPolicy::decode(take, options & 2 != 0)?);
            }
            letter.history = take_attempts(take)?;
        }
        Ok(letter)
    }
}

/// Writes attempts, oldest first.
pub(crate) fn put_attempts(out: &mut Vec<u8>, attempts: &[Attempt<'_>]) {
    out.put_u32(u32::try_from(attempts.len()).expect("histories are bounded"));
    for attempt in attempts {
        out.put_u32(attempt.number);
        out.put_text(&attempt.owner);
        out.put_text(&attempt.error);
        out.put_u64(attempt.leased.0);
        out.put_u64(attempt.ended.0);
    }
}

/// Reads what [`put_attempts`] wrote.
pub(crate) fn take_attempts<'a>(take: &mut Take<'a>) -> Result<Vec<Attempt<'a>>, Malformed> {
    let count = take.count(28)?;
    let mut attempts = Vec::with_capacity(count);
    for _ in 0..count {
        attempts.push(Attempt {
            number: take.u32()?,
            owner: take.text()?.into(),
            error: take.text()?.into(),
            leased: Time(take.u64()?),
            ended: Time(take.u64()?),
        });
    }
    Ok(attempts)
}

/// One attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptDescription {
    /// Which one, counted from 1.
    pub number: u32,
    /// Who held the message.
    pub owner: Arc<str>,
    /// Why it failed.
    pub error: Arc<str>,
    /// When it began.
    pub leased: Time,
    /// When it ended.
    pub ended: Time,
}

impl AttemptDescription {
    /// The same, out of a message.
    #[must_use]
    pub fn owned(attempt: &Attempt<'_>) -> Self {
        Self {
            number: attempt.number,
            owner: (&*attempt.owner).into(),
            error: (&*attempt.error).into(),
            leased: attempt.leased,
            ended: attempt.ended,
        }
    }

    /// The same, as messages are written with it.
    #[must_use]
    pub fn borrowed(&self) -> Attempt<'_> {
        Attempt {
            number: self.number,
            owner: (&*self.owner).into(),
            error: (&*self.error).into(),
            leased: self.leased,
            ended: self.ended,
        }
    }
}
