//! `driftq ledger …`: the idempotency records of a service, in its PostgreSQL or on a server.

mod fault;
mod list;
mod migrate;
mod place;
mod resolve;
mod show;
mod stats;
mod sweep;
mod words;

use anyhow::Result;
use driftq_ledger::Identity;

use super::{
    Common,
    exit::{Exit, Fault},
};
use place::Place;

#[derive(clap::Args)]
#[command(
    after_help = "A service that uses the crate `driftq-ledger` keeps its records in PostgreSQL or on a DriftQ server. Both are \
looked after here. A password on the command line is seen by everybody who lists processes: put the URL into \
DRIFTQ_LEDGER_STORE instead.

Examples:
  export DRIFTQ_LEDGER_STORE=postgres://pay@db.internal/pay
  driftq ledger migrate                                # make the table, or bring it up to date
  driftq ledger list --status unknown                  # what somebody must look into
  driftq ledger show ann 'POST /pay' order-7
  driftq ledger sweep --dry-run
  driftq ledger stats --store http://127.0.0.1:8080    # the ledger of a server"
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
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
    Migrate(migrate::Args),
    /// List records, for example those that nobody knows the outcome of
    List(list::Args),
    /// Show one record and what came of it
    Show(show::Args),
    /// Decide by hand what came of an effect
    Resolve(resolve::Args),
    /// Remove what is over, and write down what nobody knows
    Sweep(sweep::Args),
    /// Count records by how they stand
    #[command(after_help = "Examples:
  driftq ledger stats --store postgres://pay@db.internal/pay
  driftq ledger stats -o json | jq .by_status.unknown")]
    Stats,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let place = &args.place;
    let outcome = match &args.command {
        Command::Migrate(args) => migrate::run(common, place, args).await,
        Command::List(args) => list::run(common, place, args).await,
        Command::Show(args) => show::run(common, place, args).await,
        Command::Resolve(args) => resolve::run(common, place, args).await,
        Command::Sweep(args) => sweep::run(common, place, args).await,
        Command::Stats => stats::run(common, place).await,
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => Err(place.told(common, place.who(common, error).await)),
    }
}
