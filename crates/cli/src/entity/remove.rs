//! `driftq entity remove`.

use anyhow::Result;
use driftq_api::v2::EntityRemoved;

use super::entity_of;
use crate::{
    Common, confirm,
    output::{self, printable},
    tenant::Tenant,
};

#[derive(clap::Args)]
#[command(
    after_help = "Its version is 0 again: whoever expects that is let through once more. Remove what nobody asks for any more.

Examples:
  driftq entity remove order-7          # asks for the name
  driftq entity remove order-7 --yes    # for scripts"
)]
pub(crate) struct Args {
    /// The entity
    entity: String,
    #[command(flatten)]
    tenant: Tenant,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let what = format!("forget entity {} and its version", args.entity);
    confirm::by_name(args.yes, &what, &args.entity)?;
    let path = entity_of(&args.entity, &args.tenant).with("confirm", &args.entity);
    let removed: EntityRemoved = session.delete(path.as_str()).await.map_err(|error| error.into_error())?;
    output::print_one(common.output, &removed, || {
        format!("{} is forgotten: it was at version {}\n", printable(&args.entity), removed.version)
    })
}
