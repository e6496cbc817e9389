//! `driftq output delete`.

use anyhow::Result;
use driftq_api::v2::VersionDeleted;

use super::dataset_of;
use crate::{
    Common, confirm,
    output::{self, grouped, printable},
    suggest,
    tenant::Tenant,
};

#[derive(clap::Args)]
#[command(
    after_help = "The broker forgets where the outputs lie; what lies there is not touched. The version that is current \
cannot be deleted.

Examples:
  driftq output delete sales v1          # asks for the name
  driftq output delete sales v1 --yes    # for scripts"
)]
pub(crate) struct Args {
    /// The dataset
    dataset: String,
    /// The version
    version: String,
    #[command(flatten)]
    tenant: Tenant,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let what = format!("forget version {} of {} and all its outputs", args.version, args.dataset);
    confirm::by_name(args.yes, &what, &args.version)?;
    let path = args.tenant.of(dataset_of(&args.dataset).part(&args.version)).with("confirm", &args.version);
    let answer = session.delete(path.as_str()).await;
    let deleted: VersionDeleted =
        suggest::or_explain_output(&mut session, &args.dataset, Some(&args.version), answer).await?;
    output::print_one(common.output, &deleted, || {
        let (dataset, version) = (printable(&args.dataset), printable(&args.version));
        format!("version {version} of {dataset} is forgotten: {} output(s)\n", grouped(deleted.deleted))
    })
}
