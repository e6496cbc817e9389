//! Facts about definitions, and their bytes.

use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take, UNKNOWN_KIND};
use crate::words::definition::{DEFINITION_BYTES_MAX, DefinitionKind};
use crate::words::id::Time;

pub(crate) const FIRST_KIND: u8 = DEFINED;
pub(crate) const LAST_KIND: u8 = UNDEFINED;

const DEFINED: u8 = 101;
const UNDEFINED: u8 = 102;

/// Something that happened to a definition and is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionFact<'a> {
    /// It says this from now on.
    Defined {
        /// What is defined.
        kind: DefinitionKind,
        /// Its name.
        name: &'a str,
        /// When.
        at: Time,
        /// What it says.
        text: &'a str,
    },
    /// It is gone.
    Undefined {
        /// What was defined.
        kind: DefinitionKind,
        /// Its name.
        name: &'a str,
        /// When.
        at: Time,
    },
}

impl<'a> DefinitionFact<'a> {
    pub(crate) const fn told_at(&self) -> Option<Time> {
        let (Self::Defined { at, .. } | Self::Undefined { at, .. }) = self;
        Some(*at)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (fact, kind, name, at) = match self {
            Self::Defined { kind, name, at, .. } => (DEFINED, kind, name, at),
            Self::Undefined { kind, name, at } => (UNDEFINED, kind, name, at),
        };
        out.put_u8(fact);
        out.put_u8(*kind as u8);
        out.put_u64(at.0);
        out.put_text(name);
        if let Self::Defined { text, .. } = self {
            out.put_text(text);
        }
    }

    pub(crate) fn decode(fact: u8, take: &mut Take<'a>) -> Result<Self, Malformed> {
        let kind = DefinitionKind::from_byte(take.u8()?).ok_or_else(|| take.malformed())?;
        let (at, name) = (Time(take.u64()?), take.text()?);
        if name.is_empty() {
            return Err(take.malformed());
        }
        match fact {
            DEFINED => {
                let text = take.text()?;
                if text.len() > DEFINITION_BYTES_MAX {
                    return Err(take.malformed());
                }
                Ok(Self::Defined { kind, name, at, text })
            }
            UNDEFINED => Ok(Self::Undefined { kind, name, at }),
            _ => Err(UNKNOWN_KIND),
        }
    }
}
