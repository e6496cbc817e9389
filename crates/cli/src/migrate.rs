//! `driftq migrate`: the log of a server taken from a directory into a database or a stream, or back.

use anyhow::Result;
use driftq_api::units::about_bytes;
use driftq_engine::Storage;
use driftq_engine::log::{NatsPlace, PostgresPlace};
use driftq_engine::transfer::{self, Moved, MovedShard, TransferError};
use serde::Serialize;

use crate::{Common, Exit, Fault, aligned, grouped, progress};

#[derive(clap::Args)]
#[command(
    after_help = "A place is a data directory, postgres://user@host/database, or the stream of a log in NATS as \
`driftq serve --log` names it: nats://host:4222/NAME?monitor=http://host:8222. Both may be set in the environment \
instead, which keeps a password out of the list of processes.

Stop the server first. A directory that is in use is refused; a log in a database or a stream is claimed, so that a \
server that is still at work on it steps down. Nothing else at the first place is changed; do not start a server on it \
again once another one serves from the second.

All shards are taken. Messages, offsets, groups, tokens, effects, runs and keys are the same ones afterwards. What was \
taken is read back and compared by digest before any of it counts; until then no server starts there. One that was \
killed is repeated by the same command, and goes on where it broke off.

The root key of a directory stays there: name it with --root-key-file.

Examples:
  driftq migrate --from /var/lib/driftq --to postgres://driftq@db.internal/queue
  driftq migrate --from postgres://driftq@db.internal/queue --to /var/lib/driftq-back -o json
  driftq migrate --from ./driftq-data --to 'nats://n1:4222/queue?monitor=http://n1:8222'
  DRIFTQ_MIGRATE_TO=postgres://me:secret@db/queue driftq migrate --from ./driftq-data"
)]
pub(crate) struct Args {
    /// Where the log is: a data directory, postgres://user@host/database or nats://host:port/stream
    #[arg(long, env = "DRIFTQ_MIGRATE_FROM", hide_env_values = true, value_name = "PLACE")]
    from: String,
    /// Where it goes: a directory that does not exist yet, postgres://user@host/database or nats://host:port/stream
    #[arg(long, env = "DRIFTQ_MIGRATE_TO", hide_env_values = true, value_name = "PLACE")]
    to: String,
    /// The schema of the log in a database
    #[arg(
        long,
        env = "DRIFTQ_LOG_SCHEMA",
        hide_env_values = true,
        default_value = "driftq_log",
        value_name = "NAME"
    )]
    log_schema: String,
    /// The name of the servers that share the log in a database or a stream
    #[arg(
        long,
        env = "DRIFTQ_LOG_CLUSTER",
        hide_env_values = true,
        default_value = "main",
        value_name = "NAME"
    )]
    log_cluster: String,
}

impl Args {
    fn storage(&self, place: &str) -> Result<Storage> {
        match place.split_once("://") {
            None => Ok(Storage::Directory(std::path::absolute(place)?)),
            Some(("postgres" | "postgresql", _)) => Ok(Storage::Postgres(PostgresPlace {
                url: place.to_owned(),
                schema: self.log_schema.clone(),
                cluster: self.log_cluster.clone(),
            })),
            Some(("nats", _)) => {
                Ok(Storage::Nats(NatsPlace { url: place.to_owned(), cluster: self.log_cluster.clone() }))
            }
            Some((scheme, _)) => {
                let what = format!("{scheme}:// is no place for a log");
                let help = "write a directory, postgres://user@host/database or nats://host:port/stream";
                Err(Fault::new(Exit::Usage, what).help(help).into())
            }
        }
    }
}

/// What was taken, in all and of each shard.
#[derive(Serialize)]
struct Report {
    result: &'static str,
    batches: u64,
    bytes: u64,
    batches_resumed: u64,
    end: String,
    digest: String,
    shards: Vec<ShardReport>,
}

#[derive(Serialize)]
struct ShardReport {
    shard: usize,
    batches: u64,
    bytes: u64,
    batches_resumed: u64,
    end: String,
    digest: String,
}

impl Report {
    fn new(moved: Moved) -> Self {
        Self {
            result: "moved",
            batches: moved.batches(),
            bytes: moved.bytes(),
            batches_resumed: moved.resumed(),
            end: moved.end(),
            digest: moved.digest(),
            shards: moved.shards.into_iter().enumerate().map(ShardReport::new).collect(),
        }
    }

    fn display(&self) -> String {
        let mut lines =
            vec![(self.result, format!("{} batches, {}", grouped(self.batches), about_bytes(self.bytes)))];
        if self.shards.len() > 1 {
            lines.push(("shards", self.shards.len().to_string()));
        }
        lines.extend([
            ("were there", grouped(self.batches_resumed)),
            ("up to", self.end.clone()),
            ("digest", format!("{} on both sides", self.digest)),
        ]);
        aligned(&lines)
    }
}

impl ShardReport {
    fn new((shard, moved): (usize, MovedShard)) -> Self {
        let MovedShard { batches, bytes, resumed, end, digest } = moved;
        Self { shard, batches, bytes, batches_resumed: resumed, end, digest }
    }
}

pub(super) fn run(common: &Common, args: &Args) -> Result<()> {
    let (from, to) = (args.storage(&args.from)?, args.storage(&args.to)?);
    let spinner = progress::spinner("taking the log over");
    let moved = transfer::migrate(&from, &to);
    spinner.finish_and_clear();
    let moved = moved.map_err(|error| explain(&error))?;
    common.show(&Report::new(moved), Report::display)
}

/// Why a log was not taken elsewhere, with its exit code.
pub(crate) fn explain(error: &TransferError) -> Fault {
    let message = error.to_string();
    match error {
        TransferError::Refused { help, .. } => Fault::new(Exit::Failure, message).help(help.clone()),
        TransferError::Locked(_) => Fault::new(Exit::Locked, message).help("stop the server first"),
        TransferError::Failed(_) => Fault::new(Exit::Failure, message),
    }
}
