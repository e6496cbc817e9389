//! An effect in words: where it stands, and what came of it.

use driftq_api::Moment;
use driftq_api::v2::{Effect, EffectDecision, EffectOutcome, EffectState, EffectStatus, OnLapse};

use super::Identity;
use crate::{Columns, Exit, Facts, Now, aligned, cut, output::facts as facts_of, printable};
use driftq_api::when::{between, length};

/// `scope/key`, and whose it is.
pub(super) fn name(tenant: &str, scope: &str, key: &str) -> String {
    let name = format!("{}/{}", printable(scope), printable(key));
    if tenant.is_empty() { name } else { format!("{name} of {}", printable(tenant)) }
}

pub(super) const fn status(status: EffectStatus) -> &'static str {
    match status {
        EffectStatus::Succeeded => EffectState::Succeeded.name(),
        EffectStatus::FailedFinal => EffectState::FailedFinal.name(),
        EffectStatus::FailedRetryable => EffectState::FailedRetryable.name(),
    }
}

/// What a list shows.
pub(super) const EFFECTS: Columns<Effect<'static>> = &[
    ("SCOPE", |effect, _| printable(&effect.scope)),
    ("KEY", |effect, _| printable(&effect.key)),
    ("TENANT", |effect, _| text_or_dash(&effect.tenant_id)),
    ("STATE", |effect, _| effect.state.name().to_owned()),
    ("ATTEMPT", |effect, _| effect.attempt.to_string()),
    ("OWNER", |effect, _| text_or_dash(&effect.owner)),
    ("BEGUN", |effect, now| now.tell(effect.begun_at)),
    ("NOTE", note),
];

fn text_or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { printable(text) }
}

/// What came of it, one fact per line.
pub(crate) fn outcome(outcome: &EffectOutcome<'_>, now: Now) -> Facts {
    let mut facts = vec![("outcome", status(outcome.status).to_owned())];
    facts.extend(outcome.code.map(|code| ("code", code.to_string())));
    let headers = outcome.headers.pairs().iter();
    facts.extend(headers.map(|(name, value)| ("header", printable(&format!("{name}: {value}")))));
    facts.extend(outcome.body.as_deref().map(|text| ("body", printable(text))));
    facts.extend(outcome.body_b64.as_deref().map(|bytes| ("body", format!("base64:{}", printable(bytes)))));
    facts.push(("error", printable(&outcome.error)));
    facts.push(("finished", now.show(outcome.finished_at)));
    facts.push(("attempt", outcome.attempt.to_string()));
    facts.extend(outcome.resolved_by.as_deref().map(|by| ("resolved by", printable(by))));
    facts.extend(outcome.resolved_why.as_deref().map(|why| ("because", printable(why))));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

const FACTS: Columns<Effect<'static>> = &[
    ("effect", |effect, _| name(&effect.tenant_id, &effect.scope, &effect.key)),
    ("state", |effect, _| format!("{}: {}", effect.state.name(), meaning(effect))),
    ("attempts", |effect, _| match effect.max_attempts {
        Some(most) => format!("{} of {most}", effect.attempt),
        None => effect.attempt.to_string(),
    }),
    ("epoch", |effect, _| effect.epoch.to_string()),
    ("on lapse", |effect, _| match effect.on_lapse {
        OnLapse::Hold => "hold: it becomes unknown".to_owned(),
        OnLapse::Retry => "retry: the next begin carries it out again".to_owned(),
    }),
    ("owner", |effect, _| printable(&effect.owner)),
    ("run", |effect, _| effect.run_id.as_deref().map(printable).unwrap_or_default()),
    ("step", |effect, _| effect.step_id.as_deref().map(printable).unwrap_or_default()),
    ("message", |effect, _| message(effect).unwrap_or_default()),
    ("request hash", |effect, _| effect.request_hash.as_deref().map(printable).unwrap_or_default()),
    ("first begun", |effect, now| now.show(effect.created_at)),
    ("last begun", |effect, now| now.show(effect.begun_at)),
    ("lease ends", |effect, now| effect.lease_expires_at.map(|at| now.show(at)).unwrap_or_default()),
    ("forgotten", |effect, now| effect.expires_at.map(|at| now.show(at)).unwrap_or_default()),
];

/// The message whose work it is.
fn message(effect: &Effect<'_>) -> Option<String> {
    let message = effect.message.as_ref()?;
    Some(format!("{} {}/{}", printable(&message.topic), message.partition, message.offset))
}

/// Everything about it, one fact per line.
pub(super) fn facts(effect: &Effect<'static>, now: Now) -> Facts {
    let ended = effect.outcome.iter().flat_map(|ended| outcome(ended, now));
    facts_of(FACTS, effect, now).into_iter().chain(ended).collect()
}

