//! `driftq output …`: where the results of work lie, and which version readers see.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{
    CurrentVersion, CutOver, Dataset, DatasetSummary, Datasets, Output, OutputMode, PastVersion, RollBack,
    Seal, VersionDeleted, VersionOutputs, VersionSealed, VersionSummary,
};
use serde::Serialize;

use crate::{
    Amount, Columns, Common, Exit, Fault, Format, Pages, Path, Rows, Subject, args::Tenant, confirm,
    description, grouped, or_dash, printable, section, table, yes_or,
};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List datasets, the versions of one, or the outputs of a version
    List(ListArgs),
    /// Let readers of a dataset see a version from now on
    #[command(after_help = "Readers of `current` see the old version whole or the new one whole, never a \
mixture. From then on nothing moves in it any more: it is sealed. The version that is current already is no error.

Examples:
  driftq output cutover sales v2
  driftq output cutover sales v2 --expect v1      # only if v1 is still current")]
    Cutover {
        /// The dataset
        dataset: String,
        /// The version that becomes current
        version: String,
        /// Only if this one is current now
        #[arg(long, value_name = "VERSION")]
        expect: Option<String>,
        #[command(flatten)]
        tenant: Tenant,
    },
    /// Let readers of a dataset see the version before again
    #[command(after_help = "Goes back by one cut-over. --from makes it safe to repeat: the same call again \
goes back once. Without it, the version that is current is read first.

Examples:
  driftq output rollback sales --from v2
  driftq output rollback sales")]
    Rollback {
        /// The dataset
        dataset: String,
        /// The version that is current and should not be
        #[arg(long, value_name = "VERSION")]
        from: Option<String>,
        #[command(flatten)]
        tenant: Tenant,
    },
    /// Let nothing move in a version any more
    #[command(after_help = "Nothing moves in the version any more: a commit that tries is refused. It can \
still be cut over to, rolled back to, and deleted. A cut-over seals by itself.

Examples:
  driftq output seal sales v2")]
    Seal(VersionName),
    /// Forget a version of a dataset
    #[command(after_help = "The broker forgets where the outputs lie; what lies there is not touched. The \
version that is current cannot be deleted.

Examples:
  driftq output delete sales v1          # asks for the name
  driftq output delete sales v1 --yes    # for scripts")]
    Delete {
        #[command(flatten)]
        name: VersionName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(clap::Args)]
#[command(after_help = "The more is named, the closer the look. VERSION may be `current`: the one that \
readers see, which is pinned for the whole list even if an operator cuts over meanwhile. PARTITION_KEY names a part of a \
version as the commit did.

Examples:
  driftq output list                              # datasets, and what is current
  driftq output list sales                        # its versions and cut-overs
  driftq output list sales v2 --limit 20
  driftq output list sales current -o ndjson --all | jq -r .location
  driftq output list sales v2 2030-01             # one part")]
pub(crate) struct ListArgs {
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

#[derive(clap::Args)]
pub(crate) struct VersionName {
    /// The dataset
    dataset: String,
    /// The version
    version: String,
    #[command(flatten)]
    tenant: Tenant,
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List(args) => match (&args.dataset, &args.version) {
            (None, _) => {
                let first = args.tenant.of(Path::of("/v2/outputs"));
                let part = |page: Datasets<'static>| (page.datasets, page.cursor);
                let nothing = "no dataset has outputs";
                common.caller()?.list(common, (first, &args.amount), (DATASETS, nothing), part).await
            }
            (Some(dataset), None) => versions(common, dataset, args).await,
            (Some(dataset), Some(version)) => outputs(common, dataset, version, args).await,
        },
        Command::Cutover { dataset, version, expect, tenant } => {
            let request = CutOver {
                version: Cow::Borrowed(version),
                expect: expect.as_deref().map(Cow::Borrowed),
                tenant_id: Cow::Borrowed(&tenant.tenant),
            };
            let mut caller = common.about(Subject::Output(dataset, Some(version)))?;
            common.show(&caller.post(path(dataset).word("cutover"), &request).await?, current)
        }
        Command::Rollback { dataset, from, tenant } => {
            let from = match from {
                Some(version) => version.clone(),
                None => current_version(common, dataset, tenant).await?,
            };
            let request = RollBack { from: Cow::Borrowed(&from), tenant_id: Cow::Borrowed(&tenant.tenant) };
            let mut caller = common.about(Subject::Output(dataset, Some(&from)))?;
            common.show(&caller.post(path(dataset).word("rollback"), &request).await?, current)
        }
        Command::Seal(VersionName { dataset, version, tenant }) => {
            let request = Seal { version: Cow::Borrowed(version), tenant_id: Cow::Borrowed(&tenant.tenant) };
            let mut caller = common.about(Subject::Output(dataset, Some(version)))?;
            let sealed: VersionSealed<'static> = caller.post(path(dataset).word("seal"), &request).await?;
            common.show(&sealed, |sealed| {
                let (dataset, version) = (printable(&sealed.dataset), printable(&sealed.version));
                let when = if sealed.changed { "is sealed" } else { "was sealed already" };
                format!("version {version} of {dataset} {when}: {} output(s)\n", grouped(sealed.outputs))
            })
        }
        Command::Delete { name, yes } => delete(common, name, *yes).await,
    }
}

