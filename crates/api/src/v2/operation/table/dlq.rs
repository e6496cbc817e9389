//! Dead letters, and the jobs that work on them.

use super::{CURSOR_AFTER_MESSAGE, CURSOR_AFTER_NAME, LIMIT, text_parameter};
use crate::catalogue::Code;
use crate::v2::limits::{ERROR_BYTES_MAX, IDENTITY_BYTES_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX};
use crate::v2::operation::description::{Answer, Body, Description, Parameter, Shape, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Causes, DeadTopics, Item, Job, Jobs, Letters, Purge, Redrive};

const TAG: &str = "dead letters";

macro_rules! letter {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            r#"{"topic":"dlq.orders","partition":0,"offset":3,"value":"hello","priority":0,"#,
            r#""produced_at":"2025-12-21T12:00:00Z","envelope":{"dead_letter":{"topic":"orders","partition":0,"#,
            r#""offset":12,"group":"billing","attempts":5,"last_error":"timed out","reason":"max_attempts_reached","#,
            r#""at":"2025-12-21T12:05:00Z","history":[{"attempt":5,"owner":"worker-1","error":"timed out","#,
            r#""leased_at":"2025-12-21T12:04:30Z","ended_at":"2025-12-21T12:05:00Z"}]}},"#,
            r#""origin":{"topic":"orders","incarnation":7,"partition":0,"offset":12}}"#,
            $after
        )
    };
}

macro_rules! job {
    ($before:literal, $state:literal, $after:literal) => {
        concat!(
            $before,
            r#"{"id":"1-7","kind":"redrive","topic":"orders","state":""#,
            $state,
            r#"","dry_run":false,"started_at":"2025-12-21T12:00:00Z","matched":10,"done":4,"skipped":1,"refused":0,"failed":0}"#,
            $after
        )
    };
}

const fn time_parameter(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, is_required: false, description, shape: Shape::Time }
}

/// What letters can be chosen by, and what else a query may say.
macro_rules! conditions {
    [$($more:expr),*] => {
        &[
            text_parameter!("group", NAME_BYTES_MAX, "Given up by this group."),
            text_parameter!("key", KEY_BYTES_MAX, "With this key."),
            text_parameter!("run_id", IDENTITY_BYTES_MAX, "Of this run."),
            text_parameter!("tenant_id", IDENTITY_BYTES_MAX, "Of this tenant."),
            text_parameter!("reason", ERROR_BYTES_MAX, "Given up for this reason."),
            text_parameter!("cause", ERROR_BYTES_MAX, "With this cause, as it is listed."),
            time_parameter("before", "Died before this."),
            time_parameter("after", "Died at this moment or later."),
            $($more),*
        ]
    };
}

