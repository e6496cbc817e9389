//! Facts about entities, and their bytes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::id::Time;

/// Kinds of facts about entities: the first, and the last.
pub(crate) const FIRST_KIND: u8 = RAISED;
pub(crate) const LAST_KIND: u8 = FORGOTTEN;

const RAISED: u8 = 64;
const FORGOTTEN: u8 = 65;

/// Something that happened to entities and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityFact<'a> {
    /// The version of entities rose by one. What was done on that condition is in the same batch.
    Raised {
        /// Whose they are; may be empty.
        tenant: &'a str,
        /// When.
        at: Time,
        /// The record of the effect that was begun on that condition; zero if it was a commit.
        effect: u64,
        /// Their names and the versions that they have now, encoded.
        raised: &'a [u8],
    },
    /// An entity is forgotten: its version is 0 again.
    Forgotten {
        /// Whose it was; may be empty.
        tenant: &'a str,
        /// Its name.
        entity: &'a str,
    },
}

impl<'a> EntityFact<'a> {
    /// The entities of a fact with their versions, for display; what cannot be read is left out.
    #[must_use]
    pub fn names(raised: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        let _ = each_raised(raised, |entity, version| {
            names.push(format!("{entity:?} to {version}"));
            Ok(())
        });
        names
    }

    /// The time that the shard's clock told when it happened, if the fact says so.
    pub(crate) const fn told_at(&self) -> Option<Time> {
        match self {
            Self::Raised { at, .. } => Some(*at),
            Self::Forgotten { .. } => None,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raised { tenant, at, effect, raised } => {
                out.put_u8(RAISED);
                out.put_text(tenant);
                out.put_u64(at.0);
                out.put_u64(*effect);
                out.put_bytes(raised);
            }
            Self::Forgotten { tenant, entity } => {
                out.put_u8(FORGOTTEN);
                out.put_text(tenant);
                out.put_text(entity);
            }
        }
    }

    pub(crate) fn decode(kind: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let tenant = take.text()?;
        Ok(match kind {
            RAISED => {
                Self::Raised { tenant, at: Time(take.u64()?), effect: take.u64()?, raised: take.bytes()? }
            }
            FORGOTTEN => Self::Forgotten { tenant, entity: take.text()? },
            _ => return Err(UNKNOWN_KIND),
        })
    }
}

/// Adds an entity to those of a fact.
pub(crate) fn put_raised(out: &mut Vec<u8>, entity: &str, version: u64) {
    out.put_text(entity);
    out.put_u64(version);
}

/// The entities of a fact.
pub(crate) fn each_raised(
    raised: &[u8],
    mut visit: impl FnMut(&str, u64) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut take = Take::new(raised, "raised entities");
    while take.remaining() > 0 {
        let entity = take.text()?;
        visit(entity, take.u64()?)?;
    }
    Ok(())
}
