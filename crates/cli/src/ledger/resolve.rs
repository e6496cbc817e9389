//! `driftq ledger resolve`.

use std::time::Duration;

use anyhow::Result;
use driftq_api::v2::{EffectResult, EffectStatus};
use driftq_ledger::{End, Ending, Finished, Resolve, Resolver, Response};
use serde::Serialize;

use super::{Name, Place, fault::fault, words};
use crate::{Common, effect::Ending as Flags, output, output::printable};
use driftq_api::units::duration;

#[derive(clap::Args)]
#[command(
    after_help = "For an effect that is unknown, whose lease has lapsed, or that failed and may be tried again. Find out \
first, at the other side, whether it happened. What succeeded or failed-final is final; failed-retryable says that it \
did not happen, and grants one more attempt if the cap was reached. Who decided and why is kept with the outcome.

Examples:
  driftq ledger list --status unknown
  driftq ledger show ann 'POST /pay' order-7           # its epoch, for --epoch
  driftq ledger resolve ann 'POST /pay' order-7 --status succeeded --code 201 \\
      --body-file answer.json --epoch 1 --why 'ch_1 is in the books of the bank'
  driftq ledger resolve ann 'POST /pay' order-8 --status failed-retryable --why 'not there'"
)]
pub(super) struct Args {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    ending: Flags,
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

/// What was done.
#[derive(Serialize)]
struct Resolved {
    result: &'static str,
    status: &'static str,
}

pub(super) async fn run(common: &Common, place: &Place, args: &Args) -> Result<()> {
    let identity = args.name.identity()?;
    let ending = ending(args.ending.read()?);
    let status = words::status(ending.end.into());
    let found = Resolve {
        identity: identity.clone(),
        epoch: args.epoch,
        ending,
        resolver: Resolver { by: args.by.clone(), why: args.why.clone() },
        ttl: Duration::from_millis(args.ttl),
    };
    let ledger = place.ledger(common)?;
    let finished = ledger.resolve(&found).await.map_err(|error| fault(&error))?;
    let resolved = Resolved { result: finished.word(), status };
    output::print_one(common.output, &resolved, || {
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
