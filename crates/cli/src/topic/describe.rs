//! `driftq topic describe`.

use anyhow::Result;
use driftq_api::v2::Topic;

use super::{
    super::{
        Common,
        output::{self, Listing, grouped},
        suggest,
        when::Now,
    },
    settings,
};
use crate::client::Path;
use driftq_api::units::show_bytes;

#[derive(clap::Args)]
#[command(
    after_help = "Settings marked with * were asked for; the others are the server's defaults and change with them.

Examples:
  driftq topic describe orders
  driftq topic describe orders -o json | jq .settings"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let answer = session.get(Path::topic(&args.topic).as_str()).await;
    let topic: Topic = suggest::or_explain(&mut session, &args.topic, answer).await?;
    output::print_one(common.output, &topic, || text(&topic))
}

fn text(topic: &Topic) -> String {
    let now = Now::read();
    let groups = if topic.groups.is_empty() { "none".to_owned() } else { topic.groups.join(", ") };
    let paused = topic
        .paused_at
        .map_or_else(|| "no".to_owned(), |at| format!("nothing is lent since {}", now.show(at)));
    format!(
        "topic         {}\ncreated       {}\nnext offset   {}\nscheduled     {} not due yet\npaused        {}\ndead letters  {} since the server started\ngroups        {}\n\n{}\n{}",
        output::printable(&topic.name),
        topic.created_at,
        topic.next_offset,
        grouped(topic.scheduled),
        paused,
        grouped(topic.dead_letters),
        output::printable(&groups),
        settings_text(topic),
        partitions_text(topic),
    )
}

fn settings_text(topic: &Topic) -> String {
    let mut listing = Listing::new(&["SETTING", "VALUE"]);
    for (name, value) in settings::rows(&topic.settings) {
        let mark = if topic.settings.set.iter().any(|set| set == name) { " *" } else { "" };
        listing.row([format!("{name}{mark}"), value]);
    }
    listing.text()
}

fn partitions_text(topic: &Topic) -> String {
    let mut listing =
        Listing::new(&["PARTITION", "MESSAGES", "BYTES", "OLDEST OFFSET", "OLDEST AT", "KEPT", "KEPT BYTES"]);
    for partition in &topic.partitions {
        listing.row([
            partition.partition.to_string(),
            grouped(partition.messages),
            show_bytes(partition.bytes),
            partition.oldest_offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string()),
            partition.oldest_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
            grouped(partition.kept_messages),
            show_bytes(partition.kept_bytes),
        ]);
    }
    listing.text()
}
