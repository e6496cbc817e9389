//! The table itself, by chapter.

mod audit;
mod cluster;
mod commit;
mod credentials;
mod dlq;
mod effects;
mod endpoints;
mod entities;
mod events;
mod exports;
mod groups;
mod keys;
mod leases;
mod messages;
mod outputs;
mod runs;
mod server;
mod sessions;
mod tenants;
mod topics;

use super::description::{Description, Parameter, Shape};
use crate::v2::limits::{CURSOR_BYTES_MAX, IDENTITY_BYTES_MAX, NAME_BYTES_MAX, PLACE_BYTES_MAX};
use crate::v2::page::LIMIT_MAX;

/// Every line; the busiest calls first, because that is where the search for a path begins.
pub(super) fn all() -> impl Iterator<Item = &'static Description> {
    let chapters = [
        &leases::LINES[..],
        &messages::LINES[..],
        &commit::LINES[..],
        &effects::LINES[..],
        &topics::LINES[..],
        &groups::LINES[..],
        &dlq::LINES[..],
        &outputs::LINES[..],
        &entities::LINES[..],
        &runs::LINES[..],
        &endpoints::LINES[..],
        &exports::LINES[..],
        &credentials::LINES[..],
        &keys::LINES[..],
        &tenants::LINES[..],
        &audit::LINES[..],
        &events::LINES[..],
        &sessions::LINES[..],
        &cluster::LINES[..],
        &server::LINES[..],
    ];
    chapters.into_iter().flatten()
}

const LIMIT: Parameter = Parameter {
    name: "limit",
    is_required: false,
    description: "Most items on the page; 100 if not given.",
    shape: Shape::Number(1, LIMIT_MAX as u64),
};

const CURSOR_AFTER_NAME: Parameter = Parameter {
    name: "cursor",
    is_required: false,
    description: "The cursor of the page before, unchanged.",
    shape: Shape::Matching(2, CURSOR_BYTES_MAX, "^([0-9a-f]{2})+$"),
};

const CURSOR_AFTER_MESSAGE: Parameter = Parameter {
    name: "cursor",
    is_required: false,
    description: "The cursor of the page before, unchanged.",
    shape: Shape::Matching(24, 24, "^[0-9a-f]{24}$"),
};

const CURSOR_AFTER_PLACE: Parameter = Parameter {
    name: "cursor",
    is_required: false,
    description: "The cursor of the page before, unchanged.",
    shape: Shape::Matching(2, 2 * PLACE_BYTES_MAX, "^([0-9a-f]{2})+$"),
};

const TENANT: Parameter = Parameter {
    name: "tenant_id",
    is_required: false,
    description: "The tenant; no tenant if not given.",
    shape: Shape::Text(0, IDENTITY_BYTES_MAX),
};

const CONFIRM: Parameter = Parameter {
    name: "confirm",
    is_required: false,
    description: "The name of what is to be deleted, once more. Without it nothing is deleted.",
    shape: Shape::Text(1, NAME_BYTES_MAX),
};

/// An optional text of a query.
macro_rules! text_parameter {
    ($name:literal, $max:expr, $description:literal) => {
        crate::v2::operation::description::Parameter {
            name: $name,
            is_required: false,
            description: $description,
            shape: crate::v2::operation::description::Shape::Text(1, $max),
        }
    };
}
use text_parameter;
