//! The log in a PostgreSQL database.
//!
//! A batch is a row, keyed by shard and position. Positions are those of the files (segment and byte), so that a log
//! can move from one to the other; a segment is only a range of them. The row of the shard names the epoch of the
//! newest claim, and every statement that changes anything locks that row, shared, and finds its own epoch in it. A
//! claim changes the row and so waits for appends under way; an append that comes after it finds another epoch and
//! does nothing. Appends write no other row than their own: nothing piles up while some session holds a snapshot.

mod append;
mod archive;
mod fault;
mod link;
mod register;
mod schema;
mod snapshot;
mod transfer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use driftq_core::ShardId;
use tokio_postgres::types::Type;

use self::append::PostgresWriter;
use self::archive::PostgresArchive;
use self::fault::Trouble;
pub(crate) use self::register::PostgresRegister;

use self::link::{Link, Links, Route};
use self::schema::Purpose;
pub(crate) use self::transfer::{PostgresSource, PostgresTarget};
use super::extent::{Current, Extent, START, Stored};
use super::{Cursor, Log, Lsn, Opened, PostgresPlace};
use crate::failure::StartError;
use crate::locks::lock;

/// Longest name of a schema that PostgreSQL keeps whole.
const NAME_BYTES_MAX: usize = 63;

/// A log in a PostgreSQL database.
pub struct PostgresLog {
    place: PostgresPlace,
    route: Arc<Route>,
    statements: Arc<Statements>,
    /// A segment is full when it has reached this.
    roll_at: u32,
    /// Tells claims of this process from those of others.
    holder: String,
    claimed: Mutex<bool>,
}

/// How safe a transaction must be before it is answered: raised for this transaction alone if the session asks for less.
/// Whatever says that a batch is there waits for the standby, too: the batch may be in the database because somebody
/// broke off that very wait.
const LEVEL: &str = "level AS MATERIALIZED (SELECT set_config('synchronous_commit', \
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN 'on' \
    ELSE current_setting('synchronous_commit') END, true) AS set)";

/// The statements, with the name of the schema in them, and the shard that they are for.
struct Statements {
    schema: String,
    shard: i32,
}

impl Statements {
    /// Puts the schema in place of `{schema}`, and [`LEVEL`] in place of `{level}`.
    fn text(&self, statement: &str) -> String {
        statement.replace("{level}", LEVEL).replace("{schema}", &self.schema)
    }
}

/// What the handles of one open log have in common.
struct Shared {
    links: Links,
    statements: Arc<Statements>,
    epoch: i64,
    extent: Extent,
    /// The number under which its parts are stored, and how many were put in this epoch.
    snapshot: Mutex<Current>,
}

impl Shared {
    /// What is said when another one has claimed the log.
    fn fenced(&self) -> String {
        fenced(self.epoch)
    }
}

fn fenced(epoch: i64) -> String {
    format!(
        "another server has taken over the log in the database (this one had claim {epoch}); it serves now. Use that \
         one, or start this one again to take the log back"
    )
}

/// A position as the database keeps it.
fn number(at: Lsn) -> i64 {
    // Segments are counted from one, and 2³¹ of them take longer than anybody lives.
    at.0.cast_signed()
}

fn lsn(number: i64) -> Lsn {
    Lsn(number.cast_unsigned())
}

impl PostgresLog {
    /// The log of a shard in this place, in segments of about this size. Nothing is connected yet.
    pub fn new(place: PostgresPlace, shard: ShardId, segment_bytes: u32) -> Result<Self, StartError> {
        let named = |word: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            !word.is_empty() && word.len() <= NAME_BYTES_MAX && word.chars().all(plain)
        };
        if !named(&place.schema) {
            return Err(StartError::Config("log_schema must be 1 to 63 of a-z, 0-9 and _"));
        }
        if place.cluster.is_empty() || place.cluster.len() > NAME_BYTES_MAX {
            return Err(StartError::Config("log_cluster must have 1 to 63 bytes"));
        }
        let help = "write --log postgres://user@host/database".to_owned();
        let route = Route::parse(&place.url).map_err(|what| StartError::Database { what, help })?;
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| StartError::Log(format!("no randomness: {error}")))?;
        let statements =
            Arc::new(Statements { schema: format!("\"{}\"", place.schema), shard: shard.0.into() });
        Ok(Self {
            route: Arc::new(route),
            statements,
            roll_at: segment_bytes - segment_bytes / 8,
            holder: nonce.iter().map(|byte| format!("{byte:02x}")).collect(),
            claimed: Mutex::new(false),
            place,
        })
    }

    /// How many shards there are in this place.
    pub(crate) fn shards(&self) -> Result<u8, StartError> {
        let mut link = Link::new(Arc::clone(&self.route)).map_err(|trouble| self.trouble(&trouble))?;
        let shards = schema::shards(&mut link, &self.statements, &self.place)?;
        u8::try_from(shards).map_err(|_| StartError::Damaged(format!("the database has {shards} shards")))
    }

    fn trouble(&self, trouble: &Trouble) -> StartError {
        StartError::Database { what: trouble.to_string(), help: trouble.help(&self.place.schema) }
    }

    /// Takes the log: nobody who had it before can append after this. A process that has had it takes it again only
    /// from itself.
    fn claim(&self, link: &mut Link) -> Result<Claim, StartError> {
        let mut claimed = lock(&self.claimed);
        let text = self.statements.text(CLAIM);
        let shard = self.statements.shard;
        let values =
            [(&shard as _, Type::INT4), (&self.holder as _, Type::TEXT), (&!*claimed as _, Type::BOOL)];
        let rows = link.query(&text, &values).map_err(|trouble| self.trouble(&trouble))?;
        let Some(row) = rows.first() else { return Err(StartError::Fenced(fenced_while_away())) };
        *claimed = true;
        Ok(Claim { epoch: row.get(0), snapshot: snapshot::of(row) })
    }
}

