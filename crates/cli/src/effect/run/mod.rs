//! `driftq effect run`: any command as an effect that happens once.

mod command;
mod key;
mod reconcile;
mod stored;

use std::io::{self, IsTerminal, Write};
use std::{path::Path, process, time::Duration};

use anyhow::Result;
use driftq_api::units::duration;
use driftq_api::v2::{EffectBegin, EffectDecision, Expected, OnLapse, WAIT_MS_MAX};

use super::flags::{ON_LAPSE, Terms};
use super::{Identity, ask};
use crate::{
    CallError, Choice, Common, Exit, Fault, Session, Signals, ack::OWNER, child::EXIT_DEAD, entity, exit,
    parse::span, work::AWAITS,
};
use key::{Asked, Home};
use reconcile::Reconciled;

/// What `driftq work` tells its commands.
const LEASE_TOKEN: &str = "DRIFTQ_LEASE_TOKEN";

/// So often an unknown outcome is reconciled before it is left to people.
const RECONCILE_ROUNDS_MAX: u32 = 3;

const ABOUT: &str = "CMD runs if the effect is yours. Its stdout is passed on and stored with its exit code; a later run of \
the same effect gets both again, and CMD does not run. Its exit code says what happened:
    0   it happened: succeeded
   75   it did not happen, and may be tried again: failed_retryable
   65   it did not happen and never will: failed_final, and replayed as such
  else  --on-lapse hold: it may have happened. Nothing is stored, and the effect
        is unknown at once; --on-lapse retry: failed_retryable
A command that cannot be run at all (127) did not happen: its lease is given up, and the attempt does not count.
This command ends with the exit code of CMD, or with the stored one. Its own codes are below. Stdin, stderr and \
signals are CMD's; DRIFTQ_EFFECT_SCOPE, DRIFTQ_EFFECT_KEY and DRIFTQ_EFFECT_ATTEMPT tell it which effect it is: hand \
the key to the other side if that takes one.

The lease is renewed while CMD runs. If it is lost all the same, CMD gets SIGTERM, ten seconds later SIGKILL. In a \
command of `driftq work` the effect belongs to the message (DRIFTQ_LEASE_TOKEN): a newer attempt fences it off.

It is unknown how an effect ended whose worker died in the middle. --reconcile asks a command of yours, which finds \
out at the other side: 0 it happened, and stdout is the result; 75 it did not; 65 it failed for good; else unknown.

Stdout beyond the server's effect_result_bytes_max (256 KiB by default), and in any case beyond 4 MiB, is passed on \
and not stored: replays end with 12.

Examples:
  driftq effect run --key order-7 -- ./charge.sh order-7 500
  driftq effect run --scope mail --key order-7 --on-lapse retry -- ./mail.sh order-7
  driftq effect run --scope charge --args '{\"order\":7,\"cents\":500}' -- ./charge.sh
  id=$(driftq effect run --scope charge --key order-7 -- ./charge.sh order-7)
  driftq effect run --key order-7 --reconcile './find-charge.sh order-7' -- ./charge.sh order-7
  driftq work orders -g pay --exec 'driftq effect run --key \"$DRIFTQ_MESSAGE_KEY\" -- ./charge.sh'";

const CODES: &str = "Exit codes of its own:
    5  the lease was lost, or the outcome came too late: another caller decides now;
       or an entity has another version than --expect says
   12  it happened before, and its output was too large to be kept
   13  another caller carries it out, and --wait is over
   14  it failed, and --max-attempts are used up
   15  it may have happened: find out, then `driftq effect resolve` (or give --reconcile)
   65  it failed for good, now or before; or --key belongs to another request
  127  CMD cannot be run; nothing happened";

