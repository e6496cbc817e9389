//! What happened in a run, as an indented tree.

use driftq_api::{
    Moment,
    v2::{Attempt, Run, RunStep, StepGroup, StepMessage, StepState},
};

use super::tree;
use crate::{
    effect::words,
    message::words::aligned,
    output::{grouped, printable},
    when::{Now, between},
};

/// Deeper steps are not indented further: their lines would leave the screen.
const DEPTH_MAX: usize = 16;

pub(super) fn text(run: &Run<'_>) -> String {
    let mut text = summary(run);
    for (place, depth) in tree::order(&run.steps) {
        let step = &run.steps[place];
        let indent = "  ".repeat(depth.min(DEPTH_MAX));
        if depth == 0 {
            text.push('\n');
        }
        for line in lines(run, step, depth == 0) {
            text.push_str(&format!("{indent}{line}\n"));
        }
    }
    text
}

fn summary(run: &Run<'_>) -> String {
    let now = Now::read();
    let run = &run.summary;
    let mut messages = grouped(run.messages);
    if run.open > 0 {
        messages.push_str(&format!(", {} open", grouped(run.open)));
    }
    if run.dead_letters > 0 {
        messages.push_str(&format!(", {} dead letter(s)", grouped(run.dead_letters)));
    }
    let mut facts = vec![
        ("run", printable(&run.run_id)),
        ("started", now.show(run.started_at)),
        ("last", format!("{}, after {}", now.show(run.last_at), between(run.started_at, run.last_at))),
        ("messages", messages),
        ("effects", grouped(run.effects)),
    ];
    if run.unlisted > 0 {
        facts.push(("not listed", format!("{}: a run lists only so many", grouped(run.unlisted))));
    }
    aligned(&facts)
}

/// The lines of one step, without its children.
fn lines(run: &Run<'_>, step: &RunStep<'_>, is_root: bool) -> Vec<String> {
    let started = run.summary.started_at;
    let mut title = match &step.step_id {
        Some(name) => format!("step {}", printable(name)),
        None => "without a step".to_owned(),
    };
    if let Some(parent) = step.parent_step_id.as_deref().filter(|_| is_root) {
        title.push_str(&format!(" (caused by {})", printable(parent)));
    }
    let mut lines = vec![title];
    for message in &step.messages {
        let place = format!("{} {}/{}", printable(&message.topic), message.partition, message.offset);
        lines.push(format!("  message {place}, stored +{}", between(started, message.stored_at)));
        if message.groups.is_empty() {
            lines.push("    no group reads its topic yet".to_owned());
        }
        for read in &message.reads {
            lines.push(format!("    read {} {}", printable(&read.dataset), printable(&read.version)));
        }
        for group in &message.groups {
            lines.push(format!("    {}", group_line(message, group)));
            lines.extend(
                group.history.iter().map(|attempt| format!("      {}", attempt_line(started, attempt))),
            );
        }
    }
    for effect in &step.effects {
        lines.push(format!("  effect {}", words::line(effect, started)));
    }
    lines
}

fn group_line(message: &StepMessage<'_>, group: &StepGroup<'_>) -> String {
    let state = match group.state {
        StepState::DeadLettered => "dead letter",
        other => other.name(),
    };
    let mut line = format!("group {}: {state}", printable(&group.group));
    match group.attempts {
        0 => {}
        1 => line.push_str(", 1 attempt"),
        more => line.push_str(&format!(", {} attempts", grouped(more.into()))),
    }
    if let Some(first) = group.first_leased_at {
        line.push_str(&format!(", waited {}", between(message.stored_at, first)));
        if let Some(end) = group.ended_at {
            line.push_str(&format!(", took {}", between(first, end)));
        }
    }
    if let Some(error) = group.last_error.as_deref().filter(|_| group.history.is_empty()) {
        line.push_str(&format!(": {}", printable(error)));
    }
    line
}

fn attempt_line(started: Moment, attempt: &Attempt<'_>) -> String {
    let mut line = format!("attempt {}", attempt.attempt);
    if !attempt.owner.is_empty() {
        line.push_str(&format!(" by {}", printable(&attempt.owner)));
    }
    line.push_str(&format!(
        ", begun +{}, took {}",
        between(started, attempt.leased_at),
        between(attempt.leased_at, attempt.ended_at)
    ));
    if !attempt.error.is_empty() {
        line.push_str(&format!(": {}", printable(&attempt.error)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = r#"{"run_id":"r","started_at":"2030-01-31T12:00:00Z","last_at":"2030-01-31T12:01:30Z",
        "messages":1,"effects":1,"dead_letters":1,"open":0,"unlisted":2,"steps":[
        {"step_id":"charge","parent_step_id":"plan","children":[],"messages":[
          {"topic":"t","partition":0,"offset":7,"stored_at":"2030-01-31T12:00:01.5Z","groups":[
            {"group":"g","state":"dead_lettered","attempts":2,"first_leased_at":"2030-01-31T12:00:02Z",
             "ended_at":"2030-01-31T12:00:05Z","history":[
              {"attempt":2,"owner":"w","error":"no","leased_at":"2030-01-31T12:00:04Z","ended_at":"2030-01-31T12:00:05Z"}]}]}],
         "effects":[{"tenant_id":"","scope":"pay","key":"7","state":"failed_final","epoch":1,"attempt":1,
          "on_lapse":"hold","created_at":"2030-01-31T12:00:02Z","begun_at":"2030-01-31T12:00:02Z",
          "outcome":{"status":"failed_final","code":402,"error":"declined","finished_at":"2030-01-31T12:00:02.25Z","epoch":1,"attempt":1}}]},
        {"step_id":"plan","children":[],"messages":[],"effects":[]}]}"#;

    #[test]
    fn the_story_is_a_tree() {
        let mut run: Run<'static> = serde_json::from_str(RUN).unwrap();
        tree::link(&mut run.steps);
        let text = text(&run);
        let story = "\nstep plan\n  step charge\n    message t 0/7, stored +1.5s\n      \
            group g: dead letter, 2 attempts, waited 500ms, took 3.0s\n        \
            attempt 2 by w, begun +4.0s, took 1.0s: no\n    \
            effect pay/7: failed_final, attempt 1, begun +2.0s, took 250ms, code 402: declined\n";
        assert!(text.ends_with(story), "{text}");
        assert!(text.contains("messages    1, 1 dead letter(s)\n"), "{text}");
        assert!(text.contains("not listed  2"), "{text}");
        assert!(text.contains(", after 1m 30s\n"), "{text}");
    }
}
