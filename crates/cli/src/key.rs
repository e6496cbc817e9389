//! `driftq key …`: who may do what. Also where every command takes its own key from.

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::{env, fs, io::Write as _};

use anyhow::Result;
use driftq_api::Moment;
use driftq_api::units;
use driftq_api::v2::{Key, KeyAction, KeyMade, KeyRotate, KeySpec, Keys, Limits};
use driftq_engine::key_text;
use serde::Serialize;

use crate::{
    Amount, Choice, Choices, Columns, Common, Exit, Fault, Path, block_on, confirm, or_dash, parse, printable,
};

/// Holds the key of commands that are given no file.
const KEY_VARIABLE: &str = "DRIFTQ_KEY";
/// A file of a key is shorter.
const FILE_BYTES_MAX: u64 = 4096;

const ACTIONS: Choices<KeyAction> = &[
    ("produce", "store messages", KeyAction::Produce),
    ("consume", "lease messages and settle them", KeyAction::Consume),
    ("effects", "begin effects and end them", KeyAction::Effects),
    ("outputs", "move pointers of datasets", KeyAction::Outputs),
    ("read", "see what there is, without payloads", KeyAction::Read),
    ("read-payload", "see payloads and results, too", KeyAction::ReadPayload),
    ("manage", "change and remove what there is", KeyAction::Manage),
    ("admin", "make keys and end them", KeyAction::Admin),
];

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make a key; it is shown once
    #[command(
        after_help = "A key hangs on the key that makes it: it never allows more, ends with it, and is \
revoked with it. Its secret is printed once and kept nowhere: put it into DRIFTQ_KEY or a file of mode 0600.

The first key is the root key. It is made on the data directory, without a server, by whoever may write there; a new \
one takes the place of the old one at the next start of the server.

Examples:
  driftq key create --root --data /var/lib/driftq
  driftq key create --action produce --topic orders --note 'the shop'
  driftq key create --action consume,effects --topic 'mail.*' --expires 2027-01-01T00:00:00Z
  driftq key create --action produce,consume,read --tenant acme
  driftq key create --action produce --requests-per-second 100 --bytes-per-second 1MiB
  DRIFTQ_KEY=$(driftq key create --action read -o json | jq -r .secret) driftq topic list"
    )]
    Create(Create),
    /// List keys and what they allow
    #[command(after_help = "Those that hang on the key of this command; all of them for the root key.

Examples:
  driftq key list
  driftq key list --all -o ndjson | jq -r 'select(.live) | .id'")]
    List {
        #[command(flatten)]
        amount: Amount,
    },
    /// Show what one key allows
    #[command(after_help = "Examples:
  driftq key show 5f0c2a91b3d4e687")]
    Show(Name),
    /// Put a new key in the place of an old one
    #[command(
        after_help = "The new key allows the same, and what hung on the old one hangs on it. The old one \
goes on for --overlap, so that clients can be changed over one by one.

Examples:
  driftq key rotate 5f0c2a91b3d4e687
  driftq key rotate 5f0c2a91b3d4e687 --overlap 1h -o json | jq -r .secret"
    )]
    Rotate {
        #[command(flatten)]
        name: Name,
        /// How long the old key goes on
        #[arg(long, default_value = "24h", value_name = "DURATION", value_parser = units::duration)]
        overlap: u64,
    },
    /// End a key and what hangs on it, at once
    #[command(after_help = "From the answer on it opens nothing; open streams and long polls end, too.

Examples:
  driftq key revoke 5f0c2a91b3d4e687          # asks for the id
  driftq key revoke 5f0c2a91b3d4e687 --yes    # for scripts")]
    Revoke {
        #[command(flatten)]
        name: Name,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(clap::Args)]
