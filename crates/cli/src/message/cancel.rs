//! `driftq message cancel`.

use anyhow::Result;
use driftq_api::v2::Cancelled;

use super::Place;
use crate::{
    Common,
    client::Path,
    output::{self, printable},
    suggest,
};

#[derive(clap::Args)]
#[command(
    after_help = "Holds for all groups. Whoever works on the message learns it at the next `driftq lease extend`. \
Cancelling again changes nothing.

Examples:
  driftq message cancel orders 0 12"
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let Place { topic, partition, offset } = &args.place;
    let mut session = common.client()?.session();
    let answer = session.delete(Path::message(topic, *partition, *offset).as_str()).await;
    let cancelled: Cancelled = suggest::or_explain(&mut session, topic, answer).await?;
    output::print_one(common.output, &cancelled, || {
        let mut text = format!("{topic} {partition}/{offset} is cancelled: no further attempt begins\n");
        if !cancelled.running.is_empty() {
            let groups = printable(&cancelled.running.join(", "));
            text.push_str(&format!("still at work, and told at the next heartbeat: {groups}\n"));
        }
        text
    })
}
