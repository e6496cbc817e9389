//! Exports: a bounded selection becomes files, all of them or none.
//!
//! An export is an effect under a name of the caller's choice. Whoever begins it first reads the selection by pages of
//! the public API, writes parts, and puts each where its name says what is in it; a manifest names the parts; and one
//! commit ends the effect and moves an output pointer to the manifest. Readers follow the pointer, so they see the whole
//! export or nothing of it. The same export again is answered with the manifest and writes nothing.

mod column;
mod connector;
mod error;
mod execute;
mod format;
mod hold;
mod manifest;
mod pages;
mod part;
mod pin;
mod place;
mod query;
mod request;
mod rows;
mod selection;
mod source;
mod sweep;
mod watch;

pub(crate) use connector::Exporter;
pub use connector::{ExportsConfig, PlaceConfig};
pub use error::ExportError;
pub use format::Format;
pub use manifest::{Manifest, ManifestPart};
pub use part::{PART_BYTES, PART_BYTES_MAX, PART_ROWS, PART_ROWS_MAX, PARTS_MAX, PartBounds};
pub use place::PlaceUrl;
pub(crate) use place::{Place, STAGING};
pub use request::{Export, Exported};
pub use selection::Selection;
pub use sweep::{Swept, sweep};
pub use watch::{Silent, Step, Watch};

pub use driftq_api::v2::EXPORT_SCOPE as SCOPE;

/// The dataset whose pointers name manifests, unless another one is given.
pub const DATASET: &str = "exports";
/// The version of that dataset, unless another one is given.
pub const VERSION: &str = "v1";
