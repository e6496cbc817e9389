//! `driftq group describe`.

use anyhow::Result;
use driftq_api::v2::{Group, MemberKind};

use crate::client::Path;
use crate::{
    Common,
    output::{self, Listing, grouped, printable},
    suggest,
    when::Now,
};

#[derive(clap::Args)]
#[command(
    after_help = "LAG counts messages that are kept and not yet acked by the group. STATE says what the waiting ones wait \
for; `driftq message get` says it of a single message.

Examples:
  driftq group describe orders billing"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The group
    group: String,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let answer = session.get(Path::group(&args.topic, &args.group).as_str()).await;
    let group: Group = suggest::or_explain_group(&mut session, &args.topic, &args.group, answer).await?;
    output::print_one(common.output, &group, || text(&group))
}

fn text(group: &Group) -> String {
    let mut listing = Listing::new(&["PARTITION", "LAG", "IN FLIGHT", "RETRYING", "ACKED BELOW"]);
    for partition in &group.partitions {
        listing.row([
            partition.partition.to_string(),
            grouped(partition.lag),
            partition.in_flight.to_string(),
            partition.retrying.to_string(),
            partition.acked_below.map_or_else(|| "-".to_owned(), |offset| offset.to_string()),
        ]);
    }
    let now = Now::read();
    let paused =
        group.paused_at.map_or_else(|| "no".to_owned(), |at| format!("gets nothing since {}", now.show(at)));
    format!(
        "topic      {}\ngroup      {}\nreaders    {}\nlast seen  {}\npaused     {paused}\n\n{}{}{}",
        printable(&group.topic),
        printable(&group.name),
        group.readers,
        now.show(group.seen_at),
        listing.text(),
        waiting_text(group),
        members_text(group),
    )
}

fn waiting_text(group: &Group) -> String {
    if group.waiting.is_empty() {
        return String::new();
    }
    let mut listing = Listing::new(&["STATE", "MESSAGES"]);
    for (state, count) in &group.waiting {
        listing.row([printable(state), grouped(*count)]);
    }
    format!("\n{}", listing.text())
}

fn members_text(group: &Group) -> String {
    if group.members.is_empty() {
        return String::new();
    }
    let mut listing = Listing::new(&["MEMBER", "READS BY", "IN FLIGHT"]);
    for member in &group.members {
        let kind = match member.kind {
            MemberKind::Stream => "stream",
            MemberKind::Lease => "lease calls",
        };
        listing.row([printable(&member.owner), kind.to_owned(), grouped(member.in_flight)]);
    }
    format!("\n{}", listing.text())
}
