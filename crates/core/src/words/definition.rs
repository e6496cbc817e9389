//! Definitions: what operators declare by name and connectors follow. The shard keeps their texts and their order, and
//! knows nothing of what they say.

use alloc::string::String;

use crate::words::id::Time;

/// Definitions of all kinds.
pub const DEFINITIONS_MAX: usize = 10_000;
/// Bytes of one text.
pub const DEFINITION_BYTES_MAX: usize = 32 * 1024;
/// Bytes of all texts: they are held in memory, and written into every snapshot.
pub const DEFINITIONS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DefinitionKind {
    /// Where deliveries go.
    Endpoint = 1,
}

impl DefinitionKind {
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Endpoint),
            _ => None,
        }
    }
}

/// A definition, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionView {
    /// Its name among those of its kind.
    pub name: String,
    /// Which change of definitions made it what it is: rises with every change of any of them.
    pub version: u64,
    /// What it says.
    pub text: String,
    /// When it was first made.
    pub created: Time,
    /// When it was changed last.
    pub changed: Time,
}

/// A page of definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionPage {
    /// How many changes there were, of whatever kind.
    pub revision: u64,
    /// In order of their names.
    pub definitions: alloc::vec::Vec<DefinitionView>,
}
