//! The seat of a cluster, in the database that holds its log.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;

use super::link::{Link, Route};
use super::schema::{Purpose, make_sure};
use super::{PostgresLog, PostgresPlace, Statements};
use crate::cluster::{Claim, Node, Register, SEAT_TIME, Secret, Standing};
use crate::failure::StartError;
use crate::house::HOME;

/// There is one seat, for all shards together.
const SEAT: i32 = 0;
/// Most servers that are told of.
const NODES_MAX: i64 = 1_000;

/// Made by the first server that takes part in a cluster; a log that one server has for itself needs none of it.
const TABLES: &str = "SELECT pg_advisory_xact_lock(8251066101917);
    CREATE TABLE IF NOT EXISTS {schema}.node (
        url text PRIMARY KEY,
        seen timestamptz NOT NULL,
        is_drained boolean NOT NULL DEFAULT false
    );
    CREATE TABLE IF NOT EXISTS {schema}.seat (
        shard integer PRIMARY KEY,
        url text NOT NULL,
        until timestamptz NOT NULL
    );
    CREATE TABLE IF NOT EXISTS {schema}.secret (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        body bytea NOT NULL
    );
    DELETE FROM {schema}.node WHERE seen < now() - interval '1 hour' AND NOT is_drained;";

/// By the clock of the database alone. It need not outlive a crash: a seat that is lost is taken again.
const BEAT: &str = "WITH level AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set), \
    me AS (INSERT INTO {schema}.node (url, seen) SELECT $2, clock_timestamp() FROM level \
        ON CONFLICT (url) DO UPDATE SET seen = clock_timestamp() RETURNING is_drained) \
    INSERT INTO {schema}.seat (shard, url, until) \
        SELECT $1, $2, clock_timestamp() + make_interval(secs => $3) FROM me WHERE $4 OR ($5 AND NOT is_drained) \
    ON CONFLICT (shard) DO UPDATE SET url = excluded.url, until = excluded.until \
        WHERE seat.url = excluded.url OR seat.until < clock_timestamp()";

const LOOK: &str = "SELECT node.url, greatest(0, extract(epoch FROM clock_timestamp() - node.seen) * 1000)::int8, \
        node.is_drained, CASE WHEN seat.until > clock_timestamp() THEN seat.url END, \
        greatest(0, extract(epoch FROM seat.until - clock_timestamp()) * 1000)::int8 \
    FROM {schema}.node LEFT JOIN {schema}.seat ON seat.shard = $1 ORDER BY node.url LIMIT $2";

/// The first one that is kept stays.
const KEEP: &str = "INSERT INTO {schema}.secret (body) VALUES ($1) ON CONFLICT DO NOTHING";
const KEPT: &str = "SELECT body FROM {schema}.secret";

const LEAVE: &str = "UPDATE {schema}.seat SET until = clock_timestamp() - interval '1 second' \
    WHERE shard = $1 AND url = $2";

const DRAIN: &str = "UPDATE {schema}.node SET is_drained = $2 WHERE url = $1 RETURNING url";

/// The tables of a cluster.
pub(crate) struct PostgresRegister {
    link: Link,
    statements: Arc<Statements>,
    url: String,
    secret: Secret,
}

impl PostgresRegister {
    /// Looks at the log's tables, and makes those of the cluster if there are none.
    pub(crate) fn open(place: &PostgresPlace, url: &str) -> Result<Self, StartError> {
        let log = PostgresLog::new(place.clone(), HOME, u32::MAX)?;
        let route: &Arc<Route> = &log.route;
        let mut link = Link::new(Arc::clone(route)).map_err(|trouble| log.trouble(&trouble))?;
        make_sure(&mut link, &log.statements, place, Purpose::Serve)?;
        link.execute(&log.statements.text(TABLES)).map_err(|trouble| log.trouble(&trouble))?;
        let new = Secret::new()?;
        let kept = link.query(&log.statements.text(KEEP), &[(&new.bytes().as_slice() as _, Type::BYTEA)]);
        let kept = kept.and_then(|_| link.query_one(&log.statements.text(KEPT), &[]));
        let secret = Secret::kept(kept.map_err(|trouble| log.trouble(&trouble))?.get(0))?;
        Ok(Self { link, statements: log.statements, url: url.to_owned(), secret })
    }
}

impl Register for PostgresRegister {
    fn beat(&mut self, claim: Claim) -> Result<Standing, String> {
        let seconds = SEAT_TIME.as_secs_f64();
        let (keeps, takes) = (claim == Claim::Keep, claim == Claim::Take);
        let values = [
            (&SEAT as _, Type::INT4),
            (&self.url as _, Type::TEXT),
            (&seconds as _, Type::FLOAT8),
            (&keeps as _, Type::BOOL),
            (&takes as _, Type::BOOL),
        ];
        self.link.query(&self.statements.text(BEAT), &values).map_err(|trouble| trouble.to_string())?;
        let values = [(&SEAT as _, Type::INT4), (&NODES_MAX as _, Type::INT8)];
        let rows = self.link.query(&self.statements.text(LOOK), &values);
        let rows = rows.map_err(|trouble| trouble.to_string())?;
        let nodes: Vec<Node> = rows
            .iter()
            .map(|row| Node {
                url: row.get(0),
                seen_ms_ago: row.get::<_, i64>(1).unsigned_abs(),
                is_drained: row.get(2),
            })
            .collect();
        let serving: Option<String> = rows.first().and_then(|row| row.get(3));
        let left_ms: Option<i64> = rows.first().and_then(|row| row.get(4));
        let is_drained = nodes.iter().any(|node| node.url == self.url && node.is_drained);
        // If it was not asked for, it is that of an earlier run, and nothing has renewed it.
        let is_mine = serving.as_ref() == Some(&self.url) && (keeps || takes && !is_drained);
        let free_in = left_ms.filter(|_| serving.is_some() && !is_mine);
        let free_in = free_in.map(|left_ms| Duration::from_millis(left_ms.unsigned_abs()));
        Ok(Standing { serving, is_mine, is_drained, is_noticed: false, free_in, nodes })
    }

    fn leave(&mut self) -> Result<(), String> {
        let values = [(&SEAT as _, Type::INT4), (&self.url as _, Type::TEXT)];
        let left = self.link.query(&self.statements.text(LEAVE), &values);
        left.map(drop).map_err(|trouble| trouble.to_string())
    }

    fn drain(&mut self, url: &str, is_drained: bool) -> Result<bool, String> {
        let values = [(&url as _, Type::TEXT), (&is_drained as _, Type::BOOL)];
        let rows = self.link.query(&self.statements.text(DRAIN), &values);
        rows.map(|rows| !rows.is_empty()).map_err(|trouble| trouble.to_string())
    }

    fn secret(&self) -> Secret {
        self.secret
    }
}
