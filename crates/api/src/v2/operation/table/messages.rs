//! Producing and looking.

use super::{CURSOR_AFTER_MESSAGE, LIMIT, text_parameter};
use crate::catalogue::Code;
use crate::v2::envelope::PARTITION_MAX;
use crate::v2::limits::{IDENTITY_BYTES_MAX, KEY_BYTES_MAX, OFFSET_MAX};
use crate::v2::operation::description::{
    Answer, Body, Content, Description, Forms, Parameter, Shape, Words, told,
};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Browsed, Cancelled, DeliveryState, Message, MessageState, Outcome, Produced, Retried};

const TAG: &str = "messages";

const PRODUCED: &str = r#"{"topic":"orders","partition":0,"offset":12,"duplicate":false}"#;

const BROWSED: &str = r#"{"messages":[{"topic":"orders","partition":0,"offset":12,"value":"hello","priority":0,"produced_at":"2025-12-21T12:00:00Z","origin":{"topic":"orders","incarnation":7,"partition":0,"offset":12}}],"cursor":"00000000000000000000000c","scanned":1}"#;

const STATE: &str = r#"{"topic":"orders","partition":0,"offset":12,"value":"hello","priority":0,"produced_at":"2025-12-21T12:00:00Z","origin":{"topic":"orders","incarnation":7,"partition":0,"offset":12},"cancelled":false,"groups":[{"group":"billing","state":"backoff","since":"2025-12-21T12:00:01Z","until":"2025-12-21T12:00:05Z","attempt":1,"last_error":"timed out","history":[{"attempt":1,"owner":"worker-1","error":"timed out","leased_at":"2025-12-21T12:00:00Z","ended_at":"2025-12-21T12:00:01Z"}]}]}"#;

pub(super) static LINES: [Description; 5] = [
    Description {
        operation: Operation::Produce,
        method: Method::Post,
        path: "/v2/topics/{topic}/messages",
        id: "produce",
        tag: TAG,
        summary: "Store one message or many",
        detail: "One JSON object stores one message. A JSON array, or one object per line as \
                 `application/x-ndjson`, stores up to 10000: the answer comes in the same form, with one result per \
                 message in order, when all that are stored are durable. A body that cannot be read refuses the whole \
                 batch and stores nothing of it. With an `Idempotency-Key`, one message has that idempotency key, \
                 and message n of a batch has it with `/n` behind it, counted from 0; a message that brings one of its \
                 own is refused.",
        query: &[],
        is_keyed: true,
        body: Some(Body {
            words: Words::request::<Message<'_>>(
                |body| told(Message::from_json(body)),
                r#"{"key":"user:1","value":"hello","priority":5,"delay_ms":1000,"envelope":{"run_id":"run-1","labels":{"model":"small"}}}"#,
            ),
            forms: Forms::OneOrMany,
            is_required: true,
        }),
        answers: &[
            Answer::json(
                201,
                "The message is stored and durable.",
                Words::answer::<Produced<'static>>(PRODUCED),
            ),
            Answer {
                status: 200,
                description: "One result per message, or for one message: it was stored before.",
                content: Content::Json(Words::answer::<Outcome<'static>>(PRODUCED), Forms::OneOrMany),
            },
        ],
        problems: &[
            Code::TenantDiffers,
            Code::DeadlineExceeded,
            Code::KeyInFlight,
            Code::KeyReused,
            Code::DiskFull,
            Code::RouterRefused,
        ],
    },
    Description {
        operation: Operation::Browse,
        method: Method::Get,
        path: "/v2/topics/{topic}/messages",
        id: "browse_messages",
        tag: TAG,
        summary: "Look through the messages that are kept",
        detail: "Needs no group and changes nothing. All conditions must hold. A condition on a label is written \
                 `label.<name>=<value>` and may be given once per label.",
        query: &[
            Parameter {
                name: "partition",
                is_required: false,
                description: "Only of this partition.",
                shape: Shape::Number(0, PARTITION_MAX),
            },
            Parameter {
                name: "from",
                is_required: false,
                description: "Only from this offset on.",
                shape: Shape::Number(0, OFFSET_MAX),
            },
            text_parameter!("key", KEY_BYTES_MAX, "Only with this key."),
            text_parameter!("run_id", IDENTITY_BYTES_MAX, "Only of this run."),
            text_parameter!("tenant_id", IDENTITY_BYTES_MAX, "Only of this tenant."),
            text_parameter!("idempotency_key", IDENTITY_BYTES_MAX, "Only with this idempotency key."),
            Parameter {
                name: "state",
                is_required: false,
                description: "Only in this state with at least one group.",
                shape: Shape::Words(|| DeliveryState::WORDS.map(|(word, _)| word).into()),
            },
            LIMIT,
            CURSOR_AFTER_MESSAGE,
        ],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "One page, by partition and offset. A page can be empty and still have a next one.",
            Words::answer::<Browsed<'static>>(BROWSED),
        )],
        problems: &[],
    },
    Description {
        operation: Operation::GetMessage,
        method: Method::Get,
        path: "/v2/topics/{topic}/messages/{partition}/{offset}",
        id: "get_message",
        tag: TAG,
        summary: "One message, and why it waits",
        detail: "For every group of the topic: where the message stands, since when, and its attempts so far.",
        query: &[],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(200, "The message.", Words::answer::<MessageState<'static>>(STATE))],
        problems: &[Code::MessageUnknown],
    },
    Description {
        operation: Operation::CancelMessage,
        method: Method::Delete,
        path: "/v2/topics/{topic}/messages/{partition}/{offset}",
        id: "cancel_message",
        tag: TAG,
        summary: "Cancel a message",
        detail: "No further attempt begins. A holder that is at work learns of it at its next heartbeat. Safe to repeat.",
        query: &[],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "The message is cancelled.",
            Words::answer::<Cancelled>(r#"{"cancelled":true,"running":["billing"]}"#),
        )],
        problems: &[Code::MessageUnknown, Code::DiskFull],
    },
    Description {
        operation: Operation::RetryMessage,
        method: Method::Post,
        path: "/v2/topics/{topic}/messages/{partition}/{offset}/retry",
        id: "retry_message",
        tag: TAG,
        summary: "Try a message again at once",
        detail: "Ends the backoff, or the time that a worker put it off for, in every group. The attempt counts like any \
                 other. A message that is not due yet, that a worker holds or that waits for an effect stays as it is. \
                 Safe to repeat.",
        query: &[],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "Its next attempt is due.",
            Words::answer::<Retried>(r#"{"groups":["billing"]}"#),
        )],
        problems: &[Code::MessageUnknown, Code::DiskFull],
    },
];