pub(crate) struct Create {
    /// Make the root key of a data directory, without a server
    #[arg(
        long,
        conflicts_with_all = [
            "action", "topic", "tenant", "requests_per_second", "bytes_per_second", "waits", "expires", "note"
        ]
    )]
    root: bool,
    /// With --root: the data directory
    #[arg(
        long,
        env = "DRIFTQ_DATA",
        hide_env_values = true,
        default_value = "./driftq-data",
        value_name = "DIR"
    )]
    data: PathBuf,
    /// With --root: replace a root key that is there
    #[arg(long, requires = "root")]
    replace: bool,
    /// What it allows; may be given several times, or with commas
    #[arg(long, value_parser = Choice(ACTIONS), value_delimiter = ',', required_unless_present = "root")]
    action: Vec<KeyAction>,
    /// A topic, or what topics begin with and a star; may be given several times; all topics if not given
    #[arg(long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// A tenant as which it acts; may be given several times; all tenants if not given
    #[arg(long, value_name = "TENANT")]
    tenant: Vec<String>,
    #[command(flatten)]
    pace: Pace,
    /// From when on it opens nothing
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    expires: Option<Moment>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// How much may be taken at a time.
#[derive(clap::Args)]
pub(crate) struct Pace {
    /// Calls in a second, together with those of the keys that hang on it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_second: Option<u32>,
    /// Bytes of bodies in a second
    #[arg(long, value_name = "SIZE", value_parser = limit_bytes)]
    bytes_per_second: Option<u32>,
    /// Streams and waiting calls that are open at a time
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    waits: Option<u32>,
}

impl Pace {
    pub(crate) fn limits(&self) -> Limits {
        let Self { requests_per_second, bytes_per_second, waits } = *self;
        Limits { requests_per_second, bytes_per_second, waits }
    }
}

fn limit_bytes(text: &str) -> Result<u32, String> {
    let bytes = units::bytes(text)?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(format!("must be between 1 and {} bytes", u32::MAX)),
    }
}

#[derive(clap::Args)]
pub(crate) struct Name {
    /// Its id: the middle of dq_<id>_<secret>
    id: String,
}

impl Name {
    fn path(&self) -> Path {
        Path::of("/v2/keys").part(&self.id)
    }
}

const COLUMNS: Columns<Key<'static>> = &[
    ("ID", |key, _| key.id.clone().into_owned()),
    ("ACTIONS", |key, _| actions(key)),
    ("TOPICS", |key, _| topics(key)),
    ("TENANTS", |key, _| tenants(key)),
    ("LIVE", |key, _| if key.live { "yes" } else { "no" }.to_owned()),
    ("EXPIRES", |key, now| or_dash(key.expires_at.map(|at| now.show(at)))),
    ("PARENT", |key, _| or_dash(key.parent.as_deref().map(str::to_owned))),
    ("NOTE", |key, _| printable(&key.note)),
];

/// The root key, as programs read it.
#[derive(Serialize)]
struct RootMade<'a> {
    secret: &'a str,
}

pub(super) fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Create(create) if create.root => create_root(common, create),
        command => block_on(call(common, command)),
    }
}

async fn call(common: &Common, command: &Command) -> Result<()> {
    let mut caller = common.caller()?;
    match command {
        Command::Create(create) => {
            let spec = KeySpec {
                actions: create.action.clone(),
                topics: given_names(&create.topic),
                tenants: given_names(&create.tenant),
                limits: Some(create.pace.limits()).filter(|limits| *limits != Limits::default()),
                expires_at: create.expires,
                note: create.note.as_deref().unwrap_or_default().into(),
            };
            let made: KeyMade<'static> = caller.post("/v2/keys", &spec).await?;
            common.show(&made, show_made)
        }
        Command::List { amount } => {
            let part = |page: Keys<'static>| (page.keys, page.cursor);
            caller.list(common, (Path::of("/v2/keys"), amount), (COLUMNS, "there is no key"), part).await
        }
        Command::Show(name) => common.show(&caller.get(name.path()).await?, show),
        Command::Rotate { name, overlap } => {
            let rotate = KeyRotate { overlap_ms: *overlap };
            let made: KeyMade<'static> = caller.post(name.path().part("rotate"), &rotate).await?;
            common.show(&made, show_made)
        }
        Command::Revoke { name, yes } => {
            let id = &name.id;
            confirm::by_name(*yes, &format!("end key {id} and every key that hangs on it"), id)?;
            let ended: Key<'static> = caller.delete(name.path()).await?;
            common.show(&ended, |key| format!("key {} has ended\n", key.id))
        }
    }
}

