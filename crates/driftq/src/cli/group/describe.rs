//! `driftq group describe`.

use anyhow::Result;
use driftq_api::v2::Group;

use super::super::{
    Common,
    output::{self, Listing, grouped, printable},
};
use crate::client::escape;

#[derive(clap::Args)]
#[command(after_help = "LAG counts messages that are kept and not yet acked by the group.

Examples:
  driftq group describe orders billing")]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The group
    group: String,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let path = format!("/v2/topics/{}/groups/{}", escape(&args.topic), escape(&args.group));
    let group: Group = session.get(&path).await.map_err(|error| error.into_error())?;
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
    format!(
        "topic      {}\ngroup      {}\nreaders    {}\nlast seen  {}\n\n{}",
        printable(&group.topic),
        printable(&group.name),
        group.consumers,
        group.seen_at,
        listing.text()
    )
}
