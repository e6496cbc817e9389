//! The tables: made at the first start, checked at every other.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::Trouble;
use super::link::Link;
use super::{PostgresPlace, Statements};
use crate::clock::Reading;
use crate::failure::StartError;

/// The version of the tables that this program knows.
const VERSION: i32 = 1;
/// The version of tables that a log is still being taken to: no program serves from them.
const RECEIVING: i32 = 0;
/// The oldest server that is known to do: PostgreSQL 14.
const SERVER_VERSION_MIN: i32 = 140_000;

/// What to do when the database no longer has what it had.
pub(super) const LOST: &str = "it was restored from an older copy, or an asynchronous standby took over without the \
    last transactions. Bring the newest copy back, or start again to serve what is left";

/// What the server is, and whether the tables are there. A standby takes no writes; without `fsync` nothing is safe.
const LOOK: &str = "SELECT current_setting('server_version_num')::int, current_setting('server_version'), \
    current_setting('fsync'), pg_is_in_recovery(), to_regclass($1)::text, \
    current_setting('synchronous_standby_names'), \
    (SELECT count(*) FROM pg_stat_replication), \
    EXISTS (SELECT FROM pg_namespace WHERE nspname = $2)";

/// In microseconds since the Unix epoch.
const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";

const ABOUT: &str = "SELECT version, cluster FROM {schema}.about";

/// Locked, because `IF NOT EXISTS` alone fails for one of two servers that are started at once.
const SCHEMA: &str = "SELECT pg_advisory_xact_lock(8251066101917);
    CREATE SCHEMA IF NOT EXISTS {schema}";

/// One transaction; two servers that start at once make them one after the other.
const TABLES: &str = "SELECT pg_advisory_xact_lock(8251066101917);
    CREATE TABLE IF NOT EXISTS {schema}.about (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        version integer NOT NULL,
        cluster text NOT NULL
    );
    CREATE TABLE IF NOT EXISTS {schema}.shard (
        shard integer PRIMARY KEY,
        epoch bigint NOT NULL,
        holder text NOT NULL,
        claimed_at timestamptz NOT NULL,
        snapshot bigint,
        snapshot_upto bigint,
        snapshot_bytes bigint,
        snapshot_crc bigint
    );
    CREATE TABLE IF NOT EXISTS {schema}.batch (
        shard integer NOT NULL,
        position bigint NOT NULL,
        previous bigint NOT NULL,
        ended bigint NOT NULL,
        epoch bigint NOT NULL,
        crc bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (shard, position)
    );
    ALTER TABLE {schema}.batch ALTER COLUMN body SET STORAGE EXTERNAL;
    CREATE TABLE IF NOT EXISTS {schema}.snapshot_part (
        shard integer NOT NULL,
        snapshot bigint NOT NULL,
        part integer NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (shard, snapshot, part)
    );
    ALTER TABLE {schema}.snapshot_part ALTER COLUMN body SET STORAGE EXTERNAL;
    INSERT INTO {schema}.shard (shard, epoch, holder, claimed_at) VALUES (0, 0, '', now())
        ON CONFLICT DO NOTHING;";

/// One more shard.
const HOUSED: &str = "INSERT INTO {schema}.shard (shard, epoch, holder, claimed_at) VALUES ($1, 0, '', now()) \
    ON CONFLICT DO NOTHING";

/// How many there are, and whether one between them is missing.
const SHARDS: &str = "SELECT (max(shard) + 1)::int4, count(*)::int4 FROM {schema}.shard";

const NAMED: &str = "INSERT INTO {schema}.about (version, cluster) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// Nothing if one of the shards has another claim by now than the one that is listed for it.
const FINISH: &str = "WITH {level}, held AS MATERIALIZED (SELECT shard, epoch FROM {schema}.shard FOR SHARE), \
        ours AS (SELECT array_agg(epoch ORDER BY shard) = $1::int8[] AS held FROM held) \
    UPDATE {schema}.about SET version = $2 FROM ours, level WHERE ours.held AND level.set IS NOT NULL \
    RETURNING version";

/// What was found out about the server.
pub(super) struct Server {
    version: String,
    standbys: i64,
    synchronous: bool,
}

