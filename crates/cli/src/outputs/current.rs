//! `driftq output cutover` and `driftq output rollback`.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{CurrentVersion, CutOver, Dataset, RollBack};

use super::dataset_of;
use crate::{
    Common,
    client::Session,
    exit::{Exit, Fault},
    output::{self, printable},
    suggest,
    tenant::Tenant,
};

#[derive(clap::Args)]
#[command(
    after_help = "Readers of `current` see the old version whole or the new one whole, never a mixture. From then on \
nothing moves in it any more: it is sealed. The version that is current already is no error.

Examples:
  driftq output cutover sales v2
  driftq output cutover sales v2 --expect v1      # only if nobody else cut over"
)]
pub(crate) struct CutOverArgs {
    /// The dataset
    dataset: String,
    /// The version that becomes current
    version: String,
    /// Only if this one is current now
    #[arg(long, value_name = "VERSION")]
    expect: Option<String>,
    #[command(flatten)]
    tenant: Tenant,
}

#[derive(clap::Args)]
#[command(
    after_help = "Goes back by one cut-over. --from makes it safe to repeat: the same call again goes back once. Without \
it, the version that is current is read first.

Examples:
  driftq output rollback sales --from v2
  driftq output rollback sales"
)]
pub(crate) struct RollBackArgs {
    /// The dataset
    dataset: String,
    /// The version that is current and should not be
    #[arg(long, value_name = "VERSION")]
    from: Option<String>,
    #[command(flatten)]
    tenant: Tenant,
}

pub(super) async fn cut_over(common: &Common, args: &CutOverArgs) -> Result<()> {
    let request = CutOver {
        version: Cow::Borrowed(&args.version),
        expect: args.expect.as_deref().map(Cow::Borrowed),
        tenant_id: Cow::Borrowed(&args.tenant.tenant),
    };
    let mut session = common.client()?.session();
    let answer = session.post(dataset_of(&args.dataset).word("cutover").as_str(), &request).await;
    print(
        common,
        &suggest::or_explain_output(&mut session, &args.dataset, Some(&args.version), answer).await?,
    )
}

pub(super) async fn roll_back(common: &Common, args: &RollBackArgs) -> Result<()> {
    let mut session = common.client()?.session();
    let from = match &args.from {
        Some(version) => version.clone(),
        None => current(&mut session, &args.dataset, &args.tenant).await?,
    };
    let request = RollBack { from: Cow::Borrowed(&from), tenant_id: Cow::Borrowed(&args.tenant.tenant) };
    let answer = session.post(dataset_of(&args.dataset).word("rollback").as_str(), &request).await;
    print(common, &suggest::or_explain_output(&mut session, &args.dataset, Some(&from), answer).await?)
}

async fn current(session: &mut Session, name: &str, tenant: &Tenant) -> Result<String> {
    let path = tenant.of(dataset_of(name)).with_number("limit", Some(1));
    let answer = session.get(path.as_str()).await;
    let dataset: Dataset<'static> = suggest::or_explain_output(session, name, None, answer).await?;
    let nothing = || {
        Fault::new(
            Exit::Conflict,
            format!("no version of {name} is current: there is nothing to go back from"),
        )
        .help(format!("see `driftq output list {name}`; `driftq output cutover` makes one current"))
    };
    Ok(dataset.current.ok_or_else(nothing)?.into_owned())
}

fn print(common: &Common, now: &CurrentVersion<'_>) -> Result<()> {
    output::print_one(common.output, now, || text(now))
}

fn text(now: &CurrentVersion<'_>) -> String {
    let version = now.current.as_deref().map_or_else(|| "no version".to_owned(), printable);
    let when = if now.changed { "see" } else { "already saw" };
    let mut text = format!("readers of {} {when} {version}", printable(&now.dataset));
    if let Some(previous) = &now.previous {
        text.push_str(&format!("; a roll-back would show {}", printable(previous)));
    }
    text + "\n"
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
        assert_eq!(text(&now), "readers of sales see v2; a roll-back would show v1\n");
        let before = CurrentVersion { current: None, previous: None, changed: false, ..now };
        assert_eq!(text(&before), "readers of sales already saw no version\n");
    }
}
