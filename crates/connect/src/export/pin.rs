//! The bounds of a selection, filled in once for all attempts of an export.
//!
//! They are written down beside the staged parts before anything is read. An attempt that comes after a killed one finds
//! them, reads the same range, makes the same bytes, and finds the parts that are there already under the same names.

use bytes::Bytes;
use driftq_api::Moment;
use driftq_api::v2::{VERSION_CURRENT, VersionOutputs};
use driftq_client::{Client, escape};
use serde::{Deserialize, Serialize};

use super::error::ExportError;
use super::pages::end_of;
use super::place::{Place, STAGING};
use super::selection::Selection;

/// What is put in front of a topic's name for its dead letters.
const LETTERS_PREFIX: &str = "dlq.";

/// What was decided when an export first began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Of which export; one whose id was used for another before is not this one.
    pub(super) request_hash: String,
    /// Whose it is; may be empty.
    pub(super) tenant_id: String,
    /// What is read, with all bounds.
    pub(super) selection: Selection,
}

/// Where the plan of an export lies.
pub(super) fn plan_name(folder: &str) -> String {
    format!("{STAGING}/{folder}/plan.json")
}

/// The plan of an export, if one was made.
pub(super) async fn read(place: &Place, folder: &str) -> Result<Option<Plan>, ExportError> {
    let bytes = place.read(&plan_name(folder)).await?;
    // One that does not parse was not written by an export, and is as good as none.
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// The plan that is there, or the one that is given, written down.
pub(super) async fn settle(
    place: &Place,
    (folder, scratch): (&str, &str),
    own: Plan,
) -> Result<Selection, ExportError> {
    let name = plan_name(folder);
    let bytes = serde_json::to_vec(&own).map_err(|error| ExportError::Encode(error.to_string()))?;
    if place.create(scratch, &name, Bytes::from(bytes.clone())).await? {
        return Ok(own.selection);
    }
    match read(place, folder).await? {
        Some(plan) if plan.request_hash == own.request_hash => Ok(plan.selection),
        // It belongs to an export that was forgotten since.
        _ => {
            place.remove(&name).await?;
            place.create(scratch, &name, Bytes::from(bytes)).await?;
            Ok(own.selection)
        }
    }
}

/// The selection with all bounds. `now` is the moment at which the export began, by the server's clock.
pub(super) async fn pinned(
    client: &Client,
    selection: &Selection,
    tenant_id: &str,
    now: Moment,
) -> Result<Selection, ExportError> {
    Ok(match selection.clone() {
        Selection::Topic { topic, partition, from, to } => {
            let end = client.topic(&topic).await?.next_offset;
            let to = Some(to.map_or(end, |to| to.min(end)));
            Selection::Topic { topic, partition, from: Some(from.unwrap_or(0)), to }
        }
        Selection::DeadLetters { topic, to } => {
            // The topic itself must be there, for a slip of the pen is not an export of nothing.
            client.topic(&topic).await?;
            let end = end_of(client, &format!("{LETTERS_PREFIX}{topic}")).await?.unwrap_or(0);
            Selection::DeadLetters { topic, to: Some(to.map_or(end, |to| to.min(end))) }
        }
        Selection::Effects { state, scope, before } => {
            Selection::Effects { state, scope, before: Some(before.map_or(now, |before| before.min(now))) }
        }
        Selection::Dataset { dataset, version: None } => {
            let tenant = if tenant_id.is_empty() {
                String::new()
            } else {
                format!("&tenant_id={}", escape(tenant_id))
            };
            let path = format!("/v2/outputs/{}/{VERSION_CURRENT}?limit=1{tenant}", escape(&dataset));
            let found: VersionOutputs<'static> = client.get(&path).await?;
            Selection::Dataset { dataset, version: Some(found.version.into_owned()) }
        }
        bounded @ (Selection::Run { .. } | Selection::Dataset { .. } | Selection::Query { .. }) => bounded,
    })
}
