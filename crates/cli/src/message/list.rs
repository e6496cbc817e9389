//! `driftq message list`.

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use driftq_api::v2::{Browsed, DeliveryState, Labels};

use crate::{
    Common,
    client::Path,
    items::{Columns, Printer},
    output::Format,
    parse,
    rows::{Amount, Pages},
    suggest,
};

#[derive(clap::Args)]
#[command(
    after_help = "Conditions add up: only messages that fit all of them are listed. Looking changes nothing and needs no \
group.

Examples:
  driftq message list orders --limit 10
  driftq message list orders --key user:1 --state backoff
  driftq message list orders --label team=risk --all -o ndjson | jq -r .value
  driftq message list orders --partition 3 --from 1200"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// Only of this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// Only from this offset on
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
    /// Only with this key
    #[arg(long)]
    key: Option<String>,
    /// Only of this run
    #[arg(long, visible_alias = "run-id", value_name = "ID")]
    run: Option<String>,
    /// Only of this tenant
    #[arg(long, visible_alias = "tenant-id", value_name = "ID")]
    tenant: Option<String>,
    /// Only with this label; can be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::pair)]
    label: Vec<(String, String)>,
    /// Only with this idempotency key; keys belong to tenants, so name the --tenant too if the message has one
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Only in this state with at least one group
    #[arg(long, value_parser = PossibleValuesParser::new(DeliveryState::WORDS.map(|(word, _)| word)))]
    state: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

impl Args {
    fn path(&self, labels: &Labels<'_>) -> Path {
        Path::topic(&self.topic)
            .word("messages")
            .with_number("partition", self.partition.map(u64::from))
            .with_number("from", self.from)
            .with_some("key", self.key.as_deref())
            .with_some("run_id", self.run.as_deref())
            .with_some("tenant_id", self.tenant.as_deref())
            .with_some("idempotency_key", self.idempotency_key.as_deref())
            .with_some("state", self.state.as_deref())
            .with_labels(labels)
    }
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let first = args.path(&parse::labels(&args.label)?);
    let mut session = common.client()?.session();
    let mut printer = Printer::new(common.output.unwrap_or(Format::Table), Columns::Plain);
    let mut pages = Pages::new(first, &args.amount);
    while let Some(path) = pages.next(printer.printed()) {
        let answer = session.get(path.as_str()).await;
        let page: Browsed<'static> = suggest::or_explain(&mut session, &args.topic, answer).await?;
        for item in &page.messages {
            printer.item(item)?;
        }
        pages.turn(page.cursor);
    }
    printer.end("no message fits")?;
    pages.hint(common);
    Ok(())
}
