//! `driftq ledger …`: the idempotency records of a service, in its PostgreSQL or on a server.

mod audit;
mod record;
mod store;
mod upkeep;

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Result;
use driftq_api::units::duration;
use driftq_api::v2::{EffectResult, EffectState, EffectStatus};
use driftq_ledger::{
    End, Ending, Filter, Finished, Identity, LedgerError, PAGE_MAX, Record, Resolve, Resolver, Response,
    Status,
};
use serde::Serialize;

use crate::{Amount, Choice, Common, Exit, Fault, Format, Now, Rows, aligned, effect, grouped, printable};
use record::{RECORDS, Shown};
use store::{StoreArgs, fault};

#[derive(clap::Args)]
#[command(
    after_help = "A service that uses the crate `driftq-ledger` keeps its records in PostgreSQL or on \
a DriftQ server. Both are looked after here. A password on the command line is seen by every user who lists \
processes: put the URL into DRIFTQ_LEDGER_STORE instead.

Examples:
  export DRIFTQ_LEDGER_STORE=postgres://pay@db.internal/pay
  driftq ledger migrate                                # make the table, or bring it up to date
  driftq ledger list --status unknown                  # what an operator must look into
  driftq ledger show ann 'POST /pay' order-7
  driftq ledger audit ann 'POST /pay' order-7          # what became of it, step by step
  driftq ledger sweep --dry-run
  driftq ledger stats --store http://127.0.0.1:8080    # the ledger of a server"
)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(subcommand)]
    command: Command,
}

/// Names one record.
#[derive(clap::Args)]
struct Name {
    /// On whose behalf it happens; a server's tenant
    principal: String,
    /// What kind of effect it is, such as a route; a server's scope
    method: String,
    /// Which one it is
    key: String,
}

impl Name {
    fn identity(&self) -> Result<Identity> {
        let identity = Identity::new(&self.principal, &self.method, &self.key);
        Ok(identity.map_err(|error| Fault::new(Exit::Usage, error.to_string()))?)
    }
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make the table in PostgreSQL, or bring it up to date
    Migrate(upkeep::MigrateArgs),
    /// List records, for example those whose outcome is unknown
    List(ListArgs),
    /// Show one record and what came of it
    Show(ShowArgs),
    /// Decide by hand what came of an effect
    Resolve(ResolveArgs),
    /// Remove what is over, and write down what is unknown
    Sweep(upkeep::SweepArgs),
    /// Show what became of records: lapses, take-overs, resolutions
    Audit(audit::AuditArgs),
    /// Count records by how they stand
    #[command(after_help = "Examples:
  driftq ledger stats --store postgres://pay@db.internal/pay
  driftq ledger stats -o json | jq .by_status.unknown")]
    Stats,
}

#[derive(clap::Args)]
#[command(after_help = "Bodies and headers of outcomes are shown by `driftq ledger show`. Effects of a \
server that belong to no tenant are not listed: see `driftq effect list --tenant ''`.

Examples:
  driftq ledger list --status unknown                  # what an operator must look into
  driftq ledger list --status failed-retryable --method 'POST /pay'
  driftq ledger list --all -o ndjson | jq -r .status | sort | uniq -c")]
