//! Exports: bounded selections that connectors write into files.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::browse::{self, Position};
use super::effect::{EffectState, MessagePlace};
use super::envelope::PARTITION_MAX;
use super::limits::{
    EFFECT_SCOPE_BYTES_MAX, EFFECT_TENANT_BYTES_MAX, EXPORT_ID_BYTES_MAX, EXPORT_PARAMETERS_MAX,
    EXPORT_PART_BYTES_MAX, EXPORT_PART_ROWS_MAX, EXPORT_STATEMENT_BYTES_MAX, IDENTITY_BYTES_MAX,
    NAME_BYTES_MAX, OFFSET_MAX, OUTPUT_NAME_BYTES_MAX,
};
use super::output::VERSION_CURRENT;
use super::parameters::Parameters;
use super::read::{self, number, structure, text};
use crate::fault::Fault;
use crate::moment::Moment;
use crate::query::Query;

/// What every topic of a place for exports begins with; the place's name follows.
pub const EXPORTS_PREFIX: &str = "exports.";
/// The group of the connectors that export.
pub const EXPORTS_GROUP: &str = "exports";
/// The scope of the effects that exports are.
pub const EXPORT_SCOPE: &str = "export";
/// The header of an export's outcome that says where its manifest lies.
pub const EXPORT_LOCATION_HEADER: &str = "location";
/// The header of an export's outcome that has the digest of its manifest.
pub const EXPORT_DIGEST_HEADER: &str = "digest";
/// Longest name of a place, in bytes: with a prefix it is the name of a topic.
pub const EXPORT_PLACE_BYTES_MAX: usize = NAME_BYTES_MAX - EXPORTS_PREFIX.len();

/// What the files of an export are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// A JSON object per line. What is empty is left out.
    Ndjson,
    /// Comma-separated values with a header in every part. What is empty is an empty field.
    Csv,
    /// Parquet, compressed with zstd.
    Parquet,
}

impl ExportFormat {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 3] =
        [("ndjson", Self::Ndjson), ("csv", Self::Csv), ("parquet", Self::Parquet)];

    /// Its name, and how its files end.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

impl<'de> Deserialize<'de> for ExportFormat {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &Self::WORDS)
    }
}

/// What can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelectionKind {
    /// The messages of a topic that are still there.
    Topic,
    /// What happened in a run.
    Run,
    /// The dead letters of a topic.
    DeadLetters,
    /// Records of effects.
    Effects,
    /// The pointers of a version of a dataset.
    Dataset,
    /// The rows of a query on a database that the connector knows.
    Query,
}

impl SelectionKind {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 6] = [
        ("topic", Self::Topic),
        ("run", Self::Run),
        ("dead_letters", Self::DeadLetters),
        ("effects", Self::Effects),
        ("dataset", Self::Dataset),
        ("query", Self::Query),
    ];
}

impl<'de> Deserialize<'de> for SelectionKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::word(from, &Self::WORDS)
    }
}

/// What is exported. Each kind has fields of its own: `topic` (with `partition`, `from`, `to`), `run` (`run_id`),
/// `dead_letters` (`topic`), `effects` (`state`, `scope`), `dataset` (`dataset`, and `version` or `latest`), `query`
/// (`database`, `statement`, `parameters`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportSelection {
    /// What kind it is.
    pub kind: SelectionKind,
    /// The topic.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub topic: Option<String>,
    /// Only of this partition.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, PARTITION_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u32>, minimum = 0, maximum = 4095)]
    pub partition: Option<u32>,
    /// From this offset on; from the first one if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, OFFSET_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    pub from: Option<u64>,
    /// Up to this offset, and without it; up to the end that there is when the export begins if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 0, OFFSET_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    pub to: Option<u64>,
    /// The run.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, IDENTITY_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 4096)]
    pub run_id: Option<String>,
    /// Only effects in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EffectState>,
    /// Only effects of this scope.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, EFFECT_SCOPE_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub scope: Option<String>,
    /// The dataset.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, OUTPUT_NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub dataset: Option<String>,
    /// Which version of it.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, OUTPUT_NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub version: Option<String>,
    /// Whether the version is the one that is current when the export begins; the manifest says which one that was.
    #[serde(default, deserialize_with = "structure::flag", skip_serializing_if = "super::effect::is_false")]
    #[schema(value_type = Option<bool>)]
    pub latest: bool,
    /// The database, by its name in the connector's file.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, NAME_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    pub database: Option<String>,
    /// The query, in SQL.
    #[serde(
        default,
        deserialize_with = "text::optional_owned::<_, 1, EXPORT_STATEMENT_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 65_536)]
    pub statement: Option<String>,
    /// What stands for `$1`, `$2`, … in the query, as texts.
    #[serde(
        default,
        deserialize_with = "text::list_owned::<_, 0, IDENTITY_BYTES_MAX, EXPORT_PARAMETERS_MAX>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(schema_with = parameters_schema)]
    pub parameters: Vec<String>,
}

