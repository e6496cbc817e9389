//! Clearing away what exports staged that did not end. Only the staging folder is touched: parts and manifests are not.

use driftq_api::Code;
use driftq_api::v2::{EffectGet, EffectState, is_export_id};
use driftq_client::Client;
use serde::Serialize;

use super::SCOPE;
use super::error::ExportError;
use super::pin::{self, plan_name};
use super::place::{Place, PlaceUrl, STAGING};

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Files that are gone.
    pub removed: u64,
    /// Exports that a process runs now: what they stage is left alone.
    pub live: Vec<String>,
}

/// Removes what was staged at a place by attempts that no process carries on.
///
/// # Errors
/// If the server or the place cannot be asked.
pub async fn sweep(client: &Client, place: &PlaceUrl, tenant_id: &str) -> Result<Swept, ExportError> {
    let place = Place::open(place)?;
    let mut swept = Swept::default();
    for folder in place.list(STAGING).await? {
        // Behind the id it may say which tenant's it is; the plan has the tenant's name.
        let id = folder.split_once('@').map_or(&*folder, |(id, _)| id);
        if !is_export_id(id) {
            continue;
        }
        // What is there now was staged by attempts that the record below knows, or that are over.
        let staged = place.list(&format!("{STAGING}/{folder}")).await?;
        let plan = pin::read(&place, &folder).await?;
        let tenant_id = plan.as_ref().map_or(tenant_id, |plan| &plan.tenant_id);
        let standing = standing(client, tenant_id, id).await?;
        let is_over = |epoch: u64| match standing {
            Standing::Live { epoch: live } => epoch < live,
            Standing::Open { epoch: last } => epoch <= last,
            Standing::Over => true,
        };
        for name in staged.iter().filter(|name| name.parse().is_ok_and(is_over)) {
            swept.removed += place.remove(&format!("{STAGING}/{folder}/{name}")).await?;
        }
        match standing {
            Standing::Live { .. } => swept.live.push(id.to_owned()),
            // The next attempt reads what this one meant to read.
            Standing::Open { .. } => {}
            Standing::Over => {
                swept.removed += place.remove(&plan_name(&folder)).await?;
                swept.removed += place.remove(&format!("{STAGING}/{folder}")).await?;
            }
        }
    }
    Ok(swept)
}

/// Where an export stands.
#[derive(Clone, Copy, Debug)]
enum Standing {
    /// A process runs it, under the lease of this epoch.
    Live { epoch: u64 },
    /// No process runs it, and the next one may. This was the last epoch.
    Open { epoch: u64 },
    /// It has ended, or was forgotten.
    Over,
}

async fn standing(client: &Client, tenant_id: &str, id: &str) -> Result<Standing, ExportError> {
    let get = EffectGet { tenant_id: tenant_id.into(), scope: SCOPE.into(), key: id.into() };
    match client.effect_record(&get).await {
        Ok(record) => Ok(match record.state {
            EffectState::InProgress if record.lease_live == Some(true) => {
                Standing::Live { epoch: record.epoch }
            }
            EffectState::InProgress | EffectState::FailedRetryable | EffectState::Unknown => {
                Standing::Open { epoch: record.epoch }
            }
            EffectState::Succeeded | EffectState::FailedFinal => Standing::Over,
        }),
        Err(error) if error.code() == Some(Code::EffectUnknown) => Ok(Standing::Over),
        Err(error) => Err(error.into()),
    }
}
