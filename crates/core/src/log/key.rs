//! Facts about keys, and their bytes.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::Time;
use crate::words::key::{KEY_TENANTS_MAX, KEY_TOPICS_MAX, KeyId, KeyLimits, KeyScope, Permissions};

/// Kinds of facts about keys: the first, and the last.
pub(crate) const FIRST_KIND: u8 = CREATED;
pub(crate) const LAST_KIND: u8 = ENDED;

const CREATED: u8 = 96;
const ENDED: u8 = 97;

/// The least bytes of a name: its length.
const NAME_BYTES_LEAST: usize = 1;
/// Beside the permissions: a list of tenants follows that of the topics.
const OF_TENANTS: u32 = 1 << 16;
/// And here: limits follow all that. A server that knows no limits refuses such a scope.
const LIMITED: u32 = 1 << 17;

/// Something that happened to a key and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFact<'a> {
    /// There is a new key.
    Created {
        /// Its public half.
        key: KeyId,
        /// When.
        at: Time,
        /// The digest of its secret.
        digest: [u8; 32],
        /// What it allows, encoded.
        scope: &'a [u8],
        /// Until when; [`Time::NEVER`] if it has no end.
        until: Time,
        /// The key that it hangs on.
        parent: Option<KeyId>,
        /// The key in whose place it comes: what hung on that one hangs on this one from now on.
        replaces: Option<KeyId>,
        /// What people wrote on it.
        note: &'a str,
    },
    /// A key has an end, or an earlier one than before; and with it what hangs on it.
    Ended {
        /// Its public half.
        key: KeyId,
        /// When that was decided.
        at: Time,
        /// From when on it opens nothing.
        until: Time,
    },
}

impl<'a> KeyFact<'a> {
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::Created { at, .. } | Self::Ended { at, .. } => Some(*at),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Created { key, at, digest, scope, until, parent, replaces, note } => {
                out.put_u8(CREATED);
                out.put_u64(key.0);
                out.put_u64(at.0);
                out.extend_from_slice(digest);
                out.put_bytes(scope);
                out.put_u64(until.0);
                put_key(out, *parent);
                put_key(out, *replaces);
                out.put_text(note);
            }
            Self::Ended { key, at, until } => {
                out.put_u8(ENDED);
                out.put_u64(key.0);
                out.put_u64(at.0);
                out.put_u64(until.0);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let (key, at) = (KeyId(take.u64()?), Time(take.u64()?));
        Ok(match kind {
            CREATED => Self::Created {
                key,
                at,
                digest: take.array()?,
                scope: take.bytes()?,
                until: Time(take.u64()?),
                parent: take_key(take)?,
                replaces: take_key(take)?,
                note: take.text()?,
            },
            ENDED => Self::Ended { key, at, until: Time(take.u64()?) },
            _ => return Err(UNKNOWN_KIND),
        })
    }
}

pub(crate) fn put_key(out: &mut Vec<u8>, key: Option<KeyId>) {
    out.put_u8(u8::from(key.is_some()));
    out.put_u64(key.map_or(0, |key| key.0));
}

pub(crate) fn take_key(take: &mut Take<'_>) -> Result<Option<KeyId>, Malformed> {
    let (given, key) = (take.u8()?, KeyId(take.u64()?));
    match given {
        0 if key.0 == 0 => Ok(None),
        1 => Ok(Some(key)),
        _ => Err(take.malformed()),
    }
}

/// What the scope of a fact says.
pub(crate) fn read_scope(bytes: &[u8]) -> Result<KeyScope, Malformed> {
    let mut take = Take::new(bytes, "scope of a key");
    let scope = take_scope(&mut take)?;
    take.done()?;
    Ok(scope)
}

pub(crate) fn put_scope(out: &mut Vec<u8>, scope: &KeyScope) {
    let of_tenants = if scope.tenants.is_some() { OF_TENANTS } else { 0 };
    let limited = if scope.limits.any() { LIMITED } else { 0 };
    out.put_u32(u32::from(scope.permissions.bits()) | of_tenants | limited);
    out.put_u8(u8::from(scope.topics.is_some()));
    if let Some(topics) = &scope.topics {
        put_names(out, topics);
    }
    if let Some(tenants) = &scope.tenants {
        put_names(out, tenants);
    }
    if scope.limits.any() {
        put_limits(out, scope.limits);
    }
}

pub(crate) fn put_limits(out: &mut Vec<u8>, limits: KeyLimits) {
    out.put_u32(limits.requests_per_second);
    out.put_u32(limits.bytes_per_second);
    out.put_u32(limits.waits);
}

pub(crate) fn take_limits(take: &mut Take<'_>) -> Result<KeyLimits, Malformed> {
    let (requests_per_second, bytes_per_second) = (take.u32()?, take.u32()?);
    Ok(KeyLimits { requests_per_second, bytes_per_second, waits: take.u32()? })
}

pub(crate) fn take_scope(take: &mut Take<'_>) -> Result<KeyScope, Malformed> {
    let bits = take.u32()?;
    let permissions = u16::try_from(bits & !(OF_TENANTS | LIMITED)).ok().and_then(Permissions::from_bits);
    let permissions = permissions.ok_or_else(|| take.malformed())?;
    let topics = match take.u8()? {
        0 => None,
        1 => Some(take_names(take, KEY_TOPICS_MAX)?),
        _ => return Err(take.malformed()),
    };
    let has_tenants = bits & OF_TENANTS != 0;
    let tenants = has_tenants.then(|| take_names(take, KEY_TENANTS_MAX)).transpose()?;
    let is_limited = bits & LIMITED != 0;
    let limits = if is_limited { take_limits(take)? } else { KeyLimits::NONE };
    // One scope has one form.
    if is_limited != limits.any() {
        return Err(take.malformed());
    }
    Ok(KeyScope { permissions, topics, tenants, limits })
}

fn put_names(out: &mut Vec<u8>, names: &[String]) {
    out.put_length(names.len());
    for name in names {
        out.put_text(name);
    }
}

fn take_names(take: &mut Take<'_>, most: usize) -> Result<Vec<String>, Malformed> {
    let count = take.count(NAME_BYTES_LEAST)?;
    if count > most {
        return Err(take.malformed());
    }
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        names.push(take.text()?.to_string());
    }
    Ok(names)
}