#[cfg(feature = "openapi")]
fn parameters_schema() -> utoipa::openapi::schema::Schema {
    let about = "What stands for `$1`, `$2`, … in the query, as texts.";
    super::shape::texts(0, IDENTITY_BYTES_MAX, EXPORT_PARAMETERS_MAX, about)
}

impl ExportSelection {
    /// The fields that are given, by name.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        [
            ("topic", self.topic.is_some()),
            ("partition", self.partition.is_some()),
            ("from", self.from.is_some()),
            ("to", self.to.is_some()),
            ("run_id", self.run_id.is_some()),
            ("state", self.state.is_some()),
            ("scope", self.scope.is_some()),
            ("dataset", self.dataset.is_some()),
            ("version", self.version.is_some()),
            ("latest", self.latest),
            ("database", self.database.is_some()),
            ("statement", self.statement.is_some()),
            ("parameters", !self.parameters.is_empty()),
        ]
        .into_iter()
        .filter_map(|(name, is_given)| is_given.then_some(name))
    }

    /// Whether what is given is what its kind has.
    pub fn check(&self) -> Result<(), Fault> {
        let (needed, allowed): (&[&str], &[&str]) = match self.kind {
            SelectionKind::Topic => (&["topic"], &["partition", "from", "to"]),
            SelectionKind::Run => (&["run_id"], &[]),
            SelectionKind::DeadLetters => (&["topic"], &["to"]),
            SelectionKind::Effects => (&[], &["state", "scope"]),
            SelectionKind::Dataset => (&["dataset"], &["version", "latest"]),
            SelectionKind::Query => (&["database", "statement"], &["parameters"]),
        };
        if let Some(missing) = needed.iter().find(|name| !self.given().any(|given| given == **name)) {
            return Err(Fault::invalid(format!("selection: a selection of this kind has a {missing}")));
        }
        if let Some(other) = self.given().find(|name| !needed.contains(name) && !allowed.contains(name)) {
            return Err(Fault::invalid(format!("selection: a selection of this kind has no {other}")));
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from > to
        {
            return Err(Fault::invalid("selection: the range ends before it begins"));
        }
        let is_named = self.version.as_ref().is_some_and(|version| version != VERSION_CURRENT);
        if self.kind == SelectionKind::Dataset && is_named == self.latest {
            return Err(Fault::invalid("selection: name a version, or say latest, and not both"));
        }
        Ok(())
    }
}

/// `POST /v2/exports`: something to export. It is also the value of the message that asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportSpec {
    /// Names it: the same id again is the same export. It is the name of a folder.
    #[serde(deserialize_with = "text::owned::<_, 1, EXPORT_ID_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$")]
    pub export_id: String,
    /// Where the files go, by the name of the place in the connector's file.
    #[serde(deserialize_with = "text::owned::<_, 1, EXPORT_PLACE_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 247)]
    pub place: String,
    /// What is exported.
    #[serde(deserialize_with = "structure::required")]
    pub selection: ExportSelection,
    /// What the files are; `ndjson` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ExportFormat>,
    /// Most rows of a part.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, EXPORT_PART_ROWS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 100_000_000)]
    pub part_rows: Option<u64>,
    /// A part ends once it has this many bytes.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, EXPORT_PART_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 1_073_741_824)]
    pub part_bytes: Option<u64>,
    /// Whose it is.
    #[serde(
        default,
        deserialize_with = "text::any_owned::<_, EFFECT_TENANT_BYTES_MAX>",
        skip_serializing_if = "String::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub tenant_id: String,
}

