//! Effects: what happens outside is run once, its outcome is kept and replayed, and whoever is too late is shut out.
//!
//! [`rules`] decides and knows no store; the rest of this folder is the store that a shard is.

pub(crate) mod begin;
pub(crate) mod blob;
pub(crate) mod desk;
pub(crate) mod fact;
pub(crate) mod finish;
pub(crate) mod fold;
pub(crate) mod input;
pub(crate) mod lapse;
pub(crate) mod packed;
pub(crate) mod record;
pub mod rules;
pub(crate) mod snapshot;
pub(crate) mod view;
pub(crate) mod waiting;

pub use begin::EFFECTS_PER_CALL_MAX;
pub use blob::{About, Blob, Ending, NewBlob};
pub(crate) use desk::EffectDesk;
pub(crate) use fact::{BEGUN_OF_TENANT, FIRST_KIND, LAST_KIND};
pub use fact::{BegunFact, EffectFact, EffectPart, EndedFact, Lent};
pub use input::{BeginEffect, EffectAnswer, EffectLease, EffectReceipt, FinishEffect, ResolveEffect, Urge};
pub(crate) use record::Effects;
pub use view::{EffectList, EffectPage, EffectTally, EffectView};
