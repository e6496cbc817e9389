//! Messages that want to be stored.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::words::id::{Identity, KeyHash, RequestHash, Spotted, Time, TopicId};
use crate::words::policy::RetryPolicy;
use crate::words::run::Lineage;

/// Encoded bytes of a message and what the shard must know about them without looking inside.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Payload {
    /// The encoded message ([`crate::Message::encode`]).
    pub bytes: Vec<u8>,
    /// Checksum over `bytes`, made and checked by the shell.
    pub check: u32,
    /// Key and value bytes, as the backpressure limits count them.
    pub size: u32,
}

/// When a message may go out for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Start {
    /// As soon as it is stored.
    #[default]
    Now,
    /// Not before this.
    At(Time),
    /// Not before this many milliseconds have passed.
    After(u64),
}

/// A message that was parsed, validated and routed, and wants to be stored.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewMessage {
    /// The final topic.
    pub topic: TopicId,
    /// The final partition.
    pub partition: u32,
    /// Refused if this has passed.
    pub deadline: Option<Time>,
    /// How often and when to try again.
    pub retry: Option<RetryPolicy>,
    /// Whether it came the way that has defaults and keeps deadlines, `/v2`. Over `/v1` a message without a policy is
    /// tried for ever, and its deadline says nothing once it is stored.
    pub native: bool,
    /// Its identity, if it carries an idempotency key.
    pub identity: Option<Identity>,
    /// Whether that identity was reserved for it by [`Input::Reserve`].
    pub reserved: bool,
    /// What it asks for, if the producer says so.
    pub request: RequestHash,
    /// Its key, for topics that keep the order of keys.
    pub key: KeyHash,
    /// 0 to 9, the highest first.
    pub priority: u8,
    /// When it may go out for the first time.
    pub start: Start,
    /// The run that it belongs to.
    pub lineage: Option<Box<NewLineage>>,
    /// Where it was born, if it was stored before.
    pub origin: Option<Spotted>,
    /// What is stored.
    pub payload: Payload,
}

/// To which run a message belongs, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NewLineage {
    /// Whose the run is; may be empty.
    pub tenant: String,
    /// The run.
    pub run: String,
    /// The step; may be empty.
    pub step: String,
    /// The step that caused it; may be empty.
    pub parent: String,
}

impl NewLineage {
    pub(crate) fn borrowed(&self) -> Lineage<'_> {
        Lineage { tenant: &self.tenant, run: &self.run, step: &self.step, parent: &self.parent }
    }
}
