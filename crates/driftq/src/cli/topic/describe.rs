//! `driftq topic describe`.

use anyhow::Result;
use driftq_api::v2::Topic;

use super::super::{
    Common,
    output::{self, Listing, grouped},
};
use crate::{client::escape, config::units::show_bytes};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq topic describe orders
  driftq topic describe orders -o json | jq .partitions")]
pub(crate) struct Args {
    /// The topic
    topic: String,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let path = format!("/v2/topics/{}", escape(&args.topic));
    let topic: Topic = session.get(&path).await.map_err(|error| error.into_error())?;
    output::print_one(common.output, &topic, || text(&topic))
}

fn text(topic: &Topic) -> String {
    let groups = if topic.groups.is_empty() { "none".to_owned() } else { topic.groups.join(", ") };
    let mut listing = Listing::new(&["PARTITION", "MESSAGES", "BYTES", "OLDEST OFFSET", "OLDEST AT"]);
    for partition in &topic.partitions {
        listing.row([
            partition.partition.to_string(),
            grouped(partition.messages),
            show_bytes(partition.bytes),
            partition.oldest_offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string()),
            partition.oldest_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
        ]);
    }
    format!(
        "topic         {}\ncreated       {}\nnext offset   {}\ndead letters  {} since the server started\ngroups        {}\n\n{}",
        output::printable(&topic.name),
        topic.created_at,
        topic.next_offset,
        grouped(topic.dead_letters),
        output::printable(&groups),
        listing.text()
    )
}
