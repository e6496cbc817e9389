//! The statements of a sink. Names are quoted; values never stand in a statement.

use super::config::{Mode, SinkConfig, identifier, identifiers};
use super::value::Kind;

/// Every transaction of a sink. What is acked must survive a crash of the database, also where `synchronous_commit` is
/// off; what is stronger stays. Both end with the transaction, so that a pooler may give the session to anyone.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     SELECT set_config('synchronous_commit', 'on', true) \
     WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')";

/// All statements of one sink.
pub(super) struct Statements {
    /// Writes rows: one array per column.
    pub(super) insert: String,
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

/// Whatever the columns are called, the arrays' elements are called `c0`, `c1`, and so on.
fn insert(config: &SinkConfig) -> Result<String, String> {
    let table = identifiers(&config.table)?;
    let names: Vec<String> =
        config.columns.iter().map(|column| identifier(&column.name)).collect::<Result<_, _>>()?;
    let mut arrays = Vec::new();
    let mut values = Vec::new();
    for (place, column) in config.columns.iter().enumerate() {
        let wire = if column.kind == Kind::Numeric { Kind::Text } else { column.kind };
        arrays.push(format!("${}::{}[]", place + 1, wire.sql()));
        values.push(value(config, place));
    }
    let elements: Vec<String> = (0..names.len()).map(|place| format!("c{place}")).collect();
    let (arrays, elements, values) = (arrays.join(", "), elements.join(", "), values.join(", "));
    let keys: Vec<String> =
        config.dedupe_key.iter().map(|name| identifier(name)).collect::<Result<_, _>>()?;
    let start = format!("INSERT INTO {table} AS stored ({})", names.join(", "));
    let rows = format!("FROM unnest({arrays}) WITH ORDINALITY AS r({elements}, n)");
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
    match config.columns.get(place).map(|column| column.kind) {
        Some(Kind::Numeric) => format!("c{place}::numeric"),
        _ => format!("c{place}"),
    }
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
