//! `driftq dlq get`.

use anyhow::Result;
use driftq_api::v2::Item;

use super::{letters_of, or_explain};
use crate::{
    Common,
    message::{
        Place,
        words::{aligned, facts, history},
    },
    output::{self, printable},
    when::Now,
};

#[derive(clap::Args)]
#[command(after_help = "PARTITION and OFFSET are those of `driftq dlq list`.

Examples:
  driftq dlq get orders 0 12
  driftq dlq get orders 0 12 -o json | jq .envelope.dead_letter.history")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let Place { topic, partition, offset } = &args.place;
    let mut session = common.client()?.session();
    let path = letters_of(topic).part(&partition.to_string()).part(&offset.to_string());
    let answer = session.get(path.as_str()).await;
    let letter: Item<'static> = or_explain(&mut session, topic, answer).await?;
    output::print_one(common.output, &letter, || text(&letter))
}

fn text(item: &Item<'_>) -> String {
    let now = Now::read();
    let mut facts = facts(item, now);
    let Some(letter) = item.envelope.as_ref().and_then(|envelope| envelope.dead_letter.as_ref()) else {
        return aligned(&facts);
    };
    facts.extend([
        ("came from", format!("{} {}/{}", printable(&letter.topic), letter.partition, letter.offset)),
        ("given up by", printable(&letter.group)),
        ("died", now.show(letter.at)),
        ("reason", printable(&letter.reason)),
        ("last error", printable(&letter.last_error)),
        ("attempts", letter.attempts.to_string()),
    ]);
    if letter.history.is_empty() {
        return aligned(&facts);
    }
    format!("{}\n{}", aligned(&facts), history(&letter.history))
}
