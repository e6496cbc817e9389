//! `driftq output seal`.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{Seal, VersionSealed};

use super::dataset_of;
use crate::{
    Common,
    output::{self, grouped, printable},
    suggest,
    tenant::Tenant,
};

#[derive(clap::Args)]
#[command(
    after_help = "Nothing moves in the version any more: a commit that tries is refused. It can still be cut over to, rolled \
back to, and deleted. A cut-over seals by itself.

Examples:
  driftq output seal sales v2"
)]
pub(crate) struct Args {
    /// The dataset
    dataset: String,
    /// The version
    version: String,
    #[command(flatten)]
    tenant: Tenant,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request =
        Seal { version: Cow::Borrowed(&args.version), tenant_id: Cow::Borrowed(&args.tenant.tenant) };
    let mut session = common.client()?.session();
    let answer = session.post(dataset_of(&args.dataset).word("seal").as_str(), &request).await;
    let sealed: VersionSealed<'static> =
        suggest::or_explain_output(&mut session, &args.dataset, Some(&args.version), answer).await?;
    output::print_one(common.output, &sealed, || {
        let (dataset, version) = (printable(&sealed.dataset), printable(&sealed.version));
        let when = if sealed.changed { "is sealed" } else { "was sealed already" };
        format!("version {version} of {dataset} {when}: {} output(s)\n", grouped(sealed.outputs))
    })
}
