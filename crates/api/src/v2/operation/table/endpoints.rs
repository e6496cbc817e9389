//! Endpoints, and deliveries to them.

use super::{CURSOR_AFTER_MESSAGE, CURSOR_AFTER_NAME, LIMIT};
use crate::catalogue::Code;
use crate::v2::limits::{DELIVERY_ID_BYTES_MAX, NAME_BYTES_MAX, OFFSET_MAX, WAIT_MS_MAX};
use crate::v2::operation::description::{Answer, Body, Description, Parameter, Shape, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{
    Deliveries, DeliverySpec, DeliveryTaken, ENDPOINT_NAME_BYTES_MAX, Endpoint, EndpointSpec, EndpointSwitch,
    Endpoints, SendState,
};

const TAG: &str = "deliveries";

macro_rules! endpoint {
    () => {
        r#"{"name":"shop","version":3,"spec":{"kind":"webhook","url":"https://shop.example/hooks","secrets":[{"env":"SHOP_SECRET"}]},"state":"enabled","created_at":"2025-12-21T12:00:00Z","updated_at":"2025-12-21T12:00:00Z"}"#
    };
}

const ONE: Answer = Answer::json(200, "The endpoint.", Words::answer::<Endpoint>(endpoint!()));

const fn switching(
    operation: Operation,
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
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
        body: Body::json(Words::request::<EndpointSwitch>(
            |body| told(EndpointSwitch::from_json(body)),
            r#"{"reason":"the receiver moves","by":"ann"}"#,
        )),
        answers: &[ONE],
        problems: &[Code::EndpointUnknown, Code::PreconditionFailed, Code::DiskFull],
    }
}

