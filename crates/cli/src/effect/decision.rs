//! What the server decides about an effect, in words and as an exit code.

use anyhow::Result;
use driftq_api::v2::EffectDecision;

use super::{Identity, words};
use crate::{
    Common,
    exit::Exit,
    message::words::aligned,
    output::{self, printable},
    when::{Now, length},
};

/// Prints it, and says how the command ends.
pub(super) fn print(common: &Common, identity: &Identity, decision: &EffectDecision<'_>) -> Result<Exit> {
    output::print_one(common.output, decision, || text(identity, decision))?;
    Ok(exit(decision))
}

const fn exit(decision: &EffectDecision<'_>) -> Exit {
    match decision {
        EffectDecision::Execute { .. } => Exit::Success,
        EffectDecision::Replay { .. } => Exit::Replay,
        EffectDecision::InProgress { .. } => Exit::InProgress,
        EffectDecision::Retryable { .. } => Exit::Retryable,
        EffectDecision::Unknown { .. } => Exit::Unknown,
    }
}

fn text(identity: &Identity, decision: &EffectDecision<'_>) -> String {
    let now = Now::read();
    let mut facts = vec![("effect", identity.words())];
    let mut say = |word: &str, advice: &str| facts.push(("decision", format!("{word}: {advice}")));
    match decision {
        EffectDecision::Execute { lease } => {
            say("execute", "carry it out, then `driftq effect finish` with the token");
            facts.extend([
                ("token", printable(&lease.token)),
                ("attempt", lease.attempt.to_string()),
                ("epoch", lease.epoch.to_string()),
                ("lease ends", now.show(lease.expires_at)),
            ]);
        }
        EffectDecision::Replay { outcome } => {
            say("replay", "it has ended, and this is what came of it");
            facts.extend(words::outcome(outcome, now));
        }
        EffectDecision::InProgress { retry_after_ms, epoch, attempt } => {
            say("in_progress", "somebody else carries it out; --wait waits for the outcome");
            facts.extend([
                ("attempt", attempt.to_string()),
                ("epoch", epoch.to_string()),
                ("ask again", format!("in {}", length((*retry_after_ms).into()))),
            ]);
        }
        EffectDecision::Retryable { outcome, attempts_left, .. } => {
            say("retryable", "it failed and may be tried again with `driftq effect reacquire`");
            let left = attempts_left.map_or_else(|| "no cap".to_owned(), |left| left.to_string());
            facts.push(("attempts left", left));
            facts.extend(words::outcome(outcome, now));
        }
        EffectDecision::Unknown { epoch, attempt, since } => {
            say("unknown", "it may have happened; find out, then `driftq effect resolve`");
            facts.extend([
                ("attempt", attempt.to_string()),
                ("epoch", epoch.to_string()),
                ("unknown since", now.show(*since)),
            ]);
        }
    }
    aligned(&facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_has_its_own_code_and_its_next_step() {
        let identity = Identity { scope: "s".to_owned(), key: "k".to_owned(), tenant: String::new() };
        let decisions = [
            (
                r#"{"decision":"execute","lease":{"token":"t","epoch":1,"attempt":1,"expires_at":"2030-01-31T12:00:00Z"}}"#,
                Exit::Success,
                "driftq effect finish",
            ),
            (
                r#"{"decision":"replay","outcome":{"status":"succeeded","finished_at":"2030-01-31T12:00:00Z","epoch":1,"attempt":1}}"#,
                Exit::Replay,
                "succeeded",
            ),
            (
                r#"{"decision":"in_progress","retry_after_ms":1500,"epoch":1,"attempt":1}"#,
                Exit::InProgress,
                "in 1.5s",
            ),
            (
                r#"{"decision":"retryable","outcome":{"status":"failed_retryable","error":"no","finished_at":"2030-01-31T12:00:00Z","epoch":1,"attempt":1},"epoch":1,"attempt":1}"#,
                Exit::Retryable,
                "driftq effect reacquire",
            ),
            (
                r#"{"decision":"unknown","epoch":1,"attempt":1,"since":"2030-01-31T12:00:00Z"}"#,
                Exit::Unknown,
                "driftq effect resolve",
            ),
        ];
        for (json, code, words) in decisions {
            let decision: EffectDecision<'static> = serde_json::from_str(json).unwrap();
            assert_eq!(exit(&decision), code);
            let text = text(&identity, &decision);
            assert!(text.contains(words), "{text}");
        }
    }
}
