//! Definitions as bytes, and back.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::state::definition::record::{Definition, Definitions};
use crate::words::codec::{Malformed, Put, Take};
use crate::words::definition::{
    DEFINITION_BYTES_MAX, DEFINITIONS_BYTES_MAX, DEFINITIONS_MAX, DefinitionKind,
};
use crate::words::id::Time;

/// The least bytes that a definition takes.
const DEFINITION_BYTES_LEAST: usize = 33;

impl Definitions {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.revision);
        out.put_length(self.known.len());
        for ((kind, name), known) in &self.known {
            out.put_u8(*kind as u8);
            out.put_text(name);
            out.put_u64(known.version);
            out.put_u64(known.created.0);
            out.put_u64(known.changed.0);
            out.put_text(&known.text);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let mut definitions = Self { revision: take.u64()?, ..Self::default() };
        let count = take.count(DEFINITION_BYTES_LEAST)?;
        if count > DEFINITIONS_MAX {
            return Err(take.malformed());
        }
        for _ in 0..count {
            let kind = DefinitionKind::from_byte(take.u8()?).ok_or_else(|| take.malformed())?;
            let (name, version) = (take.shared()?, take.u64()?);
            let (created, changed) = (Time(take.u64()?), Time(take.u64()?));
            let text: Box<str> = take.text()?.into();
            definitions.bytes += text.len();
            let is_sound = !name.is_empty()
                && (1..=definitions.revision).contains(&version)
                && text.len() <= DEFINITION_BYTES_MAX
                && definitions.bytes <= DEFINITIONS_BYTES_MAX;
            let known = Definition { version, text, created, changed };
            if !is_sound || definitions.known.insert((kind, name), known).is_some() {
                return Err(take.malformed());
            }
        }
        Ok(definitions)
    }
}
