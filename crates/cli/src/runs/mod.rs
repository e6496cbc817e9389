//! `driftq run …`: everything that carries the same run, put together again.

mod tree;

use anyhow::Result;
use driftq_api::Moment;
use driftq_api::v2::{Attempt, Run, RunStep, RunSummary, Runs, StepGroup, StepMessage, StepState};
use driftq_api::when::between;

use crate::{
    Amount, Columns, Common, Pages, Path, args::Tenant, description, effect::describe::line, grouped,
    printable,
};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List runs, the newest first
    #[command(
        after_help = "A run is everything that carries the same --run-id: messages that were produced \
with it, and effects. OPEN counts messages that some group is not through with.

Examples:
  driftq run list --limit 20
  driftq run list --all -o ndjson | jq -r 'select(.dead_letters > 0) | .run_id'"
    )]
    List {
        /// Only those of this tenant; the empty one is one, too
        #[arg(long, visible_alias = "tenant-id", value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        amount: Amount,
    },
    /// Tell what happened in a run: its steps, messages, attempts and effects
    #[command(after_help = "Steps are indented under the step that caused them. Times with a plus count \
from the start of the run.

Examples:
  driftq produce orders 'plan' --run-id r-7 --step-id plan
  driftq run show r-7
  driftq run show r-7 -o json | jq '.steps[] | {step_id, children}'")]
    Show {
        /// The run, as messages and effects name it
        run_id: String,
        #[command(flatten)]
        tenant: Tenant,
    },
}

const COLUMNS: Columns<RunSummary<'static>> = &[
    ("RUN", |run, _| printable(&run.run_id)),
    ("TENANT", |run, _| if run.tenant_id.is_empty() { "-".to_owned() } else { printable(&run.tenant_id) }),
    ("STARTED", |run, now| now.show(run.started_at)),
    ("LASTED", |run, _| between(run.started_at, run.last_at)),
    ("MESSAGES", |run, _| grouped(run.messages)),
    ("OPEN", |run, _| grouped(run.open)),
    ("DEAD LETTERS", |run, _| grouped(run.dead_letters)),
    ("EFFECTS", |run, _| grouped(run.effects)),
];

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List { tenant, amount } => {
            let first = Path::of("/v2/runs").with_some("tenant_id", tenant.as_deref());
            let part = |page: Runs<'static>| (page.runs, page.cursor);
            common.caller()?.list(common, (first, amount), (COLUMNS, "no run is known"), part).await
        }
        Command::Show { run_id, tenant } => show(common, tenant.of(Path::of("/v2/runs").part(run_id))).await,
    }
}

async fn show(common: &Common, first: Path) -> Result<()> {
    let mut caller = common.caller()?;
    let mut whole: Option<Run<'static>> = None;
    let mut pages = Pages::new(first, &Amount::ALL);
    while let Some(path) = pages.next(0) {
        let mut page: Run<'static> = caller.get(path).await?;
        pages.turn(page.cursor.take());
        match &mut whole {
            Some(whole) => {
                whole.summary = page.summary;
                tree::join(&mut whole.steps, page.steps);
            }
            None => whole = Some(page),
        }
    }
    let Some(mut run) = whole else { return Ok(()) };
    tree::link(&mut run.steps);
    common.show(&run, text)
}

const SUMMARY: Columns<RunSummary<'static>> = &[
    ("run", |run, _| printable(&run.run_id)),
    ("started", |run, now| now.show(run.started_at)),
    ("last", |run, now| format!("{}, after {}", now.show(run.last_at), between(run.started_at, run.last_at))),
    ("messages", |run, _| {
        let mut messages = grouped(run.messages);
        if run.open > 0 {
            messages.push_str(&format!(", {} open", grouped(run.open)));
        }
        if run.dead_letters > 0 {
            messages.push_str(&format!(", {} dead letter(s)", grouped(run.dead_letters)));
        }
        messages
    }),
    ("effects", |run, _| grouped(run.effects)),
    ("not listed", |run, _| match run.unlisted {
        0 => String::new(),
        unlisted => format!("{}: a run lists only so many", grouped(unlisted)),
    }),
];

/// Deeper steps are not indented further: their lines would leave the screen.
const DEPTH_MAX: usize = 16;

/// What happened in the run, as an indented tree.
fn text(run: &Run<'static>) -> String {
    let mut text = description(SUMMARY, &run.summary);
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
        for output in &message.outputs {
            let names = [&output.dataset, &output.version, &output.partition_key];
            let names = names.map(|name| printable(name)).join(" ");
            lines.push(format!("    put {names}, +{}", between(started, output.committed_at)));
        }
        for group in &message.groups {
            lines.push(format!("    {}", group_line(message, group)));
            lines.extend(
                group.history.iter().map(|attempt| format!("      {}", attempt_line(started, attempt))),
            );
        }
    }
    for effect in &step.effects {
        lines.push(format!("  effect {}", line(effect, started)));
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
    fn what_happened_is_a_tree() {
        let mut run: Run<'static> = serde_json::from_str(RUN).unwrap();
        tree::link(&mut run.steps);
        let text = text(&run);
        let tree = "\nstep plan\n  step charge\n    message t 0/7, stored +1.5s\n      \
            group g: dead letter, 2 attempts, waited 500ms, took 3.0s\n        \
            attempt 2 by w, begun +4.0s, took 1.0s: no\n    \
            effect pay/7: failed_final, attempt 1, begun +2.0s, took 250ms, code 402: declined\n";
        assert!(text.ends_with(tree), "{text}");
        assert!(text.contains("messages    1, 1 dead letter(s)\n"), "{text}");
        assert!(text.contains("not listed  2"), "{text}");
        assert!(text.contains(", after 1m 30s\n"), "{text}");
    }
}
