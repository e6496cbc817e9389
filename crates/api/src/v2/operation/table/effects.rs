//! Effects.

use super::{CURSOR_AFTER_PLACE, LIMIT, text_parameter};
use crate::catalogue::Code;
use crate::v2::effect::{EffectAnswerShape, EffectBeginShape, EffectDecisionShape};
use crate::v2::limits::{EFFECT_SCOPE_BYTES_MAX, EFFECT_TENANT_BYTES_MAX};
use crate::v2::operation::description::{Answer, Body, Description, Parameter, Shape, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{
    Effect, EffectBeginCall, EffectDecision, EffectFinish, EffectFinished, EffectGet, EffectReacquire,
    EffectRelease, EffectReleased, EffectRenew, EffectRenewed, EffectResolve, EffectState, Effects,
};

const TAG: &str = "effects";

const EXECUTE: &str = r#"{"decision":"execute","lease":{"token":"1.2a","epoch":1,"attempt":1,"expires_at":"2025-12-21T12:00:30Z"}}"#;

const FINISHED: &str = r#"{"result":"committed","epoch":1,"attempt":1,"expires_at":"2025-12-22T12:00:05Z"}"#;

macro_rules! effect {
    ($before:literal, $body:literal, $after:literal) => {
        concat!(
            $before,
            r#"{"tenant_id":"","scope":"charge","key":"order-7","state":"succeeded","epoch":1,"attempt":1,"#,
            r#""max_attempts":3,"on_lapse":"hold","request_hash":"sha256:9f86","owner":"worker-1","run_id":"run-1","#,
            r#""step_id":"pay","created_at":"2025-12-21T12:00:00Z","begun_at":"2025-12-21T12:00:00Z","#,
            r#""expires_at":"2025-12-22T12:00:05Z","message":{"topic":"orders","partition":0,"offset":12,"attempt":1},"#,
            r#""outcome":{"status":"succeeded","code":201,"#,
            $body,
            r#""finished_at":"2025-12-21T12:00:05Z","epoch":1,"attempt":1}}"#,
            $after
        )
    };
}

const fn doing(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
    words: Words,
    answers: &'static [Answer],
    problems: &'static [Code],
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
        is_keyed: false,
        body: Body::json(words),
        answers,
        problems,
    }
}

const DECIDED: &[Answer] = &[Answer::json(
    200,
    "What to do. With `in_progress` the header `Retry-After` says the same as `retry_after_ms`, in whole seconds.",
    Words::shaped::<EffectDecisionShape, EffectDecision<'static>>(EXECUTE),
)];

const ENDED: &[Answer] =
    &[Answer::json(200, "The outcome is remembered.", Words::answer::<EffectFinished>(FINISHED))];

