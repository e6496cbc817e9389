//! `driftq dlq list`.

use anyhow::Result;
use driftq_api::v2::{DeadTopic, DeadTopics, LIMIT_MAX, Letters};

use super::{
    letters_of, or_none,
    selection::{Conditions, with_filter},
};
use crate::{
    cli::{
        Common,
        exit::{Exit, Fault},
        items::{Columns, Printer},
        output::{self, Format, Listing, grouped, printable},
        when::Now,
    },
    client::Path,
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
    /// At most this many
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them, however many
    #[arg(long, conflicts_with = "limit")]
    all: bool,
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
    let (mut topics, mut cursor): (Vec<DeadTopic>, Option<String>) = (Vec::new(), None);
    loop {
        let path = Path::of("/v2/dlq").with_number("limit", Some(LIMIT_MAX as u64));
        let answer = session.get(path.with_some("cursor", cursor.as_deref()).as_str()).await;
        let page: DeadTopics = answer.map_err(|error| error.into_error())?;
        topics.extend(page.topics);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
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
    let wanted = if args.all { u64::MAX } else { args.limit };
    let mut cursor = None;
    loop {
        let left = wanted - printer.printed();
        let path = first.clone().with_number("limit", Some(left.min(LIMIT_MAX as u64)));
        let answer = session.get(path.with_some("cursor", cursor.as_deref()).as_str()).await;
        let page: Option<Letters<'static>> = or_none(&mut session, topic, answer).await?;
        let Some(page) = page else { break };
        for letter in &page.letters {
            printer.item(letter)?;
        }
        cursor = page.cursor;
        if cursor.is_none() || printer.printed() >= wanted {
            break;
        }
    }
    printer.end("no dead letter fits")?;
    if cursor.is_some() && common.output.is_none_or(|format| format == Format::Table) {
        eprintln!("there may be more: raise --limit, or give --all");
    }
    Ok(())
}