pub(super) static LINES: [Description; 8] = [
    Description {
        operation: Operation::PostDelivery,
        method: Method::Post,
        path: "/v2/deliveries",
        id: "post_delivery",
        tag: TAG,
        summary: "Send something to an endpoint",
        detail: "Stored as a message of the topic `deliveries.` and the endpoint's name, and sent by a connector. The \
                 same `delivery_id` again is the same delivery.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<DeliverySpec<'_>>(
            |body| told(DeliverySpec::from_json(body)),
            r#"{"delivery_id":"order-7-paid","endpoint":"shop","body":{"type":"order.paid","order":7}}"#,
        )),
        answers: &[
            Answer::json(
                201,
                "It is taken.",
                Words::answer::<DeliveryTaken<'static>>(
                    r#"{"delivery_id":"order-7-paid","endpoint":"shop","duplicate":false,"message":{"topic":"deliveries.shop","partition":0,"offset":12}}"#,
                ),
            ),
            Answer::json(
                200,
                "It had been taken before.",
                Words::answer::<DeliveryTaken<'static>>(
                    r#"{"delivery_id":"order-7-paid","endpoint":"shop","duplicate":true,"message":{"topic":"deliveries.shop","partition":0,"offset":12}}"#,
                ),
            ),
        ],
        problems: &[Code::EndpointUnknown, Code::KeyReused, Code::Overloaded, Code::DiskFull],
    },
    Description {
        operation: Operation::ListDeliveries,
        method: Method::Get,
        path: "/v2/deliveries",
        id: "list_deliveries",
        tag: TAG,
        summary: "The deliveries of an endpoint",
        detail: "Oldest first, with what came of every send. A page looks at 2,000 messages at most, so it may be short or \
                 empty and still have a cursor. What was delivered is listed for as long as the topic keeps it.",
        query: &[
            Parameter {
                name: "endpoint",
                is_required: true,
                description: "Of which endpoint.",
                shape: Shape::Text(1, ENDPOINT_NAME_BYTES_MAX),
            },
            Parameter {
                name: "topic",
                is_required: false,
                description: "On which topic; the endpoint's own if not given.",
                shape: Shape::Text(1, NAME_BYTES_MAX),
            },
            Parameter {
                name: "delivery_id",
                is_required: false,
                description: "Only the one with this id.",
                shape: Shape::Text(1, DELIVERY_ID_BYTES_MAX),
            },
            Parameter {
                name: "state",
                is_required: false,
                description: "Only in this state.",
                shape: Shape::Words(|| SendState::WORDS.iter().map(|(name, _)| *name).collect()),
            },
            LIMIT,
            CURSOR_AFTER_MESSAGE,
        ],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "One page.",
            Words::answer::<Deliveries<'static>>(
                r#"{"deliveries":[{"delivery_id":"order-7-paid","endpoint":"shop","state":"delivered","created_at":"2025-12-21T12:00:00Z","message":{"topic":"deliveries.shop","partition":0,"offset":12},"attempts":[{"attempt":1,"at":"2025-12-21T12:00:00Z","took_ms":31,"outcome":"delivered","status":204}]}],"scanned":1}"#,
            ),
        )],
        problems: &[Code::EndpointUnknown],
    },
    Description {
        operation: Operation::ListEndpoints,
        method: Method::Get,
        path: "/v2/endpoints",
        id: "list_endpoints",
        tag: TAG,
        summary: "The endpoints",
        detail: "With `revision` and `wait_ms`, the call waits until something is other than the caller has seen it.",
        query: &[
            Parameter {
                name: "revision",
                is_required: false,
                description: "What the caller has seen.",
                shape: Shape::Number(0, OFFSET_MAX),
            },
            Parameter {
                name: "wait_ms",
                is_required: false,
                description: "How long to wait for another revision.",
                shape: Shape::Number(0, WAIT_MS_MAX),
            },
            LIMIT,
            CURSOR_AFTER_NAME,
        ],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "One page.",
            Words::answer::<Endpoints>(concat!(r#"{"revision":3,"endpoints":["#, endpoint!(), "]}")),
        )],
        problems: &[],
    },
    Description {
        operation: Operation::GetEndpoint,
        method: Method::Get,
        path: "/v2/endpoints/{endpoint}",
        id: "get_endpoint",
        tag: TAG,
        summary: "One endpoint",
        detail: "Its secrets are shown encrypted, or where a connector finds them.",
        query: &[],
        is_keyed: false,
        body: None,
        answers: &[ONE],
        problems: &[Code::EndpointUnknown],
    },
    Description {
        operation: Operation::PutEndpoint,
        method: Method::Put,
        path: "/v2/endpoints/{endpoint}",
        id: "put_endpoint",
        tag: TAG,
        summary: "Make or change an endpoint",
        detail: "In the place of what it was; whether it is enabled stays. Its topic is made with it. The server \
                 never sees a secret: it is told where connectors find it, or gets it encrypted for them.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<EndpointSpec>(
            |body| told(EndpointSpec::from_json(body)),
            r#"{"kind":"webhook","url":"https://shop.example/hooks","secrets":[{"env":"SHOP_SECRET"}]}"#,
        )),
        answers: &[ONE],
        problems: &[Code::PreconditionFailed, Code::LimitReached, Code::DiskFull],
    },
    Description {
        operation: Operation::DeleteEndpoint,
        method: Method::Delete,
        path: "/v2/endpoints/{endpoint}",
        id: "delete_endpoint",
        tag: TAG,
        summary: "Remove an endpoint",
        detail: "Its topic, and with it what was not delivered, stays until it is deleted.",
        query: &[],
        is_keyed: false,
        body: None,
        answers: &[ONE],
        problems: &[Code::EndpointUnknown],
    },
    switching(
        Operation::DisableEndpoint,
        "/v2/endpoints/{endpoint}/disable",
        "disable_endpoint",
        [
            "Hold the deliveries of an endpoint",
            "They wait until it is enabled again. Connectors do this to one that is gone.",
        ],
    ),
    switching(
        Operation::EnableEndpoint,
        "/v2/endpoints/{endpoint}/enable",
        "enable_endpoint",
        ["Let the deliveries of an endpoint go out again", "What waited goes out at once."],
    ),
];
