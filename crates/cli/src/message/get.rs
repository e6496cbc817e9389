//! `driftq message get`.

use anyhow::Result;
use driftq_api::v2::MessageState;

use super::{
    Place,
    words::{aligned, facts, history, why},
};
use crate::{
    Common,
    client::Path,
    output::{self, Listing, printable},
    suggest,
    topic::settings::policy_words,
    when::Now,
};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq message get orders 0 12
  driftq message get orders 0 12 -o json | jq '.groups[] | {group, state, since, until}'")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let Place { topic, partition, offset } = &args.place;
    let mut session = common.client()?.session();
    let answer = session.get(Path::message(topic, *partition, *offset).as_str()).await;
    let message: MessageState<'static> = suggest::or_explain(&mut session, topic, answer).await?;
    output::print_one(common.output, &message, || text(&message))
}

fn text(message: &MessageState<'_>) -> String {
    let now = Now::read();
    let mut facts = facts(&message.message, now);
    if message.cancelled {
        facts.push(("cancelled", "yes: no further attempt begins".to_owned()));
    }
    if message.message.kept {
        facts.push(("kept", "yes: every group is done with it".to_owned()));
    }
    facts.push(("retries", policy_words(&message.retry_policy)));
    let mut text = aligned(&facts);
    if message.groups.is_empty() {
        return text + "\nno group reads this topic yet; the first one gets the message\n";
    }
    let mut listing = Listing::new(&["GROUP", "STATE", "WHY"]);
    for group in &message.groups {
        listing.row([printable(&group.group), group.state.name().to_owned(), why(group, now)]);
    }
    text.push_str(&format!("\n{}", listing.text()));
    for group in message.groups.iter().filter(|group| !group.history.is_empty()) {
        text.push_str(&format!("\nattempts of {}\n{}", printable(&group.group), history(&group.history)));
    }
    text
}
