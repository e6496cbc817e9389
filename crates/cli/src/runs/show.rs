//! `driftq run show`.

use anyhow::Result;
use driftq_api::v2::Run;

use super::{story, tree};
use crate::{
    Common,
    client::Path,
    output,
    rows::{Amount, Pages},
    tenant::Tenant,
};

#[derive(clap::Args)]
#[command(
    after_help = "Steps are indented under the step that caused them. Times with a plus count from the start of the run.

Examples:
  driftq produce orders 'plan' --run-id r-7 --step-id plan
  driftq run show r-7
  driftq run show r-7 -o json | jq '.steps[] | {step_id, children}'"
)]
pub(crate) struct Args {
    /// The run, as messages and effects name it
    run_id: String,
    #[command(flatten)]
    tenant: Tenant,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let mut whole: Option<Run<'static>> = None;
    let mut pages = Pages::new(args.tenant.of(Path::of("/v2/runs").part(&args.run_id)), &Amount::ALL);
    while let Some(path) = pages.next(0) {
        let mut page: Run<'static> = session.get(path.as_str()).await.map_err(|error| error.into_error())?;
        pages.turn(page.cursor.take());
        match &mut whole {
            Some(whole) => {
                whole.summary = page.summary;
                tree::join(&mut whole.steps, page.steps);
            }
            None => whole = Some(page),
        }
    }
    let Some(mut run) = whole else { return Ok(()) };
    tree::link(&mut run.steps);
    output::print_one(common.output, &run, || story::text(&run))
}
