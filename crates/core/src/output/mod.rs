//! Outputs: pointers to what workers have written elsewhere, moved only by a commit.
//!
//! A reader sees what was committed and nothing else, can stay with one version, and is moved to another one at once.

pub(crate) mod fact;
pub(crate) mod manage;
pub(crate) mod record;
pub(crate) mod snapshot;
pub(crate) mod view;
pub(crate) mod words;

pub use fact::OutputFact;
pub use words::{
    DatasetSummary, DatasetView, NewOutput, OUTPUT_LOCATION_BYTES_MAX, OutputAuthor, OutputDone, OutputList,
    OutputPage, OutputView, Read, VersionSummary, VersionsList,
};
