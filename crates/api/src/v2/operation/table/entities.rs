//! Entities and their versions.

use super::{CONFIRM, CURSOR_AFTER_NAME, LIMIT, TENANT};
use crate::catalogue::Code;
use crate::v2::operation::description::{Answer, Description, Parameter, Words};
use crate::v2::operation::{Method, Operation};
use crate::v2::{Entities, Entity, EntityRemoved};

const fn line(
    (operation, method): (Operation, Method),
    path: &'static str,
    id: &'static str,
    [summary, detail]: [&'static str; 2],
    query: &'static [Parameter],
    answers: &'static [Answer],
    problems: &'static [Code],
) -> Description {
    Description {
        operation,
        method,
        path,
        id,
        tag: "entities",
        summary,
        detail,
        query,
        is_keyed: false,
        body: None,
        answers,
        problems,
    }
}

pub(super) static LINES: [Description; 3] = [
    line(
        (Operation::ListEntities, Method::Get),
        "/v2/entities",
        "list_entities",
        ["The entities of a tenant", "In order of their names, with their versions."],
        &[TENANT, LIMIT, CURSOR_AFTER_NAME],
        &[Answer::json(
            200,
            "One page.",
            Words::answer::<Entities<'static>>(
                r#"{"entities":[{"tenant_id":"","entity":"order-7","version":3,"raised_at":"2025-12-21T12:00:00Z"}]}"#,
            ),
        )],
        &[],
    ),
    line(
        (Operation::GetEntity, Method::Get),
        "/v2/entities/{entity}",
        "get_entity",
        [
            "The version of an entity",
            "What to give in `expect` of the next begin or commit. An entity that was never raised has version 0.",
        ],
        &[TENANT],
        &[Answer::json(
            200,
            "The entity.",
            Words::answer::<Entity<'static>>(
                r#"{"tenant_id":"","entity":"order-7","version":3,"raised_at":"2025-12-21T12:00:00Z"}"#,
            ),
        )],
        &[],
    ),
    line(
        (Operation::RemoveEntity, Method::Delete),
        "/v2/entities/{entity}",
        "remove_entity",
        [
            "Forget an entity",
            "Its version is 0 again, so that a caller that expects 0 is let through once more. This cannot be undone; \
             the name must be repeated in `confirm`.",
        ],
        &[TENANT, CONFIRM],
        &[Answer::json(200, "The entity is forgotten.", Words::answer::<EntityRemoved>(r#"{"version":3}"#))],
        &[Code::ConfirmationRequired, Code::EntityUnknown, Code::DiskFull],
    ),
];