fn fenced_while_away() -> String {
    "another server has taken over the log while this one could not reach the database; it serves now. Use that one, \
     or start this one again to take the log back"
        .into()
}

/// What a claim found.
struct Claim {
    epoch: i64,
    snapshot: Option<Stored>,
}

/// Waits for a standby, like appends: what is read from now on is there as well.
const CLAIM: &str = "WITH {level} UPDATE {schema}.shard SET epoch = epoch + 1, holder = $2, claimed_at = now() \
    FROM level WHERE shard = $1 AND (holder = $2 OR $3) AND level.set IS NOT NULL \
    RETURNING epoch, snapshot, snapshot_upto, snapshot_bytes, snapshot_crc";

/// The end of every segment: one look into the index for each.
const SEGMENTS: &str = "SELECT last.ended FROM \
    generate_series((SELECT min(position) >> 32 FROM {schema}.batch WHERE shard = $1), \
                    (SELECT max(position) >> 32 FROM {schema}.batch WHERE shard = $1)) AS segment(number) \
    CROSS JOIN LATERAL (SELECT ended FROM {schema}.batch \
        WHERE shard = $1 AND position >= number << 32 AND position < (number + 1) << 32 \
        ORDER BY position DESC LIMIT 1) AS last";

impl Log for PostgresLog {
    type Writer = PostgresWriter;
    type Archive = PostgresArchive;
    const CAN_BE_DEPOSED: bool = true;

    fn open(&self) -> Result<Opened<Self>, StartError> {
        let mut link = Link::new(Arc::clone(&self.route)).map_err(|trouble| self.trouble(&trouble))?;
        let made = schema::make_sure(&mut link, &self.statements, &self.place, Purpose::Serve)?;
        made.tell();
        let claim = self.claim(&mut link)?;
        // From here on nobody else appends: what is read now is the log.
        let rows = link.query(&self.statements.text(SEGMENTS), &[(&self.statements.shard as _, Type::INT4)]);
        let ends = rows.map_err(|trouble| self.trouble(&trouble))?;
        let ends = ends.iter().map(|row| lsn(row.get(0))).map(|end| (end.segment(), end.offset()));
        let segments: BTreeMap<u32, u32> = ends.collect();
        let upto = claim.snapshot.as_ref().map_or(Lsn::ZERO, |stored| stored.upto);
        let shared = Arc::new(Shared {
            links: Links::new(Arc::clone(&self.route)),
            statements: Arc::clone(&self.statements),
            epoch: claim.epoch,
            extent: Extent::new(segments, upto),
            snapshot: Mutex::new(Current { stored: claim.snapshot, put: 0 }),
        });
        let archive = PostgresArchive::new(Arc::clone(&shared));
        let snapshot = archive.stored_snapshot().map_err(|error| StartError::Damaged(error.to_string()))?;
        let (start, end) = (upto.max(START), shared.extent.durable());
        if end < upto {
            let what = format!("the log ends at {end}, below its own snapshot at {upto}");
            return Err(StartError::Database { what, help: schema::LOST.into() });
        }
        let cursor = Cursor::new(end, self.roll_at, self.roll_at);
        let replay_bytes = shared.extent.bytes_from(start);
        let writer = PostgresWriter::new(link, shared, cursor);
        Ok(Opened { writer, archive, snapshot, start, end, replay_bytes, torn: None })
    }
}
