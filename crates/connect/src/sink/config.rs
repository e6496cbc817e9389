//! What a sink is told: from where, to where, and which part of a message goes into which column.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::pick::Pointer;
use super::value::{self, Kind};
use crate::database::Database;

/// Most rows of one transaction unless another number is given.
pub const BATCH_ROWS: usize = 5_000;
/// Most rows of one transaction.
pub const BATCH_ROWS_MAX: usize = 20_000;
/// Payload bytes after which a transaction takes no more rows, unless another number is given.
pub const BATCH_BYTES: usize = 4 << 20;
/// The largest such number.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// Most sinks of one file.
pub const SINKS_MAX: usize = 64;
/// Most columns of one sink: as many as PostgreSQL allows in a table.
pub const COLUMNS_MAX: usize = 1_600;
/// The longest name that PostgreSQL does not cut.
const NAME_BYTES_MAX: usize = 63;
/// Where progress is kept unless another table is named.
const PROGRESS: &str = "driftq_sink_progress";
/// The shortest lease: below, heartbeats would be most of the work.
const LEASE_MS_MIN: u64 = 100;
const LEASE_MS: u64 = 30_000;

/// One `[[sink]]` of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkConfig {
    /// What its progress is kept under. A sink of another name begins anew.
    pub name: String,
    /// The topic whose messages become rows.
    pub topic: String,
    /// The consumer group; `sink.<name>` if not given.
    #[serde(default)]
    pub group: Option<String>,
    /// The database.
    pub postgres: Database,
    /// The table, `name` or `schema.name`.
    pub table: String,
    /// Where progress is kept, in the same database, `name` or `schema.name`.
    #[serde(default = "progress_default")]
    pub progress_table: String,
    /// What becomes of a row whose key is there already.
    pub mode: Mode,
    /// The columns that name a row. The table has a unique constraint on them.
    #[serde(default)]
    pub dedupe_key: Vec<String>,
    /// The column by which `upsert` knows the newer of two rows.
    #[serde(default)]
    pub version: Option<String>,
    /// What goes where.
    pub columns: Vec<Column>,
    /// Most rows of one transaction.
    #[serde(default = "batch_rows_default")]
    pub batch_rows: usize,
    /// Payload bytes after which a transaction takes no more rows.
    #[serde(default = "batch_bytes_default")]
    pub batch_bytes: usize,
    /// How long messages are on loan between two signs of life.
    #[serde(default = "lease_ms_default")]
    pub lease_ms: u64,
}

/// What becomes of a row whose key is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The row that is there stays.
    Insert,
    /// The row with the higher version stays.
    Upsert,
    /// There is no key; or there is one, and a second row with it becomes a dead letter.
    Append,
}

impl Mode {
    /// Its name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Upsert => "upsert",
            Self::Append => "append",
        }
    }
}

/// One column and what goes into it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name in the table.
    pub name: String,
    /// A JSON pointer into the payload, or `$key`, `$offset`, `$partition`, `$produced_at`, `$idempotency_key`, `$value`.
    pub from: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Whether a message without it is a bad row.
    #[serde(default)]
    pub required: bool,
    /// What is written if a message does not have it.
    #[serde(default)]
    pub default: Option<toml::Value>,
}

/// Where a column's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    Pointer(Pointer),
    Key,
    Offset,
    Partition,
    ProducedAt,
    IdempotencyKey,
    Value,
}

impl From {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "$key" => Ok(Self::Key),
            "$offset" => Ok(Self::Offset),
            "$partition" => Ok(Self::Partition),
            "$produced_at" => Ok(Self::ProducedAt),
            "$idempotency_key" => Ok(Self::IdempotencyKey),
            "$value" => Ok(Self::Value),
            other if other.starts_with('$') => Err(format!(
                "`{other}` is nothing that a message has; it has $key, $offset, $partition, $produced_at, \
                 $idempotency_key and $value"
            )),
            pointer => Pointer::parse(pointer).map(Self::Pointer).ok_or_else(|| {
                format!("`{pointer}` is no JSON pointer; write it with a slash in front, such as /{pointer}")
            }),
        }
    }

    /// Whether every message has it.
    const fn is_always_there(&self) -> bool {
        matches!(self, Self::Offset | Self::Partition | Self::ProducedAt | Self::Value)
    }

    /// Which types its value can have.
    const fn kinds(&self) -> &'static [Kind] {
        match self {
            Self::Pointer(_) => Kind::ALL,
            Self::Key => &[Kind::Text, Kind::Bytea],
            Self::Offset => &[Kind::Bigint, Kind::Numeric],
            Self::Partition => &[Kind::Integer, Kind::Bigint],
            Self::ProducedAt => &[Kind::Timestamptz],
            Self::IdempotencyKey => &[Kind::Text],
            Self::Value => &[Kind::Text, Kind::Jsonb, Kind::Bytea],
        }
    }
}