/// Whether a text can be the id of an export: the name of a folder.
#[must_use]
pub fn is_export_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty()
        && text.len() <= EXPORT_ID_BYTES_MAX
        && !text.starts_with('.')
        && text.bytes().all(is_plain)
}

impl ExportSpec {
    /// From a JSON body.
    pub fn from_json(body: &[u8]) -> Result<Self, Fault> {
        read::object(body)
    }

    /// Whether what is given fits together.
    pub fn check(&self) -> Result<(), Fault> {
        if !is_export_id(&self.export_id) {
            return Err(Fault::invalid(
                "export_id: must be letters, digits, dots, hyphens and underscores, and no dot in front",
            ));
        }
        self.selection.check()
    }
}

/// To `POST /v2/exports`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportTaken<'a> {
    /// Its id.
    pub export_id: Cow<'a, str>,
    /// Where the files go.
    pub place: Cow<'a, str>,
    /// Whether it had been taken before.
    pub duplicate: bool,
    /// The message that it is.
    pub message: MessagePlace<'a>,
}

/// Where an export stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportState {
    /// It waits for a connector.
    Pending,
    /// A connector writes it.
    Running,
    /// It failed and is tried again later.
    Retrying,
    /// It is there.
    Done,
    /// It was given up: it is a dead letter.
    Failed,
}

impl ExportState {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("pending", Self::Pending),
        ("running", Self::Running),
        ("retrying", Self::Retrying),
        ("done", Self::Done),
        ("failed", Self::Failed),
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportRecord<'a> {
    /// Its id.
    pub export_id: Cow<'a, str>,
    /// Where the files go.
    pub place: Cow<'a, str>,
    /// Whose it is, if it is a tenant's.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub tenant_id: Cow<'a, str>,
    /// Where it stands.
    pub state: ExportState,
    /// When it was asked for.
    pub created_at: Moment,
    /// When it may be tried next, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Moment>,
    /// The message that it is.
    pub message: MessagePlace<'a>,
    /// Where its manifest lies, once it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The digest of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The rows of all parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The bytes of all parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How many parts there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u64>,
    /// Why the last attempt failed, if it did.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = Option<String>)]
    pub error: Cow<'a, str>,
}

/// To `GET /v2/exports`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Exports<'a> {
    /// Oldest first.
    pub exports: Vec<ExportRecord<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many messages were looked at.
    pub scanned: u64,
}

/// `GET /v2/exports`: which ones. All conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportsQuery<'a> {
    /// To this place.
    pub place: Cow<'a, str>,
    /// Only the one with this id.
    pub export_id: Option<Cow<'a, str>>,
    /// Only in this state.
    pub state: Option<ExportState>,
    /// Most exports on the page.
    pub limit: usize,
    /// Only after this one.
    pub after: Option<Position>,
}

impl<'a> ExportsQuery<'a> {
    /// From the query of the URL.
    pub fn from_query(query: Query<'a>) -> Result<Self, Fault> {
        let mut parameters = Parameters::new(query);
        let place = parameters
            .text("place", 1, EXPORT_PLACE_BYTES_MAX)?
            .ok_or_else(|| Fault::invalid("place: must be given"))?;
        let export_id = parameters.text("export_id", 1, EXPORT_ID_BYTES_MAX)?;
        let state = parameters.word("state", &ExportState::WORDS)?;
        let (limit, after) = browse::page(&mut parameters)?;
        parameters.finish()?;
        Ok(Self { place, export_id, state, limit, after })
    }
}
