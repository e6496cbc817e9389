//! The server and its router.

use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Content, Description, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Health, Report, RouterStatus, RouterTest, RouterTested, Status};

const TAG: &str = "server";

const STATUS: &str = r#"{"version":"0.1.0","commit":"unknown","ready":true,"writable":true,"durability":"an answered request is on disk and survives a crash","durable":true,"data":"/var/lib/driftq","epoch":3,"uptime_ms":60000,"topics":1,"streams":0,"connections":1,"segments":1,"shards":1,"recovery":{"duration_ms":12}}"#;

const REPORT: &str = r#"{"verdict":"act","act":1,"look":0,"findings":[{"verdict":"act","what":"3 dead letters of orders","cause":"their attempts are used up, their time was over, or a worker gave them up; the oldest died 5m ago. No worker gets them until they are sent back","next":"driftq dlq list orders","area":"dead_letters","topic":"orders"},{"verdict":"ok","what":"no router is configured","cause":"","area":"router"}],"left_out":0}"#;

const ROUTER: &str = r#"{"kind":"http","breaker":"closed","asked":100,"answered":98,"failed":1,"timed_out":1,"refused":0,"cached":40,"on_error":"pass","topics":["orders"]}"#;

const fn looking(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
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
        query: &[],
        is_keyed: false,
        body: None,
        answers,
        problems,
    }
}

pub(super) static LINES: [Description; 7] = [
    looking(
        Operation::GetStatus,
        "/v2/status",
        "get_status",
        ["The server about itself", "Version, durability, and how it does."],
        &[Answer::json(200, "How it does.", Words::answer::<Status<'static>>(STATUS))],
        &[],
    ),
    looking(
        Operation::GetReport,
        "/v2/report",
        "get_report",
        [
            "What to do",
            "Everything that can go wrong, held against rules: of each finding what it is, why it is so, and which command \
             to go on with. The groups that are furthest behind are looked at closely, up to 500 of them. Those who \
             ask at the same time share one.",
        ],
        &[Answer::json(200, "What was found.", Words::answer::<Report<'static>>(REPORT))],
        &[Code::Unavailable],
    ),
    looking(
        Operation::Healthz,
        "/v2/healthz",
        "healthz",
        ["Whether the process lives", "Always answers while it does."],
        &[Answer::json(200, "It lives.", Words::answer::<Health<'static>>(r#"{"status":"ok"}"#))],
        &[],
    ),
    looking(
        Operation::Readyz,
        "/v2/readyz",
        "readyz",
        [
            "Whether requests are served",
            "Ready when recovered and able to write acks. On a full disk it is ready, with a `note`: new messages are \
             refused, and whatever is acked makes room.",
        ],
        &[Answer::json(200, "It is ready.", Words::answer::<Health<'static>>(r#"{"status":"ready"}"#))],
        &[Code::Unavailable],
    ),
    looking(
        Operation::GetRouter,
        "/v2/router",
        "get_router",
        ["How the router does", "What it is asked, what it answers, and whether it is asked at all."],
        &[Answer::json(200, "How it does.", Words::answer::<RouterStatus>(ROUTER))],
        &[],
    ),
    Description {
        method: Method::Post,
        body: Body::json(Words::request::<RouterTest<'_>>(
            |body| told(RouterTest::from_json(body)),
            r#"{"topic":"orders","message":{"key":"user:1","value":"hello"}}"#,
        )),
        ..looking(
            Operation::TestRouter,
            "/v2/router/test",
            "test_router",
            ["Ask the router about a message", "Stores nothing."],
            &[Answer::json(
                200,
                "What it says, and where the message would go.",
                Words::answer::<RouterTested<'static>>(
                    r#"{"decision":{"label":"urgent","target_topic":"orders.fast","meta":{"model":"small"}},"topic":"orders.fast","partition":0,"took_ms":3,"outcome":"answered"}"#,
                ),
            )],
            &[Code::TopicUnknown],
        )
    },
    looking(
        Operation::GetOpenApi,
        "/v2/openapi.json",
        "get_openapi",
        ["This document", "OpenAPI 3.1."],
        &[Answer { status: 200, description: "The document.", content: Content::Document }],
        &[],
    ),
];
