//! `driftq group list`.

use anyhow::Result;
use driftq_api::{
    v1::Topics,
    v2::{Group, Groups, LIMIT_MAX},
};

use crate::client::{Path, Session};
use crate::{
    Common,
    output::{self, Listing, grouped, printable},
    suggest,
};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq group list
  driftq group list orders -o ndjson")]
pub(crate) struct Args {
    /// Only the groups of this topic
    topic: Option<String>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session();
    let mut groups = Vec::new();
    match &args.topic {
        Some(topic) => groups.extend(of_topic(&mut session, topic).await?),
        None => {
            let all: Topics = session.get("/v1/topics").await.map_err(|error| error.into_error())?;
            for topic in &all.topics {
                groups.extend(of_topic(&mut session, topic).await?);
            }
        }
    }
    output::print_many(common.output, &groups, || text(&groups))
}

async fn of_topic(session: &mut Session, topic: &str) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    let mut cursor = None;
    loop {
        let path = Path::topic(topic).word("groups").with_number("limit", Some(LIMIT_MAX as u64));
        let path = path.with_some("cursor", cursor.as_deref());
        let answer = session.get(path.as_str()).await;
        let page: Groups = suggest::or_explain(session, topic, answer).await?;
        groups.extend(page.groups);
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(groups);
        }
    }
}

fn text(groups: &[Group]) -> String {
    if groups.is_empty() {
        return "no groups yet; a group begins with its first `driftq consume TOPIC --group NAME`\n"
            .to_owned();
    }
    let mut listing = Listing::new(&["TOPIC", "GROUP", "READERS", "LAG", "IN FLIGHT", "RETRYING", "PAUSED"]);
    for group in groups {
        listing.row([
            printable(&group.topic),
            printable(&group.name),
            group.readers.to_string(),
            grouped(group.lag),
            grouped(group.in_flight),
            grouped(group.retrying),
            if group.paused_at.is_some() { "yes".to_owned() } else { "no".to_owned() },
        ]);
    }
    listing.text()
}
