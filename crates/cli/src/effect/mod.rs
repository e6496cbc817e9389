//! `driftq effect …`: what work does to the world outside, remembered so that it is not done twice.

pub(super) mod describe;
mod flags;
mod run;

use std::{borrow::Cow, time::Duration};

use anyhow::Result;
use driftq_api::units::duration;
use driftq_api::v2::{
    CommitResult, EffectBegin, EffectDecision, EffectFinish, EffectFinished, EffectGet, EffectRelease,
    EffectReleased, EffectRenew, EffectRenewed, EffectResolve, EffectState, Effects, Expected, ReleaseResult,
    WAIT_MS_MAX,
};

use crate::{
    Amount, CallError, Choice, Choices, Common, Exit, Now, Path, Session, aligned, entity, parse::span,
};
use flags::Terms;
pub(super) use flags::{Ending, STATUSES};

/// Names one effect.
#[derive(clap::Args)]
pub(crate) struct Identity {
    /// What kind of effect it is; keys are unique within a scope
    scope: String,
    /// Which one it is
    key: String,
    /// The tenant that it belongs to; none if not given
    #[arg(
        long,
        visible_alias = "tenant-id",
        default_value = "",
        hide_default_value = true,
        value_name = "ID"
    )]
    tenant: String,
}

impl Identity {
    /// For people.
    fn display(&self) -> String {
        describe::name(&self.tenant, &self.scope, &self.key)
    }

    fn wire(&self) -> EffectGet<'_> {
        EffectGet {
            tenant_id: Cow::Borrowed(&self.tenant),
            scope: Cow::Borrowed(&self.scope),
            key: Cow::Borrowed(&self.key),
        }
    }
}

/// Names a lease of an effect.
#[derive(clap::Args)]
pub(crate) struct Holder {
    /// The token that came with `effect begin`
    #[arg(allow_hyphen_values = true)]
    token: String,
}

impl Holder {
    fn token(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.token)
    }
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Ask whether to carry an effect out, or what came of it
    Begin(BeginArgs),
    /// Run a command once: its output and end are stored, and replayed from then on
    Run(run::Args),
    /// Say what came of an effect
    #[command(
        after_help = "The outcome is kept and replayed to every caller that begins the effect again. The same \
outcome again is no error; another one is refused with code 5, and so is a token that a newer lease has fenced \
off.

Examples:
  driftq effect finish --status succeeded --code 200 --body '{\"id\": \"ch_1\"}' \"$token\"
  ./charge.sh | driftq effect finish --status succeeded --body-file - \"$token\"
  driftq effect finish --status failed-retryable --error 'timed out' \"$token\"
  driftq effect finish --status failed-final --code 402 --error 'card declined' \"$token\""
    )]
    Finish {
        #[command(flatten)]
        holder: Holder,
        #[command(flatten)]
        ending: Ending,
    },
    /// Say that the work on an effect goes on
    #[command(after_help = "A heartbeat: call it well before the lease ends. A refusal (code 5) says that \
the effect is no longer yours: stop the work.

Examples:
  driftq effect renew \"$token\"
  driftq effect renew --lease 5m \"$token\"")]
    Renew {
        #[command(flatten)]
        holder: Holder,
        /// For how long from now; as long as it was begun for if not given
        #[arg(long, value_name = "DURATION", value_parser = span)]
        lease: Option<u64>,
    },
    /// Give an effect's lease up: nothing was sent
    #[command(after_help = "For work that failed before anything was sent: the attempt does not count, and \
a caller that waits for the effect has it at once. A refusal (code 5) says that the effect is no longer yours.

