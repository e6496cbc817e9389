//! `driftq effect begin`.

use std::{borrow::Cow, time::Duration};

use anyhow::Result;
use driftq_api::v2::{EffectBegin, EffectDecision, Expected, WAIT_MS_MAX};

use super::{Identity, decision, terms::Terms};
use crate::{
    Common,
    call::patiently,
    client::{CallError, Session},
    entity,
    exit::Exit,
};
use driftq_api::units::duration;

const ABOUT: &str =
    "The answer is a decision, and the exit code tells scripts which one. Only `execute` is 0: \
whatever follows `&&` runs when the effect is yours, and never when it was done before.

Examples:
  driftq effect begin charge order-7 --lease 30s --ttl 7d
  driftq effect begin charge order-7 --request-file order.json --wait 10s
  driftq effect begin mail user-1 --on-lapse retry --max-attempts 5
  driftq effect begin charge order-7 --lease-token \"$message_token\"
  driftq effect begin ship order-7 --expect order-7=3    # only if order-7 is at version 3

  answer=$(driftq effect begin charge order-7 -o json)
  case $? in
    0) token=$(jq -r .lease.token <<<\"$answer\"); ./charge.sh &&
       driftq effect finish --status succeeded \"$token\" ;;
    12) jq .outcome <<<\"$answer\" ;;
  esac";

#[derive(clap::Args)]
#[command(after_help = format!("{ABOUT}\n\n{}", Exit::decisions()))]
pub(crate) struct Args {
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    terms: Terms,
    /// Take it at once if it failed and may be tried again
    #[arg(long)]
    reacquire: bool,
    /// How long to wait for the outcome while somebody else carries it out
    #[arg(long, default_value = "0", value_name = "DURATION", value_parser = duration)]
    wait: u64,
    /// The run that it belongs to; a message's lease says it by itself
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// The step within the run
    #[arg(long, value_name = "ID")]
    step_id: Option<String>,
    /// Only if the entity has this version; it is raised by one. Can be given several times
    #[arg(long, value_name = "ENTITY=VERSION", value_parser = entity::expected)]
    expect: Vec<Expected<'static>>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<Exit> {
    let mut session = common.client()?.session().waiting(Duration::from_millis(WAIT_MS_MAX));
    let decision = begin(&mut session, args).await?;
    decision::print(common, &args.identity, &decision)
}

async fn begin(session: &mut Session, args: &Args) -> Result<EffectDecision<'static>> {
    let request = EffectBegin {
        reacquire: args.reacquire,
        run_id: args.run_id.as_deref().map(Cow::Borrowed),
        step_id: args.step_id.as_deref().map(Cow::Borrowed),
        expect: args.expect.clone(),
        ..args.terms.request(&args.identity)?.into_begin()
    };
    ask(session, request, args.wait).await.map_err(|error| error.into_error())
}

/// Asks until it is decided or the wait is over: a single call of the server waits for a minute at most.
pub(super) async fn ask(
    session: &mut Session,
    mut request: EffectBegin<'_>,
    wait_ms: u64,
) -> Result<EffectDecision<'static>, CallError> {
    let mut left = wait_ms;
    loop {
        request.wait_ms = left.min(WAIT_MS_MAX);
        let decision = patiently(session, "/v2/effects/begin", &request, request.wait_ms).await?;
        left -= request.wait_ms;
        if left == 0 || !matches!(decision, EffectDecision::InProgress { .. }) {
            return Ok(decision);
        }
    }
}
