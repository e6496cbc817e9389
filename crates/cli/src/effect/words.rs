//! An effect in words: where it stands, and what came of it.

use driftq_api::{
    Moment,
    v2::{Effect, EffectOutcome, EffectState, EffectStatus, OnLapse},
};

use crate::{
    items::cut,
    output::printable,
    when::{Now, between},
};

/// `scope/key`, and whose it is.
pub(super) fn name(tenant: &str, scope: &str, key: &str) -> String {
    let name = format!("{}/{}", printable(scope), printable(key));
    if tenant.is_empty() { name } else { format!("{name} of {}", printable(tenant)) }
}

pub(super) const fn status(status: EffectStatus) -> &'static str {
    match status {
        EffectStatus::Succeeded => "succeeded",
        EffectStatus::FailedFinal => "failed_final",
        EffectStatus::FailedRetryable => "failed_retryable",
    }
}

/// What came of it, one fact per line.
pub(crate) fn outcome(outcome: &EffectOutcome<'_>, now: Now) -> Vec<(&'static str, String)> {
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

/// Everything about it, one fact per line.
pub(super) fn facts(effect: &Effect<'_>, now: Now) -> Vec<(&'static str, String)> {
    let attempts = match effect.max_attempts {
        Some(most) => format!("{} of {most}", effect.attempt),
        None => effect.attempt.to_string(),
    };
    let on_lapse = match effect.on_lapse {
        OnLapse::Hold => "hold: it becomes unknown",
        OnLapse::Retry => "retry: the next begin carries it out again",
    };
    let text = |text: Option<&str>| text.map(printable).unwrap_or_default();
    let message = effect
        .message
        .as_ref()
        .map(|place| format!("{} {}/{}", printable(&place.topic), place.partition, place.offset));
    let mut facts = vec![
        ("effect", name(&effect.tenant_id, &effect.scope, &effect.key)),
        ("state", format!("{}: {}", effect.state.name(), meaning(effect))),
        ("attempts", attempts),
        ("epoch", effect.epoch.to_string()),
        ("on lapse", on_lapse.to_owned()),
        ("owner", printable(&effect.owner)),
        ("run", text(effect.run_id.as_deref())),
        ("step", text(effect.step_id.as_deref())),
        ("message", message.unwrap_or_default()),
        ("request hash", text(effect.request_hash.as_deref())),
        ("first begun", now.show(effect.created_at)),
        ("last begun", now.show(effect.begun_at)),
    ];
    facts.extend(effect.lease_expires_at.map(|at| ("lease ends", now.show(at))));
    facts.extend(effect.expires_at.map(|at| ("forgotten", now.show(at))));
    facts.retain(|(_, value)| !value.is_empty());
    if let Some(ended) = &effect.outcome {
        facts.extend(outcome(ended, now));
    }
    facts
}

/// What its state means for whoever comes next.
const fn meaning(effect: &Effect<'_>) -> &'static str {
    match (effect.state, effect.lease_live) {
        (EffectState::InProgress, Some(false)) => "its lease has lapsed, and nobody took over yet",
        (EffectState::InProgress, _) => "somebody carries it out",
        (EffectState::Succeeded, _) => "it happened, and is replayed to whoever begins it",
        (EffectState::FailedFinal, _) => "it did not happen and never will",
        (EffectState::FailedRetryable, _) => "it did not happen; `driftq effect reacquire` tries it again",
        (EffectState::Unknown, _) => "it may have happened; find out, then `driftq effect resolve`",
    }
}

/// What is worth knowing about it in a list.
pub(super) fn note(effect: &Effect<'_>, now: Now) -> String {
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

/// It in one line, for the story of a run that started then.
pub(crate) fn line(effect: &Effect<'_>, started: Moment) -> String {
    let mut line = name(&effect.tenant_id, &effect.scope, &effect.key);
    if let Some(place) = &effect.message {
        let topic = printable(&place.topic);
        line.push_str(&format!(" for {topic} {}/{}", place.partition, place.offset));
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
