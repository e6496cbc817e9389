//! Runs the command while the lease is kept, and tells the server how it ended.

use std::process::{ExitStatus, Stdio};
use std::{borrow::Cow, io, io::IsTerminal, time::Duration};

use anyhow::{Context, Result};
use driftq_api::v2::{
    EffectFinish, EffectFinished, EffectLease, EffectRelease, EffectReleased, EffectRenew, EffectRenewed,
    EffectResult, EffectStatus,
};
use driftq_http::Patience;
use rustix::process::Signal as Kill;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};

use super::Effect;
use super::stored::{self, Kept};
use crate::child::{self, GRACE, LastLine, PIPE_GRACE, pass_on, tell};
use crate::{CallError, Session, Signals, client::PATIENCE, signal::Signal};

/// What a shell says when a command cannot be run.
const EXIT_CANNOT_RUN: i32 = 127;
/// Renewals per lease: two may get lost.
const RENEWALS: u32 = 3;
/// Far enough to mean never.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A command that has ended.
struct Ended {
    status: ExitStatus,
    stdout: Kept,
    last_line: String,
    /// Why it was made to end, if it was.
    lost: Option<CallError>,
}

impl Effect<'_> {
    /// Runs the command; the effect is ours.
    pub(super) async fn carry_out(mut self, lease: &EffectLease<'_>, signals: &mut Signals) -> Result<i32> {
        let child = match self.spawn(lease) {
            Ok(child) => child,
            Err(error) => {
                eprintln!("error: {}: {error}", self.args.command[0]);
                // Nothing was sent: the next one who asks has it at once.
                self.release(lease, false).await;
                return Ok(EXIT_CANNOT_RUN);
            }
        };
        let ended = self.watch(child, lease, signals).await?;
        if let Some(lost) = ended.lost {
            return Err(lost.into_error().context("the effect's lease was lost, and the command was ended"));
        }
        let (name, why) = (self.identity.display(), child::reason(ended.status, &ended.last_line));
        let status = stored::status(ended.status, self.args.on_lapse);
        match status {
            Some(EffectStatus::Succeeded) => {}
            Some(EffectStatus::FailedFinal) => eprintln!("error: {name}: it failed for good: {why}"),
            Some(EffectStatus::FailedRetryable) => {
                eprintln!("error: {name}: it did not happen, and may be tried again: {why}");
            }
            None => eprintln!(
                "error: {name}: it may have happened, and does not run again before an operator has found out: {why}\n\
                 help: let CMD end with 75 if nothing happened; else find out, then `driftq effect resolve`"
            ),
        }
        let told = async {
            match status {
                Some(status) => {
                    let result = stored::result(status, ended.status, &ended.stdout, &ended.last_line);
                    self.finish(lease, result).await
                }
                // Others are told now, and not only when the lease lapses.
                None => {
                    self.release(lease, true).await;
                    Ok(())
                }
            }
        };
        tokio::select! {
            told = told => told?,
            // A user who asks for the end now has waited long enough for a server that does not answer.
            _ = signals.next() => anyhow::bail!("ended before the server had heard how the command ended"),
        }
        Ok(child::code(ended.status))
    }

    fn spawn(&self, lease: &EffectLease<'_>) -> io::Result<Child> {
        let (program, arguments) = self.args.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        Command::new(program)
            .args(arguments)
            .env("DRIFTQ_EFFECT_SCOPE", &self.identity.scope)
            .env("DRIFTQ_EFFECT_KEY", &self.identity.key)
            .env("DRIFTQ_EFFECT_ATTEMPT", lease.attempt.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }

    /// Waits for its end. Signals are passed on; a lost lease ends it.
    async fn watch(&self, mut child: Child, lease: &EffectLease<'_>, signals: &mut Signals) -> Result<Ended> {
        let stdout = child.stdout.take().context("the command's stdout")?;
        let stderr = child.stderr.take().context("the command's stderr")?;
        let (mut kept, mut last_line) = (Kept::default(), LastLine::default());
        let mut lost = None;
        let status = {
            let output = async {
                tokio::join!(
                    pass_on(stdout, tokio::io::stdout(), |bytes| kept.see(bytes)),
                    pass_on(stderr, tokio::io::stderr(), |bytes| last_line.see(bytes)),
                );
            };
            let mut output = std::pin::pin!(output);
            let mut keeping = std::pin::pin!(renew(self.client.session(), &lease.token, self.args.lease));
            let (mut has_output, mut last_call) = (true, Instant::now() + NEVER);
            let process = child.id();
            let status = loop {
                tokio::select! {
                    status = child.wait() => break status.context("waiting for the command")?,
                    () = &mut output, if has_output => has_output = false,
                    signal = signals.next() => pass(process, signal),
                    error = &mut keeping, if lost.is_none() => {
                        lost = Some(error);
                        tell(process, Kill::TERM);
                        last_call = Instant::now() + GRACE;
                    }
                    () = sleep_until(last_call) => {
                        tell(process, Kill::KILL);
                        last_call = Instant::now() + NEVER;
                    }
                }
            };
            if has_output {
                // Other processes that hold the pipes are not waited for.
                let _ = timeout(PIPE_GRACE, output).await;
            }
            status
        };
        Ok(Ended { status, stdout: kept, last_line: last_line.text(), lost })
    }

    /// Gives the lease up. If the server does not hear of it, the lease lapses.
    async fn release(&mut self, lease: &EffectLease<'_>, uncertain: bool) {
        let request = EffectRelease { token: Cow::Borrowed(&lease.token), uncertain };
        let answer = self.session.patiently::<EffectReleased>("/v2/effects/release", &request, 0).await;
        if let Err(error) = answer {
            eprintln!("warning: its lease was not given up and lapses: {:#}", error.into_error());
        }
    }

    /// Says how it ended, again and again until that is heard, or the lease is long over. A result that the server
    /// does not want to keep happened all the same.
    async fn finish(&mut self, lease: &EffectLease<'_>, result: EffectResult<'_>) -> Result<()> {
        let patience = PATIENCE.max(Duration::from_millis(self.args.lease));
        let mut request = EffectFinish { token: Cow::Borrowed(&lease.token), result };
        loop {
            let retry = Patience::lasting(patience);
            let (answer, _) =
                self.session.post_retrying::<EffectFinished>("/v2/effects/finish", &request, retry).await;
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if request.result.body.is_some() && is_too_large(&error) => {
                    request.result = stored::without_body(request.result);
                }
                Err(error) => {
                    return Err(error.into_error().context("the command ended, and that was not recorded"));
                }
            }
        }
    }
}