impl Server {
    /// Says what a fail-over of the database may lose.
    pub(super) fn tell(&self) {
        let Self { version, standbys, synchronous } = self;
        if *synchronous && *standbys == 0 {
            tracing::warn!(
                %version,
                "the database waits for a synchronous standby (synchronous_standby_names) and has no standby: nothing \
                 is written until one connects"
            );
        } else if *synchronous {
            tracing::info!(%version, standbys, "the log is in PostgreSQL; a synchronous standby has every answer");
        } else if *standbys > 0 {
            tracing::warn!(
                %version,
                standbys,
                "the standbys of the database are asynchronous: if one takes over, it may lack what was answered last \
                 (messages, acks, effects); set synchronous_standby_names to wait for one"
            );
        } else {
            tracing::info!(%version, "the log is in PostgreSQL, which has no standby: what its disk loses is lost");
        }
    }
}

fn refused(what: String, help: impl Into<String>) -> StartError {
    StartError::Database { what, help: help.into() }
}

/// What the log is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A server: tables are made if there are none.
    Serve,
    /// To take it elsewhere.
    Read,
    /// To take one here: tables are made if there are none, and hold no log until that is done.
    Receive,
}

/// What the clock of the database shows.
pub(super) fn clock(link: &mut Link) -> Result<Reading, Trouble> {
    Reading::take(|| {
        let shown: i64 = link.query_one(CLOCK, &[])?.get(0);
        Ok(Duration::from_micros(u64::try_from(shown).unwrap_or_default()))
    })
}

/// How many shards there are; one if there is nothing yet.
pub(super) fn shards(
    link: &mut Link,
    statements: &Statements,
    place: &PostgresPlace,
) -> Result<i32, StartError> {
    let troubled = |trouble: Trouble| refused(trouble.to_string(), trouble.help(&place.schema));
    let about = format!("{}.about", statements.schema);
    let values = [(&about as _, Type::TEXT), (&place.schema as _, Type::TEXT)];
    let found: Option<String> = link.query_one(LOOK, &values).map_err(troubled)?.get(4);
    if found.is_none() {
        return Ok(1);
    }
    let row = link.query_one(&statements.text(SHARDS), &[]).map_err(troubled)?;
    let (shards, rows): (Option<i32>, i32) = (row.get(0), row.get(1));
    match shards.unwrap_or(1) {
        shards if shards == rows.max(1) => Ok(shards),
        shards => Err(refused(
            format!("the schema {} has the rows of {rows} shards, and there are {shards}", place.schema),
            "restore the schema from a backup",
        )),
    }
}

/// Looks at the server and the tables, and makes them if there are none.
pub(super) fn make_sure(
    link: &mut Link,
    statements: &Statements,
    place: &PostgresPlace,
    purpose: Purpose,
) -> Result<Server, StartError> {
    let troubled = |trouble: Trouble| refused(trouble.to_string(), trouble.help(&place.schema));
    let about = format!("{}.about", statements.schema);
    let values = [(&about as _, Type::TEXT), (&place.schema as _, Type::TEXT)];
    let row = link.query_one(LOOK, &values).map_err(troubled)?;
    let server = Found::of(&row).check()?;
    if purpose == Purpose::Serve {
        clock(link).map_err(troubled)?.check("the database's")?;
    }
    let (found, has_schema): (Option<String>, bool) = (row.get(4), row.get(7));
    if found.is_none() {
        if purpose == Purpose::Read {
            let what = format!("there is no log in the schema {}", place.schema);
            return Err(refused(what, "name the schema of `driftq serve --log`"));
        }
        if !has_schema {
            link.execute(&statements.text(SCHEMA)).map_err(troubled)?;
        }
        link.execute(&statements.text(TABLES)).map_err(troubled)?;
    }
    if purpose == Purpose::Serve && statements.shard > 0 {
        house(link, statements).map_err(troubled)?;
    }
    let mut rows = link.query(&statements.text(ABOUT), &[]).map_err(troubled)?;
    if rows.is_empty() {
        // New tables, or those of a start that broke off after they were made.
        let version = if purpose == Purpose::Receive { RECEIVING } else { VERSION };
        let values = [(&version as _, Type::INT4), (&place.cluster as _, Type::TEXT)];
        link.query(&statements.text(NAMED), &values).map_err(troubled)?;
        rows = link.query(&statements.text(ABOUT), &[]).map_err(troubled)?;
    }
    let Some(row) = rows.first() else {
        return Err(refused(
            "the tables of the log have no version".into(),
            "drop the schema, if it is empty",
        ));
    };
    check_tables(row.get(0), row.get(1), place, purpose)?;
    Ok(server)
}

