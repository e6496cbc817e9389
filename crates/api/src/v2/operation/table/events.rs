//! What changes, told as it does.

use crate::catalogue::Code;
use crate::v2::Event;
use crate::v2::operation::description::{Answer, Content, Description, Words};
use crate::v2::operation::{Method, Operation};

const EVENT: &str = r#"{"sample":{"at":"2025-12-21T12:00:00Z","epoch":3,"produced":1000,"delivered":990,"redelivered":4,"acked":980,"nacked":4,"buried":1,"effects_executed":40,"effects_replayed":2,"commits":12,"written_bytes":4194304,"topics":1,"messages":20,"bytes":5120,"lag":20,"in_flight":6,"retrying":1,"scheduled":0,"dead_letters":1,"oldest_at":"2025-12-21T11:59:30Z","effects_in_progress":1,"effects_retryable":0,"effects_unknown":0,"streams":2,"segments":1},"history":{"every_ms":10000,"samples":[]},"topics":[{"name":"orders","messages":20,"bytes":5120,"next_offset":1000,"lag":20,"in_flight":6,"retrying":1,"scheduled":0,"consumers":2,"groups":1,"paused":false,"oldest_at":"2025-12-21T11:59:30Z"}],"left_out":0}"#;

pub(super) static LINES: [Description; 1] = [Description {
    operation: Operation::StreamEvents,
    method: Method::Get,
    path: "/v2/events",
    id: "stream_events",
    tag: "server",
    summary: "What changes, as it does",
    detail: "Server-sent events: the first one says how the server does, how it did in the last hour and what topics there \
             are; those that follow say what has changed, at most one in a second. A comment comes when nothing changes \
             for a while. The stream ends with the key that it was opened with.",
    query: &[],
    is_keyed: false,
    body: None,
    answers: &[Answer {
        status: 200,
        description: "Events, for as long as the connection lives.",
        content: Content::Events(Words::answer::<Event>(EVENT)),
    }],
    problems: &[Code::LimitReached],
}];
