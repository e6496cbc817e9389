//! The servers that share a log.

use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Description, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Cluster, NodeSpec};

const TAG: &str = "server";

const CLUSTER: &str = r#"{"clustered":true,"serving":"http://10.0.0.1:8080","nodes":[{"url":"http://10.0.0.1:8080","serving":true,"alive":true,"drained":false,"seen_ms_ago":120},{"url":"http://10.0.0.2:8080","serving":false,"alive":true,"drained":false,"seen_ms_ago":90}]}"#;
const NODE: &str = r#"{"node":"http://10.0.0.1:8080"}"#;

static ANSWERS: [Answer; 1] =
    [Answer::json(200, "How they stand.", Words::answer::<Cluster<'static>>(CLUSTER))];

const fn line(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
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
        answers: &ANSWERS,
        problems: &[],
    }
}

const fn marking(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    words: [&'static str; 2],
) -> Description {
    Description {
        method: Method::Post,
        body: Body::json(Words::request::<NodeSpec<'_>>(|body| told(NodeSpec::from_json(body)), NODE)),
        problems: &[Code::Unavailable],
        ..line(operation, path, id, words)
    }
}

pub(super) static LINES: [Description; 3] = [
    line(
        Operation::GetCluster,
        "/v2/cluster",
        "get_cluster",
        [
            "The servers that share the log",
            "Which of them serves, and which could take over. Every server of a cluster gives the same answer. A server that \
             has its log for itself is the only one.",
        ],
    ),
    marking(
        Operation::DrainNode,
        "/v2/cluster/drain",
        "drain_node",
        [
            "Have a server leave the work to others",
            "If it serves, it finishes what is under way and another takes over; requests wait meanwhile. It stays drained, \
             also when it is started anew, until it is resumed. Repeating it changes nothing.",
        ],
    ),
    marking(
        Operation::ResumeNode,
        "/v2/cluster/resume",
        "resume_node",
        [
            "Have a drained server take its part again",
            "It may serve from then on. Repeating it changes nothing.",
        ],
    ),
];