struct ListArgs {
    /// Only those that stand so now
    #[arg(long, value_parser = Choice(effect::STATES), ignore_case = true)]
    status: Option<EffectState>,
    /// Only those of this principal
    #[arg(long)]
    principal: Option<String>,
    /// Only those of this method
    #[arg(long)]
    method: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq ledger show ann 'POST /pay' order-7
  driftq ledger show ann 'POST /pay' order-7 --body > answer.json
  driftq ledger show ann 'POST /pay' order-7 -o json | jq .outcome.headers")]
struct ShowArgs {
    #[command(flatten)]
    name: Name,
    /// Print the stored answer's bytes as they are, and nothing else
    #[arg(long)]
    body: bool,
}

#[derive(clap::Args)]
#[command(after_help = "For an effect that is unknown, whose lease has lapsed, or that failed and may be \
tried again. Find out first, at the other side, whether it happened. What succeeded or failed-final is final; \
failed-retryable says that it did not happen, and grants one more attempt if the cap was reached. Who decided and why \
is kept with the outcome.

Examples:
  driftq ledger list --status unknown
  driftq ledger show ann 'POST /pay' order-7           # its epoch, for --epoch
  driftq ledger resolve ann 'POST /pay' order-7 --status succeeded --code 201 \\
      --body-file answer.json --epoch 1 --why 'ch_1 is in the books of the bank'
  driftq ledger resolve ann 'POST /pay' order-8 --status failed-retryable --why 'not there'")]
struct ResolveArgs {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    ending: effect::Ending,
    /// Who decides it
    #[arg(long, env = "USER", hide_env_values = true, value_name = "NAME")]
    by: String,
    /// How it is known
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Only if this is still the newest lease, as `ledger show` shows it
    #[arg(long, value_name = "N")]
    epoch: Option<u32>,
    /// How long to remember it; a server goes by the lease before instead
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    ttl: u64,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let store = &args.store;
    let outcome = match &args.command {
        Command::Migrate(args) => upkeep::migrate(common, store, args).await,
        Command::List(args) => list(common, store, args).await,
        Command::Show(args) => show(common, store, args).await,
        Command::Resolve(args) => resolve(common, store, args).await,
        Command::Sweep(args) => upkeep::sweep(common, store, args).await,
        Command::Audit(args) => audit::audit(common, store, args).await,
        Command::Stats => upkeep::stats(common, store).await,
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => Err(store.explain(common, error).await),
    }
}

async fn list(common: &Common, store: &StoreArgs, args: &ListArgs) -> Result<()> {
    let ledger = store.ledger(common)?;
    let mut unreadable = 0;
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), RECORDS);
    let mut filter = Filter {
        status: args.status.map(|state| match state {
            EffectState::InProgress => Status::InProgress,
            EffectState::Succeeded => Status::Succeeded,
            EffectState::FailedFinal => Status::FailedFinal,
            EffectState::FailedRetryable => Status::FailedRetryable,
            EffectState::Unknown => Status::Unknown,
        }),
        principal: args.principal.clone(),
        method: args.method.clone(),
        ..Filter::default()
    };
    let wanted = args.amount.wanted();
    while rows.printed() < wanted {
        filter.limit = u32::try_from(wanted - rows.printed()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let page = ledger.list(&filter).await.map_err(|error| fault(&error))?;
        unreadable += page.unreadable;
        for record in &page.records {
            rows.row(&Shown::new(record), record)?;
        }
        filter.cursor = page.cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    rows.end("no record fits")?;
    if filter.cursor.is_some() {
        rows.hint();
    }
    warn_of_unreadable(unreadable);
    Ok(())
}

/// Rows that this release cannot read do not stop a list or a sweep; the operator hears of them all the same.
fn warn_of_unreadable(rows: u64) {
    if rows > 0 {
        eprintln!("warning: {} record(s) cannot be read by this release and were passed over", grouped(rows));
    }
}

async fn show(common: &Common, store: &StoreArgs, args: &ShowArgs) -> Result<()> {
    let identity = args.name.identity()?;
    let found = store.ledger(common)?.get(&identity).await.map_err(|error| fault(&error))?;
    let record = found.ok_or_else(|| fault(&LedgerError::NotFound))?;
    if args.body {
        return print_body(&record);
    }
    common.show(&Shown::new(&record), |_| aligned(&record::facts(&record, Now::read())))
}

fn print_body(record: &Record) -> Result<()> {
    let Some(outcome) = &record.outcome else {
        let why = format!("it has no answer yet: it is {}", record::status(record.status));
        return Err(Fault::new(Exit::Conflict, why).into());
    };
    if let Some(bytes) = outcome.response.omitted() {
        let why = format!("the answer had {bytes} bytes and was too large to keep");
        return Err(Fault::new(Exit::Failure, why).into());
    }
    let mut out = io::stdout().lock();
    out.write_all(&outcome.response.payload)?;
    out.flush()?;
    Ok(())
}

async fn resolve(common: &Common, store: &StoreArgs, args: &ResolveArgs) -> Result<()> {
    #[derive(Serialize)]
    struct Resolved {
        result: &'static str,
        status: &'static str,
    }
    let identity = args.name.identity()?;
    let ending = ending(args.ending.read()?);
    let status = record::status(ending.end.into());
    let found = Resolve {
        identity: identity.clone(),
        epoch: args.epoch,
        ending,
        resolver: Resolver { by: args.by.clone(), why: args.why.clone() },
        ttl: Duration::from_millis(args.ttl),
    };
    let finished = store.ledger(common)?.resolve(&found).await.map_err(|error| fault(&error))?;
    common.show(&Resolved { result: finished.word(), status }, |_| {
        let before = match finished {
            Finished::Committed => "",
            Finished::AlreadyCommitted => ", as was said before",
        };
        format!("{} is {status}{before}\n", printable(&identity.to_string()))
    })
}

/// What the flags say, as the ledger takes it.
fn ending(result: EffectResult<'_>) -> Ending {
    let pairs = result.headers.into_pairs().into_iter();
    Ending {
        end: match result.status {
            EffectStatus::Succeeded => End::Succeeded,
            EffectStatus::FailedFinal => End::FailedFinal,
            EffectStatus::FailedRetryable => End::FailedRetryable,
        },
        response: Response {
            code: result.code,
            headers: pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
            payload: result.body.unwrap_or_default().into_owned().into(),
        },
        error: result.error.into_owned(),
    }
}
