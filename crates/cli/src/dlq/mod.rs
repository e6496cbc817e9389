//! `driftq dlq …`: dead letters.

mod get;
mod list;
mod purge;
mod redrive;
mod selection;

use anyhow::Result;
use driftq_api::v2::{DeadTopics, Topic};

use super::{
    Common,
    exit::{Exit, Fault},
    suggest,
};
use crate::client::{CallError, Path, Session};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List topics that have dead letters, or the dead letters of a topic
    List(list::Args),
    /// Show one dead letter and the history of its attempts
    Get(get::Args),
    /// Send dead letters back to where they came from
    Redrive(redrive::Args),
    /// Throw dead letters away
    Purge(purge::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(common, args).await,
        Command::Get(args) => get::run(common, args).await,
        Command::Redrive(args) => redrive::run(common, args).await,
        Command::Purge(args) => purge::run(common, args).await,
    }
}

/// `/v2/dlq/{topic}`.
fn letters_of(topic: &str) -> Path {
    Path::of("/v2/dlq").part(topic)
}

/// The answer; none if the topic is there and never had a dead letter; else an error of the command.
async fn or_none<T>(session: &mut Session, topic: &str, answer: Result<T, CallError>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.code() == "TOPIC_UNKNOWN" => {
            let described = session.get::<Topic>(Path::topic(topic).as_str()).await;
            suggest::or_explain(session, topic, described).await?;
            Ok(None)
        }
        other => suggest::or_explain(session, topic, other).await.map(Some),
    }
}

/// The answer of a call that needs letters to work on.
async fn or_explain<T>(session: &mut Session, topic: &str, answer: Result<T, CallError>) -> Result<T> {
    if let Some(answer) = or_none(session, topic, answer).await? {
        return Ok(answer);
    }
    let fault = Fault::new(Exit::Invalid, format!("topic {topic} has no dead letters"));
    let all = "`driftq dlq list` shows the topics that have some";
    // The first page is enough for a guess, and without it there is none.
    let page: Option<DeadTopics> = session.get("/v2/dlq").await.ok();
    let names = page.iter().flat_map(|page| &page.topics).map(|topic| &*topic.name);
    let near = match topic.strip_prefix("dlq.") {
        Some(source) => {
            names.clone().find(|name| *name == source).or_else(|| suggest::nearest(source, names))
        }
        None => suggest::nearest(topic, names),
    };
    Err(fault
        .help(near.map_or_else(|| all.to_owned(), |near| format!("did you mean `{near}`? {all}")))
        .into())
}