impl SinkConfig {
    /// The consumer group.
    #[must_use]
    pub fn group(&self) -> String {
        self.group.clone().unwrap_or_else(|| format!("sink.{}", self.name))
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(super) fn place_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn check(&self) -> Result<(), String> {
        let say = |what: String| Err(format!("sink `{}`: {what}", self.name));
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX || self.topic.is_empty() {
            return say("name and topic are needed, and a name has at most 63 bytes".to_owned());
        }
        for table in [&self.table, &self.progress_table] {
            if let Err(why) = identifiers(table) {
                return say(format!("table `{table}`: {why}"));
            }
        }
        if !self.postgres.is_given() {
            return say("postgres needs a url, url_env or url_file".to_owned());
        }
        if !(1..=BATCH_ROWS_MAX).contains(&self.batch_rows) {
            return say(format!("batch_rows lies between 1 and {BATCH_ROWS_MAX}"));
        }
        if !(1..=BATCH_BYTES_MAX).contains(&self.batch_bytes) {
            return say(format!("batch_bytes lies between 1 and {BATCH_BYTES_MAX}"));
        }
        if !(LEASE_MS_MIN..=driftq_api::v2::LEASE_MS_MAX).contains(&self.lease_ms) {
            return say(format!("lease_ms is at least {LEASE_MS_MIN} and at most a week"));
        }
        self.check_columns().and_then(|()| self.check_mode()).or_else(say)
    }

    fn check_columns(&self) -> Result<(), String> {
        if self.columns.is_empty() || self.columns.len() > COLUMNS_MAX {
            return Err(format!("columns lists between 1 and {COLUMNS_MAX} columns"));
        }
        let mut names = BTreeSet::new();
        for column in &self.columns {
            let say = |what: String| format!("column `{}`: {what}", column.name);
            identifier(&column.name).map_err(say)?;
            if !names.insert(&column.name) {
                return Err(say("is listed twice".to_owned()));
            }
            let from = From::parse(&column.from).map_err(say)?;
            if !from.kinds().contains(&column.kind) {
                let names: Vec<_> = from.kinds().iter().map(|kind| kind.name()).collect();
                return Err(say(format!("{} is {}", column.from, names.join(" or "))));
            }
            if let Some(default) = &column.default {
                value::default_cell(column.kind, default).map_err(|why| say(format!("default: {why}")))?;
            }
        }
        Ok(())
    }

    fn check_mode(&self) -> Result<(), String> {
        let is_given = |name: &str| {
            let column = self.place_of(name).and_then(|place| self.columns.get(place));
            let column = column.ok_or_else(|| format!("`{name}` is no column of the list"))?;
            let is_always_there = From::parse(&column.from).is_ok_and(|from| from.is_always_there());
            if column.required || column.default.is_some() || is_always_there {
                return Ok(column.kind);
            }
            Err(format!("`{name}` must be `required` or have a `default`: what is null equals nothing"))
        };
        let mut keys = BTreeSet::new();
        for name in &self.dedupe_key {
            if is_given(name)? == Kind::Jsonb || !keys.insert(name) {
                return Err(format!("dedupe_key: `{name}` is listed twice, or is jsonb"));
            }
        }
        if self.mode != Mode::Append && self.dedupe_key.is_empty() {
            return Err(format!("mode `{}` needs a dedupe_key", self.mode.name()));
        }
        match (&self.version, self.mode) {
            (None, Mode::Upsert) => Err("mode `upsert` needs a version column".to_owned()),
            (Some(_), Mode::Insert | Mode::Append) => {
                Err("version is for mode `upsert`: the other modes never overwrite".to_owned())
            }
            (Some(name), Mode::Upsert) => {
                let kind = is_given(name)?;
                if keys.contains(name) {
                    return Err(format!("`{name}` is both version and part of dedupe_key"));
                }
                let ordered = [Kind::Bigint, Kind::Integer, Kind::Numeric, Kind::Timestamptz];
                if ordered.contains(&kind) {
                    return Ok(());
                }
                Err(format!("version `{name}` is bigint, integer, numeric or timestamptz"))
            }
            (None, _) => Ok(()),
        }
    }
}

/// What is wrong with one of the sinks, or with all of them together.
pub(crate) fn check_all(sinks: &[SinkConfig]) -> Result<(), String> {
    if sinks.len() > SINKS_MAX {
        return Err(format!("one file has at most {SINKS_MAX} sinks"));
    }
    let mut names = BTreeSet::new();
    for sink in sinks {
        if !names.insert(&sink.name) {
            return Err(format!("two sinks are called `{}`; their progress would mix", sink.name));
        }
        sink.check()?;
    }
    Ok(())
}

/// The quoted form of `name` or `schema.name`, safe to paste into a statement.
pub(super) fn identifiers(name: &str) -> Result<String, String> {
    let parts: Vec<&str> = name.split('.').collect();
    if parts.len() > 2 {
        return Err("is written as name or schema.name".to_owned());
    }
    let quoted: Result<Vec<String>, String> = parts.into_iter().map(identifier).collect();
    Ok(quoted?.join("."))
}

/// The quoted form of a name.
pub(super) fn identifier(name: &str) -> Result<String, String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err("a name has between 1 and 63 bytes, and no NUL".to_owned());
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

fn progress_default() -> String {
    PROGRESS.to_owned()
}

const fn batch_rows_default() -> usize {
    BATCH_ROWS
}

const fn batch_bytes_default() -> usize {
    BATCH_BYTES
}

const fn lease_ms_default() -> u64 {
    LEASE_MS
}