Examples:
  driftq effect release \"$token\"
  driftq effect release --uncertain \"$token\"")]
    Release {
        #[command(flatten)]
        holder: Holder,
        /// It may have happened: what was begun with `--on-lapse hold` is unknown from now on
        #[arg(long)]
        uncertain: bool,
    },
    /// Try an effect again that failed
    #[command(after_help = format!("{ABOUT_REACQUIRE}\n\n{}", Exit::decisions()))]
    Reacquire {
        #[command(flatten)]
        identity: Identity,
        #[command(flatten)]
        terms: Terms,
    },
    /// Decide by hand what came of an effect
    Resolve(ResolveArgs),
    /// Show one effect and its outcome
    #[command(after_help = "Examples:
  driftq effect get charge order-7
  driftq effect get charge order-7 --tenant acme -o json | jq -r .outcome.body")]
    Get(Identity),
    /// List effects, for example those whose outcome is unknown
    #[command(after_help = "The oldest first. Bodies and headers of outcomes are shown by `driftq effect \
get`.

Examples:
  driftq effect list --state unknown           # what an operator must look into
  driftq effect list --scope charge --tenant acme --limit 20
  driftq effect list --all -o ndjson | jq -r .state | sort | uniq -c")]
    List {
        /// Only in this state
        #[arg(long, value_parser = Choice(STATES))]
        state: Option<EffectState>,
        /// Only of this scope
        #[arg(long)]
        scope: Option<String>,
        /// Only of this tenant; '' for those of no tenant
        #[arg(long, visible_alias = "tenant-id", value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        amount: Amount,
    },
}

/// Where an effect stands, as flags say it.
pub(super) const STATES: Choices<EffectState> = &[
    ("in-progress", "", EffectState::InProgress),
    ("succeeded", "", EffectState::Succeeded),
    ("failed-final", "", EffectState::FailedFinal),
    ("failed-retryable", "", EffectState::FailedRetryable),
    ("unknown", "", EffectState::Unknown),
];

const ABOUT_BEGIN: &str =
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
#[command(after_help = format!("{ABOUT_BEGIN}\n\n{}", Exit::decisions()))]
pub(crate) struct BeginArgs {
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    terms: Terms,
    /// Take it at once if it failed and may be tried again
    #[arg(long)]
    reacquire: bool,
    /// How long to wait for the outcome while another caller carries it out
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

const ABOUT_REACQUIRE: &str =
    "As `effect begin --reacquire`, but only for an effect that is there, and refused with code 5 \
when its attempts are used up.

Examples:
  driftq effect reacquire charge order-7
  driftq effect reacquire charge order-7 --lease 1m -o json | jq -r .lease.token";

#[derive(clap::Args)]
#[command(after_help = "For an effect that is unknown, whose lease has lapsed, or that failed and may be \
tried again. Find out first, at the other side, whether it happened. What succeeded or failed-final is final; \
failed-retryable says that it did not happen, and grants one more attempt if the cap was reached. Who decided and why \
is kept with the outcome.

Examples:
  driftq effect list --state unknown
  driftq effect resolve charge order-7 --status succeeded --why 'ch_1 is in the ledger of the bank'
  driftq effect resolve charge order-7 --status failed-retryable --by ann --why 'not there'")]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    ending: Ending,
    /// Who decides it
    #[arg(long, env = "USER", hide_env_values = true, value_name = "NAME")]
    by: String,
    /// How it is known
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Only if this is still the newest lease, as `effect get` shows it
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<Exit> {
    let done = match command {
        Command::Begin(args) => return begin(common, args).await,
        Command::Run(args) => return run::run(common, args).await,
        Command::Reacquire { identity, terms } => {
            let request = terms.request(identity)?;
            let decision = common.caller()?.patiently("/v2/effects/reacquire", &request).await?;
            return show_decision(common, identity, &decision);
        }
        Command::Finish { holder, ending } => {
            let request = EffectFinish { token: holder.token(), result: ending.read()? };
            let finished = common.caller()?.patiently("/v2/effects/finish", &request).await?;
            common.show(&finished, |finished| {
                format!("the effect is {}{}", describe::status(request.result.status), remembered(finished))
            })
        }
        Command::Renew { holder, lease } => {
            let request = EffectRenew { token: holder.token(), lease_ms: *lease };
            let renewed: EffectRenewed = common.caller()?.patiently("/v2/effects/renew", &request).await?;
            common.show(&renewed, |renewed| {
                format!(
                    "yours until {} (attempt {})\n",
                    Now::read().show(renewed.expires_at),
                    renewed.attempt
                )
            })
        }
        Command::Release { holder, uncertain } => release(common, holder, *uncertain).await,
        Command::Resolve(args) => resolve(common, args).await,
        Command::Get(identity) => {
            let effect = common.caller()?.post("/v2/effects/get", &identity.wire()).await?;
            common.show(&effect, |effect| aligned(&describe::facts(effect, Now::read())))
        }
        Command::List { state, scope, tenant, amount } => {
            let first = Path::of("/v2/effects")
                .with_some("state", state.map(EffectState::name))
                .with_some("scope", scope.as_deref())
                .with_some("tenant_id", tenant.as_deref());
            let part = |page: Effects<'static>| (page.effects, page.cursor);
            common.caller()?.list(common, (first, amount), (describe::EFFECTS, "no effect fits"), part).await
        }
    };
    done.map(|()| Exit::Success)
}

async fn begin(common: &Common, args: &BeginArgs) -> Result<Exit> {
    let mut session = common.client()?.session().waiting(Duration::from_millis(WAIT_MS_MAX));
    let request = EffectBegin {
        reacquire: args.reacquire,
        run_id: args.run_id.as_deref().map(Cow::Borrowed),
        step_id: args.step_id.as_deref().map(Cow::Borrowed),
        expect: args.expect.clone(),
        ..args.terms.request(&args.identity)?.into_begin()
    };
    let decision = ask(&mut session, request, args.wait).await.map_err(CallError::into_error)?;
    show_decision(common, &args.identity, &decision)
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
        let decision = session.patiently("/v2/effects/begin", &request, request.wait_ms).await?;
        left -= request.wait_ms;
        if left == 0 || !matches!(decision, EffectDecision::InProgress { .. }) {
            return Ok(decision);
        }
    }
}

/// Prints it, and says how the command ends.
fn show_decision(common: &Common, identity: &Identity, decision: &EffectDecision<'static>) -> Result<Exit> {
    common.show(decision, |decision| describe::decision(identity, decision))?;
    Ok(describe::exit(decision))
}

async fn release(common: &Common, holder: &Holder, uncertain: bool) -> Result<()> {
    let request = EffectRelease { token: holder.token(), uncertain };
    let released: EffectReleased = common.caller()?.patiently("/v2/effects/release", &request).await?;
    common.show(&released, |released| {
        let words = match (released.result, uncertain) {
            (ReleaseResult::Released, false) => "given up: the next one who asks may carry it out",
            (ReleaseResult::Released, true) => "given up: it may have happened",
            (ReleaseResult::AlreadyReleased, _) => "given up before",
        };
        format!("{words}\n")
    })
}

async fn resolve(common: &Common, args: &ResolveArgs) -> Result<()> {
    let EffectGet { tenant_id, scope, key } = args.identity.wire();
    let request = EffectResolve {
        tenant_id,
        scope,
        key,
        result: args.ending.read()?,
        by: Cow::Borrowed(&args.by),
        why: Cow::Borrowed(&args.why),
        epoch: args.epoch,
    };
    let finished = common.caller()?.post("/v2/effects/resolve", &request).await?;
    common.show(&finished, |finished| {
        let status = describe::status(request.result.status);
        format!("{} is {status}{}", args.identity.display(), remembered(finished))
    })
}

/// How new that is, and how long it is remembered.
fn remembered(finished: &EffectFinished) -> String {
    let before = match finished.result {
        CommitResult::Committed => "",
        CommitResult::AlreadyCommitted => ", as was said before",
    };
    let until = Now::read().show(finished.expires_at);
    format!("{before} (attempt {}); remembered until {until}\n", finished.attempt)
}
