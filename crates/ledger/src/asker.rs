//! A caller that wants to run an effect, by either way of asking.

use driftq_rules::Asked;

use crate::{Begin, Identity, Reacquire, RequestHash, Terms};

/// A caller that wants to run an effect, by either way of asking.
pub(crate) struct Asker<'a> {
    pub(crate) identity: &'a Identity,
    /// A retry worker may have nothing to compare.
    pub(crate) hash: Option<&'a RequestHash>,
    pub(crate) terms: &'a Terms,
    pub(crate) reacquire: bool,
    pub(crate) call: Option<&'a str>,
    pub(crate) owner: Option<&'a str>,
}

/// What an asker is compared with in a record.
pub(crate) struct Compared<'a> {
    pub(crate) hash_version: u16,
    pub(crate) hash: &'a str,
    /// The call that got the newest lease.
    pub(crate) call: Option<&'a str>,
    /// Who made that call.
    pub(crate) owner: Option<&'a str>,
}

impl<'a> From<&'a Begin> for Asker<'a> {
    fn from(asked: &'a Begin) -> Self {
        Self {
            identity: &asked.identity,
            hash: Some(&asked.hash),
            terms: &asked.terms,
            reacquire: asked.reacquire,
            call: asked.call.as_deref(),
            owner: asked.owner.as_deref(),
        }
    }
}

impl<'a> From<&'a Reacquire> for Asker<'a> {
    fn from(asked: &'a Reacquire) -> Self {
        Self {
            identity: &asked.identity,
            hash: asked.hash.as_ref(),
            terms: &asked.terms,
            reacquire: true,
            call: asked.call.as_deref(),
            owner: asked.owner.as_deref(),
        }
    }
}

impl Asker<'_> {
    /// How it compares with the record, in the terms of the rules.
    pub(crate) fn asked(&self, known: Option<&Compared<'_>>) -> Asked {
        Asked {
            same_request: known.is_none_or(|known| {
                self.hash.is_none_or(|hash| hash.matches(known.hash_version, known.hash))
            }),
            // A call that is repeated is repeated by its owner. Another one that uses its name is not the holder.
            same_call: self.call.is_some()
                && known.is_some_and(|known| known.call == self.call && known.owner == self.owner),
            reacquire: self.reacquire,
            attempts_max: self.terms.attempts_max,
        }
    }

    /// Says if two requests may differ only because they were hashed by two recipes.
    pub(crate) fn other_recipe(&self, known: &Compared<'_>) -> Option<String> {
        let hash = self.hash?;
        let before = known.hash_version;
        (!hash.all().any(|hash| hash.version() == before)).then(|| {
            let now = hash.version();
            format!("that one was hashed by recipe {before}, this one by recipe {now}; see `RequestHash::or_before`")
        })
    }
}
