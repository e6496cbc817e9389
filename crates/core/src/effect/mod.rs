//! Effects: what happens outside is run once, its outcome is kept and replayed, and a holder that is too late is shut
//! out.
//!
//! [`rules`] decides and knows no store; the rest of this folder is the store that a shard is.

pub(crate) mod begin;
pub(crate) mod blob;
pub(crate) mod desk;
pub(crate) mod fact;
pub(crate) mod finish;
pub(crate) mod fold;
pub(crate) mod lapse;
pub(crate) mod packed;
pub(crate) mod record;
pub mod rules;
pub(crate) mod snapshot;
pub(crate) mod view;
pub(crate) mod waiting;
pub(crate) mod words;

pub use begin::EFFECTS_PER_CALL_MAX;
pub use blob::{About, Blob, Ending, NewBlob};
pub use fact::{BegunFact, EffectFact, EndedFact, Lent};
pub use words::{
    BeginEffect, EffectAnswer, EffectLease, EffectList, EffectPage, EffectPart, EffectReceipt, EffectTally,
    EffectView, FinishEffect, ResolveEffect, Urge,
};