/// `/v2/outputs/{dataset}`.
fn path(dataset: &str) -> Path {
    Path::of("/v2/outputs").part(dataset)
}

const DATASETS: Columns<DatasetSummary<'static>> = &[
    ("DATASET", |dataset, _| printable(&dataset.dataset)),
    ("CURRENT", |dataset, _| or_dash(dataset.current.as_deref().map(printable))),
    ("VERSIONS", |dataset, _| grouped(dataset.versions)),
    ("OUTPUTS", |dataset, _| grouped(dataset.outputs)),
];

/// One dataset: its versions, and what its readers saw when.
async fn versions(common: &Common, name: &str, args: &ListArgs) -> Result<()> {
    let mut caller = common.about(Subject::Output(name, None))?;
    let mut whole: Option<Dataset<'static>> = None;
    let mut pages = Pages::new(args.tenant.of(path(name)), &args.amount);
    while let Some(path) = pages.next(whole.as_ref().map_or(0, |whole| whole.versions.len() as u64)) {
        let mut page: Dataset<'static> = caller.get(path).await?;
        pages.turn(page.cursor.take());
        match &mut whole {
            Some(whole) => whole.versions.extend(page.versions),
            None => whole = Some(page),
        }
    }
    let Some(dataset) = whole else { return Ok(()) };
    common.show(&dataset, |dataset| {
        let is_current = |version: &VersionSummary<'_>| dataset.current.as_deref() == Some(&*version.version);
        let versions: Vec<_> =
            dataset.versions.iter().map(|version| (version.clone(), is_current(version))).collect();
        let below = format!("\n{}{}", table(VERSIONS, &versions), section(HISTORY, &dataset.history));
        description(DATASET, dataset) + &below
    })?;
    pages.hint(common);
    Ok(())
}

const DATASET: Columns<Dataset<'static>> = &[
    ("dataset", |dataset, _| printable(&dataset.dataset)),
    ("current", |dataset, now| match (&dataset.current, dataset.cut_over_at) {
        (Some(version), Some(at)) => format!("{}, since {}", printable(version), now.show(at)),
        (Some(version), None) => printable(version),
        (None, _) => "nothing: `driftq output cutover` lets readers see a version".to_owned(),
    }),
];

/// A version, and whether it is the current one.
const VERSIONS: Columns<(VersionSummary<'static>, bool)> = &[
    ("VERSION", |(version, _), _| printable(&version.version)),
    ("OUTPUTS", |(version, _), _| grouped(version.outputs)),
    ("LAST COMMIT", |(version, _), now| now.show(version.updated_at)),
    ("SEALED", |(version, _), _| yes_or(version.sealed, "-").to_owned()),
    ("CURRENT", |(_, is_current), _| yes_or(*is_current, "-").to_owned()),
];

/// Before the first cut-over nothing was current, and never became so.
const HISTORY: Columns<PastVersion<'static>> = &[
    ("CURRENT BEFORE", |past, _| past.version.as_deref().map_or_else(|| "nothing".to_owned(), printable)),
    ("SINCE", |past, now| match past.version {
        Some(_) => now.show(past.at),
        None => "the beginning".to_owned(),
    }),
];

