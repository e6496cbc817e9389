//! One dataset: its versions, and what its readers saw when.

use anyhow::Result;
use driftq_api::v2::Dataset;

use super::dataset_of;
use crate::{
    Common,
    client::Session,
    message::words::aligned,
    output::{self, Listing, grouped, printable},
    rows::{Amount, Pages},
    suggest,
    tenant::Tenant,
    when::Now,
};

pub(super) async fn run(
    common: &Common,
    mut session: Session,
    (name, tenant): (&str, &Tenant),
    amount: &Amount,
) -> Result<()> {
    let mut whole: Option<Dataset<'static>> = None;
    let mut pages = Pages::new(tenant.of(dataset_of(name)), amount);
    while let Some(path) = pages.next(whole.as_ref().map_or(0, |whole| whole.versions.len() as u64)) {
        let answer = session.get(path.as_str()).await;
        let mut page: Dataset<'static> = suggest::or_explain_output(&mut session, name, None, answer).await?;
        pages.turn(page.cursor.take());
        match &mut whole {
            Some(whole) => whole.versions.extend(page.versions),
            None => whole = Some(page),
        }
    }
    let Some(dataset) = whole else { return Ok(()) };
    output::print_one(common.output, &dataset, || text(&dataset))?;
    pages.hint(common);
    Ok(())
}

fn text(dataset: &Dataset<'_>) -> String {
    let now = Now::read();
    let current = match (&dataset.current, dataset.cut_over_at) {
        (Some(version), Some(at)) => format!("{}, since {}", printable(version), now.show(at)),
        (Some(version), None) => printable(version),
        (None, _) => "nothing: `driftq output cutover` lets readers see a version".to_owned(),
    };
    let mut text = aligned(&[("dataset", printable(&dataset.dataset)), ("current", current)]);
    let mut versions = Listing::new(&["VERSION", "OUTPUTS", "LAST COMMIT", "SEALED", "CURRENT"]);
    for version in &dataset.versions {
        let is_current = dataset.current.as_deref() == Some(&*version.version);
        versions.row([
            printable(&version.version),
            grouped(version.outputs),
            now.show(version.updated_at),
            if version.sealed { "yes".to_owned() } else { "-".to_owned() },
            if is_current { "yes".to_owned() } else { "-".to_owned() },
        ]);
    }
    text.push_str(&format!("\n{}", versions.text()));
    if !dataset.history.is_empty() {
        let mut history = Listing::new(&["CURRENT BEFORE", "SINCE"]);
        for past in &dataset.history {
            let version = past.version.as_deref().map_or_else(|| "nothing".to_owned(), printable);
            // Before the first cut-over nothing was current, and never became so.
            let since =
                past.version.as_ref().map_or_else(|| "the beginning".to_owned(), |_| now.show(past.at));
            history.row([version, since]);
        }
        text.push_str(&format!("\n{}", history.text()));
    }
    text
}
