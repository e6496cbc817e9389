//! Exports that connectors write.

use super::{CURSOR_AFTER_MESSAGE, LIMIT};
use crate::catalogue::Code;
use crate::v2::limits::EXPORT_ID_BYTES_MAX;
use crate::v2::operation::description::{Answer, Body, Description, Parameter, Shape, Words, told};
use crate::v2::operation::{Method, Operation};
use crate::v2::{EXPORT_PLACE_BYTES_MAX, ExportSpec, ExportState, ExportTaken, Exports};

const TAG: &str = "exports";

pub(super) static LINES: [Description; 2] = [
    Description {
        operation: Operation::PostExport,
        method: Method::Post,
        path: "/v2/exports",
        id: "post_export",
        tag: TAG,
        summary: "Have a selection exported into files",
        detail: "Stored as a message of the topic `exports.` and the place's name, and written by a connector that knows \
                 the place. The same `export_id` again is the same export. What is exported is what the connector may \
                 read.",
        query: &[],
        is_keyed: false,
        body: Body::json(Words::request::<ExportSpec>(
            |body| told(ExportSpec::from_json(body)),
            r#"{"export_id":"orders-2025-12","place":"lake","selection":{"kind":"topic","topic":"orders"},"format":"parquet"}"#,
        )),
        answers: &[
            Answer::json(
                201,
                "It is taken.",
                Words::answer::<ExportTaken<'static>>(
                    r#"{"export_id":"orders-2025-12","place":"lake","duplicate":false,"message":{"topic":"exports.lake","partition":0,"offset":3}}"#,
                ),
            ),
            Answer::json(
                200,
                "It had been taken before.",
                Words::answer::<ExportTaken<'static>>(
                    r#"{"export_id":"orders-2025-12","place":"lake","duplicate":true,"message":{"topic":"exports.lake","partition":0,"offset":3}}"#,
                ),
            ),
        ],
        problems: &[Code::TopicUnknown, Code::KeyReused, Code::Overloaded, Code::DiskFull],
    },
    Description {
        operation: Operation::ListExports,
        method: Method::Get,
        path: "/v2/exports",
        id: "list_exports",
        tag: TAG,
        summary: "The exports to a place",
        detail: "Oldest first, with where their manifests lie. A page looks at 2,000 messages at most, so it may be short \
                 or empty and still have a cursor. What is done is listed for as long as the topic keeps it.",
        query: &[
            Parameter {
                name: "place",
                is_required: true,
                description: "To which place.",
                shape: Shape::Text(1, EXPORT_PLACE_BYTES_MAX),
            },
            Parameter {
                name: "export_id",
                is_required: false,
                description: "Only the one with this id.",
                shape: Shape::Text(1, EXPORT_ID_BYTES_MAX),
            },
            Parameter {
                name: "state",
                is_required: false,
                description: "Only in this state.",
                shape: Shape::Words(|| ExportState::WORDS.iter().map(|(name, _)| *name).collect()),
            },
            LIMIT,
            CURSOR_AFTER_MESSAGE,
        ],
        is_keyed: false,
        body: None,
        answers: &[Answer::json(
            200,
            "One page.",
            Words::answer::<Exports<'static>>(
                r#"{"exports":[{"export_id":"orders-2025-12","place":"lake","state":"done","created_at":"2025-12-21T12:00:00Z","message":{"topic":"exports.lake","partition":0,"offset":3},"location":"s3://lake/orders-2025-12/manifest-6b86.json","digest":"sha256:6b86","rows":1000,"bytes":48128,"parts":1}],"scanned":1}"#,
            ),
        )],
        problems: &[Code::TopicUnknown],
    },
];
