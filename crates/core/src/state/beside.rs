//! What only some messages have, as bytes, and back.

use alloc::vec::Vec;

use crate::state::slot::Beside;
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::{KeyHash, NO_TOPIC, Time};
use crate::words::origin::{put_place, take_place};

impl Beside {
    /// Each part only if it is there.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        let none = Self::default();
        let identified = self.identity != none.identity;
        let (keyed, due) = (self.key != none.key, self.due != none.due);
        let prior = self.priority != none.priority;
        let given =
            [identified, keyed, due, prior, self.origin.is_some(), self.deadline != none.deadline, self.past];
        out.put_u8(given.iter().enumerate().fold(0, |bits, (bit, given)| bits | u8::from(*given) << bit));
        if identified {
            out.extend_from_slice(&self.identity.0);
        }
        if keyed {
            out.put_u64(self.key.0);
        }
        if due {
            out.put_u64(self.due.0);
        }
        if prior {
            out.put_u8(self.priority);
        }
        if let Some(origin) = self.origin {
            put_place(out, origin);
        }
        if self.deadline != none.deadline {
            out.put_u64(self.deadline.0);
        }
    }

    /// The first version of a snapshot says once per chunk whether its messages are `identified`.
    pub(crate) fn decode(take: &mut Take<'_>, version: u32, identified: bool) -> Result<Self, Malformed> {
        let given = if version > 1 { take.u8()? } else { u8::from(identified) };
        let none = Self::default();
        let beside = Self {
            identity: if given & 1 == 0 { none.identity } else { take.identity()? },
            key: if given & 2 == 0 { none.key } else { KeyHash(take.u64()?) },
            due: if given & 4 == 0 { none.due } else { Time(take.u64()?) },
            priority: if given & 8 == 0 { none.priority } else { take.u8()? },
            origin: if given & 16 == 0 || version < 4 { None } else { Some(take_place(take)?) },
            deadline: if given & 32 == 0 || version < 4 { none.deadline } else { Time(take.u64()?) },
            past: given & 64 != 0 && version > 3,
        };
        if beside.origin.is_some_and(|origin| origin.topic == NO_TOPIC) {
            return Err(take.malformed());
        }
        Ok(beside)
    }
}
