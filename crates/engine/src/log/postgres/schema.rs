//! The tables: made at the first start, checked at every other.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::Trouble;
use super::link::Link;
use super::{PostgresPlace, Statements};
use crate::failure::StartError;

/// The version of the tables that this program knows.
const VERSION: i32 = 1;
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

const ABOUT: &str = "SELECT version, cluster FROM {schema}.about";

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

const NAMED: &str = "INSERT INTO {schema}.about (version, cluster) VALUES ($1, $2) ON CONFLICT DO NOTHING";

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
        if *synchronous {
            tracing::info!(%version, standbys, "the log is in PostgreSQL; a synchronous standby has every answer");
        } else if *standbys > 0 {
            tracing::warn!(
                %version,
                standbys,
                "the standbys of the database are asynchronous: if one takes over, the last answers may be lost; set \
                 synchronous_standby_names to wait for one"
            );
        } else {
            tracing::info!(%version, "the log is in PostgreSQL, which has no standby: what its disk loses is lost");
        }
    }
}

fn refused(what: String, help: impl Into<String>) -> StartError {
    StartError::Database { what, help: help.into() }
}

/// Looks at the server and the tables, and makes them if there are none.
pub(super) fn make_sure(
    link: &mut Link,
    statements: &Statements,
    place: &PostgresPlace,
) -> Result<Server, StartError> {
    let troubled = |trouble: Trouble| refused(trouble.to_string(), trouble.help(&place.schema));
    let about = format!("{}.about", statements.schema);
    let values = [(&about as _, Type::TEXT), (&place.schema as _, Type::TEXT)];
    let row = link.query_one(LOOK, &values).map_err(troubled)?;
    let server = check(&row)?;
    let (found, has_schema): (Option<String>, bool) = (row.get(4), row.get(7));
    if found.is_none() {
        if !has_schema {
            let make = statements.text("CREATE SCHEMA IF NOT EXISTS {schema}");
            link.execute(&make).map_err(troubled)?;
        }
        link.execute(&statements.text(TABLES)).map_err(troubled)?;
        let values = [(&VERSION as _, Type::INT4), (&place.cluster as _, Type::TEXT)];
        link.query(&statements.text(NAMED), &values).map_err(troubled)?;
    }
    let mut rows = link.query(&statements.text(ABOUT), &[]).map_err(troubled)?;
    if rows.is_empty() {
        // A start broke off after the tables were made.
        let values = [(&VERSION as _, Type::INT4), (&place.cluster as _, Type::TEXT)];
        link.query(&statements.text(NAMED), &values).map_err(troubled)?;
        rows = link.query(&statements.text(ABOUT), &[]).map_err(troubled)?;
    }
    let Some(row) = rows.first() else {
        return Err(refused(
            "the tables of the log have no version".into(),
            "drop the schema, if it is empty",
        ));
    };
    let (version, cluster): (i32, String) = (row.get(0), row.get(1));
    let schema = &place.schema;
    if version != VERSION {
        let what = format!("the schema {schema} has version {version}, this driftq knows {VERSION}");
        return Err(refused(what, "use a driftq that knows it, or name another schema with --log-schema"));
    }
    if cluster != place.cluster {
        let what = format!("the schema {schema} belongs to the cluster {cluster:?}, not {:?}", place.cluster);
        let help = "name another schema with --log-schema, or the same cluster with --log-cluster";
        return Err(refused(what, help));
    }
    Ok(server)
}

fn check(row: &Row) -> Result<Server, StartError> {
    let (number, version, fsync, follows): (i32, String, String, bool) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    if number < SERVER_VERSION_MIN {
        return Err(refused(format!("PostgreSQL {version} is too old"), "use PostgreSQL 14 or newer"));
    }
    if fsync != "on" {
        let what =
            "the database runs with fsync = off: a power cut would lose what was acknowledged".to_owned();
        return Err(refused(what, "set fsync = on in postgresql.conf and restart the database"));
    }
    if follows {
        let what = "the database is a standby and takes no writes".to_owned();
        return Err(refused(what, "name the primary in the URL of --log, or all of them: host1,host2"));
    }
    let names: String = row.get(5);
    Ok(Server { version, standbys: row.get(6), synchronous: !names.is_empty() })
}
