//! The flags of `driftq export`.

use clap::ArgGroup;
use driftq_api::units::{bytes, duration};
use driftq_api::v2::{EffectState, ExportSelection, SelectionKind};
use driftq_connect::export::{DATASET, Format, PART_BYTES, PART_ROWS, VERSION};

use crate::args::Tenant;
use crate::effect::STATES;
use crate::parse::span;
use crate::{Amount, Choice, Choices};

const FORMATS: Choices<Format> = &[
    ("ndjson", "a JSON object per line", Format::Ndjson),
    ("csv", "comma-separated, with a header in every part", Format::Csv),
    ("parquet", "Parquet, compressed with zstd", Format::Parquet),
];

const ABOUT: &str = "PLACE is a directory (a path, or file:///path) or an object store: s3://bucket/prefix, \
gs://bucket/prefix, az://container/prefix. Credentials come from the environment variables that each store's own tools \
read, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. The store must honour If-None-Match; one that ignores it is \
found out and refused before anything is written.

What is written. Parts PLACE/ID/00000-DIGEST.parquet, and PLACE/ID/manifest-DIGEST.json, which names them with their \
rows, bytes and digests and says what was exported: the end of a topic is taken down when the export begins, so that it \
ends although producers go on. The same selection is the same bytes.

What readers see. All of it or nothing: one commit ends the effect `export`/ID and moves the pointer ID of the dataset \
`exports` to the manifest. Read what the pointer names (`driftq output list exports v1 ID`), not what lies in the bucket.

The same command again writes nothing and prints the manifest. The same ID with another selection, format or place is \
refused (code 5). Of two at once, one runs and the other waits (--wait) or says so (code 13). One that was killed or \
stopped is repeated by the same command; parts that are there are kept. What it staged is swept then, or by \
`driftq export sweep`.

In a command of `driftq work` an export belongs to the message (DRIFTQ_LEASE_TOKEN): a newer attempt takes it over, and \
the older one cannot commit.

Examples:
  driftq export ./out --id orders-2026-11 --topic orders --format parquet
  driftq export s3://lake/orders --id q-17 --topic orders --from 1000 --to 2000 --format csv
  driftq export s3://lake/dead --id dead-17 --dead-letters orders --endpoint http://127.0.0.1:8333
  driftq export ./out --id unknown-17 --effects --state unknown
  driftq export ./out --id run-42 --run run-42 -o json
  driftq export ./out --id sales-v2 --dataset sales --version v2
  driftq export ./out --id paid --database DATABASE_URL --query 'SELECT * FROM orders WHERE paid'
  driftq export request lake --id orders-2026-11 --topic orders    # by a connector
  driftq export sweep ./out";

#[derive(clap::Args)]
#[command(
    after_help = ABOUT,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
    /// Where the files go: a directory, or s3://bucket/prefix, gs://…, az://…
    #[arg(required = true)]
    pub(super) place: Option<String>,
    /// Names the export: the same id again is the same export
    #[arg(long, required = true)]
    pub(super) id: Option<String>,
    #[command(flatten)]
    pub(super) selected: Selected,
    /// Where an S3-compatible store is; AWS_ENDPOINT_URL if not given
    #[arg(long, value_name = "URL")]
    pub(super) endpoint: Option<String>,
    /// The dataset whose pointer is moved
    #[arg(long, default_value = DATASET, value_name = "DATASET")]
    pub(super) dataset_out: String,
    /// The version of that dataset
    #[arg(long, default_value = VERSION, value_name = "VERSION")]
    pub(super) version_out: String,
    /// The message on whose behalf it runs, by the token of its lease
    #[arg(
        long,
        value_name = "TOKEN",
        env = "DRIFTQ_LEASE_TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    pub(super) lease_token: Option<String>,
    /// How long to wait for another process that runs the same export
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    pub(super) wait: u64,
    /// How long it is yours between two signs of life
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = span)]
    pub(super) lease: u64,
    /// How long the server remembers it; a day unless the server says otherwise
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub(super) ttl: Option<u64>,
    /// Your name, for people who look; one of its own if not given
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, value_name = "NAME")]
    pub(super) owner: Option<String>,
}

