//! `driftq entity list`.

use anyhow::Result;
use driftq_api::v2::Entities;

use crate::{
    Common,
    client::Path,
    output::{Format, grouped, printable},
    rows::{Amount, Pages, Rows},
    tenant::Tenant,
    when::Now,
};

#[derive(clap::Args)]
#[command(
    after_help = "Those of one tenant; of nobody's in particular if --tenant is not given. An entity that was never raised has \
version 0 and is not listed.

Examples:
  driftq entity list --limit 20
  driftq entity list --tenant acme --all -o ndjson | jq -r 'select(.version > 9) | .entity'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    tenant: Tenant,
    #[command(flatten)]
    amount: Amount,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let now = Now::read();
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), &["ENTITY", "VERSION", "RAISED"]);
    let mut pages = Pages::new(args.tenant.of(Path::of("/v2/entities")), &args.amount);
    while let Some(path) = pages.next(rows.printed()) {
        let page: Entities<'static> = session.get(path.as_str()).await.map_err(|error| error.into_error())?;
        for entity in &page.entities {
            rows.row(entity, || {
                let raised = entity.raised_at.map_or_else(|| "-".to_owned(), |at| now.show(at));
                vec![printable(&entity.entity), grouped(entity.version), raised]
            })?;
        }
        pages.turn(page.cursor);
    }
    rows.end("no entity is known")?;
    pages.hint(common);
    Ok(())
}
