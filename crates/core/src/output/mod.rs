//! Outputs: pointers to what workers have written elsewhere, moved only by a commit.
//!
//! A reader sees what was committed and nothing else, can stay with one version, and is moved to another one at once.

pub(crate) mod fact;
pub(crate) mod manage;
pub(crate) mod record;
pub(crate) mod snapshot;
pub(crate) mod view;

pub(crate) use fact::{FIRST_KIND, LAST_KIND, SEALED};
pub use fact::{OutputAuthor, OutputFact};
pub use manage::{NewOutput, Read};
pub(crate) use record::{Cell, Outputs, pointer_bytes};
pub use record::{OUTPUT_LOCATION_BYTES_MAX, OutputDone};
pub use view::{
    DatasetSummary, DatasetView, OutputList, OutputPage, OutputView, VersionSummary, VersionsList,
};
