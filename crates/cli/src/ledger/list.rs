//! `driftq ledger list`.

use anyhow::Result;
use driftq_ledger::{Filter, PAGE_MAX, Record};

use super::{
    Place,
    fault::fault,
    words::{self, Shown, Standing},
};
use crate::{
    Common,
    output::{Format, printable},
    rows::{Amount, Rows},
    when::Now,
};

#[derive(clap::Args)]
#[command(
    after_help = "Bodies and headers of outcomes are shown by `driftq ledger show`. Effects of a server that nobody in \
particular has begun are not listed: see `driftq effect list --tenant ''`.

Examples:
  driftq ledger list --status unknown                  # what somebody must look into
  driftq ledger list --status failed-retryable --method 'POST /pay'
  driftq ledger list --all -o ndjson | jq -r .status | sort | uniq -c"
)]
pub(super) struct Args {
    /// Only those that stand so now
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<Standing>,
    /// Only those of this principal
    #[arg(long)]
    principal: Option<String>,
    /// Only those of this method
    #[arg(long)]
    method: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

pub(super) async fn run(common: &Common, place: &Place, args: &Args) -> Result<()> {
    let ledger = place.ledger(common)?;
    let now = Now::read();
    let headings = ["PRINCIPAL", "METHOD", "KEY", "STATUS", "ATTEMPTS", "OWNER", "CHANGED", "NOTE"];
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), &headings);
    let mut filter = Filter {
        status: args.status.map(Into::into),
        principal: args.principal.clone(),
        method: args.method.clone(),
        ..Filter::default()
    };
    let wanted = args.amount.wanted();
    while rows.printed() < wanted {
        filter.limit = u32::try_from(wanted - rows.printed()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let page = ledger.list(&filter).await.map_err(|error| fault(&error))?;
        for record in &page.records {
            rows.row(&Shown::new(record), || cells(record, now))?;
        }
        filter.cursor = page.cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    rows.end("no record fits")?;
    if filter.cursor.is_some() {
        rows.hint();
    }
    Ok(())
}

fn cells(record: &Record, now: Now) -> Vec<String> {
    vec![
        printable(record.identity.principal()),
        printable(record.identity.method()),
        printable(record.identity.key()),
        words::status(record.status).to_owned(),
        record.attempts.to_string(),
        record.owner.as_deref().map_or_else(|| "-".to_owned(), printable),
        now.tell(words::moment(record.updated_at)),
        words::note(record, now),
    ]
}