/// An output with the names that the page says once.
#[derive(Serialize)]
struct Row {
    dataset: Cow<'static, str>,
    version: Cow<'static, str>,
    #[serde(flatten)]
    output: Output<'static>,
}

const OUTPUTS: Columns<Row> = &[
    ("VERSION", |row, _| printable(&row.version)),
    ("PARTITION KEY", |row, _| printable(&row.output.partition_key)),
    ("MODE", |row, _| match (row.output.mode, &row.output.dedupe_key) {
        (OutputMode::Replace, _) => "replace".to_owned(),
        (OutputMode::Append, Some(key)) => format!("append {}", printable(key)),
        (OutputMode::Append, None) => "append".to_owned(),
    }),
    ("LOCATION", |row, _| printable(&row.output.location)),
    ("DIGEST", |row, _| printable(&row.output.digest)),
    ("COMMITTED", |row, now| now.tell(row.output.committed_at)),
    ("BY MESSAGE", |row, _| {
        or_dash(row.output.message.as_ref().map(|by| {
            format!("{} {}/{} attempt {}", printable(&by.topic), by.partition, by.offset, by.attempt)
        }))
    }),
];

/// The outputs of a version, or of a part of it.
async fn outputs(common: &Common, dataset: &str, version: &str, args: &ListArgs) -> Result<()> {
    let path_of = |version: &str| {
        let path = path(dataset).part(version);
        args.tenant.of(args.partition_key.iter().fold(path, |path, key| path.part(key)))
    };
    let mut caller = common.about(Subject::Output(dataset, Some(version)))?;
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), OUTPUTS);
    let mut pages = Pages::new(path_of(version), &args.amount);
    while let Some(path) = pages.next(rows.printed()) {
        let VersionOutputs { dataset, version, outputs, cursor } = caller.get(path).await?;
        for output in outputs {
            let row = Row { dataset: dataset.clone(), version: version.clone(), output };
            rows.row(&row, &row)?;
        }
        // Whatever was current when the list began is listed to its end.
        pages.pin(path_of(&version));
        pages.turn(cursor);
    }
    rows.end("the version has no outputs")?;
    pages.hint(common);
    Ok(())
}

async fn current_version(common: &Common, name: &str, tenant: &Tenant) -> Result<String> {
    let path = tenant.of(path(name)).with_number("limit", Some(1));
    let dataset: Dataset<'static> = common.about(Subject::Output(name, None))?.get(path).await?;
    let nothing = || {
        let message = format!("no version of {name} is current: there is nothing to go back from");
        Fault::new(Exit::Conflict, message)
            .help(format!("see `driftq output list {name}`; `driftq output cutover` makes one current"))
    };
    Ok(dataset.current.ok_or_else(nothing)?.into_owned())
}

fn current(now: &CurrentVersion<'_>) -> String {
    let version = now.current.as_deref().map_or_else(|| "no version".to_owned(), printable);
    let when = if now.changed { "see" } else { "already saw" };
    let back =
        now.previous.as_deref().map(|previous| format!("; a roll-back would show {}", printable(previous)));
    format!("readers of {} {when} {version}{}\n", printable(&now.dataset), back.unwrap_or_default())
}

async fn delete(common: &Common, name: &VersionName, yes: bool) -> Result<()> {
    let VersionName { dataset, version, tenant } = name;
    let mut caller = common.about(Subject::Output(dataset, Some(version)))?;
    let what = format!("forget version {version} of {dataset} and all its outputs");
    confirm::by_name(yes, &what, version)?;
    let path = tenant.of(path(dataset).part(version)).with("confirm", version);
    let deleted: VersionDeleted = caller.delete(path).await?;
    common.show(&deleted, |deleted| {
        let (dataset, version) = (printable(dataset), printable(version));
        format!("version {version} of {dataset} is forgotten: {} output(s)\n", grouped(deleted.deleted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_see_is_said() {
        let now = CurrentVersion {
            dataset: "sales".into(),
            current: Some("v2".into()),
            previous: Some("v1".into()),
            changed: true,
        };
        assert_eq!(current(&now), "readers of sales see v2; a roll-back would show v1\n");
        let before = CurrentVersion { current: None, previous: None, changed: false, ..now };
        assert_eq!(current(&before), "readers of sales already saw no version\n");
    }
}
