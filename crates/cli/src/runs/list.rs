//! `driftq run list`.

use anyhow::Result;
use driftq_api::v2::Runs;

use crate::{
    Common,
    client::Path,
    output::{Format, grouped, printable},
    rows::{Amount, Pages, Rows},
    when::{Now, between},
};

#[derive(clap::Args)]
#[command(
    after_help = "A run is everything that carries the same --run-id: messages that were produced with it, and effects. OPEN \
counts messages that some group is not through with.

Examples:
  driftq run list --limit 20
  driftq run list --all -o ndjson | jq -r 'select(.dead_letters > 0) | .run_id'"
)]
pub(crate) struct Args {
    /// Only those of this tenant; the empty one is one, too
    #[arg(long, visible_alias = "tenant-id", value_name = "ID")]
    tenant: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let now = Now::read();
    let headings = ["RUN", "TENANT", "STARTED", "LASTED", "MESSAGES", "OPEN", "DEAD LETTERS", "EFFECTS"];
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), &headings);
    let mut pages =
        Pages::new(Path::of("/v2/runs").with_some("tenant_id", args.tenant.as_deref()), &args.amount);
    while let Some(path) = pages.next(rows.printed()) {
        let page: Runs<'static> = session.get(path.as_str()).await.map_err(|error| error.into_error())?;
        for run in &page.runs {
            rows.row(run, || {
                vec![
                    printable(&run.run_id),
                    if run.tenant_id.is_empty() { "-".to_owned() } else { printable(&run.tenant_id) },
                    now.show(run.started_at),
                    between(run.started_at, run.last_at),
                    grouped(run.messages),
                    grouped(run.open),
                    grouped(run.dead_letters),
                    grouped(run.effects),
                ]
            })?;
        }
        pages.turn(page.cursor);
    }
    rows.end("no run is known")?;
    pages.hint(common);
    Ok(())
}
