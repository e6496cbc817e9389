//! `driftq entity show`.

use anyhow::Result;
use driftq_api::v2::Entity;

use super::entity_of;
use crate::{
    Common,
    output::{self, printable},
    tenant::Tenant,
    when::Now,
};

#[derive(clap::Args)]
#[command(after_help = "An entity that was never raised has version 0.

Examples:
  driftq entity show order-7
  driftq entity show order-7 --tenant acme -o json
  driftq effect begin ship order-7 --expect order-7=3")]
pub(crate) struct Args {
    /// The entity
    entity: String,
    #[command(flatten)]
    tenant: Tenant,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let path = entity_of(&args.entity, &args.tenant);
    let entity: Entity<'static> = session.get(path.as_str()).await.map_err(|error| error.into_error())?;
    output::print_one(common.output, &entity, || {
        let name = printable(&entity.entity);
        match entity.raised_at {
            Some(at) => {
                format!("{name} is at version {}, raised {}\n", entity.version, Now::read().show(at))
            }
            None => format!("{name} is at version 0: it was never raised\n"),
        }
    })
}
