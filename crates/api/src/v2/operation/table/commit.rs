//! The commit of everything that belongs together.

use super::TENANT;
use crate::catalogue::Code;
use crate::v2::commit_many::{CommitAnswerShape, CommitCallShape};
use crate::v2::operation::description::{Answer, Body, Description, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{CommitCall, CommitFound, Committed};

const REQUEST: &str = r#"{"ack":["1.2a"],"fence":["1.2b"],"effects":[{"token":"1.2c","status":"succeeded","code":200}],"produce":[{"topic":"invoices","message":{"key":"user:1","value":"paid"}}],"outputs":[{"dataset":"sales","version":"2025-12-21","partition_key":"eu","mode":"append","dedupe_key":"orders/0/12","location":"s3://sales/eu/0001","digest":"sha256:9f86"}],"expect":[{"entity":"order-7","version":3}]}"#;

const COMMITTED: &str = r#"{"result":"committed","produced":[{"topic":"invoices","partition":0,"offset":4,"duplicate":false}],"outputs":[{"result":"appended","location":"s3://sales/eu/0001"}]}"#;

pub(super) static LINES: [Description; 2] = [COMMIT, FOUND];

const COMMIT: Description = Description {
    operation: Operation::Commit,
    method: Method::Post,
    path: "/v2/commit",
    id: "commit",
    tag: "commit",
    summary: "Ack, finish, produce and register outputs, all or nothing",
    detail: "Everything in it becomes durable together, or nothing does: then the problem is the first reason, and its \
             `part` says where it is, such as `effects[2]`. The same body again is `already_committed`, with what the \
             first answer said. Outputs need at least one token in `ack`, `fence` or `effects`. With `commits`, 1 to 1,000 \
             of them are done in one call: each is all or nothing on its own and has its own result, in order, and the \
             answer comes when all of them are durable. With `expect`, only if entities have these versions; all of them \
             are raised by one together with the rest.",
    query: &[],
    is_keyed: false,
    body: Body::json(Words::request::<CommitCallShape>(|body| told(CommitCall::from_json(body)), REQUEST)),
    answers: &[Answer::json(
        200,
        "All of it is done; of several commits, what became of each.",
        Words::shaped::<CommitAnswerShape, Committed<'static>>(COMMITTED),
    )],
    problems: &[
        Code::TenantDiffers,
        Code::StaleLease,
        Code::LeaseUnknown,
        Code::TopicUnknown,
        Code::DeadlineExceeded,
        Code::KeyInFlight,
        Code::KeyReused,
        Code::ResultTooLarge,
        Code::OutputModeDiffers,
        Code::PreconditionFailed,
        Code::VersionSealed,
        Code::LimitReached,
        Code::RouterRefused,
        Code::DiskFull,
    ],
};

const FOUND: Description = Description {
    operation: Operation::GetCommit,
    method: Method::Get,
    path: "/v2/commits/{key}",
    id: "get_commit",
    tag: "commit",
    summary: "Was this commit done?",
    detail: "For a caller that did not hear the answer and cannot send the same commit again: what the commit under \
             this `idempotency_key` did, for as long as commits are remembered. If none is found, nothing was done so \
             far; a commit that is still on its way may be done later, so sending it again with the same key is safer.",
    query: &[TENANT],
    is_keyed: false,
    body: None,
    answers: &[Answer::json(
        200,
        "It was done.",
        Words::answer::<CommitFound<'static>>(
            r#"{"result":"already_committed","produced":[{"topic":"invoices","partition":0,"offset":4,"duplicate":false}],"outputs":["appended"]}"#,
        ),
    )],
    problems: &[Code::CommitUnknown],
};