#[derive(clap::Args)]
#[command(after_help = format!("{ABOUT}\n\n{CODES}"))]
pub(crate) struct Args {
    /// What kind of effect it is; the name of CMD if not given
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Which one it is: the same key is the same effect
    #[arg(long, value_name = "KEY", required_unless_present = "args")]
    key: Option<String>,
    /// What is asked for, as JSON: hashed as the SDKs do it, and within a message or a run the key, if none is given
    #[arg(long, value_name = "JSON", conflicts_with_all = ["request_hash", "request_file"])]
    args: Option<String>,
    /// The tenant that it belongs to; none if not given
    #[arg(
        long,
        visible_alias = "tenant-id",
        env = "DRIFTQ_TENANT_ID",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        value_name = "ID"
    )]
    tenant: String,
    /// What becomes of it if this process dies, or CMD fails without saying how
    #[arg(long, value_parser = Choice(ON_LAPSE), default_value = "hold", value_name = "WHAT")]
    on_lapse: OnLapse,
    /// How long it is yours between two renewals
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = span)]
    lease: u64,
    /// How long the outcome is remembered once it is there; what the server says if not given
    #[arg(long, value_name = "DURATION", value_parser = span)]
    ttl: Option<u64>,
    /// Most attempts; no cap if not given
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long to wait for the outcome while another caller carries it out
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration)]
    wait: u64,
    /// What is asked for, as a hash of your own: another one under the same key is refused
    #[arg(long, value_name = "HASH", conflicts_with = "request_file")]
    request_hash: Option<String>,
    /// What is asked for, as a file: its BLAKE3 hash is sent, as `blake3:HEX`
    #[arg(long, value_name = "PATH")]
    request_file: Option<String>,
    /// Asked, with `sh -c`, when it is unknown whether it happened
    #[arg(long, value_name = "CMD")]
    reconcile: Option<String>,
    /// The token of a message's lease; `driftq work` sets it
    #[arg(long, value_name = "TOKEN", env = LEASE_TOKEN, hide_env_values = true, allow_hyphen_values = true)]
    lease_token: Option<String>,
    /// The run that it belongs to; a message's lease says it by itself
    #[arg(long, value_name = "ID", env = "DRIFTQ_RUN_ID", hide_env_values = true)]
    run_id: Option<String>,
    /// The step within the run
    #[arg(long, value_name = "ID", env = "DRIFTQ_STEP_ID", hide_env_values = true)]
    step_id: Option<String>,
    /// Your name
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, default_value = OWNER)]
    owner: String,
    /// Only if the entity has this version; it is raised by one when CMD is to run. Can be given several times
    #[arg(long, value_name = "ENTITY=VERSION", value_parser = entity::expected)]
    expect: Vec<Expected<'static>>,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Args {
    fn identity(&self, asked: Option<&Asked>) -> Result<Identity> {
        let program = self.command.first().map_or("", String::as_str);
        let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program);
        let key = match (&self.key, asked) {
            (Some(key), _) => key.clone(),
            (None, Some(asked)) => asked.key(&self.home())?,
            (None, None) => return Err(Fault::new(Exit::Usage, "--key: the effect needs a name").into()),
        };
        let scope = self.scope.clone().unwrap_or_else(|| name.to_owned());
        Ok(Identity { scope, key, tenant: self.tenant.clone() })
    }

    fn home(&self) -> Home {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        // Where the message was born; its own address, where the worker does not say.
        let born = |name: &str| {
            variable(&format!("DRIFTQ_ORIGIN_{name}")).or_else(|| variable(&format!("DRIFTQ_{name}")))
        };
        Home {
            run_id: given(self.run_id.as_ref()),
            step_id: given(self.step_id.as_ref()),
            topic: born("TOPIC"),
            incarnation: born("INCARNATION").and_then(|text| text.parse().ok()).unwrap_or(0),
            partition: born("PARTITION").and_then(|text| text.parse().ok()),
            offset: born("OFFSET").and_then(|text| text.parse().ok()),
            idempotency_key: variable("DRIFTQ_IDEMPOTENCY_KEY"),
        }
    }

    fn terms(&self, asked: Option<&Asked>) -> Terms {
        Terms {
            request_hash: asked.map(Asked::hash).or_else(|| self.request_hash.clone()),
            request_file: self.request_file.clone(),
            lease: Some(self.lease),
            ttl: self.ttl,
            on_lapse: self.on_lapse,
            max_attempts: self.max_attempts,
            lease_token: given(self.lease_token.as_ref()),
            request_id: None,
            owner: self.owner.clone(),
        }
    }
}

