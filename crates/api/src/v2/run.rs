//! Runs: everything that carries the same `run_id`, put together again.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::item::Attempt;
use super::state::DeliveryState;
use crate::moment::Moment;

/// To `GET /v2/runs`: one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Runs<'a> {
    /// Runs, the newest first.
    pub runs: Vec<RunSummary<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunSummary<'a> {
    /// The tenant that it belongs to; left out for no tenant.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    pub tenant_id: Cow<'a, str>,
    /// Its name.
    pub run_id: Cow<'a, str>,
    /// When its first message or effect came.
    pub started_at: Moment,
    /// When something last happened in it.
    pub last_at: Moment,
    /// Its messages.
    pub messages: u64,
    /// Its effects.
    pub effects: u64,
    /// Messages that became dead letters.
    pub dead_letters: u64,
    /// Messages that some group is not through with.
    pub open: u64,
    /// Messages and effects that belong to it and are not listed, because a run lists only so many.
    pub unlisted: u64,
}

/// To `GET /v2/runs/{run_id}`: the run, with one page of what happened in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run<'a> {
    /// The run in short.
    #[serde(flatten)]
    pub summary: RunSummary<'a>,
    /// Its steps. The limit of the page counts their messages and effects together; a step may go on on the next.
    pub steps: Vec<RunStep<'a>>,
    /// Cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunStep<'a> {
    /// Its name; not there for what names no step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<Cow<'a, str>>,
    /// The step that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_step_id: Option<Cow<'a, str>>,
    /// The steps that it caused.
    pub children: Vec<Cow<'a, str>>,
    /// Its messages.
    pub messages: Vec<StepMessage<'a>>,
    /// Its effects, their outcomes without body and headers.
    pub effects: Vec<Effect<'a>>,
}

/// One message of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepMessage<'a> {
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// When it was stored.
    pub stored_at: Moment,
    /// What every group of the topic made of it, in order of their names.
    pub groups: Vec<StepGroup<'a>>,
    /// Versions of datasets that were read for it, as its commits say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub reads: Vec<VersionRead<'a>>,
    /// Outputs that its commits have put where they still are, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub outputs: Vec<StepOutput<'a>>,
}

/// An output of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepOutput<'a> {
    /// The tenant that the dataset belongs to; left out for no tenant.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    #[schema(required = false)]
    pub tenant_id: Cow<'a, str>,
    /// The dataset.
    pub dataset: Cow<'a, str>,
    /// Its version.
    pub version: Cow<'a, str>,
    /// The partition of it.
    pub partition_key: Cow<'a, str>,
    /// When it was committed.
    pub committed_at: Moment,
}

/// A version of a dataset that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionRead<'a> {
    /// The dataset.
    pub dataset: Cow<'a, str>,
    /// Its version.
    pub version: Cow<'a, str>,
}

/// What a group made of a message of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepGroup<'a> {
    /// The group.
    pub group: Cow<'a, str>,
    /// How far it is.
    pub state: StepState,
    /// Attempts that have begun.
    pub attempts: u32,
    /// When the first one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_leased_at: Option<Moment>,
    /// When the newest one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased_at: Option<Moment>,
    /// The owner that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Cow<'a, str>>,
    /// What it waits for, if the group is not through with it; told of the first 100 messages of a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<StepWait>,
    /// When the group was through with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Moment>,
    /// Why the last attempt failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Cow<'a, str>>,
    /// The attempts that are still known, oldest first.
    pub history: Vec<Attempt<'a>>,
}

/// What a message of a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepWait {
    /// Where it stands.
    pub state: DeliveryState,
    /// Since when.
    pub since: Moment,
    /// Until when, where that is known: the end of a loan, of a backoff, or of a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
}

/// How far a group is with a message of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// No attempt has begun.
    Waiting,
    /// A worker holds it.
    Running,
    /// An attempt failed, and another one will come.
    Retrying,
    /// It was acked.
    Done,
    /// It was given up and is a dead letter.
    DeadLettered,
    /// The group never dealt with it: the group was moved past it, or the same was done before.
    Skipped,
    /// A client or an operator cancelled it.
    Cancelled,
    /// It was dropped before the group was through with it: by retention, or with its topic.
    Removed,
}

impl StepState {
    /// All of them, by name.
    pub const WORDS: [(&'static str, Self); 8] = [
        ("waiting", Self::Waiting),
        ("running", Self::Running),
        ("retrying", Self::Retrying),
        ("done", Self::Done),
        ("dead_lettered", Self::DeadLettered),
        ("skipped", Self::Skipped),
        ("cancelled", Self::Cancelled),
        ("removed", Self::Removed),
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = r#"{"run_id":"r","started_at":"2025-12-21T12:00:00Z","last_at":"2025-12-21T12:00:05Z","messages":1,"effects":1,"dead_letters":0,"open":1,"unlisted":0"#;

    #[test]
    fn names_are_those_of_the_wire() {
        for (name, state) in StepState::WORDS {
            assert_eq!(serde_json::to_value(state).unwrap(), name);
            assert_eq!(state.name(), name);
        }
    }

    #[test]
    fn a_run_is_its_summary_and_more() {
        let runs = format!(r#"{{"runs":[{SUMMARY}}}],"cursor":"00"}}"#);
        let list: Runs<'_> = serde_json::from_str(&runs).unwrap();
        assert_eq!(serde_json::to_string(&list).unwrap(), runs);
        let message = r#"{"topic":"t","partition":0,"offset":1,"stored_at":"2025-12-21T12:00:00Z","groups":[{"group":"g","state":"retrying","attempts":1,"first_leased_at":"2025-12-21T12:00:00Z","leased_at":"2025-12-21T12:00:00Z","waits":{"state":"backoff","since":"2025-12-21T12:00:01Z","until":"2025-12-21T12:00:09Z"},"last_error":"boom","history":[{"attempt":1,"owner":"w","error":"boom","leased_at":"2025-12-21T12:00:00Z","ended_at":"2025-12-21T12:00:01Z"}]},{"group":"h","state":"waiting","attempts":0,"history":[]}],"outputs":[{"dataset":"d","version":"v","partition_key":"p","committed_at":"2025-12-21T12:00:02Z"}]}"#;
        let effect = r#"{"tenant_id":"","scope":"s","key":"k","state":"unknown","epoch":1,"attempt":1,"on_lapse":"hold","created_at":"2025-12-21T12:00:00Z","begun_at":"2025-12-21T12:00:00Z"}"#;
        let text = format!(
            r#"{SUMMARY},"steps":[{{"step_id":"b","parent_step_id":"a","children":["c"],"messages":[{message}],"effects":[{effect}]}},{{"children":[],"messages":[],"effects":[]}}],"cursor":"ff"}}"#
        );
        let run: Run<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!((&run.summary, run.steps.len()), (&list.runs[0], 2));
        assert_eq!(serde_json::to_string(&run).unwrap(), text);
    }
}
