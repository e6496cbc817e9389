//! Effects: what happens outside is run once, its outcome is kept and replayed, and whoever is too late is shut out.
//!
//! [`rules`] decides and knows no store; the rest of this folder is the store that a shard is.

mod begin;
mod blob;
mod fact;
mod finish;
mod fold;
mod input;
mod lapse;
mod packed;
mod record;
pub mod rules;
mod sleeping;
mod snapshot;
mod view;
mod waiting;

pub use begin::EFFECTS_PER_CALL_MAX;
pub use blob::{About, Blob, Ending, NewBlob};
pub(crate) use fact::{BEGUN_OF_TENANT, FIRST_KIND, LAST_KIND};
pub use fact::{BegunFact, EffectFact, EffectPart, EndedFact, Lent};
pub use input::{BeginEffect, EffectAnswer, EffectLease, EffectReceipt, FinishEffect, ResolveEffect, Urge};
pub(crate) use lapse::Sweep;
pub(crate) use record::Effects;
pub(crate) use sleeping::Sleepers;
pub use view::{EffectList, EffectPage, EffectTally, EffectView};
pub(crate) use waiting::Waiting;