pub(super) static LINES: [Description; 8] = [
    doing(
        Operation::BeginEffect,
        "/v2/effects/begin",
        "begin_effect",
        [
            "May this be done, or is it done already?",
            "Of all who begin the same effect, one is told to `execute` it and gets a lease. The others are told to \
             `replay` its outcome, that it is `in_progress`, that it failed and is `retryable`, or that it is \
             `unknown` whether it happened. With `wait_ms` the answer waits for the outcome. The same call again with \
             the same `request_id` gets the same lease again. With `effects`, 1 to 1,000 of them are begun in one call: \
             each has its own result, in order, where `refused` comes with the problem, and the answer comes when all \
             of them are durable; `wait_ms` is then not allowed. With `expect`, an effect is begun only if entities have \
             these versions, which are raised by one.",
        ],
        Words::request::<EffectBeginShape>(
            |body| told(EffectBeginCall::from_json(body)),
            r#"{"scope":"charge","key":"order-7","request_hash":"sha256:9f86","lease_ms":30000,"on_lapse":"hold","max_attempts":3,"lease_token":"1.2a","request_id":"b-1","owner":"worker-1"}"#,
        ),
        &[Answer::json(
            200,
            "What to do; of several effects, what to do about each. With `in_progress` the header `Retry-After` says \
             the same as `retry_after_ms`, in whole seconds.",
            Words::shaped::<EffectAnswerShape, EffectDecision<'static>>(EXECUTE),
        )],
        &[
            Code::AttemptsExhausted,
            Code::KeyReused,
            Code::StaleLease,
            Code::LeaseUnknown,
            Code::PreconditionFailed,
            Code::LimitReached,
            Code::DiskFull,
        ],
    ),
    doing(
        Operation::FinishEffect,
        "/v2/effects/finish",
        "finish_effect",
        [
            "This is the outcome",
            "The holder of the newest lease of an effect reports its outcome, even after the lease has lapsed, as long \
             as no other caller has taken over. The same outcome again is `already_committed`; another one is refused \
             and changes nothing.",
        ],
        Words::request::<EffectFinish<'_>>(
            |body| told(EffectFinish::from_json(body)),
            r#"{"token":"1.2a","status":"succeeded","code":201,"headers":{"content-type":"application/json"},"body":"{\"id\":9}"}"#,
        ),
        ENDED,
        &[Code::StaleLease, Code::LeaseUnknown, Code::ResultTooLarge, Code::DiskFull],
    ),
    doing(
        Operation::RenewEffect,
        "/v2/effects/renew",
        "renew_effect",
        ["The work goes on", "Extends the lease of an effect from now on. Safe to repeat."],
        Words::request::<EffectRenew<'_>>(
            |body| told(EffectRenew::from_json(body)),
            r#"{"token":"1.2a","lease_ms":30000}"#,
        ),
        &[Answer::json(
            200,
            "The lease goes on.",
            Words::answer::<EffectRenewed>(r#"{"expires_at":"2025-12-21T12:01:00Z","epoch":1,"attempt":1}"#),
        )],
        &[Code::StaleLease, Code::LeaseUnknown, Code::DiskFull],
    ),
    doing(
        Operation::ReleaseEffect,
        "/v2/effects/release",
        "release_effect",
        [
            "Nothing was sent: another caller may have it",
            "Gives up the lease of an effect. The attempt does not count, a begin that waits gets the effect at once, \
             and so does the next one, with or without `reacquire`. The same again is `already_released` until a \
             caller has taken over the effect. With `uncertain` it may have happened: what was begun with `hold` is \
             `unknown` from now on, and not only when the lease lapses.",
        ],
        Words::request::<EffectRelease<'_>>(
            |body| told(EffectRelease::from_json(body)),
            r#"{"token":"1.2a"}"#,
        ),
        &[Answer::json(
            200,
            "The effect is free.",
            Words::answer::<EffectReleased>(r#"{"result":"released"}"#),
        )],
        &[Code::StaleLease, Code::LeaseUnknown],
    ),
    doing(
        Operation::ReacquireEffect,
        "/v2/effects/reacquire",
        "reacquire_effect",
        [
            "Try an effect again that failed",
            "As begin with `reacquire`, but only for an effect that is known, and only while attempts are left.",
        ],
        Words::request::<EffectReacquire<'_>>(
            |body| told(EffectReacquire::from_json(body)),
            r#"{"scope":"charge","key":"order-7","lease_ms":30000,"request_id":"r-1","owner":"worker-2"}"#,
        ),
        DECIDED,
        &[
            Code::EffectUnknown,
            Code::AttemptsExhausted,
            Code::KeyReused,
            Code::StaleLease,
            Code::LeaseUnknown,
            Code::DiskFull,
        ],
    ),
    doing(
        Operation::ResolveEffect,
        "/v2/effects/resolve",
        "resolve_effect",
        [
            "Report the outcome of an effect that its holder did not finish",
            "For an effect that is unknown, whose lease has lapsed, or that failed and may be tried again. \
             `failed_retryable` says that it did not happen and may run again, and grants one more attempt if the cap \
             was reached. With `epoch` only if no newer lease was given since. The same resolution again is \
             `already_committed`.",
        ],
        Words::request::<EffectResolve<'_>>(
            |body| told(EffectResolve::from_json(body)),
            r#"{"scope":"charge","key":"order-7","by":"ann","why":"the bank's statement shows it","status":"succeeded","code":201,"body":"{\"id\":9}","epoch":1}"#,
        ),
        ENDED,
        &[
            Code::EffectUnknown,
            Code::EffectRunning,
            Code::EffectFinished,
            Code::StaleLease,
            Code::ResultTooLarge,
            Code::DiskFull,
        ],
    ),
    doing(
        Operation::GetEffect,
        "/v2/effects/get",
        "get_effect",
        ["One effect", "Changes nothing. The identity comes in the body, because keys may be anything."],
        Words::request::<EffectGet<'_>>(
            |body| told(EffectGet::from_json(body)),
            r#"{"scope":"charge","key":"order-7"}"#,
        ),
        &[Answer::json(
            200,
            "The effect.",
            Words::answer::<Effect<'static>>(effect!("", r#""body":"{\"id\":9}","#, "")),
        )],
        &[Code::EffectUnknown],
    ),
    Description {
        operation: Operation::ListEffects,
        method: Method::Get,
        path: "/v2/effects",
        id: "list_effects",
        tag: TAG,
        summary: "Effects that are remembered",
        detail: "The oldest first. All conditions must hold. `state=unknown` lists what waits to be resolved.",
        query: &[
            Parameter {
                name: "state",
                is_required: false,
                description: "Only in this state.",
                shape: Shape::Words(|| EffectState::WORDS.map(|(word, _)| word).into()),
            },
            text_parameter!("scope", EFFECT_SCOPE_BYTES_MAX, "Only of this scope."),
            Parameter {
                name: "tenant_id",
                is_required: false,
                description: "Only of this tenant; given and empty, only of none.",
                shape: Shape::Text(0, EFFECT_TENANT_BYTES_MAX),
            },
            LIMIT,
            CURSOR_AFTER_PLACE,
        ],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "One page; outcomes come without body and headers. A page can be empty and still have a next one.",
            Words::answer::<Effects<'static>>(effect!(r#"{"effects":["#, "", r#"],"scanned":1}"#)),
        )],
        problems: &[],
    },
];
