//! `driftq output list`.

use anyhow::Result;
use driftq_api::v2::{Datasets, Output, OutputMode, PartitionOutputs, VersionOutputs};
use serde::Serialize;

use super::{dataset_of, look};
use crate::{
    Common,
    client::{Path, Session},
    output::{Format, grouped, printable},
    rows::{Amount, Pages, Rows},
    suggest,
    tenant::Tenant,
    when::Now,
};

#[derive(clap::Args)]
#[command(
    after_help = "The more is named, the closer the look. VERSION may be `current`: the one that readers see, which is pinned \
for the whole list even if somebody cuts over meanwhile. PARTITION_KEY names a part of a version as the commit did.

Examples:
  driftq output list                              # datasets, and what is current
  driftq output list sales                        # its versions and cut-overs
  driftq output list sales v2 --limit 20
  driftq output list sales current -o ndjson --all | jq -r .location
  driftq output list sales v2 2030-01             # one part"
)]
pub(crate) struct Args {
    /// The dataset
    dataset: Option<String>,
    /// The version; `current` is the one that readers see
    version: Option<String>,
    /// The part of the version
    partition_key: Option<String>,
    #[command(flatten)]
    tenant: Tenant,
    #[command(flatten)]
    amount: Amount,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let session = common.client()?.session();
    match (&args.dataset, &args.version, &args.partition_key) {
        (None, ..) => datasets(common, session, args).await,
        (Some(dataset), None, _) => look::run(common, session, (dataset, &args.tenant), &args.amount).await,
        (Some(dataset), Some(version), part) => {
            let place = Place { tenant: &args.tenant, dataset, version, part: part.as_deref() };
            outputs(common, session, place, &args.amount).await
        }
    }
}

async fn datasets(common: &Common, mut session: Session, args: &Args) -> Result<()> {
    let mut rows =
        Rows::new(common.output.unwrap_or(Format::Table), &["DATASET", "CURRENT", "VERSIONS", "OUTPUTS"]);
    let mut pages = Pages::new(args.tenant.of(Path::of("/v2/outputs")), &args.amount);
    while let Some(path) = pages.next(rows.printed()) {
        let page: Datasets<'static> = session.get(path.as_str()).await.map_err(|error| error.into_error())?;
        for dataset in &page.datasets {
            rows.row(dataset, || {
                vec![
                    printable(&dataset.dataset),
                    dataset.current.as_deref().map_or_else(|| "-".to_owned(), printable),
                    grouped(dataset.versions),
                    grouped(dataset.outputs),
                ]
            })?;
        }
        pages.turn(page.cursor);
    }
    rows.end("no dataset has outputs")?;
    pages.hint(common);
    Ok(())
}

/// What is looked at.
#[derive(Clone, Copy)]
struct Place<'a> {
    tenant: &'a Tenant,
    dataset: &'a str,
    version: &'a str,
    part: Option<&'a str>,
}

impl Place<'_> {
    fn path(self) -> Path {
        let path = dataset_of(self.dataset).part(self.version);
        self.tenant.of(self.part.map_or_else(|| path.clone(), |part| path.clone().part(part)))
    }
}

/// An output with the names that the page says once.
#[derive(Serialize)]
struct Row<'a> {
    dataset: &'a str,
    version: &'a str,
    #[serde(flatten)]
    output: &'a Output<'a>,
}

async fn outputs(common: &Common, mut session: Session, place: Place<'_>, amount: &Amount) -> Result<()> {
    let now = Now::read();
    let headings = ["VERSION", "PARTITION KEY", "MODE", "LOCATION", "DIGEST", "COMMITTED", "BY MESSAGE"];
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), &headings);
    let mut pages = Pages::new(place.path(), amount);
    while let Some(path) = pages.next(rows.printed()) {
        let page = page(&mut session, place, &path).await?;
        for output in &page.outputs {
            let row = Row { dataset: &page.dataset, version: &page.version, output };
            rows.row(&row, || cells(&page.version, output, now))?;
        }
        pages.pin(Place { version: &page.version, ..place }.path());
        pages.turn(page.cursor);
    }
    rows.end("the version has no outputs")?;
    pages.hint(common);
    Ok(())
}

async fn page(session: &mut Session, place: Place<'_>, path: &Path) -> Result<VersionOutputs<'static>> {
    let Place { dataset, version, part, .. } = place;
    if part.is_none() {
        let answer = session.get(path.as_str()).await;
        return suggest::or_explain_output(session, dataset, Some(version), answer).await;
    }
    let answer = session.get(path.as_str()).await;
    let page: PartitionOutputs<'static> =
        suggest::or_explain_output(session, dataset, Some(version), answer).await?;
    let PartitionOutputs { dataset, version, outputs, cursor, .. } = page;
    Ok(VersionOutputs { dataset, version, outputs, cursor })
}

fn cells(version: &str, output: &Output<'_>, now: Now) -> Vec<String> {
    let mode = match (output.mode, &output.dedupe_key) {
        (OutputMode::Replace, _) => "replace".to_owned(),
        (OutputMode::Append, Some(key)) => format!("append {}", printable(key)),
        (OutputMode::Append, None) => "append".to_owned(),
    };
    let message = output.message.as_ref().map_or_else(
        || "-".to_owned(),
        |by| format!("{} {}/{} attempt {}", printable(&by.topic), by.partition, by.offset, by.attempt),
    );
    vec![
        printable(version),
        printable(&output.partition_key),
        mode,
        printable(&output.location),
        printable(&output.digest),
        now.tell(output.committed_at),
        message,
    ]
}
