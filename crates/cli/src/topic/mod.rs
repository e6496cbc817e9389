//! `driftq topic …`.

mod create;
mod set;
pub(super) mod settings;

use anyhow::Result;
use driftq_api::v2::{Partition, Paused, Topic};
use driftq_api::{units::show_bytes, v1::Topics};
use serde::{Serialize, de::IgnoredAny};

use crate::{
    Columns, Common, Listing, args::TopicName, confirm, description, grouped, or_dash, output, printable,
    table,
};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Create a topic; creating it again changes nothing
    Create(create::Args),
    /// List the names of all topics
    #[command(after_help = "Examples:
  driftq topic list
  driftq topic list -o ndjson | jq -r .name")]
    List,
    /// Show settings, partitions, counts and groups of a topic
    #[command(
        after_help = "Settings marked with * were asked for; the others are the server's defaults and \
change with them.

Examples:
  driftq topic describe orders
  driftq topic describe orders -o json | jq .settings"
    )]
    Describe(TopicName),
    /// Change settings of a topic
    Set(set::Args),
    /// Stop lending messages of a topic
    #[command(after_help = ABOUT_PAUSES)]
    Pause(TopicName),
    /// Lend messages of a topic again
    #[command(after_help = ABOUT_PAUSES)]
    Resume(TopicName),
    /// Delete a topic and all its messages
    #[command(
        after_help = "Its messages, its groups and their positions go with it. Its dead letters are a \
topic of their own, dlq.NAME, and stay.

Examples:
  driftq topic delete orders          # asks for the name
  driftq topic delete orders --yes    # for scripts"
    )]
    Delete {
        #[command(flatten)]
        name: TopicName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

const ABOUT_PAUSES: &str = "A paused topic lends nothing to any group, over both APIs; producing goes on, and what is on loan can be \
settled. A pause survives restarts.

Examples:
  driftq topic pause orders
  driftq topic resume orders";

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Create(args) => create::run(common, args).await,
        Command::List => list(common).await,
        Command::Describe(name) => {
            common.show(&common.about(name.subject())?.get(name.path()).await?, describe)
        }
        Command::Set(args) => set::run(common, args).await,
        Command::Pause(name) => pause(common, name, "pause").await,
        Command::Resume(name) => pause(common, name, "resume").await,
        Command::Delete { name, yes } => delete(common, name, *yes).await,
    }
}

async fn list(common: &Common) -> Result<()> {
    #[derive(Serialize)]
    struct Row {
        name: String,
    }
    let topics = common.caller()?.get::<Topics>("/v1/topics").await?.topics;
    let rows: Vec<Row> = topics.into_iter().map(|name| Row { name }).collect();
    output::print_many(common.output, &rows, || {
        if rows.is_empty() {
            return "no topics yet; create one with `driftq topic create NAME`\n".to_owned();
        }
        rows.iter().map(|row| format!("{}\n", printable(&row.name))).collect()
    })
}

const FACTS: Columns<Topic> = &[
    ("topic", |topic, _| printable(&topic.name)),
    ("tenant", |topic, _| or_dash(topic.tenant.as_deref().map(printable))),
    ("created", |topic, _| topic.created_at.to_string()),
    ("next offset", |topic, _| topic.next_offset.to_string()),
    ("scheduled", |topic, _| format!("{} not due yet", grouped(topic.scheduled))),
    ("paused", |topic, now| match topic.paused_at {
        Some(at) => format!("nothing is lent since {}", now.show(at)),
        None => "no".to_owned(),
    }),
    ("dead letters", |topic, _| format!("{} since the server started", grouped(topic.dead_letters))),
    ("groups", |topic, _| match &*topic.groups {
        [] => "none".to_owned(),
        groups => printable(&groups.join(", ")),
    }),
];

const PARTITIONS: Columns<Partition> = &[
    ("PARTITION", |partition, _| partition.partition.to_string()),
    ("MESSAGES", |partition, _| grouped(partition.messages)),
    ("BYTES", |partition, _| show_bytes(partition.bytes)),
    ("OLDEST OFFSET", |partition, _| or_dash(partition.oldest_offset)),
    ("OLDEST AT", |partition, _| or_dash(partition.oldest_at)),
    ("KEPT", |partition, _| grouped(partition.kept_messages)),
    ("KEPT BYTES", |partition, _| show_bytes(partition.kept_bytes)),
];

fn describe(topic: &Topic) -> String {
    let mut settings = Listing::new(&["SETTING", "VALUE"]);
    for (name, value) in settings::rows(&topic.settings) {
        let mark = if topic.settings.set.iter().any(|set| set == name) { " *" } else { "" };
        settings.row([format!("{name}{mark}"), value]);
    }
    let (facts, partitions) = (description(FACTS, topic), table(PARTITIONS, &topic.partitions));
    format!("{facts}\n{}\n{partitions}", settings.text())
}

async fn pause(common: &Common, name: &TopicName, word: &'static str) -> Result<()> {
    let paused: Paused = common.about(name.subject())?.order(name.path().word(word)).await?;
    common.show(&paused, |paused| match paused.paused_at {
        Some(at) => format!("topic {} lends nothing since {at}\n", name.topic),
        None => format!("topic {} is not paused\n", name.topic),
    })
}

async fn delete(common: &Common, name: &TopicName, yes: bool) -> Result<()> {
    #[derive(Serialize)]
    struct Deleted<'a> {
        topic: &'a str,
        deleted: bool,
    }
    let topic = &name.topic;
    let mut caller = common.about(name.subject())?;
    confirm::by_name(yes, &format!("delete topic {topic} and all its messages"), topic)?;
    caller.delete::<IgnoredAny>(name.path().with("confirm", topic)).await?;
    common.show(&Deleted { topic, deleted: true }, |_| format!("topic {topic} is deleted\n"))
}
