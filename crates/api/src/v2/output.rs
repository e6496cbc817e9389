//! Outputs: where the results of work lie, by dataset, version and partition key.
//!
//! A version is written while another one is current; readers see it whole when it is cut over to.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::read::{self, text};
use crate::fault::Fault;
use crate::moment::Moment;

/// How an output joins those that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// It takes the place of the one that was there.
    Replace,
    /// It stands beside those that were there.
    Append,
}

impl<'de> Deserialize<'de> for OutputMode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &[("replace", Self::Replace), ("append", Self::Append)])
    }
}

/// Names of versions in requests: `current` stands for whichever it is, and cannot be the name of one.
pub(super) mod version {
    use std::borrow::Cow;

    use serde::de::{Deserializer, Error};

    use crate::v2::limits::OUTPUT_NAME_BYTES_MAX;
    use crate::v2::read::text;

    /// The word in the place of a version that reads the current one.
    pub const CURRENT: &str = "current";

    fn checked<E: Error>(version: Cow<'_, str>) -> Result<Cow<'_, str>, E> {
        if version == CURRENT {
            return Err(E::custom("must not be current, which is reserved"));
        }
        Ok(version)
    }

    pub(in crate::v2) fn required<'de, D: Deserializer<'de>>(from: D) -> Result<Cow<'de, str>, D::Error> {
        checked(text::required::<D, 1, OUTPUT_NAME_BYTES_MAX>(from)?)
    }

    pub(in crate::v2) fn optional<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Cow<'de, str>>, D::Error> {
        text::optional::<D, 1, OUTPUT_NAME_BYTES_MAX>(from)?.map(checked).transpose()
    }
}

pub use version::CURRENT as VERSION_CURRENT;

/// To `GET /v2/outputs`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Datasets<'a> {
    /// Datasets in order of their names.
    pub datasets: Vec<DatasetSummary<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A dataset in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetSummary<'a> {
    /// Its name.
    pub dataset: Cow<'a, str>,
    /// The version that is current, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Cow<'a, str>>,
    /// How many versions it has.
    pub versions: u64,
    /// How many outputs they have together.
    pub outputs: u64,
}

/// To `GET /v2/outputs/{dataset}`: the dataset, with one page of its versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dataset<'a> {
    /// Its name.
    pub dataset: Cow<'a, str>,
    /// The version that is current, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Cow<'a, str>>,
    /// Since when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_over_at: Option<Moment>,
    /// Its versions in order of their names.
    pub versions: Vec<VersionSummary<'a>>,
    /// What was current and since when, the newest first; at most 16.
    pub history: Vec<PastVersion<'a>>,
    /// Cursor of the next page of versions, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A version in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionSummary<'a> {
    /// Its name.
    pub version: Cow<'a, str>,
    /// How many outputs it has.
    pub outputs: u64,
    /// When the last one was committed.
    pub updated_at: Moment,
}

/// A version that became current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastVersion<'a> {
    /// Its name; not there if nothing was current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Cow<'a, str>>,
    /// When it became so.
    pub at: Moment,
}

/// To `GET /v2/outputs/{dataset}/{version}`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionOutputs<'a> {
    /// The dataset.
    pub dataset: Cow<'a, str>,
    /// The version, by its own name also when `current` was asked for: to read on in the same one, ask for it.
    pub version: Cow<'a, str>,
    /// Outputs by partition key, and by order of commit within one.
    pub outputs: Vec<Output<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// To `GET /v2/outputs/{dataset}/{version}/{partition_key}`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionOutputs<'a> {
    /// The dataset.
    pub dataset: Cow<'a, str>,
    /// The version, by its own name also when `current` was asked for.
    pub version: Cow<'a, str>,
    /// The partition key.
    pub partition_key: Cow<'a, str>,
    /// How its outputs join each other.
    pub mode: OutputMode,
    /// Exactly one if they replace each other; all in order of commit if they are appended.
    pub outputs: Vec<Output<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Output<'a> {
    /// Which part of the version it is.
    pub partition_key: Cow<'a, str>,
    /// How it joined those that were there.
    pub mode: OutputMode,
    /// Names it among what is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<Cow<'a, str>>,
    /// Where it lies.
    pub location: Cow<'a, str>,
    /// What it holds, as a hash.
    pub digest: Cow<'a, str>,
    /// When it was committed.
    pub committed_at: Moment,
    /// The delivery whose work it is, if it was committed under a message's lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<OutputMessage<'a>>,
}

/// A delivery whose work an output is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputMessage<'a> {
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// The attempt that produced it.
    pub attempt: u32,
}

/// `POST /v2/outputs/{dataset}/cutover`: readers of `current` see this version from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CutOver<'a> {
    /// The version that becomes current.
    #[serde(borrow, deserialize_with = "version::required")]
    #[schema(min_length = 1, max_length = 255)]
    pub version: Cow<'a, str>,
    /// Only if this one is current now; whichever is if not given.
    #[serde(
        borrow,
        default,
        deserialize_with = "version::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub expect: Option<Cow<'a, str>>,
}

/// `POST /v2/outputs/{dataset}/rollback`: the version before becomes current again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBack<'a> {
    /// The version that is current, and will not be: so that a repeated call goes back once.
    #[serde(borrow, deserialize_with = "version::required")]
    #[schema(min_length = 1, max_length = 255)]
    pub from: Cow<'a, str>,
}

impl<'a> CutOver<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

impl<'a> RollBack<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To a cut-over or a roll-back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CurrentVersion<'a> {
    /// The dataset.
    pub dataset: Cow<'a, str>,
    /// The version that is current now.
    pub current: Cow<'a, str>,
    /// The one that was before, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Cow<'a, str>>,
    /// Whether this call changed it.
    pub changed: bool,
}

/// To `DELETE /v2/outputs/{dataset}/{version}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionDeleted {
    /// How many outputs were forgotten; what lies at their locations is not touched.
    pub deleted: u64,
}