/// A variable that is set and empty says nothing.
fn given(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<Exit> {
    let asked = args.args.as_deref().map(Asked::read).transpose()?;
    // Caught from here on: once the effect has begun, its end has to be told.
    let mut signals = Signals::new()?;
    let effect = Effect {
        session: common.client()?.session().waiting(Duration::from_millis(WAIT_MS_MAX)),
        client: common.client()?,
        identity: args.identity(asked.as_ref())?,
        terms: args.terms(asked.as_ref()),
        args,
    };
    let code = effect.run(&mut signals).await?;
    // Whatever CMD ended with is what this process ends with, and that may be any number.
    io::stdout().flush()?;
    process::exit(code)
}

/// One effect on its way.
struct Effect<'a> {
    session: Session,
    client: crate::client::Client,
    identity: Identity,
    terms: Terms,
    args: &'a Args,
}

impl Effect<'_> {
    async fn run(mut self, signals: &mut Signals) -> Result<i32> {
        let mut rounds_left = if self.args.reconcile.is_some() { RECONCILE_ROUNDS_MAX } else { 0 };
        loop {
            let decision = tokio::select! {
                decision = self.begin() => decision?,
                // Nothing has begun here; if the call got through, the lease lapses.
                signal = signals.next() => return Ok(signal.exit_code()),
            };
            let decision = match decision {
                Ok(decision) => decision,
                Err(error) if error.code() == "KEY_REUSED" => {
                    exit::report(&error.into_error(), None);
                    return Ok(EXIT_DEAD);
                }
                Err(error) => return Err(error.into_error()),
            };
            let name = self.identity.display();
            match decision {
                EffectDecision::Execute { lease } => {
                    return self.carry_out(&lease, signals).await;
                }
                EffectDecision::Replay { outcome } => return stored::replay(&name, &outcome),
                EffectDecision::InProgress { retry_after_ms, .. } => {
                    self.tell_worker();
                    return Err(busy(&name, retry_after_ms));
                }
                EffectDecision::Retryable { outcome, .. } => {
                    return Err(exhausted(&name, &outcome.error));
                }
                EffectDecision::Unknown { epoch, attempt, .. } if rounds_left > 0 => {
                    rounds_left -= 1;
                    match self.reconcile(epoch, attempt).await? {
                        Reconciled::Recorded => {}
                        Reconciled::Exhausted => return Err(exhausted(&name, "it did not happen")),
                        Reconciled::Unclear => {
                            self.tell_worker();
                            return Err(uncertain(&name));
                        }
                    }
                }
                EffectDecision::Unknown { .. } => {
                    self.tell_worker();
                    return Err(uncertain(&name));
                }
            }
        }
    }

    /// Tells `driftq work` which effect its message has to wait for. If it cannot be told, the message waits for its
    /// time alone.
    fn tell_worker(&self) {
        let Some(file) = std::env::var_os(AWAITS.0) else { return };
        drop(serde_json::to_vec(&self.identity.wire()).map(|text| std::fs::write(file, text)));
    }

    async fn begin(&mut self) -> Result<Result<EffectDecision<'static>, CallError>> {
        let mut request = EffectBegin {
            reacquire: true,
            expect: self.args.expect.clone(),
            ..self.terms.request(&self.identity)?.into_begin()
        };
        if request.lease_token.is_none() {
            request.run_id = given(self.args.run_id.as_ref()).map(Into::into);
            request.step_id = given(self.args.step_id.as_ref()).map(Into::into);
        }
        Ok(ask(&mut self.session, request, self.args.wait).await)
    }
}

fn busy(name: &str, retry_after_ms: u64) -> anyhow::Error {
    let left = retry_after_ms.div_ceil(1000);
    Fault::new(Exit::InProgress, format!("{name}: another holder has it for up to {left} s"))
        .help("it is at work, or ended without a word; ask again later, or wait longer with --wait")
        .into()
}

fn exhausted(name: &str, error: &str) -> anyhow::Error {
    let why = if error.is_empty() { String::new() } else { format!(" ({error})") };
    Fault::new(Exit::Retryable, format!("{name}: it failed, and no attempts are left{why}"))
        .help("`driftq effect resolve --status failed-retryable` grants one more attempt")
        .into()
}

fn uncertain(name: &str) -> anyhow::Error {
    Fault::new(Exit::Unknown, format!("{name}: it may have happened, and it is not known yet whether it did"))
        .help("find out at the other side, then `driftq effect resolve`; or name a command that does with --reconcile")
        .into()
}

/// A word to people; programs read stderr for errors.
fn note(text: &str) {
    if io::stderr().is_terminal() {
        eprintln!("{text}");
    }
}
