//! `driftq tenant …`: how much tenants have, and may have.

use anyhow::Result;
use driftq_api::units;
use driftq_api::v2::{Limits, Tenant, TenantLimits, Tenants};

use crate::key::{Pace, shown_limits};
use crate::parse::{Choice, Choices};
use crate::{Amount, Columns, Common, Path, grouped, printable};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List tenants, what they have, and what they may have
    #[command(after_help = "Those that have topics or limits. A key that is bound to tenants sees its own.

Examples:
  driftq tenant list
  driftq tenant list --all -o ndjson | jq -r 'select(.messages > 100000) | .tenant'")]
    List {
        #[command(flatten)]
        amount: Amount,
    },
    /// Show what one tenant has, and may have
    #[command(after_help = "Examples:
  driftq tenant show acme
  driftq tenant show acme -o json | jq .limits")]
    Show(Name),
    /// Say how much a tenant may have
    #[command(
        after_help = "A limit that is not named stays as it is; --lift and --none take limits away. What there is stays \
when a limit is lowered, and dead letters are kept whatever the limit. What would exceed a limit is refused with \
QUOTA_EXCEEDED and the name of the limit.

Topics, messages and bytes are those of topics that belong to the tenant (driftq topic create --tenant); requests, \
bytes in a second and waits are those of all keys that are bound to it (driftq key create --tenant).

Examples:
  driftq tenant limit acme --topics 20 --messages 1000000 --bytes 10GiB --effects 500000
  driftq tenant limit acme --requests-per-second 500 --bytes-per-second 1MiB --waits 20
  driftq tenant limit acme --messages 2000000 --lift waits,bytes
  driftq tenant limit acme --none"
    )]
    Limit(Limit),
}

#[derive(clap::Args)]
pub(crate) struct Name {
    /// Its name
    tenant: String,
}

impl Name {
    fn path(&self) -> Path {
        Path::of("/v2/tenants").part(&self.tenant)
    }
}

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("how_much").required(true).multiple(true).args([
    "none", "lift", "topics", "messages", "bytes", "effects", "requests_per_second", "bytes_per_second", "waits"
])))]
pub(crate) struct Limit {
    #[command(flatten)]
    name: Name,
    /// Lift all limits
    #[arg(
        long,
        conflicts_with_all = [
            "lift", "topics", "messages", "bytes", "effects", "requests_per_second", "bytes_per_second", "waits"
        ]
    )]
    none: bool,
    /// Lift these limits
    #[arg(long, value_name = "LIMITS", value_delimiter = ',', value_parser = Choice(LIFTED))]
    lift: Vec<Lift>,
    /// Topics that belong to it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    topics: Option<u32>,
    /// Messages in its topics, those included that every group is done with
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// Key and value bytes of those messages
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    bytes: Option<u64>,
    /// Effects that are remembered for it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    effects: Option<u64>,
    #[command(flatten)]
    pace: Pace,
}

/// Takes one limit away.
type Lift = fn(&mut TenantLimits);

const LIFTED: Choices<Lift> = &[
    ("topics", "", |limits| limits.topics = None),
    ("messages", "", |limits| limits.messages = None),
    ("bytes", "", |limits| limits.bytes = None),
    ("effects", "", |limits| limits.effects = None),
    ("requests-per-second", "", |limits| limits.requests_per_second = None),
    ("bytes-per-second", "", |limits| limits.bytes_per_second = None),
    ("waits", "", |limits| limits.waits = None),
];

impl Limit {
    /// The limits that are to hold after those `before`: what is not named stays. What is lifted and named is named.
    fn after(&self, mut before: TenantLimits) -> TenantLimits {
        for lift in &self.lift {
            lift(&mut before);
        }
        let pace = self.pace.limits();
        TenantLimits {
            requests_per_second: pace.requests_per_second.or(before.requests_per_second),
            bytes_per_second: pace.bytes_per_second.or(before.bytes_per_second),
            waits: pace.waits.or(before.waits),
            topics: self.topics.or(before.topics),
            messages: self.messages.or(before.messages),
            bytes: self.bytes.or(before.bytes),
            effects: self.effects.or(before.effects),
        }
    }
}

const COLUMNS: Columns<Tenant<'static>> = &[
    ("TENANT", |tenant, _| printable(&tenant.tenant)),
    ("TOPICS", |tenant, _| held(tenant.topics, tenant.limits.topics.map(u64::from), grouped)),
    ("MESSAGES", |tenant, _| held(tenant.messages, tenant.limits.messages, grouped)),
    ("BYTES", |tenant, _| held(tenant.bytes, tenant.limits.bytes, units::show_bytes)),
    ("EFFECTS", |tenant, _| held(tenant.effects, tenant.limits.effects, grouped)),
    ("PACE", |tenant, _| crate::or_dash(pace(&tenant.limits))),
];

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    let mut caller = common.caller()?;
    match command {
        Command::List { amount } => {
            let part = |page: Tenants<'static>| (page.tenants, page.cursor);
            let first = Path::of("/v2/tenants");
            caller.list(common, (first, amount), (COLUMNS, "no tenant has topics or limits"), part).await
        }
        Command::Show(name) => common.show(&caller.get(name.path()).await?, show),
        Command::Limit(limit) => {
            let limits = if limit.none {
                TenantLimits::default()
            } else {
                let before: Tenant<'static> = caller.get(limit.name.path()).await?;
                limit.after(before.limits)
            };
            let tenant: Tenant<'static> = caller.put(limit.name.path(), &limits).await?;
            common.show(&tenant, show)
        }
    }
}

/// How much there is, and how much there may be.
fn held(held: u64, limit: Option<u64>, show: fn(u64) -> String) -> String {
    match limit {
        None => show(held),
        Some(limit) => format!("{} of {}", show(held), show(limit)),
    }
}

fn pace(limits: &TenantLimits) -> Option<String> {
    let TenantLimits { requests_per_second, bytes_per_second, waits, .. } = *limits;
    let pace = Limits { requests_per_second, bytes_per_second, waits };
    (pace != Limits::default()).then(|| shown_limits(&pace))
}

fn show(tenant: &Tenant<'_>) -> String {
    let limits = &tenant.limits;
    let mut facts = vec![
        ("tenant", printable(&tenant.tenant)),
        ("topics", held(tenant.topics, limits.topics.map(u64::from), grouped)),
        ("messages", held(tenant.messages, limits.messages, grouped)),
        ("bytes", held(tenant.bytes, limits.bytes, units::show_bytes)),
        ("effects", held(tenant.effects, limits.effects, grouped)),
    ];
    facts.extend(pace(limits).map(|pace| ("pace", pace)));
    facts.iter().map(|(name, value)| format!("{name:<10}{value}\n")).collect()
}
