//! Runs: what belongs together, put together again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use driftq_api::Fault;
use driftq_api::v2::{
    Run, RunStep, RunSummary, Runs, StepGroup, StepMessage, StepOutput, StepState, StepWait, VersionRead,
    encode_place, path_run, tenant_and_section,
};
use driftq_engine::core::{self, How, Named, RunGroup, RunList, RunMessage, RunOutput, RunState};
use driftq_engine::{RunSight, SeenEntry};
use hyper::StatusCode;

use super::effects::{brief, number_of};
use super::messages::waits;
use super::words::moment;
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::v1::Handled;

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let (tenant, section) = tenant_and_section(request.query()?)?;
    let before = section.after.as_deref().map(number_of);
    let list = RunList {
        tenant: request.caller.tenant_or_all(tenant)?.map(Cow::into_owned),
        before: before.unwrap_or(u64::MAX),
        began_before: None,
        limit: u32::try_from(section.limit).unwrap_or(u32::MAX),
    };
    let (runs, next) = request.app.broker.runs(list).await.map_err(|failure| fault(&failure))?;
    let cursor = next.map(|next| encode_place(&next.to_be_bytes()));
    Ok(json(StatusCode::OK, &Runs { runs: runs.iter().map(summary).collect(), cursor }))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    let id = path_run(request.names[0])?;
    let (tenant, section) = tenant_and_section(request.query()?)?;
    let id = Named::of(request.tenant(tenant.unwrap_or_default())?, id);
    let from = section.after.as_deref().map_or(0, number_of);
    let limit = u32::try_from(section.limit).unwrap_or(u32::MAX);
    let sight = request.app.broker.run(id, from, limit).await.map_err(|failure| fault(&failure))?;
    let answer = Run {
        summary: summary(&sight.summary),
        steps: steps(request, &sight)?,
        cursor: sight.next.map(|next| encode_place(&next.to_be_bytes())),
    };
    Ok(json(StatusCode::OK, &answer))
}

/// The entries of a page by their steps, in the order in which the steps came up.
fn steps<'a>(request: &Request<'_>, sight: &'a RunSight) -> Result<Vec<RunStep<'a>>, Fault> {
    let mut steps: Vec<RunStep<'a>> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for entry in &sight.entries {
        match entry {
            SeenEntry::Message(found) => {
                let place = enter(&mut steps, &mut places, &found.step);
                if !found.parent.is_empty() && steps[place].parent_step_id.is_none() {
                    steps[place].parent_step_id = Some(Cow::Borrowed(&found.parent));
                }
                steps[place].messages.push(message(request, found));
            }
            SeenEntry::Effect(seen) => {
                let effect = brief(seen)?;
                // It may have been begun as another tenant than that of the message it belongs to.
                if !request.caller.acts_as(&effect.tenant_id) {
                    continue;
                }
                let step = effect.step_id.as_deref().unwrap_or_default();
                let place = enter(&mut steps, &mut places, step);
                steps[place].effects.push(effect);
            }
        }
    }
    let parents: Vec<_> =
        steps.iter().filter_map(|step| Some((step.parent_step_id.clone()?, step.step_id.clone()?))).collect();
    for (parent, child) in parents {
        if let Some(place) = places.get(&*parent) {
            steps[*place].children.push(child);
        }
    }
    Ok(steps)
}

/// The place of a step, made if it is new.
fn enter(steps: &mut Vec<RunStep<'_>>, places: &mut BTreeMap<String, usize>, name: &str) -> usize {
    *places.entry(name.to_owned()).or_insert_with(|| {
        let step_id = Some(name).filter(|name| !name.is_empty());
        steps.push(RunStep {
            step_id: step_id.map(|name| Cow::Owned(name.to_owned())),
            parent_step_id: None,
            children: Vec::new(),
            messages: Vec::new(),
            effects: Vec::new(),
        });
        steps.len() - 1
    })
}

fn message<'a>(request: &Request<'_>, found: &'a RunMessage) -> StepMessage<'a> {
    // As with effects, a commit may have been made as another tenant.
    let outputs = found.outputs.iter().filter(|output| request.caller.acts_as(&output.tenant));
    StepMessage {
        topic: Cow::Borrowed(&found.topic),
        partition: found.partition,
        offset: found.offset,
        stored_at: moment(found.at),
        // An unnamed group means that no group reads the topic.
        groups: found.groups.iter().filter(|group| !group.group.is_empty()).map(group).collect(),
        reads: found.reads.iter().map(read).collect(),
        outputs: outputs.map(output).collect(),
    }
}

fn output(output: &RunOutput) -> StepOutput<'_> {
    StepOutput {
        tenant_id: Cow::Borrowed(&output.tenant),
        dataset: Cow::Borrowed(&output.dataset),
        version: Cow::Borrowed(&output.version),
        partition_key: Cow::Borrowed(&output.partition_key),
        committed_at: moment(output.at),
    }
}

fn read((dataset, version): &(Arc<str>, Arc<str>)) -> VersionRead<'_> {
    VersionRead { dataset: Cow::Borrowed(dataset), version: Cow::Borrowed(version) }
}

fn group(group: &RunGroup) -> StepGroup<'_> {
    let last_error = group.history.last().map(|attempt| &*attempt.error).filter(|error| !error.is_empty());
    StepGroup {
        group: Cow::Borrowed(&group.group),
        state: match group.state {
            RunState::Waiting => StepState::Waiting,
            RunState::Running => StepState::Running,
            RunState::Retrying => StepState::Retrying,
            RunState::Ended(How::Done) => StepState::Done,
            RunState::Ended(How::Dead) => StepState::DeadLettered,
            RunState::Ended(How::Skipped) => StepState::Skipped,
            RunState::Ended(How::Cancelled) => StepState::Cancelled,
            RunState::Removed => StepState::Removed,
        },
        attempts: group.attempts,
        first_leased_at: group.first_leased.map(moment),
        leased_at: group.leased.map(moment),
        owner: group.owner.as_deref().map(Cow::Borrowed),
        waits: group.wait.map(|(wait, since, until)| StepWait {
            state: waits(wait),
            since: moment(since),
            until: until.map(moment),
        }),
        ended_at: group.ended.map(moment),
        last_error: last_error.map(Cow::Borrowed),
        history: group.history.iter().map(owned_attempt).collect(),
    }
}

fn owned_attempt(described: &core::AttemptDescription) -> driftq_api::v2::Attempt<'_> {
    driftq_api::v2::Attempt {
        attempt: described.number,
        owner: Cow::Borrowed(&described.owner),
        error: Cow::Borrowed(&described.error),
        leased_at: moment(described.leased),
        ended_at: moment(described.ended),
    }
}

fn summary(run: &core::RunSummary) -> RunSummary<'_> {
    RunSummary {
        tenant_id: Cow::Borrowed(&run.tenant),
        run_id: Cow::Borrowed(&run.id),
        started_at: moment(run.started),
        last_at: moment(run.touched),
        messages: run.messages,
        effects: run.effects,
        dead_letters: run.dead,
        open: run.open,
        unlisted: run.unlisted,
    }
}
