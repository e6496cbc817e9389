//! Finds out what became of an effect, with a command that knows where to look.

use std::{borrow::Cow, process::Stdio};

use anyhow::{Context, Result};
use driftq_api::v2::{EffectFinished, EffectGet, EffectResolve, EffectResult, EffectStatus, OnLapse};
use tokio::process::Command;

use super::stored::{self, Kept};
use super::{Effect, note};
use crate::child::{LastLine, pass_on};

/// What asking has led to.
pub(super) enum Reconciled {
    /// The answer is written down: `begin` tells how it goes on.
    Recorded,
    /// The command does not know either.
    Unclear,
    /// It did not happen, and was tried as often as it may be: more is for people to allow.
    Exhausted,
}

impl Effect<'_> {
    /// Asks the command and writes its answer down.
    pub(super) async fn reconcile(&mut self, epoch: u64, attempt: u32) -> Result<Reconciled> {
        let command = self.args.reconcile.as_deref().unwrap_or_default();
        let mut child = Command::new("sh")
            .args(["-c", command])
            .env("DRIFTQ_EFFECT_SCOPE", &self.identity.scope)
            .env("DRIFTQ_EFFECT_KEY", &self.identity.key)
            // The input is for the command that runs the effect.
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("running sh")?;
        let stdout = child.stdout.take().context("the command's stdout")?;
        let stderr = child.stderr.take().context("the command's stderr")?;
        let (mut kept, mut last_line) = (Kept::default(), LastLine::default());
        let (ended, (), ()) = tokio::join!(
            child.wait(),
            pass_on(stdout, tokio::io::sink(), |bytes| kept.see(bytes)),
            pass_on(stderr, tokio::io::stderr(), |bytes| last_line.see(bytes)),
        );
        let ended = ended.context("waiting for the command")?;
        // As for the effect itself, only that an unclear end here changes nothing.
        let Some(status) = stored::status(ended, OnLapse::Hold) else { return Ok(Reconciled::Unclear) };
        let is_last = self.terms.max_attempts.is_some_and(|most| attempt >= most);
        if status == EffectStatus::FailedRetryable && is_last {
            return Ok(Reconciled::Exhausted);
        }
        self.resolve(epoch, status, stored::result(status, ended, &kept, &last_line.text())).await?;
        Ok(Reconciled::Recorded)
    }

    async fn resolve(&mut self, epoch: u64, status: EffectStatus, result: EffectResult<'_>) -> Result<()> {
        let why = match status {
            EffectStatus::Succeeded => "the command of --reconcile found that it happened",
            EffectStatus::FailedFinal => "the command of --reconcile found that it failed for good",
            EffectStatus::FailedRetryable => "the command of --reconcile found that it did not happen",
        };
        note(&format!("{}: {why}", self.identity.display()));
        let EffectGet { tenant_id, scope, key } = self.identity.wire();
        let mut request = EffectResolve {
            tenant_id,
            scope,
            key,
            result,
            by: Cow::Borrowed(&self.args.owner),
            why: Cow::Borrowed(why),
            epoch: Some(epoch),
        };
        loop {
            let answer = self.session.post::<EffectFinished>("/v2/effects/resolve", &request).await;
            match answer {
                Ok(_) => return Ok(()),
                // Another holder has found out, or is at it again: `begin` tells which.
                Err(error)
                    if matches!(error.code(), "STALE_LEASE" | "EFFECT_FINISHED" | "EFFECT_RUNNING") =>
                {
                    return Ok(());
                }
                Err(error) if request.result.body.is_some() && error.code() == "RESULT_TOO_LARGE" => {
                    request.result = stored::without_body(request.result);
                }
                Err(error) => return Err(error.into_error()),
            }
        }
    }
}
