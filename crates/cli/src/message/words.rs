//! A message in words: what it is, and why it waits.

use driftq_api::v2::{Attempt, DeliveryState, GroupState, Item};

use crate::{
    items::whole_value,
    output::{Listing, printable},
    when::Now,
};

/// Everything that a message says about itself, one fact per line.
pub(crate) fn facts(item: &Item<'_>, now: Now) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("message", format!("{} {}/{}", printable(&item.topic), item.partition, item.offset)),
        ("key", printable(&item.key)),
        ("value", whole_value(item)),
        ("priority", item.priority.to_string()),
        ("produced", now.show(item.produced_at)),
    ];
    facts.extend(item.deliver_at.map(|at| ("deliver at", now.show(at))));
    if let Some(envelope) = &item.envelope {
        facts.extend([
            ("run", printable(&envelope.run_id)),
            ("step", printable(&envelope.step_id)),
            ("parent step", printable(&envelope.parent_step_id)),
            ("tenant", printable(&envelope.tenant_id)),
            ("idempotency key", printable(&envelope.idempotency_key)),
        ]);
        facts.extend(envelope.deadline.map(|at| ("deadline", now.show(at))));
        let labels = envelope.labels.pairs().iter().map(|(name, value)| format!("{name}={value}"));
        facts.push(("labels", printable(&labels.collect::<Vec<_>>().join(", "))));
    }
    if let Some(routing) = &item.routing {
        let meta = routing.meta.pairs().iter().map(|(name, value)| format!(" {name}={value}"));
        facts.push(("routing", printable(&format!("{}{}", routing.label, meta.collect::<String>()))));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Facts as aligned lines.
pub(crate) fn aligned(facts: &[(&'static str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// Where a message stands with a group, in a sentence.
pub(super) fn why(state: &GroupState<'_>, now: Now) -> String {
    let mut words = match state.state {
        DeliveryState::Ready => "nothing is in its way: the next reader gets it".to_owned(),
        DeliveryState::Scheduled => "its time has not come".to_owned(),
        DeliveryState::InFlight => match &state.owner {
            Some(owner) => format!("on loan to {}", printable(owner)),
            None => "on loan".to_owned(),
        },
        DeliveryState::Backoff => "it failed and waits for its next attempt".to_owned(),
        DeliveryState::Effect => {
            "it waits for an effect that somebody runs, or that nobody knows the outcome of".to_owned()
        }
        DeliveryState::KeyBusy => "an earlier message of its key is not done".to_owned(),
        DeliveryState::SameKeyRunning => {
            "a message with the same idempotency key is being worked on".to_owned()
        }
        DeliveryState::WindowFull => "the group holds as many messages as the topic allows".to_owned(),
        DeliveryState::Paused => "the topic or the group is paused".to_owned(),
        DeliveryState::Dying => "it is about to become a dead letter".to_owned(),
        DeliveryState::Done => "the group is through with it".to_owned(),
    };
    words.push_str(&format!("; since {}", now.show(state.since)));
    if let Some(until) = state.until {
        words.push_str(&format!(", until {}", now.show(until)));
    }
    match state.attempt {
        0 => {}
        1 => words.push_str("; 1 attempt has begun"),
        more => words.push_str(&format!("; {more} attempts have begun")),
    }
    if let Some(error) = state.last_error.as_deref().filter(|error| !error.is_empty()) {
        words.push_str(&format!("; last error: {}", printable(error)));
    }
    words
}

/// Attempts that ended, as a table.
pub(crate) fn history(attempts: &[Attempt<'_>]) -> String {
    let mut listing = Listing::new(&["ATTEMPT", "OWNER", "LEASED AT", "ENDED AT", "ERROR"]);
    for attempt in attempts {
        listing.row([
            attempt.attempt.to_string(),
            printable(&attempt.owner),
            attempt.leased_at.to_string(),
            attempt.ended_at.to_string(),
            printable(&attempt.error),
        ]);
    }
    listing.text()
}

#[cfg(test)]
mod tests {
    use driftq_api::Moment;

    use super::*;

    #[test]
    fn waiting_is_explained() {
        let state = GroupState {
            group: "g".into(),
            state: DeliveryState::Backoff,
            since: Moment::saturating_from_epoch_ms(0),
            until: Some(Moment::saturating_from_epoch_ms(1_000)),
            owner: None,
            attempt: 2,
            last_error: Some("card \u{7} declined".into()),
            history: Vec::new(),
        };
        let words = why(&state, Now::read());
        assert!(words.starts_with("it failed and waits for its next attempt; since 1970-01-01T00:00:00Z ("));
        assert!(words.ends_with("; 2 attempts have begun; last error: card \\u0007 declined"), "{words}");
        let held = GroupState { state: DeliveryState::InFlight, owner: Some("w1".into()), ..state };
        assert!(why(&held, Now::read()).starts_with("on loan to w1; since"));
    }
}