#[derive(clap::Args)]
#[command(group = ArgGroup::new("selection").required(true).args([
    "topic", "run", "dead_letters", "effects", "dataset", "query",
]))]
/// What is exported, as what, and whose it is.
pub(crate) struct Selected {
    /// The messages of this topic that are still kept
    #[arg(long)]
    pub(super) topic: Option<String>,
    /// Only of this partition of the topic
    #[arg(long, requires = "topic", value_name = "NUMBER")]
    pub(super) partition: Option<u32>,
    /// From this offset on
    #[arg(long, requires = "topic", value_name = "OFFSET")]
    pub(super) from: Option<u64>,
    /// Up to this offset, and without it; up to the end of now if not given
    #[arg(long, requires = "topic", value_name = "OFFSET")]
    pub(super) to: Option<u64>,
    /// What happened in this run: its messages by their places, and its effects
    #[arg(long, value_name = "RUN")]
    pub(super) run: Option<String>,
    /// The dead letters of this topic
    #[arg(long, value_name = "TOPIC")]
    pub(super) dead_letters: Option<String>,
    /// Records of effects
    #[arg(long)]
    pub(super) effects: bool,
    /// Only effects in this state
    #[arg(long, requires = "effects", value_parser = Choice(STATES))]
    pub(super) state: Option<EffectState>,
    /// Only effects of this scope
    #[arg(long, requires = "effects")]
    pub(super) scope: Option<String>,
    /// The pointers of a version of this dataset
    #[arg(long)]
    pub(super) dataset: Option<String>,
    /// Which version
    #[arg(long, requires = "dataset", conflicts_with = "latest", value_name = "VERSION")]
    pub(super) version: Option<String>,
    /// The version that is current now; the manifest says which one that was
    #[arg(long, requires = "dataset")]
    pub(super) latest: bool,
    /// The rows of this query, in SQL, on the database that --database names
    #[arg(long, requires = "database", value_name = "SQL")]
    pub(super) query: Option<String>,
    /// The environment variable with the database's URL; of `request`: its name in the connector's file
    #[arg(long, requires = "query", value_name = "NAME")]
    pub(super) database: Option<String>,
    /// What stands for $1, $2, … in the query, as text; may be given several times
    #[arg(long, requires = "query", value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) parameter: Vec<String>,
    /// What the files are
    #[arg(long, default_value = "ndjson", value_parser = Choice(FORMATS))]
    pub(super) format: Format,
    /// Most rows of a part
    #[arg(long, default_value_t = PART_ROWS, value_name = "ROWS")]
    pub(super) part_rows: u64,
    /// A part ends once it has this many bytes
    #[arg(long, default_value_t = PART_BYTES, value_name = "BYTES", value_parser = bytes)]
    pub(super) part_bytes: u64,
    #[command(flatten)]
    pub(super) tenant: Tenant,
}

#[derive(clap::Subcommand)]
pub(super) enum Action {
    /// Ask the connectors of a place for an export
    #[command(
        after_help = "PLACE is a name in the connectors' file, below [exports.places]; so is --database, below \
[exports.databases]. The export is a message of the topic exports.PLACE, and is written by a connector \
(`driftq connect run`). The same id again is the same export.

Examples:
  driftq export request lake --id orders-2026-11 --topic orders --format parquet
  driftq export request lake --id paid-17 --database shop --query 'SELECT * FROM orders'"
    )]
    Request {
        /// Where the files go, by name
        place: String,
        /// Names the export: the same id again is the same export
        #[arg(long)]
        id: String,
        #[command(flatten)]
        selected: Box<Selected>,
    },
    /// List the exports that connectors were asked for
    #[command(after_help = "Oldest first. What is done is listed for seven days.

Examples:
  driftq export list lake
  driftq export list lake --state failed -o json")]
    List {
        /// Where the files go, by name
        place: String,
        /// Only in this state
        #[arg(long, value_name = "STATE", value_parser = ["pending", "running", "retrying", "done", "failed"])]
        state: Option<String>,
        #[command(flatten)]
        amount: Amount,
    },
    /// Show one export that connectors were asked for
    #[command(after_help = "Examples:
  driftq export show lake orders-2026-11")]
    Show {
        /// Where the files go, by name
        place: String,
        /// Its id
        id: String,
    },
    /// Remove what exports staged that did not end
    #[command(
        after_help = "Only what lies under PLACE/.staging is touched, and there only what attempts have \
left that are over: parts and manifests stay, and so does what an export that runs now has staged.

Examples:
  driftq export sweep ./out
  driftq export sweep s3://lake/orders -o json"
    )]
    Sweep {
        /// Where the exports went
        place: String,
        /// Where an S3-compatible store is; AWS_ENDPOINT_URL if not given
        #[arg(long, value_name = "URL")]
        endpoint: Option<String>,
        #[command(flatten)]
        tenant: Tenant,
    },
}

impl Selected {
    /// The one selection that was named.
    pub(super) fn selection(&self) -> ExportSelection {
        let (kind, topic) = match (&self.topic, &self.dead_letters) {
            (Some(topic), _) => (SelectionKind::Topic, Some(topic.clone())),
            (None, Some(topic)) => (SelectionKind::DeadLetters, Some(topic.clone())),
            (None, None) if self.run.is_some() => (SelectionKind::Run, None),
            (None, None) if self.effects => (SelectionKind::Effects, None),
            (None, None) if self.query.is_some() => (SelectionKind::Query, None),
            (None, None) => (SelectionKind::Dataset, None),
        };
        ExportSelection {
            kind,
            topic,
            partition: self.partition,
            from: self.from,
            to: self.to,
            run_id: self.run.clone(),
            state: self.state,
            scope: self.scope.clone(),
            dataset: self.dataset.clone(),
            version: self.version.clone(),
            latest: self.latest,
            database: self.database.clone(),
            statement: self.query.clone(),
            parameters: self.parameter.clone(),
        }
    }
}
