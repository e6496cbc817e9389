//! The statements of a sink. Names are quoted; values never stand in a statement, and go as texts.

use super::config::{Mode, SinkConfig, identifier, identifiers};
use super::value::Kind;

/// Every transaction of a sink. What is acked must survive a crash of the database, also where `synchronous_commit` is
/// off; what is stronger stays. Both end with the transaction, so that a pooler may give the session to anyone.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     SELECT set_config('synchronous_commit', 'on', true) \
     WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')";

/// All statements of one sink.
pub(super) struct Statements {
    /// Writes rows, minding those that are there: one array per column.
    pub(super) insert: String,
    /// Writes rows that are not there, which costs PostgreSQL half as much.
    pub(super) copy: String,
    /// Tells which keys are there, by their places from 1: one array per column of the key. None if a row that is there
    /// is in the way of the new one.
    pub(super) present: Option<String>,
    /// Makes the progress of topics, if there is none: sink, names, incarnations.
    pub(super) know: String,
    /// Locks the progress of topics, in order: likewise.
    pub(super) lock: String,
    /// Reads what of some offsets is done: likewise, and multiranges.
    pub(super) read: String,
    /// Adds offsets to what is done: likewise.
    pub(super) done: String,
}

/// The topics that a statement is about, as a table.
const TOPICS: &str = "unnest($2::text[], $3::bigint[])";
const TOPICS_AND_OFFSETS: &str = "unnest($2::text[], $3::bigint[], $4::text[])";
const SAME_TOPIC: &str = "p.sink = $1 AND p.topic = a.topic AND p.incarnation = a.incarnation";

impl Statements {
    pub(super) fn new(config: &SinkConfig) -> Result<Self, String> {
        let progress = identifiers(&config.progress_table)?;
        Ok(Self {
            insert: insert(config)?,
            copy: copy(config)?,
            present: (config.mode != Mode::Append).then(|| present(config)).transpose()?,
            know: format!(
                "INSERT INTO {progress} (sink, topic, incarnation) \
                 SELECT $1::text, a.* FROM {TOPICS} AS a ORDER BY 2, 3 ON CONFLICT DO NOTHING"
            ),
            lock: format!(
                "SELECT 1 FROM {progress} AS p, {TOPICS} AS a(topic, incarnation) WHERE {SAME_TOPIC} \
                 ORDER BY p.topic COLLATE \"C\", p.incarnation FOR UPDATE OF p"
            ),
            read: format!(
                "SELECT p.topic, p.incarnation, (p.done * a.asked::int8multirange)::text \
                 FROM {progress} AS p, {TOPICS_AND_OFFSETS} AS a(topic, incarnation, asked) \
                 WHERE {SAME_TOPIC}"
            ),
            done: format!(
                "UPDATE {progress} AS p SET done = p.done + a.added::int8multirange, updated_at = now() \
                 FROM {TOPICS_AND_OFFSETS} AS a(topic, incarnation, added) WHERE {SAME_TOPIC}"
            ),
        })
    }
}

/// Arrays for some columns as a table. Whatever the columns are called, the elements are called `c0`, `c1`, and so on.
fn elements(places: impl IntoIterator<Item = usize>) -> String {
    let (mut arrays, mut names) = (Vec::new(), Vec::new());
    for place in places {
        arrays.push(format!("${}::text[]", arrays.len() + 1));
        names.push(format!("c{place}"));
    }
    format!("FROM unnest({}) WITH ORDINALITY AS r({}, n)", arrays.join(", "), names.join(", "))
}

fn copy(config: &SinkConfig) -> Result<String, String> {
    let names: Vec<String> =
        config.columns.iter().map(|column| identifier(&column.name)).collect::<Result<_, _>>()?;
    Ok(format!("COPY {} ({}) FROM STDIN", identifiers(&config.table)?, names.join(", ")))
}

fn present(config: &SinkConfig) -> Result<String, String> {
    let places: Vec<usize> = config.dedupe_key.iter().filter_map(|name| config.place_of(name)).collect();
    let mut same = Vec::new();
    for (name, place) in config.dedupe_key.iter().zip(&places) {
        same.push(format!("stored.{} = {}", identifier(name)?, value(config, *place)));
    }
    // Key by key through the index, however large the table is: the offset keeps it from becoming a join.
    Ok(format!(
        "SELECT n {} WHERE EXISTS (SELECT 1 FROM {} AS stored WHERE {} OFFSET 0)",
        elements(places),
        identifiers(&config.table)?,
        same.join(" AND ")
    ))
}