/// Whether the tables are ours, and what they are wanted for.
fn check_tables(
    version: i32,
    cluster: &str,
    place: &PostgresPlace,
    purpose: Purpose,
) -> Result<(), StartError> {
    let schema = &place.schema;
    if cluster != place.cluster {
        let what = format!("the schema {schema} belongs to the cluster {cluster:?}, not {:?}", place.cluster);
        let help = "name another schema with --log-schema, or the same cluster with --log-cluster";
        return Err(refused(what, help));
    }
    match (version, purpose) {
        (VERSION, Purpose::Serve | Purpose::Read) | (RECEIVING, Purpose::Receive) => Ok(()),
        (VERSION, Purpose::Receive) => {
            let what = format!("there is a log in the schema {schema} already");
            Err(refused(what, "name another schema with --log-schema"))
        }
        (RECEIVING, _) => {
            let what = format!("a log is being taken to the schema {schema}, and is not whole yet");
            Err(refused(what, "run the same `driftq migrate` again, or drop the schema"))
        }
        _ => {
            let what = format!("the schema {schema} has version {version}, this driftq knows {VERSION}");
            Err(refused(what, "use a driftq that knows it, or name another schema with --log-schema"))
        }
    }
}

/// Makes the row of a shard, if there is none.
pub(super) fn house(link: &mut Link, statements: &Statements) -> Result<(), Trouble> {
    let values = [(&statements.shard as _, Type::INT4)];
    link.query(&statements.text(HOUSED), &values).map(drop)
}

/// What was taken here is a log from now on, with as many shards as there are claims; `false` if somebody else has begun
/// to take one here.
pub(super) fn finish(link: &mut Link, statements: &Statements, claims: &[i64]) -> Result<bool, Trouble> {
    let values = [(&claims as _, Type::INT8_ARRAY), (&VERSION as _, Type::INT4)];
    Ok(!link.query(&statements.text(FINISH), &values)?.is_empty())
}

/// What the database says about itself.
struct Found {
    number: i32,
    version: String,
    fsync: String,
    follows: bool,
    standby_names: String,
    standbys: i64,
}

impl Found {
    fn of(row: &Row) -> Self {
        let (number, version, fsync, follows) = (row.get(0), row.get(1), row.get(2), row.get(3));
        Self { number, version, fsync, follows, standby_names: row.get(5), standbys: row.get(6) }
    }

    fn check(self) -> Result<Server, StartError> {
        let Self { number, version, fsync, follows, standby_names, standbys } = self;
        if number < SERVER_VERSION_MIN {
            return Err(refused(format!("PostgreSQL {version} is too old"), "use PostgreSQL 14 or newer"));
        }
        if fsync != "on" {
            let what = "the database runs with fsync = off: a power cut would lose what was acknowledged";
            let help = "set fsync = on in postgresql.conf and restart the database";
            return Err(refused(what.into(), help));
        }
        if follows {
            let what = "the database is a standby and takes no writes".to_owned();
            return Err(refused(what, "name the primary in the URL of --log, or all of them: host1,host2"));
        }
        Ok(Server { version, standbys, synchronous: !standby_names.is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian has one version of PostgreSQL, which is new enough.
    #[test]
    fn a_server_that_is_too_old_is_refused() {
        let found = |number, version: &str| Found {
            number,
            version: version.into(),
            fsync: "on".into(),
            follows: false,
            standby_names: String::new(),
            standbys: 0,
        };
        assert!(found(140_000, "14.0").check().is_ok());
        let Err(StartError::Database { what, help }) = found(130_022, "13.22").check().map(drop) else {
            panic!("13.22 is taken");
        };
        assert_eq!((&*what, &*help), ("PostgreSQL 13.22 is too old", "use PostgreSQL 14 or newer"));
    }
}
