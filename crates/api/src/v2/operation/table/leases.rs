//! Borrowing and settling.

use crate::catalogue::Code;
use crate::v2::limits::{CREDIT_MAX, LEASE_MS_MAX, NAME_BYTES_MAX};
use crate::v2::operation::description::{Answer, Body, Content, Description, Parameter, Shape, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Ack, Extend, Item, LeaseRequest, Leased, Nack, Release, Settlements};

const TAG: &str = "leases";

const ITEM: &str = r#"{"topic":"orders","partition":0,"offset":12,"key":"user:1","value":"hello","priority":0,"produced_at":"2025-12-21T12:00:00Z","origin":{"topic":"orders","incarnation":7,"partition":0,"offset":12},"lease":{"token":"1.2a","attempt":1,"expires_at":"2025-12-21T12:00:30Z"}}"#;

const SETTLED: &[Answer] = &[Answer::json(
    200,
    "One result per lease, in order. With one lease, a result other than `ok` is a problem instead.",
    Words::answer::<Settlements>(r#"{"results":[{"status":"ok"},{"status":"stale","attempt":3}]}"#),
)];

const ONE_TOKEN: &str = r#"{"leases":[{"token":"1.2a"}]}"#;

const fn settling(
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
        is_keyed: false,
        body: Body::json(words),
        answers: SETTLED,
        problems: &[Code::StaleLease, Code::LeaseUnknown],
    }
}

pub(super) static LINES: [Description; 6] = [
    settling(
        Operation::Ack,
        "/v2/leases/ack",
        "ack",
        ["The work is done", "Safe to repeat: the same token again is `ok` again."],
        Words::request::<Ack<'_>>(|body| told(Ack::from_json(body)), ONE_TOKEN),
    ),
    Description {
        operation: Operation::Lease,
        method: Method::Post,
        path: "/v2/topics/{topic}/groups/{group}/lease",
        id: "lease",
        tag: TAG,
        summary: "Borrow messages",
        detail: "Waits up to `wait_ms` while there are none. A call with the `request_id` of an earlier one gets the \
                 same messages, so that a lost answer loses nothing. A group begins with its first reader.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<LeaseRequest<'_>>(
            |body| told(LeaseRequest::from_json(body)),
            r#"{"owner":"worker-1","max":10,"wait_ms":1000,"lease_ms":30000}"#,
        )),
        answers: &[Answer::json(
            200,
            "What is borrowed; empty if there was nothing in time.",
            Words::answer::<Leased<'static>>(r#"{"messages":[]}"#),
        )],
        problems: &[Code::LimitReached],
    },
    settling(
        Operation::Extend,
        "/v2/leases/extend",
        "extend",
        [
            "The work goes on",
            "A heartbeat. Each result says whether the message was cancelled or the server drains.",
        ],
        Words::request::<Extend<'_>>(
            |body| told(Extend::from_json(body)),
            r#"{"leases":[{"token":"1.2a","lease_ms":30000}]}"#,
        ),
    ),
    settling(
        Operation::Nack,
        "/v2/leases/nack",
        "nack",
        [
            "The work failed",
            "The message is tried again after its backoff, or after `delay_ms`; never with `dead`.",
        ],
        Words::request::<Nack<'_>>(
            |body| told(Nack::from_json(body)),
            r#"{"leases":[{"token":"1.2a","error":"timed out","delay_ms":5000}]}"#,
        ),
    ),
    settling(
        Operation::Release,
        "/v2/leases/release",
        "release",
        [
            "The work was not begun, or is to wait",
            "The message is free at once, or after `delay_ms`, and the attempt does not count. With `effect` it waits for \
             that effect: it is free as soon as the effect has ended, was resolved or released, or may be taken over, \
             and when `delay_ms` has passed, whichever is first.",
        ],
        Words::request::<Release<'_>>(
            |body| told(Release::from_json(body)),
            r#"{"leases":[{"token":"1.2a","delay_ms":30000,"effect":{"scope":"charge","key":"order-7"}}]}"#,
        ),
    ),
    Description {
        operation: Operation::Stream,
        method: Method::Get,
        path: "/v2/topics/{topic}/groups/{group}/stream",
        id: "stream",
        tag: TAG,
        summary: "Borrow messages for as long as the connection lives",
        detail: "Never more than `credit` messages are unsettled through one stream; settling makes room for more.",
        query: &[
            Parameter {
                name: "owner",
                is_required: true,
                description: "Who borrows.",
                shape: Shape::Text(1, NAME_BYTES_MAX),
            },
            Parameter {
                name: "credit",
                is_required: false,
                description: "Most unsettled messages; 32 if not given.",
                shape: Shape::Number(1, CREDIT_MAX),
            },
            Parameter {
                name: "lease_ms",
                is_required: false,
                description: "How long each message is on loan; the topic's lease if not given.",
                shape: Shape::Number(1, LEASE_MS_MAX),
            },
        ],
        is_keyed: false,
        body: None,
        answers: &[Answer {
            status: 200,
            description: "One message per line.",
            content: Content::Lines(Words::answer::<Item<'static>>(ITEM)),
        }],
        problems: &[Code::LimitReached],
    },
];
