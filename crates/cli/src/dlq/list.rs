//! `driftq dlq list`.

use anyhow::Result;
use driftq_api::v2::{DeadTopic, DeadTopics, Letters};

use super::{
    letters_of, or_none,
    selection::{Conditions, with_filter},
};
use crate::{
    Common,
    client::Path,
    exit::{Exit, Fault},
    items::{Columns, Printer},
    output::{self, Format, Listing, grouped, printable},
    rows::{Amount, Pages},
    when::Now,
};

#[derive(clap::Args)]
#[command(
    after_help = "PARTITION and OFFSET name the letter in `dlq get`, `dlq redrive --letter` and `dlq purge --letter`.

Examples:
  driftq dlq list                       # topics that have dead letters
  driftq dlq list orders --limit 20
  driftq dlq list orders --group billing --after 2030-01-31T12:00:00Z
  driftq dlq list orders --all -o ndjson | jq -r .envelope.dead_letter.last_error | sort | uniq -c"
)]
pub(crate) struct Args {
    /// The topic that the letters come from; without it, all topics that have some are listed
    topic: Option<String>,
    #[command(flatten)]
    amount: Amount,
    #[command(flatten)]
    conditions: Conditions,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    match &args.topic {
        Some(topic) => letters(common, args, topic).await,
        None => topics(common, args).await,
    }
}

async fn topics(common: &Common, args: &Args) -> Result<()> {
    if args.conditions.filter()? != driftq_api::v2::LetterFilter::default() {
        let fault = Fault::new(Exit::Usage, "conditions need a topic");
        return Err(fault.help("for example `driftq dlq list orders --group billing`").into());
    }
    let mut session = common.client()?.session();
    let mut topics: Vec<DeadTopic> = Vec::new();
    let mut pages = Pages::new(Path::of("/v2/dlq"), &Amount::ALL);
    while let Some(path) = pages.next(0) {
        let page: DeadTopics = session.get(path.as_str()).await.map_err(|error| error.into_error())?;
        topics.extend(page.topics);
        pages.turn(page.cursor);
    }
    output::print_many(common.output, &topics, || {
        if topics.is_empty() {
            return "no topic has dead letters\n".to_owned();
        }
        let now = Now::read();
        let mut listing = Listing::new(&["TOPIC", "LETTERS", "OLDEST DIED"]);
        for topic in &topics {
            let oldest = topic.oldest_at.map_or_else(|| "-".to_owned(), |at| now.show(at));
            listing.row([printable(&topic.name), grouped(topic.letters), oldest]);
        }
        listing.text()
    })
}

async fn letters(common: &Common, args: &Args, topic: &str) -> Result<()> {
    let first = with_filter(letters_of(topic), &args.conditions.filter()?);
    let mut session = common.client()?.session();
    let mut printer = Printer::new(common.output.unwrap_or(Format::Table), Columns::Dead);
    let mut pages = Pages::new(first, &args.amount);
    while let Some(path) = pages.next(printer.printed()) {
        let answer = session.get(path.as_str()).await;
        let page: Option<Letters<'static>> = or_none(&mut session, topic, answer).await?;
        let Some(page) = page else { break };
        for letter in &page.letters {
            printer.item(letter)?;
        }
        pages.turn(page.cursor);
    }
    printer.end("no dead letter fits")?;
    if let Some(source) = topic.strip_prefix("dlq.").filter(|_| printer.printed() == 0) {
        eprintln!(
            "note: dead letters are listed by the topic that they come from: `driftq dlq list {source}`"
        );
    }
    pages.hint(common);
    Ok(())
}