const STARTED: &[Answer] =
    &[Answer::json(202, "The job has begun.", Words::answer::<Job<'static>>(job!("", "running", "")))];

const fn starting(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
    words: Words,
) -> Description {
    Description {
        operation,
        method: Method::Post,
        path,
        id,
        tag: TAG,
        summary,
        detail,
        query: &[],
        is_keyed: true,
        body: Body::json(words),
        answers: STARTED,
        problems: &[Code::KeyInFlight, Code::KeyReused, Code::LimitReached, Code::DiskFull],
    }
}

const fn looking(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
    query: &'static [Parameter],
    answers: &'static [Answer],
    problems: &'static [Code],
) -> Description {
    Description {
        operation,
        method: Method::Get,
        path,
        id,
        tag: TAG,
        summary,
        detail,
        query,
        is_keyed: false,
        body: None,
        answers,
        problems,
    }
}

pub(super) static LINES: [Description; 9] = [
    looking(
        Operation::ListDeadTopics,
        "/v2/dlq",
        "list_dead_topics",
        ["Topics that have dead letters", "In order of their names."],
        &[LIMIT, CURSOR_AFTER_NAME],
        &[Answer::json(
            200,
            "One page.",
            Words::answer::<DeadTopics>(
                r#"{"topics":[{"name":"orders","letters":10,"oldest_at":"2025-12-21T12:05:00Z"}]}"#,
            ),
        )],
        &[],
    ),
    looking(
        Operation::ListLetters,
        "/v2/dlq/{topic}",
        "list_letters",
        [
            "The dead letters of a topic",
            "All conditions must hold. A condition on a label is written `label.<name>=<value>` and may be given once \
             per label.",
        ],
        conditions![LIMIT, CURSOR_AFTER_MESSAGE],
        &[Answer::json(
            200,
            "One page, by partition and offset. A page can be empty and still have a next one.",
            Words::answer::<Letters<'static>>(letter!(r#"{"letters":["#, r#"],"scanned":1}"#)),
        )],
        &[],
    ),
    looking(
        Operation::ListCauses,
        "/v2/dlq/{topic}/causes",
        "list_causes",
        [
            "What killed the dead letters of a topic",
            "Letters by their last error, without the numbers and names in it. The first 10000 letters are looked at, and the \
             100 causes of the most letters are listed. All conditions must hold, as in the list of letters.",
        ],
        conditions![],
        &[Answer::json(
            200,
            "The causes.",
            Words::answer::<Causes<'static>>(
                r#"{"causes":[{"cause":"card # was declined","letters":10,"first_at":"2025-12-21T12:05:00Z","last_at":"2025-12-21T12:09:00Z"}],"scanned":10,"more":false}"#,
            ),
        )],
        &[],
    ),
    looking(
        Operation::GetLetter,
        "/v2/dlq/{topic}/{partition}/{offset}",
        "get_letter",
        ["One dead letter", "With where it came from, why it died, and the attempts that are still known."],
        &[],
        &[Answer::json(200, "The letter.", Words::answer::<Item<'static>>(letter!("", "")))],
        &[Code::MessageUnknown],
    ),
    starting(
        Operation::Redrive,
        "/v2/dlq/{topic}/redrive",
        "redrive",
        [
            "Send dead letters back",
            "A job of the server. A letter keeps its identity and its origin, and is neither taken for a duplicate nor \
             swallowed as already done. Only the group that gave it up gets it; if that group is gone, the letter \
             stays and the job counts it as refused. With `target_topic` all groups of that topic get it.",
        ],
        Words::request::<Redrive<'_>>(
            |body| told(Redrive::from_json(body)),
            r#"{"filter":{"group":"billing","labels":{"model":"small"}},"rate_per_second":100,"dry_run":true}"#,
        ),
    ),
    starting(
        Operation::Purge,
        "/v2/dlq/{topic}/purge",
        "purge",
        ["Throw dead letters away", "A job of the server. It cannot be undone; `dry_run` only counts."],
        Words::request::<Purge<'_>>(
            |body| told(Purge::from_json(body)),
            r#"{"letters":[{"partition":0,"offset":3}]}"#,
        ),
    ),
    looking(
        Operation::ListJobs,
        "/v2/jobs",
        "list_jobs",
        ["Jobs that are still known", "The newest first."],
        &[],
        &[Answer::json(
            200,
            "All of them.",
            Words::answer::<Jobs<'static>>(job!(r#"{"jobs":["#, "done", "]}")),
        )],
        &[],
    ),
    looking(
        Operation::GetJob,
        "/v2/jobs/{id}",
        "get_job",
        ["One job", "How far it is."],
        &[],
        &[Answer::json(200, "The job.", Words::answer::<Job<'static>>(job!("", "running", "")))],
        &[Code::JobUnknown],
    ),
    Description {
        method: Method::Delete,
        ..looking(
            Operation::CancelJob,
            "/v2/jobs/{id}",
            "cancel_job",
            ["Stop a job", "What is done stays done. Safe to repeat."],
            &[],
            &[Answer::json(200, "The job.", Words::answer::<Job<'static>>(job!("", "cancelled", "")))],
            &[Code::JobUnknown],
        )
    },
];
