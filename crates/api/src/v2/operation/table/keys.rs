//! Keys.

use super::{CURSOR_AFTER_NAME, LIMIT};
use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Description, Forms, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Key, KeyMade, KeyRotate, KeySpec, Keys};

const TAG: &str = "keys";

macro_rules! key {
    () => {
        r#"{"id":"5f0c2a91b3d4e687","actions":["produce","consume"],"topics":["orders","mail.*"],"created_at":"2025-12-21T12:00:00Z","expires_at":"2026-12-21T12:00:00Z","live":true,"note":"the shop"}"#
    };
}

const MADE: &str = concat!(
    r#"{"secret":"dq_5f0c2a91b3d4e687_7d3b0c5e9a1f24680bd8e6f1c2a3948576e0d1f2a3b4c5d6e7f8091a2b3c4d5e","key":"#,
    key!(),
    "}"
);

const fn line(
    (operation, method): (Operation, Method),
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
    body: Option<Body>,
    answers: &'static [Answer],
    problems: &'static [Code],
) -> Description {
    Description {
        operation,
        method,
        path,
        id,
        tag: TAG,
        summary,
        detail,
        query: &[],
        is_keyed: false,
        body,
        answers,
        problems,
    }
}

pub(super) static LINES: [Description; 5] = [
    line(
        (Operation::CreateKey, Method::Post),
        "/v2/keys",
        "create_key",
        [
            "Make a key",
            "It hangs on the caller's key: it never allows more, never outlives it, and ends with it. The secret is \
             shown in this answer and never again.",
        ],
        Body::json(Words::request::<KeySpec<'_>>(
            |body| told(KeySpec::from_json(body)),
            r#"{"actions":["produce","consume"],"topics":["orders","mail.*"],"expires_at":"2026-12-21T12:00:00Z","note":"the shop"}"#,
        )),
        &[Answer::json(201, "The key is made.", Words::answer::<KeyMade<'static>>(MADE))],
        &[Code::LimitReached, Code::DiskFull],
    ),
    Description {
        query: &[LIMIT, CURSOR_AFTER_NAME],
        ..line(
            (Operation::ListKeys, Method::Get),
            "/v2/keys",
            "list_keys",
            [
                "The keys",
                "Those that hang on the caller's key, without their secrets; all of them for the root key.",
            ],
            None,
            &[Answer::json(
                200,
                "One page.",
                Words::answer::<Keys<'static>>(concat!(r#"{"keys":["#, key!(), "]}")),
            )],
            &[],
        )
    },
    line(
        (Operation::GetKey, Method::Get),
        "/v2/keys/{id}",
        "get_key",
        ["One key", "Without its secret."],
        None,
        &[Answer::json(200, "The key.", Words::answer::<Key<'static>>(key!()))],
        &[Code::AccessKeyUnknown],
    ),
    line(
        (Operation::RotateKey, Method::Post),
        "/v2/keys/{id}/rotate",
        "rotate_key",
        [
            "Put a new key in the place of an old one",
            "The new one allows the same, and what hung on the old one hangs on it. The old one goes on for \
             `overlap_ms`, so that clients can be changed over one by one.",
        ],
        Some(Body {
            words: Words::request::<KeyRotate>(
                |body| told(KeyRotate::from_json(body)),
                r#"{"overlap_ms":3600000}"#,
            ),
            forms: Forms::One,
            is_required: false,
        }),
        &[Answer::json(201, "The new key is made.", Words::answer::<KeyMade<'static>>(MADE))],
        &[Code::AccessKeyUnknown, Code::LimitReached, Code::DiskFull],
    ),
    line(
        (Operation::RevokeKey, Method::Delete),
        "/v2/keys/{id}",
        "revoke_key",
        [
            "End a key and what hangs on it",
            "From this answer on it opens nothing: open streams and long polls end, too. Safe to repeat.",
        ],
        None,
        &[Answer::json(200, "The key has ended.", Words::answer::<Key<'static>>(key!()))],
        &[Code::AccessKeyUnknown],
    ),
];
