//! Whether a table is as its sink needs it, and the SQL that makes it so.

use serde::Serialize;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::config::{Mode, SinkConfig, identifier, identifiers};
use super::fault::Fault;
use super::statement;

/// The first version with multiranges.
const VERSION_MIN: i32 = 140_000;
/// One migration at a time in a database: two that make the same table at once would be in each other's way.
const MIGRATION_LOCK: i64 = 0x6472_6966_7471_7369;
/// The columns of the table of progress, and their types.
const PROGRESS: [(&str, &str); 4] =
    [("sink", "text"), ("topic", "text"), ("incarnation", "int8"), ("done", "int8multirange")];

/// What a sink needs and the database does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// What is missing or does not fit.
    pub what: String,
    /// What makes it so, if SQL does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
}

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What must be done before the sink can run; empty if it can.
    pub needs: Vec<Need>,
}

/// Needs as a text for people.
pub(super) fn listed(needs: &[Need]) -> String {
    let lines = needs.iter().map(|need| match &need.sql {
        Some(sql) => {
            format!("{}; run this, or start with --migrate if a table is missing:\n{sql};", need.what)
        }
        None => need.what.clone(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

struct Found {
    name: String,
    /// As the catalogue calls it; the type under it, if it is a domain.
    kind: String,
    /// As people write it.
    written: String,
    /// Whether a row must have it, and the table has nothing to put there.
    is_needed: bool,
}

pub(super) async fn check(client: &Client, config: &SinkConfig) -> Result<Finding, Fault> {
    let mut needs = Vec::new();
    let version = client.query_typed("SELECT current_setting('server_version_num')::int", &[]).await;
    let version: i32 = version.map_err(|error| Fault::of(&error))?.first().map_or(0, |row| row.get(0));
    if version < VERSION_MIN {
        let what = format!("PostgreSQL 14 or later is needed; this is {}", version / 10_000);
        needs.push(Need { what, sql: None });
        return Ok(Finding { needs });
    }
    check_table(client, config, &mut needs).await?;
    check_progress(client, config, &mut needs).await?;
    Ok(Finding { needs })
}

async fn check_table(client: &Client, config: &SinkConfig, needs: &mut Vec<Need>) -> Result<(), Fault> {
    let table = identifiers(&config.table).map_err(Fault::Table)?;
    let Some(found) = look(client, &table).await? else {
        let sql = statement::create_table(config).map_err(Fault::Table)?;
        needs.push(Need { what: format!("there is no table {table}"), sql: Some(sql) });
        return Ok(());
    };
    for column in &config.columns {
        let name = identifier(&column.name).map_err(Fault::Table)?;
        match found.iter().find(|found| found.name == column.name) {
            None => needs.push(Need {
                what: format!("{table} has no column {name}"),
                sql: Some(format!("ALTER TABLE {table} ADD COLUMN {name} {}", column.kind.sql())),
            }),
            Some(found) if !column.kind.fitting().contains(&found.kind.as_str()) => needs.push(Need {
                what: format!(
                    "{table}.{name} is {}, and the sink writes {}: change the column, or the type in the file",
                    found.written,
                    column.kind.sql()
                ),
                sql: None,
            }),
            Some(_) => {}
        }
    }
    for found in found.iter().filter(|found| found.is_needed && config.place_of(&found.name).is_none()) {
        needs.push(Need {
            what: format!(
                "{table}.\"{}\" must not be null and has no default, and the sink has no column for it",
                found.name
            ),
            sql: None,
        });
    }
    if !config.dedupe_key.is_empty() && !has_unique(client, &table, &config.dedupe_key).await? {
        let unique = statement::unique(config).map_err(Fault::Table)?;
        needs.push(Need {
            what: format!("{table} has no unique constraint on exactly the dedupe_key, not deferrable"),
            sql: Some(format!("ALTER TABLE {table} ADD {unique}")),
        });
    }
    let rights = if config.mode == Mode::Upsert { "INSERT SELECT UPDATE" } else { "INSERT SELECT" };
    let rights = if config.mode == Mode::Append { "INSERT" } else { rights };
    check_rights(client, &table, rights, needs).await
}

async fn check_progress(client: &Client, config: &SinkConfig, needs: &mut Vec<Need>) -> Result<(), Fault> {
    let table = identifiers(&config.progress_table).map_err(Fault::Table)?;
    let Some(found) = look(client, &table).await? else {
        let sql = statement::create_progress(config).map_err(Fault::Table)?;
        needs.push(Need { what: format!("there is no table {table} for the progress"), sql: Some(sql) });
        return Ok(());
    };
    let has =
        |(name, kind): &(&str, &str)| found.iter().any(|found| found.name == *name && found.kind == *kind);
    let key: Vec<String> = PROGRESS[..3].iter().map(|(name, _)| (*name).to_owned()).collect();
    if !PROGRESS.iter().all(has) || !has_unique(client, &table, &key).await? {
        let what = format!("{table} is no table of progress: name another one as progress_table");
        needs.push(Need { what, sql: None });
    }
    check_rights(client, &table, "SELECT INSERT UPDATE", needs).await
}

/// The columns of a table; none if there is no such table.
async fn look(client: &Client, table: &String) -> Result<Option<Vec<Found>>, Fault> {
    const COLUMNS: &str = "SELECT a.attname::text, base.typname::text, format_type(a.atttypid, a.atttypmod), \
         a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' \
         FROM pg_class AS c LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
         LEFT JOIN pg_type AS t ON t.oid = a.atttypid \
         LEFT JOIN pg_type AS base ON base.oid = CASE t.typbasetype WHEN 0 THEN t.oid ELSE t.typbasetype END \
         WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')";
    let rows = client.query_typed(COLUMNS, &[(table, Type::TEXT)]).await;
    let rows = rows.map_err(|error| Fault::of(&error))?;
    if rows.is_empty() {
        return Ok(None);
    }
    let columns = rows.iter().filter_map(|row| {
        Some(Found {
            name: row.get::<_, Option<String>>(0)?,
            kind: row.get::<_, Option<String>>(1)?,
            written: row.get::<_, Option<String>>(2)?,
            is_needed: row.get::<_, Option<bool>>(3)?,
        })
    });
    Ok(Some(columns.collect()))
}

/// Whether rows that are not there yet can be written by `COPY`, which rules do not apply to and which policies forbid.
/// They are looked for by their keys: through the index, if the types are the same.
pub(super) async fn takes_copy(client: &Client, config: &SinkConfig) -> Result<bool, Fault> {
    const PLAIN: &str =
        "SELECT NOT (relhasrules OR row_security_active(oid)) FROM pg_class WHERE oid = to_regclass($1)";
    let table = identifiers(&config.table).map_err(Fault::Table)?;
    let found = look(client, &table).await?.unwrap_or_default();
    let is_same = |name: &String| {
        let kind =
            config.place_of(name).and_then(|place| config.columns.get(place)).map(|column| column.kind);
        let found = found.iter().find(|found| found.name == *name);
        kind.zip(found).is_some_and(|(kind, found)| kind.is_same(&found.kind))
    };
    if config.mode != Mode::Append && !config.dedupe_key.iter().all(is_same) {
        return Ok(false);
    }
    let rows = client.query_typed(PLAIN, &[(&table, Type::TEXT)]).await;
    let rows = rows.map_err(|error| Fault::of(&error))?;
    Ok(rows.first().is_some_and(|row| row.get::<_, Option<bool>>(0) == Some(true)))
}

/// Whether one row per key is a matter of the table: a unique index on exactly these columns, over all rows.
async fn has_unique(client: &Client, table: &String, key: &[String]) -> Result<bool, Fault> {
    const UNIQUE: &str = "SELECT 1 FROM pg_index AS i WHERE i.indrelid = to_regclass($1) AND i.indisunique \
         AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL \
         AND (SELECT array_agg(a.attname::text ORDER BY a.attname::text COLLATE \"C\") \
              FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place) \
              JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number \
              WHERE k.place <= i.indnkeyatts) = $2::text[]";
    let mut key = key.to_vec();
    key.sort();
    let rows = client.query_typed(UNIQUE, &[(table, Type::TEXT), (&key, Type::TEXT_ARRAY)]).await;
    Ok(!rows.map_err(|error| Fault::of(&error))?.is_empty())
}

async fn check_rights(
    client: &Client,
    table: &String,
    rights: &str,
    needs: &mut Vec<Need>,
) -> Result<(), Fault> {
    const RIGHT: &str =
        "SELECT has_table_privilege(to_regclass($1)::oid, $2), quote_ident(current_user::text)";
    for right in rights.split(' ') {
        let rows = client.query_typed(RIGHT, &[(table, Type::TEXT), (&right, Type::TEXT)]).await;
        let rows = rows.map_err(|error| Fault::of(&error))?;
        let Some(row) = rows.first().filter(|row| row.get::<_, Option<bool>>(0) != Some(true)) else {
            continue;
        };
        let user: String = row.get(1);
        needs.push(Need {
            what: format!("{user} may not {right} on {table}"),
            sql: Some(format!("GRANT {right} ON {table} TO {user}")),
        });
    }
    Ok(())
}

/// Makes the tables that are not there, all or none.
pub(super) async fn migrate(client: &Client, config: &SinkConfig) -> Result<(), Fault> {
    let run = async |sql: &str| client.batch_execute(sql).await.map_err(|error| Fault::of(&error));
    run(&format!("BEGIN; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")).await?;
    let tables = [
        (&config.table, statement::create_table(config)),
        (&config.progress_table, statement::create_progress(config)),
    ];
    for (table, sql) in tables {
        let table = identifiers(table).map_err(Fault::Table)?;
        if look(client, &table).await?.is_none() {
            run(&sql.map_err(Fault::Table)?).await?;
        }
    }
    run("COMMIT").await
}
