//! Keys as bytes, and back.

use alloc::string::ToString as _;
use alloc::vec::Vec;

use crate::log::key::{put_key, put_scope, take_key, take_scope};
use crate::state::key::record::{Key, Keys};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::id::Time;
use crate::words::key::{KEYS_MAX, KeyId};

/// The least bytes that a key takes.
const KEY_BYTES_LEAST: usize = 64;

impl Keys {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_length(self.keys.len());
        for (id, key) in &self.keys {
            out.put_u64(id.0);
            out.extend_from_slice(&key.digest);
            put_scope(out, &key.scope);
            out.put_u64(key.created.0);
            out.put_u64(key.until.0);
            put_key(out, key.parent);
            out.put_text(&key.note);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let mut keys = Self::default();
        let count = take.count(KEY_BYTES_LEAST)?;
        if count > KEYS_MAX {
            return Err(take.malformed());
        }
        for _ in 0..count {
            let id = KeyId(take.u64()?);
            let (digest, scope) = (take.array()?, take_scope(take)?);
            let (created, until) = (Time(take.u64()?), Time(take.u64()?));
            let (parent, note) = (take_key(take)?, take.text()?.to_string());
            let key = Key { digest, scope, created, until, parent, note };
            if keys.keys.insert(id, key).is_some() {
                return Err(take.malformed());
            }
        }
        let is_known = |key: &Key| key.parent.is_none_or(|parent| keys.keys.contains_key(&parent));
        if keys.keys.values().all(is_known) { Ok(keys) } else { Err(take.malformed()) }
    }
}
