//! Outputs: where the results of work lie, by dataset, version and partition key.
//!
//! A version is written while another one is current; readers see it whole when it is cut over to.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::limits::{IDENTITY_BYTES_MAX, OUTPUT_NAME_BYTES_MAX};
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
    pub cursor: Option<String>,
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
    pub cursor: Option<String>,
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
    /// Whether nothing moves in it any more.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schema(required = false)]
    pub sealed: bool,
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
    pub cursor: Option<String>,
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
    pub cursor: Option<String>,
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
    /// The tenant that the dataset belongs to; no tenant if not given.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    pub tenant_id: Cow<'a, str>,
}

/// A version of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetVersion<'a> {
    /// The dataset.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, OUTPUT_NAME_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub dataset: Cow<'a, str>,
    /// Its version.
    #[serde(borrow, deserialize_with = "version::required")]
    #[schema(min_length = 1, max_length = 255)]
    pub version: Cow<'a, str>,
}

/// `POST /v2/outputs/{dataset}/seal`: nothing moves in this version any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Seal<'a> {
    /// The version.
    #[serde(borrow, deserialize_with = "version::required")]
    #[schema(min_length = 1, max_length = 255)]
    pub version: Cow<'a, str>,
    /// The tenant that the dataset belongs to; no tenant if not given.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    pub tenant_id: Cow<'a, str>,
}

impl<'a> Seal<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To `POST /v2/outputs/{dataset}/seal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionSealed<'a> {
    /// The dataset.
    pub dataset: Cow<'a, str>,
    /// The version.
    pub version: Cow<'a, str>,
    /// How many outputs it has, for good.
    pub outputs: u64,
    /// Whether this call sealed it.
    pub changed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// `POST /v2/outputs/{dataset}/rollback`: the version before becomes current again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBack<'a> {
    /// The version that is current, and will not be: so that a repeated call goes back once.
    #[serde(borrow, deserialize_with = "version::required")]
    #[schema(min_length = 1, max_length = 255)]
    pub from: Cow<'a, str>,
    /// The tenant that the dataset belongs to; no tenant if not given.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    pub tenant_id: Cow<'a, str>,
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
    /// The version that is current now; none after going back to before the first cut-over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Cow<'a, str>>,
    /// The one that a roll-back would show, if there is one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_to_a_version() {
        let full = r#"{"version":"2","expect":"1"}"#;
        let cut_over = CutOver::from_json(full.as_bytes()).unwrap();
        assert_eq!(cut_over, CutOver { version: "2".into(), expect: Some("1".into()), tenant_id: "".into() });
        assert_eq!(serde_json::to_string(&cut_over).unwrap(), full);
        assert_eq!(CutOver::from_json(br#"{"version":"2","expect":null}"#).unwrap().expect, None);
        assert_eq!(
            RollBack::from_json(br#"{"from":"2"}"#).unwrap(),
            RollBack { from: "2".into(), tenant_id: "".into() }
        );
        let long = format!(r#"{{"version":"{}"}}"#, "v".repeat(256));
        for (body, message) in [
            ("{}", "missing field `version`"),
            (r#"{"version":""}"#, "version: must have 1 to 255 bytes, has 0"),
            (&long, "version: must have 1 to 255 bytes, has 256"),
            (r#"{"version":"current"}"#, "version: must not be current, which is reserved"),
            (r#"{"version":"2","expect":"current"}"#, "expect: must not be current, which is reserved"),
            (
                r#"{"version":"2","from":"1"}"#,
                "from: unknown field, expected one of `version`, `expect`, `tenant_id`",
            ),
        ] {
            assert_eq!(CutOver::from_json(body.as_bytes()).unwrap_err().message, message);
        }
        for (body, message) in [
            ("{}", "missing field `from`"),
            (r#"{"from":"current"}"#, "from: must not be current, which is reserved"),
            (r#"{"from":1}"#, "from: invalid type: integer `1`, expected a text of 1 to 255 bytes"),
            (r#"{"from":"2","to":"1"}"#, "to: unknown field, expected `from` or `tenant_id`"),
        ] {
            assert_eq!(RollBack::from_json(body.as_bytes()).unwrap_err().message, message);
        }
    }

    /// Reads and writes, and says what came out.
    fn again<T: Serialize + serde::de::DeserializeOwned>(text: &str) -> String {
        serde_json::to_string(&serde_json::from_str::<T>(text).unwrap()).unwrap()
    }

    #[test]
    fn answers_round_trip() {
        let text = r#"{"datasets":[{"dataset":"d","versions":1,"outputs":2},{"dataset":"e","current":"1","versions":1,"outputs":0}],"cursor":"65"}"#;
        assert_eq!(again::<Datasets<'static>>(text), text);
        let text = r#"{"dataset":"d","current":"2","cut_over_at":"2025-12-21T12:00:00Z","versions":[{"version":"2","outputs":1,"updated_at":"2025-12-21T12:00:00Z"}],"history":[{"version":"2","at":"2025-12-21T12:00:00Z"},{"at":"2025-12-20T12:00:00Z"}]}"#;
        assert_eq!(again::<Dataset<'static>>(text), text);
        let one = r#"{"partition_key":"p","mode":"replace","location":"l","digest":"h","committed_at":"2025-12-21T12:00:00Z"}"#;
        let two = r#"{"partition_key":"q","mode":"append","dedupe_key":"k","location":"l","digest":"h","committed_at":"2025-12-21T12:00:00Z","message":{"topic":"t","partition":0,"offset":1,"attempt":2}}"#;
        let text = format!(r#"{{"dataset":"d","version":"2","outputs":[{one},{two}],"cursor":"00"}}"#);
        assert_eq!(again::<VersionOutputs<'static>>(&text), text);
        let text = format!(
            r#"{{"dataset":"d","version":"2","partition_key":"q","mode":"append","outputs":[{two}]}}"#
        );
        assert_eq!(again::<PartitionOutputs<'static>>(&text), text);
        for text in [
            r#"{"dataset":"d","current":"2","previous":"1","changed":true}"#,
            r#"{"dataset":"d","current":"1","changed":false}"#,
        ] {
            assert_eq!(again::<CurrentVersion<'static>>(text), text);
        }
        assert_eq!(again::<VersionDeleted>(r#"{"deleted":3}"#), r#"{"deleted":3}"#);
    }
}
