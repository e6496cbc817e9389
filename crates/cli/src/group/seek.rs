//! `driftq group seek`.

use anyhow::Result;
use driftq_api::{
    Moment,
    v2::{Seek, SeekTo, Sought},
};

use crate::client::Path;
use crate::{
    Common,
    output::{self, Listing, grouped},
    suggest,
};

#[derive(clap::Args)]
#[command(
    after_help = "What was done already is delivered again after a step back; what is skipped by a step forward is not \
delivered to this group. Loans of the group end: their holders cannot settle them any more.

Examples:
  driftq group seek orders billing earliest
  driftq group seek orders billing latest
  driftq group seek orders billing 1200 --partition 3
  driftq group seek orders billing 2030-01-31T12:00:00Z"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The group
    group: String,
    /// `earliest`, `latest`, an offset, or a time (RFC 3339)
    #[arg(value_parser = place)]
    to: SeekTo,
    /// Only in this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let seek = Seek { to: args.to, partition: args.partition };
    let answer = session.post(Path::group(&args.topic, &args.group).word("seek").as_str(), &seek).await;
    let sought: Sought = suggest::or_explain_group(&mut session, &args.topic, &args.group, answer).await?;
    output::print_one(common.output, &sought, || {
        let mut listing = Listing::new(&["PARTITION", "NEXT OFFSET", "LAG"]);
        for partition in &sought.partitions {
            let next = partition.next_offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
            listing.row([partition.partition.to_string(), next, grouped(partition.lag)]);
        }
        listing.text()
    })
}

fn place(text: &str) -> Result<SeekTo, String> {
    let refused = || format!("`{text}` is no place: write earliest, latest, an offset, or an RFC 3339 time");
    match text {
        "earliest" => Ok(SeekTo::Earliest),
        "latest" => Ok(SeekTo::Latest),
        _ => match text.parse() {
            Ok(offset) => Ok(SeekTo::Offset(offset)),
            Err(_) => Moment::parse(text).map(SeekTo::Time).ok_or_else(refused),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_words_numbers_and_times() {
        assert_eq!(place("latest"), Ok(SeekTo::Latest));
        assert_eq!(place("12"), Ok(SeekTo::Offset(12)));
        assert!(matches!(place("2030-01-31T12:00:00Z"), Ok(SeekTo::Time(_))));
        assert!(place("soon").unwrap_err().contains("earliest"));
    }
}
