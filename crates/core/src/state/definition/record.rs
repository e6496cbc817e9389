//! What is defined, by kind and name.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::ToString as _;
use alloc::sync::Arc;

use crate::log::definition::DefinitionFact;
use crate::state::State;
use crate::words::codec::{CONTRADICTION, Malformed};
use crate::words::definition::{
    DEFINITIONS_BYTES_MAX, DEFINITIONS_MAX, DefinitionKind, DefinitionPage, DefinitionView,
};
use crate::words::id::Time;

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) version: u64,
    pub(crate) text: Box<str>,
    pub(crate) created: Time,
    pub(crate) changed: Time,
}

/// All definitions of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Definitions {
    /// How many changes there were.
    pub(super) revision: u64,
    pub(super) known: BTreeMap<(DefinitionKind, Arc<str>), Definition>,
    /// Bytes of all texts.
    pub(super) bytes: usize,
}

impl Definitions {
    /// Whether there never was one.
    pub(crate) const fn are_untouched(&self) -> bool {
        self.revision == 0
    }

    pub(crate) fn get(&self, kind: DefinitionKind, name: &str) -> Option<&Definition> {
        self.known.get(&(kind, Arc::from(name)))
    }

    /// Whether a text of so many bytes fits, in the place of what the name stands for now.
    pub(crate) fn has_room(&self, kind: DefinitionKind, name: &str, bytes: usize) -> bool {
        let before = self.get(kind, name).map(|known| known.text.len());
        let others = self.known.len() - usize::from(before.is_some());
        others < DEFINITIONS_MAX && self.bytes - before.unwrap_or(0) + bytes <= DEFINITIONS_BYTES_MAX
    }

    pub(crate) fn view(&self, kind: DefinitionKind, name: &str) -> Option<DefinitionView> {
        self.get(kind, name).map(|known| view(name, known))
    }

    /// All of one kind, by name.
    pub(crate) fn page(&self, kind: DefinitionKind) -> DefinitionPage {
        let of_kind = self.known.iter().filter(|((its, _), _)| *its == kind);
        let definitions = of_kind.map(|((_, name), known)| view(name, known)).collect();
        DefinitionPage { revision: self.revision, definitions }
    }

    pub(crate) fn apply(&mut self, fact: &DefinitionFact<'_>) -> Result<(), Malformed> {
        match *fact {
            DefinitionFact::Defined { kind, name, at, text } => {
                if !self.has_room(kind, name, text.len()) {
                    return Err(CONTRADICTION);
                }
                let key = (kind, Arc::from(name));
                let before = self.known.get(&key);
                let created = before.map_or(at, |known| known.created);
                self.bytes = self.bytes - before.map_or(0, |known| known.text.len()) + text.len();
                self.revision += 1;
                let version = self.revision;
                self.known.insert(key, Definition { version, text: text.into(), created, changed: at });
            }
            DefinitionFact::Undefined { kind, name, .. } => {
                let gone = self.known.remove(&(kind, Arc::from(name))).ok_or(CONTRADICTION)?;
                self.bytes -= gone.text.len();
                self.revision += 1;
            }
        }
        Ok(())
    }
}

impl State {
    /// What is defined of a kind.
    #[must_use]
    pub fn definitions(&self, kind: DefinitionKind) -> DefinitionPage {
        self.definitions.page(kind)
    }
}

fn view(name: &str, known: &Definition) -> DefinitionView {
    DefinitionView {
        name: name.to_string(),
        version: known.version,
        text: known.text.to_string(),
        created: known.created,
        changed: known.changed,
    }
}
