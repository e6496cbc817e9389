//! Runs.

use super::{CURSOR_AFTER_PLACE, LIMIT, TENANT};
use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Description, Parameter, Shape, Words};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Run, Runs, page::LIMIT_MAX};

const TAG: &str = "runs";

macro_rules! run {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            r#"{"run_id":"run-1","started_at":"2025-12-21T12:00:00Z","last_at":"2025-12-21T12:00:05Z","#,
            r#""messages":1,"effects":1,"dead_letters":0,"open":0,"unlisted":0"#,
            $after
        )
    };
}

const RUN: &str = run!(
    "",
    r#","steps":[{"step_id":"pay","parent_step_id":"order","children":["ship"],"messages":[{"topic":"orders","partition":0,"offset":12,"stored_at":"2025-12-21T12:00:00Z","groups":[{"group":"billing","state":"done","attempts":2,"first_leased_at":"2025-12-21T12:00:00Z","ended_at":"2025-12-21T12:00:05Z","history":[{"attempt":1,"owner":"worker-1","error":"timed out","leased_at":"2025-12-21T12:00:00Z","ended_at":"2025-12-21T12:00:01Z"}]}]}],"effects":[{"tenant_id":"","scope":"charge","key":"order-7","state":"unknown","epoch":1,"attempt":1,"on_lapse":"hold","owner":"worker-1","run_id":"run-1","step_id":"pay","created_at":"2025-12-21T12:00:00Z","begun_at":"2025-12-21T12:00:00Z"}]}]}"#
);

const OF_TENANT: Parameter = Parameter {
    description: "Only those of this tenant; the empty one is one, too. All if not given.",
    ..TENANT
};

pub(super) static LINES: [Description; 2] = [
    Description {
        operation: Operation::GetRun,
        method: Method::Get,
        path: "/v2/runs/{run_id}",
        id: "get_run",
        tag: TAG,
        summary: "One run, step by step",
        detail: "Its messages, what every group made of them and which versions of datasets were read for them, and its effects, by step.",
        query: &[
            TENANT,
            Parameter {
                name: "limit",
                is_required: false,
                description: "Most messages and effects together on the page; 100 if not given.",
                shape: Shape::Number(1, LIMIT_MAX as u64),
            },
            CURSOR_AFTER_PLACE,
        ],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "The run, with one page of what happened in it.",
            Words::answer::<Run<'static>>(RUN),
        )],
        problems: &[Code::RunUnknown],
    },
    Description {
        operation: Operation::ListRuns,
        method: Method::Get,
        path: "/v2/runs",
        id: "list_runs",
        tag: TAG,
        summary: "Runs that are known",
        detail: "The newest first. A run is everything that carries the same `run_id`.",
        query: &[OF_TENANT, LIMIT, CURSOR_AFTER_PLACE],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "One page.",
            Words::answer::<Runs<'static>>(run!(r#"{"runs":["#, "}]}")),
        )],
        problems: &[],
    },
];