/// What its state means for the next caller.
const fn meaning(effect: &Effect<'_>) -> &'static str {
    match (effect.state, effect.lease_live) {
        (EffectState::InProgress, Some(false)) => "its lease has lapsed, and no caller took over yet",
        (EffectState::InProgress, _) => "a caller carries it out",
        (EffectState::Succeeded, _) => "it happened, and is replayed to every later begin",
        (EffectState::FailedFinal, _) => "it did not happen and never will",
        (EffectState::FailedRetryable, _) => "it did not happen; `driftq effect reacquire` tries it again",
        (EffectState::Unknown, _) => "it may have happened; find out, then `driftq effect resolve`",
    }
}

/// What is worth knowing about it in a list.
fn note(effect: &Effect<'_>, now: Now) -> String {
    let lease = |words: &str| {
        effect.lease_expires_at.map_or_else(String::new, |at| format!("{words} {}", now.tell(at)))
    };
    match (effect.state, effect.lease_live, &effect.outcome) {
        (EffectState::InProgress, Some(false), _) => lease("lease ended"),
        (EffectState::InProgress, _, _) => lease("lease ends"),
        (EffectState::Unknown, ..) => "it may have happened: resolve it".to_owned(),
        (.., Some(outcome)) if !outcome.error.is_empty() => cut(&printable(&outcome.error)),
        (.., Some(outcome)) => outcome
            .resolved_by
            .as_deref()
            .map_or_else(String::new, |by| format!("resolved by {}", printable(by))),
        (.., None) => String::new(),
    }
}

/// It in one line, for the steps of a run that started then.
pub(crate) fn line(effect: &Effect<'_>, started: Moment) -> String {
    let mut line = name(&effect.tenant_id, &effect.scope, &effect.key);
    if let Some(message) = message(effect) {
        line.push_str(&format!(" for {message}"));
    }
    let begun = between(started, effect.begun_at);
    line.push_str(&format!(": {}, attempt {}, begun +{begun}", effect.state.name(), effect.attempt));
    if let Some(outcome) = &effect.outcome {
        line.push_str(&format!(", took {}", between(effect.begun_at, outcome.finished_at)));
        if let Some(code) = outcome.code {
            line.push_str(&format!(", code {code}"));
        }
        if let Some(by) = &outcome.resolved_by {
            line.push_str(&format!(", resolved by {}", printable(by)));
        }
        if !outcome.error.is_empty() {
            line.push_str(&format!(": {}", cut(&printable(&outcome.error))));
        }
    }
    line
}

/// How the command ends that asked.
pub(super) const fn exit(decision: &EffectDecision<'_>) -> Exit {
    match decision {
        EffectDecision::Execute { .. } => Exit::Success,
        EffectDecision::Replay { .. } => Exit::Replay,
        EffectDecision::InProgress { .. } => Exit::InProgress,
        EffectDecision::Retryable { .. } => Exit::Retryable,
        EffectDecision::Unknown { .. } => Exit::Unknown,
    }
}

/// What the server decides about an effect, and what to do then.
pub(super) fn decision(identity: &Identity, decision: &EffectDecision<'_>) -> String {
    let now = Now::read();
    let mut facts = vec![("effect", identity.display())];
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
        EffectDecision::Replay { outcome: ended } => {
            say("replay", "it has ended, and this is what came of it");
            facts.extend(outcome(ended, now));
        }
        EffectDecision::InProgress { retry_after_ms, epoch, attempt } => {
            say("in_progress", "another caller carries it out; --wait waits for the outcome");
            facts.extend([
                ("attempt", attempt.to_string()),
                ("epoch", epoch.to_string()),
                ("ask again", format!("in {}", length((*retry_after_ms).into()))),
            ]);
        }
        EffectDecision::Retryable { outcome: ended, attempts_left, .. } => {
            say("retryable", "it failed and may be tried again with `driftq effect reacquire`");
            let left = attempts_left.map_or_else(|| "no cap".to_owned(), |left| left.to_string());
            facts.push(("attempts left", left));
            facts.extend(outcome(ended, now));
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
        let outcome = r#""finished_at":"2030-01-31T12:00:00Z","epoch":1,"attempt":1}"#;
        for (json, code, words) in [
            (
                r#"execute","lease":{"token":"t","epoch":1,"attempt":1,"expires_at":"2030-01-31T12:00:00Z"}}"#,
                Exit::Success,
                "driftq effect finish",
            ),
            (r#"replay","outcome":{"status":"succeeded",OUTCOME}"#, Exit::Replay, "succeeded"),
            (r#"in_progress","retry_after_ms":1500,"epoch":1,"attempt":1}"#, Exit::InProgress, "in 1.5s"),
            (
                r#"retryable","outcome":{"status":"failed_retryable","error":"no",OUTCOME,"epoch":1,"attempt":1}"#,
                Exit::Retryable,
                "driftq effect reacquire",
            ),
            (
                r#"unknown","epoch":1,"attempt":1,"since":"2030-01-31T12:00:00Z"}"#,
                Exit::Unknown,
                "driftq effect resolve",
            ),
        ] {
            let json = format!(r#"{{"decision":"{}"#, json.replace("OUTCOME", outcome));
            let found: EffectDecision<'static> = serde_json::from_str(&json).unwrap();
            assert_eq!(exit(&found), code);
            let text = decision(&identity, &found);
            assert!(text.contains(words), "{text}");
        }
    }
}