fn create_root(common: &Common, create: &Create) -> Result<()> {
    let data = create.data.display();
    if key_text::exists(&create.data) && !create.replace {
        let text = format!("{data} has a root key");
        let help = "give --replace to make a new one: the old one opens nothing after the next start";
        return Err(Fault::new(Exit::Conflict, text).help(help).into());
    }
    let key = key_text::create(&create.data).map_err(|error| {
        Fault::new(Exit::Failure, format!("the root key cannot be kept in {data}: {error}"))
    })?;
    common.show(&RootMade { secret: &key }, |_| {
        format!("{key}\n\nThis is the root key of {data}. It is shown once: keep it as a secret.\nStart the server with --keys required.\n")
    })
}

fn show_made(made: &KeyMade<'_>) -> String {
    format!("{}\n\nIt is shown once: keep it as a secret.\n{}", made.secret, show(&made.key))
}

fn show(key: &Key<'_>) -> String {
    let expires = key.expires_at.map_or_else(|| "never".to_owned(), |at| crate::Now::read().show(at));
    let mut facts = vec![
        ("id", key.id.to_string()),
        ("actions", actions(key)),
        ("topics", topics(key)),
        ("tenants", tenants(key)),
        ("live", if key.live { "yes" } else { "no" }.to_owned()),
        ("expires", expires),
    ];
    if let Some(limits) = &key.limits {
        facts.push(("limits", shown_limits(limits)));
    }
    if let Some(parent) = &key.parent {
        facts.push(("parent", parent.to_string()));
    }
    if !key.note.is_empty() {
        facts.push(("note", printable(&key.note)));
    }
    facts.iter().map(|(name, value)| format!("{name:<9}{value}\n")).collect()
}

pub(crate) fn shown_limits(limits: &Limits) -> String {
    let requests = limits.requests_per_second.map(|limit| format!("{limit} requests/s"));
    let bytes = limits.bytes_per_second.map(|limit| format!("{}/s", units::show_bytes(limit.into())));
    let waits = limits.waits.map(|limit| format!("{limit} waits"));
    [requests, bytes, waits].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn actions(key: &Key<'_>) -> String {
    key.actions.iter().map(|action| action.name()).collect::<Vec<_>>().join(",")
}

fn topics(key: &Key<'_>) -> String {
    names(key.topics.as_deref())
}

fn tenants(key: &Key<'_>) -> String {
    names(key.tenants.as_deref())
}

fn names(names: Option<&[Cow<'_, str>]>) -> String {
    names.map_or_else(|| "all".to_owned(), |names| printable(&names.join(",")))
}

/// Names as the server takes them: none at all if there are none.
fn given_names(names: &[String]) -> Option<Vec<Cow<'_, str>>> {
    (!names.is_empty()).then(|| names.iter().map(Into::into).collect())
}

/// The key that a command shows to the server: of the file, else of the environment.
pub(crate) fn given(file: Option<&FilePath>) -> Result<Option<String>, Fault> {
    match file {
        Some(file) => from_file(file).map(Some),
        None => Ok(env::var(KEY_VARIABLE).ok().filter(|key| !key.trim().is_empty())),
    }
}

fn from_file(file: &FilePath) -> Result<String, Fault> {
    let name = file.display();
    let unread = |error: std::io::Error| {
        Fault::new(Exit::Usage, format!("the key file {name} cannot be read: {error}"))
            .help("name a file with a key in it by --key-file or DRIFTQ_KEY_FILE")
    };
    let known = fs::metadata(file).map_err(unread)?;
    if known.len() > FILE_BYTES_MAX {
        return Err(Fault::new(Exit::Usage, format!("the key file {name} is too long for a key")));
    }
    if known.mode() & 0o077 != 0 {
        // A warning that cannot be written stops nothing.
        let _ = writeln!(
            std::io::stderr(),
            "warning: other accounts can read the key in {name}; run `chmod 600 {name}`"
        );
    }
    Ok(fs::read_to_string(file).map_err(unread)?.trim().to_owned())
}
