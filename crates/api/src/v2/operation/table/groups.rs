//! Groups.

use super::topics::{PAUSED, RESUMED, pausing};
use super::{CONFIRM, CURSOR_AFTER_NAME, LIMIT};
use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Body, Content, Description, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Group, Groups, Seek, Sought};

const TAG: &str = "groups";

macro_rules! group {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            r#"{"topic":"orders","name":"billing","consumers":1,"seen_at":"2025-12-21T12:00:00Z","lag":2,"#,
            r#""in_flight":1,"retrying":1,"partitions":[{"partition":0,"lag":2,"in_flight":1,"retrying":1,"#,
            r#""acked_below":11}],"waiting":{"backoff":1},"members":[{"owner":"worker-1","kind":"stream","#,
            r#""in_flight":1}],"leases":[{"partition":0,"offset":12,"owner":"worker-1","attempt":1,"#,
            r#""leased_at":"2025-12-21T12:00:00Z","expires_at":"2025-12-21T12:00:30Z"}]}"#,
            $after
        )
    };
}

pub(super) static LINES: [Description; 6] = [
    Description {
        operation: Operation::ListGroups,
        method: Method::Get,
        path: "/v2/topics/{topic}/groups",
        id: "list_groups",
        tag: TAG,
        summary: "The groups of a topic",
        detail: "In order of their names.",
        query: &[LIMIT, CURSOR_AFTER_NAME],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(200, "One page.", Words::answer::<Groups>(group!(r#"{"groups":["#, "]}")))],
        problems: &[],
    },
    Description {
        operation: Operation::GetGroup,
        method: Method::Get,
        path: "/v2/topics/{topic}/groups/{group}",
        id: "get_group",
        tag: TAG,
        summary: "One group",
        detail: "What it has, what it has not, who reads, and why messages wait.",
        query: &[],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(200, "The group.", Words::answer::<Group>(group!("", "")))],
        problems: &[Code::GroupUnknown],
    },
    Description {
        operation: Operation::DeleteGroup,
        method: Method::Delete,
        path: "/v2/topics/{topic}/groups/{group}",
        id: "delete_group",
        tag: TAG,
        summary: "Forget a group",
        detail: "What it has acked is forgotten and what it holds becomes stale. Asks for the name once more.",
        query: &[CONFIRM],
        is_keyed: false,
        body: None,
        answers: &[Answer { status: 204, description: "The group is gone.", content: Content::Nothing }],
        problems: &[Code::GroupUnknown, Code::ConfirmationRequired, Code::DiskFull],
    },
    Description {
        operation: Operation::SeekGroup,
        method: Method::Post,
        path: "/v2/topics/{topic}/groups/{group}/seek",
        id: "seek_group",
        tag: TAG,
        summary: "Move a group",
        detail: "Everything before the place counts as acked and everything from it on as not; what is on loan \
                 becomes stale.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<Seek>(
            |body| told(Seek::from_json(body)),
            r#"{"to":{"time":"2025-12-21T12:00:00Z"}}"#,
        )),
        answers: &[Answer::json(
            200,
            "Where the group stands now.",
            Words::answer::<Sought>(r#"{"partitions":[{"partition":0,"next_offset":12,"lag":1}]}"#),
        )],
        problems: &[Code::GroupUnknown, Code::DiskFull],
    },
    pausing(
        Operation::PauseGroup,
        "/v2/topics/{topic}/groups/{group}/pause",
        "pause_group",
        TAG,
        ["Stop lending to a group", "What is on loan can be settled. Safe to repeat."],
        PAUSED,
        &[Code::GroupUnknown, Code::DiskFull],
    ),
    pausing(
        Operation::ResumeGroup,
        "/v2/topics/{topic}/groups/{group}/resume",
        "resume_group",
        TAG,
        ["Lend to a group again", "Safe to repeat."],
        RESUMED,
        &[Code::GroupUnknown, Code::DiskFull],
    ),
];