fn is_too_large(error: &CallError) -> bool {
    matches!(error.code(), "RESULT_TOO_LARGE" | "BODY_TOO_LARGE")
}

/// Ctrl-C in a terminal reaches every process in the foreground, the command included; it is not told twice.
fn pass(process: Option<u32>, signal: Signal) {
    match signal {
        Signal::Interrupt if io::stdin().is_terminal() || io::stderr().is_terminal() => {}
        Signal::Interrupt => tell(process, Kill::INT),
        Signal::Terminate => tell(process, Kill::TERM),
    }
}

/// Renews until the server says that the lease is lost. A server that cannot be reached is asked again: a lapse alone
/// takes nothing away.
async fn renew(mut session: Session, token: &str, lease_ms: u64) -> CallError {
    let pause = Duration::from_millis(lease_ms) / RENEWALS;
    let request = EffectRenew { token: Cow::Borrowed(token), lease_ms: Some(lease_ms) };
    loop {
        tokio::time::sleep(pause).await;
        let retry = Patience::lasting(pause);
        let (answer, _) = session.post_retrying::<EffectRenewed>("/v2/effects/renew", &request, retry).await;
        match answer {
            Ok(_) => {}
            Err(error) if error.is_transient() => {}
            Err(error) => return error,
        }
    }
}