fn insert(config: &SinkConfig) -> Result<String, String> {
    let table = identifiers(&config.table)?;
    let names: Vec<String> =
        config.columns.iter().map(|column| identifier(&column.name)).collect::<Result<_, _>>()?;
    let values: Vec<String> = (0..names.len()).map(|place| value(config, place)).collect();
    let values = values.join(", ");
    let keys: Vec<String> =
        config.dedupe_key.iter().map(|name| identifier(name)).collect::<Result<_, _>>()?;
    let start = format!("INSERT INTO {table} AS stored ({})", names.join(", "));
    let rows = elements(0..names.len());
    Ok(match config.mode {
        Mode::Append => format!("{start} SELECT {values} {rows}"),
        Mode::Insert => {
            format!("{start} SELECT {values} {rows} ON CONFLICT ({}) DO NOTHING", keys.join(", "))
        }
        Mode::Upsert => {
            let version = config.version.as_deref().unwrap_or_default();
            let newest = config.place_of(version).map(|place| value(config, place)).unwrap_or_default();
            let version = identifier(version)?;
            let by: Vec<String> = config.dedupe_key.iter().filter_map(|name| key(config, name)).collect();
            let by = by.join(", ");
            let set: Vec<String> = names
                .iter()
                .filter(|name| !keys.contains(name))
                .map(|name| format!("{name} = EXCLUDED.{name}"))
                .collect();
            // One row per key in a statement: the newest, and of equals the first.
            format!(
                "{start} SELECT DISTINCT ON ({by}) {values} {rows} ORDER BY {by}, {newest} DESC, n \
                 ON CONFLICT ({}) DO UPDATE SET {} \
                 WHERE stored.{version} IS NULL OR stored.{version} < EXCLUDED.{version}",
                keys.join(", "),
                set.join(", ")
            )
        }
    })
}

/// An element as the value of its column.
fn value(config: &SinkConfig, place: usize) -> String {
    let kind = config.columns.get(place).map_or(Kind::Text, |column| column.kind);
    format!("c{place}::{}", kind.sql())
}

/// An element of the key, as it is sorted: the same in every copy, whatever the language of the database.
fn key(config: &SinkConfig, name: &str) -> Option<String> {
    let place = config.place_of(name)?;
    let value = value(config, place);
    Some(if config.columns.get(place)?.kind == Kind::Text { format!("{value} COLLATE \"C\"") } else { value })
}

/// Makes the table, if `--migrate` is asked for and there is none.
pub(super) fn create_table(config: &SinkConfig) -> Result<String, String> {
    let mut lines = Vec::new();
    for column in &config.columns {
        let is_key =
            config.dedupe_key.contains(&column.name) || config.version.as_ref() == Some(&column.name);
        let null = if column.required || is_key { " NOT NULL" } else { "" };
        lines.push(format!("  {} {}{null}", identifier(&column.name)?, column.kind.sql()));
    }
    if !config.dedupe_key.is_empty() {
        lines.push(format!("  {}", unique(config)?));
    }
    Ok(format!("CREATE TABLE {} (\n{}\n)", identifiers(&config.table)?, lines.join(",\n")))
}

/// The constraint that `dedupe_key` needs.
pub(super) fn unique(config: &SinkConfig) -> Result<String, String> {
    let keys: Result<Vec<String>, String> = config.dedupe_key.iter().map(|name| identifier(name)).collect();
    Ok(format!("UNIQUE ({})", keys?.join(", ")))
}

/// Makes the table of progress.
pub(super) fn create_progress(config: &SinkConfig) -> Result<String, String> {
    Ok(format!(
        "CREATE TABLE {} (\n  sink text NOT NULL,\n  topic text NOT NULL,\n  incarnation bigint NOT NULL,\n  \
         done int8multirange NOT NULL DEFAULT '{{}}',\n  \
         updated_at timestamptz NOT NULL DEFAULT now(),\n  PRIMARY KEY (sink, topic, incarnation)\n)",
        identifiers(&config.progress_table)?
    ))
}
