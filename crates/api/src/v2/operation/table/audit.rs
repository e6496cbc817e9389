//! The audit.

use super::{LIMIT, text_parameter};
use crate::v2::Audit;
use crate::v2::limits::{AUDIT_TARGET_BYTES_MAX, AUDIT_WORD_BYTES_MAX, OFFSET_MAX, WAIT_MS_MAX};
use crate::v2::operation::description::{Answer, Description, Parameter, Shape, Words};
use crate::v2::operation::{Method, Operation};

const PAGE: &str = r#"{"entries":[{"sequence":41,"at":"2025-12-21T12:00:00Z","actor":"key:5f0c2a91b3d4e687","note":"the shop","action":"delete_topic","target":"topics/orders","outcome":"done","from":"10.0.0.7:51344","request_id":"6f1e9c0a7b3d4e520000000000000017"}],"seen":41,"more":false,"oldest":1}"#;

pub(super) static LINES: [Description; 1] = [Description {
    operation: Operation::ListAudit,
    method: Method::Get,
    path: "/v2/audit",
    id: "list_audit",
    tag: "audit",
    summary: "Who did what to what, when, from where",
    detail: "Oldest first. There is an entry for every call that manages something (topics, groups, dead letters, jobs, \
             datasets, entities, keys, effects that were resolved) and for calls of any kind that were refused with 401 \
             or 403. Numbers have no gaps: what is missing before the first entry of a page was dropped by \
             `audit_keep_ms` or `audit_keep_bytes`. A condition that ends with a star holds for all that begin with \
             what is before it.",
    query: &[
        Parameter {
            name: "after",
            is_required: false,
            description: "Only entries with a higher number: `seen` of the page before.",
            shape: Shape::Number(0, OFFSET_MAX),
        },
        LIMIT,
        text_parameter!("actor", AUDIT_WORD_BYTES_MAX, "Only of this actor, such as `root` or `key:*`."),
        text_parameter!("action", AUDIT_WORD_BYTES_MAX, "Only this call, such as `delete_topic`."),
        text_parameter!("target", AUDIT_TARGET_BYTES_MAX, "Only about this, such as `topics/orders*`."),
        text_parameter!(
            "outcome",
            AUDIT_WORD_BYTES_MAX,
            "Only with this outcome: `done`, the code of a refusal, or `refused` for all refusals."
        ),
        Parameter {
            name: "since",
            is_required: false,
            description: "Only entries from then on.",
            shape: Shape::Time,
        },
        Parameter {
            name: "until",
            is_required: false,
            description: "Only entries before then.",
            shape: Shape::Time,
        },
        Parameter {
            name: "wait_ms",
            is_required: false,
            description: "How long to wait for an entry if there is none yet; 0 if not given.",
            shape: Shape::Number(0, WAIT_MS_MAX),
        },
    ],
    is_keyed: false,
    body: None,
    answers: &[Answer::json(200, "One page.", Words::answer::<Audit<'static>>(PAGE))],
    problems: &[],
}];
