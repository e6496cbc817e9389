//! Topics.

use super::{CONFIRM, CURSOR_AFTER_NAME, LIMIT};
use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Content, Description, Forms, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Paused, Topic, TopicChanged, TopicPatch, TopicPut, TopicSpec, Topics};

pub(super) const TAG: &str = "topics";

macro_rules! topic {
    ($before:literal) => {
        concat!(
            "{",
            $before,
            r#""name":"orders","created_at":"2025-12-21T12:00:00Z","next_offset":13,"messages":1,"bytes":11,"#,
            r#""oldest_at":"2025-12-21T12:00:00Z","dead_letters":0,"partitions":[{"partition":0,"messages":1,"#,
            r#""bytes":11,"oldest_offset":12,"oldest_at":"2025-12-21T12:00:00Z"}],"groups":["billing"],"#,
            r#""scheduled":0,"settings":{"retry_policy":{"max_attempts":5,"backoff_ms":250,"jitter":"full"},"#,
            r#""lease_ms":30000,"ordering":"priority","retry_share_percent":20,"set":["retry_policy"]}}"#
        )
    };
}

const PUT: &str = topic!(r#""created":true,"#);

pub(super) const fn pausing(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    [summary, detail]: [&'static str; 2],
    answers: &'static [Answer],
    problems: &'static [Code],
) -> Description {
    Description {
        operation,
        method: Method::Post,
        path,
        id,
        tag,
        summary,
        detail,
        query: &[],
        is_keyed: false,
        body: None,
        answers,
        problems,
    }
}

pub(super) const PAUSED: &[Answer] = &[Answer::json(
    200,
    "Nothing is lent from now on.",
    Words::answer::<Paused>(r#"{"paused_at":"2025-12-21T12:00:00Z"}"#),
)];

pub(super) const RESUMED: &[Answer] =
    &[Answer::json(200, "Messages flow again.", Words::answer::<Paused>(r#"{"paused_at":null}"#))];

pub(super) static LINES: [Description; 7] = [
    Description {
        operation: Operation::GetTopic,
        method: Method::Get,
        path: "/v2/topics/{topic}",
        id: "get_topic",
        tag: TAG,
        summary: "One topic",
        detail: "Its partitions, counts, groups and settings.",
        query: &[],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(200, "The topic.", Words::answer::<Topic>(topic!("")))],
        problems: &[],
    },
    Description {
        operation: Operation::PutTopic,
        method: Method::Put,
        path: "/v2/topics/{topic}",
        id: "put_topic",
        tag: TAG,
        summary: "Create a topic, or confirm that it is as asked for",
        detail: "What is not given is the server's default. Safe to repeat. A topic that is there with other settings \
                 is refused with the difference.",
        query: &[],
        is_keyed: false,
        body: Some(Body {
            words: Words::request::<TopicSpec>(
                |body| told(TopicSpec::from_json(body)),
                r#"{"partitions":4,"retry_policy":{"max_attempts":5,"backoff_ms":250},"ordering":"key"}"#,
            ),
            forms: Forms::One,
            is_required: false,
        }),
        answers: &[
            Answer::json(201, "The topic is created.", Words::answer::<TopicPut>(PUT)),
            Answer::json(
                200,
                "The topic was there and is as asked for.",
                Words::answer::<TopicPut>(topic!(r#""created":false,"#)),
            ),
        ],
        problems: &[Code::SettingsDiffer, Code::TenantDiffers, Code::LimitReached, Code::DiskFull],
    },
    Description {
        operation: Operation::ListTopics,
        method: Method::Get,
        path: "/v2/topics",
        id: "list_topics",
        tag: TAG,
        summary: "All topics",
        detail: "In order of their names.",
        query: &[LIMIT, CURSOR_AFTER_NAME],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "One page.",
            Words::answer::<Topics>(
                r#"{"topics":[{"name":"orders","partitions":4,"groups":1,"messages":1,"bytes":11}]}"#,
            ),
        )],
        problems: &[],
    },
    Description {
        operation: Operation::PatchTopic,
        method: Method::Patch,
        path: "/v2/topics/{topic}",
        id: "patch_topic",
        tag: TAG,
        summary: "Change settings",
        detail: "What is not given stays as it is; `null` is back to the server's default. The number of partitions \
                 cannot be changed.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<TopicPatch>(
            |body| told(TopicPatch::from_json(body)),
            r#"{"lease_ms":60000,"retention_ms":null}"#,
        )),
        answers: &[Answer::json(
            200,
            "What is different now.",
            Words::answer::<TopicChanged>(
                r#"{"topic":"orders","changed":[{"setting":"lease_ms","before":30000,"after":60000}]}"#,
            ),
        )],
        problems: &[Code::DiskFull],
    },
    Description {
        operation: Operation::DeleteTopic,
        method: Method::Delete,
        path: "/v2/topics/{topic}",
        id: "delete_topic",
        tag: TAG,
        summary: "Delete a topic with all its messages",
        detail: "It cannot be undone, and asks for the name once more.",
        query: &[CONFIRM],
        is_keyed: false,
        body: None,
        answers: &[Answer { status: 204, description: "The topic is gone.", content: Content::Nothing }],
        problems: &[Code::ConfirmationRequired, Code::DiskFull],
    },
    pausing(
        Operation::PauseTopic,
        "/v2/topics/{topic}/pause",
        "pause_topic",
        TAG,
        ["Stop lending", "Messages are still taken, and what is on loan can be settled. Safe to repeat."],
        PAUSED,
        &[Code::DiskFull],
    ),
    pausing(
        Operation::ResumeTopic,
        "/v2/topics/{topic}/resume",
        "resume_topic",
        TAG,
        ["Lend again", "Safe to repeat."],
        RESUMED,
        &[Code::DiskFull],
    ),
];
