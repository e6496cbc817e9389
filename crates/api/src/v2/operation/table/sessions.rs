//! Sessions of people in front of browsers.

use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Content, Description, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Session, SessionSpec};

const TAG: &str = "keys";
const PATH: &str = "/v2/session";

const SESSION: &str = r#"{"keys_required":true,"actor":"key:5f0c2a91b3d4e687","note":"on call","actions":["read"],"topics":["orders"],"expires_at":"2026-12-21T12:00:00Z"}"#;

const fn line(
    operation: Operation,
    method: Method,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
    answers: &'static [Answer],
) -> Description {
    Description {
        operation,
        method,
        path: PATH,
        id,
        tag: TAG,
        summary,
        detail,
        query: &[],
        is_keyed: false,
        body: None,
        answers,
        problems: &[],
    }
}

pub(super) static LINES: [Description; 3] = [
    Description {
        body: Body::json(Words::request::<SessionSpec<'_>>(
            |body| told(SessionSpec::from_json(body)),
            r#"{"key":"dq_5f0c2a91b3d4e687_0000000000000000000000000000000000000000000000000000000000000000"}"#,
        )),
        problems: &[Code::Unauthenticated, Code::Forbidden],
        ..line(
            Operation::SignIn,
            Method::Post,
            "sign_in",
            [
                "Sign in with a key",
                "For pages in a browser: the answer sets a cookie that stands for the key until it ends, for twelve \
                 hours at most, or until the server is started anew. Pages of others cannot use it. Programs show their key with \
                 each call instead. Open to all.",
            ],
            &[Answer::json(201, "Signed in.", Words::answer::<Session<'static>>(SESSION))],
        )
    },
    line(
        Operation::GetSession,
        Method::Get,
        "get_session",
        ["Who asks", "Whether the server asks for keys, who the caller is to it, and what they may do."],
        &[Answer::json(200, "Who, and what they may do.", Words::answer::<Session<'static>>(SESSION))],
    ),
    line(
        Operation::SignOut,
        Method::Delete,
        "sign_out",
        ["Sign out", "Ends the session of the cookie, if there is one. The key goes on. Open to all."],
        &[Answer { status: 204, description: "There is no session.", content: Content::Nothing }],
    ),
];
