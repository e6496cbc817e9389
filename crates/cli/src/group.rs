//! `driftq group …`.

use anyhow::Result;
use driftq_api::v2::{
    Group, GroupLease, GroupPartition, Groups, Member, MemberKind, Paused, Seek, SeekTo, Sought,
    SoughtPartition,
};
use driftq_api::{Moment, v1::Topics};
use serde::{Serialize, de::IgnoredAny};

use crate::{
    Columns, Common, Path, Subject, args::GroupName, caller::Caller, confirm, description, grouped, or_dash,
    printable, section, table, yes_or,
};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List the groups of a topic, or of all topics
    #[command(after_help = "Examples:
  driftq group list
  driftq group list orders -o ndjson")]
    List {
        /// Only the groups of this topic
        topic: Option<String>,
    },
    /// Show where a group stands in each partition, who reads, and what waits for what
    #[command(after_help = "LAG counts messages that are kept and not yet acked by the group. STATE says \
what the waiting ones wait for; `driftq message get` says it of a single message.

Examples:
  driftq group describe orders billing")]
    Describe(GroupName),
    /// Let a group read on from another place
    #[command(after_help = "What was done already is delivered again after a step back; what is skipped by \
a step forward is not delivered to this group. Loans of the group end: their holders cannot settle them any \
more.

Examples:
  driftq group seek orders billing earliest
  driftq group seek orders billing latest
  driftq group seek orders billing 1200 --partition 3
  driftq group seek orders billing 2030-01-31T12:00:00Z")]
    Seek {
        #[command(flatten)]
        name: GroupName,
        /// `earliest`, `latest`, an offset, or a time (RFC 3339)
        #[arg(value_parser = position)]
        to: SeekTo,
        /// Only in this partition
        #[arg(long, value_name = "N")]
        partition: Option<u32>,
    },
    /// Stop lending messages to a group
    #[command(after_help = ABOUT_PAUSES)]
    Pause(GroupName),
    /// Lend messages to a group again
    #[command(after_help = ABOUT_PAUSES)]
    Resume(GroupName),
    /// Forget a group and its position
    #[command(after_help = "Messages stay. A reader that comes back under this name starts at the oldest \
message kept.

Examples:
  driftq group delete orders billing          # asks for the name
  driftq group delete orders billing --yes    # for scripts")]
    Delete {
        #[command(flatten)]
        name: GroupName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

const ABOUT_PAUSES: &str =
    "A paused group gets nothing, over both APIs; what is on loan to it can be settled. Other groups of the \
topic read on. A pause survives restarts.

Examples:
  driftq group pause orders billing
  driftq group resume orders billing";

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List { topic } => list(common, topic.as_deref()).await,
        Command::Describe(name) => {
            common.show(&common.about(name.subject())?.get(name.path()).await?, describe)
        }
        Command::Seek { name, to, partition } => {
            let seek = Seek { to: *to, partition: *partition };
            let sought: Sought = common.about(name.subject())?.post(name.path().word("seek"), &seek).await?;
            common.show(&sought, |sought| table(POSITIONS, &sought.partitions))
        }
        Command::Pause(name) => pause(common, name, "pause").await,
        Command::Resume(name) => pause(common, name, "resume").await,
        Command::Delete { name, yes } => delete(common, name, *yes).await,
    }
}

const GROUPS: Columns<Group> = &[
    ("TOPIC", |group, _| printable(&group.topic)),
    ("GROUP", |group, _| printable(&group.name)),
    ("READERS", |group, _| group.readers.to_string()),
    ("LAG", |group, _| grouped(group.lag)),
    ("IN FLIGHT", |group, _| grouped(group.in_flight)),
    ("RETRYING", |group, _| grouped(group.retrying)),
    ("PAUSED", |group, _| yes_or(group.paused_at.is_some(), "no").to_owned()),
];

async fn list(common: &Common, topic: Option<&str>) -> Result<()> {
    let topics = match topic {
        Some(topic) => vec![topic.to_owned()],
        None => common.caller()?.get::<Topics>("/v1/topics").await?.topics,
    };
    let mut groups = Vec::new();
    for topic in &topics {
        let mut caller: Caller<'_> = common.about(Subject::Topic(topic))?;
        let path = Path::topic(topic).word("groups");
        groups.extend(caller.collect(path, |page: Groups| (page.groups, page.cursor)).await?);
    }
    let nothing = "no groups yet; a group begins with its first `driftq consume TOPIC --group NAME`";
    common.show_all(&groups, GROUPS, nothing)
}

const GROUP: Columns<Group> = &[
    ("topic", |group, _| printable(&group.topic)),
    ("group", |group, _| printable(&group.name)),
    ("readers", |group, _| group.readers.to_string()),
    ("last seen", |group, now| now.show(group.seen_at)),
    ("paused", |group, now| match group.paused_at {
        Some(at) => format!("gets nothing since {}", now.show(at)),
        None => "no".to_owned(),
    }),
];

const PARTITIONS: Columns<GroupPartition> = &[
    ("PARTITION", |partition, _| partition.partition.to_string()),
    ("LAG", |partition, _| grouped(partition.lag)),
    ("IN FLIGHT", |partition, _| partition.in_flight.to_string()),
    ("RETRYING", |partition, _| partition.retrying.to_string()),
    ("ACKED BELOW", |partition, _| or_dash(partition.acked_below)),
];

const WAITING: Columns<(String, u64)> =
    &[("STATE", |(state, _), _| printable(state)), ("MESSAGES", |(_, count), _| grouped(*count))];

const MEMBERS: Columns<Member> = &[
    ("MEMBER", |member, _| printable(&member.owner)),
    ("READS BY", |member, _| match member.kind {
        MemberKind::Stream => "stream".to_owned(),
        MemberKind::Lease => "lease calls".to_owned(),
    }),
    ("IN FLIGHT", |member, _| grouped(member.in_flight)),
];

const LEASES: Columns<GroupLease> = &[
    ("ON LOAN", |lease, _| format!("{}/{}", lease.partition, lease.offset)),
    ("HOLDER", |lease, _| printable(&lease.owner)),
    ("ATTEMPT", |lease, _| lease.attempt.to_string()),
    ("ENDS", |lease, now| now.tell(lease.expires_at)),
];

fn describe(group: &Group) -> String {
    let waiting: Vec<_> = group.waiting.iter().map(|(state, count)| (state.to_string(), *count)).collect();
    let partitions = table(PARTITIONS, &group.partitions);
    let below =
        section(WAITING, &waiting) + &section(MEMBERS, &group.members) + &section(LEASES, &group.leases);
    format!("{}\n{partitions}{below}", description(GROUP, group))
}

const POSITIONS: Columns<SoughtPartition> = &[
    ("PARTITION", |partition, _| partition.partition.to_string()),
    ("NEXT OFFSET", |partition, _| or_dash(partition.next_offset)),
    ("LAG", |partition, _| grouped(partition.lag)),
];

fn position(text: &str) -> Result<SeekTo, String> {
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

async fn pause(common: &Common, name: &GroupName, word: &'static str) -> Result<()> {
    let paused: Paused = common.about(name.subject())?.order(name.path().word(word)).await?;
    let GroupName { topic, group } = name;
    common.show(&paused, |paused| match paused.paused_at {
        Some(at) => format!("group {group} of {topic} gets nothing since {at}\n"),
        None => format!("group {group} of {topic} is not paused\n"),
    })
}

async fn delete(common: &Common, name: &GroupName, yes: bool) -> Result<()> {
    #[derive(Serialize)]
    struct Deleted<'a> {
        topic: &'a str,
        group: &'a str,
        deleted: bool,
    }
    let GroupName { topic, group } = name;
    let mut caller = common.about(name.subject())?;
    confirm::by_name(yes, &format!("forget group {group} of {topic} and where it stands"), group)?;
    caller.delete::<IgnoredAny>(name.path().with("confirm", group)).await?;
    common.show(&Deleted { topic, group, deleted: true }, |_| {
        format!("group {group} of {topic} is forgotten\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_words_numbers_and_times() {
        assert_eq!(position("latest"), Ok(SeekTo::Latest));
        assert_eq!(position("12"), Ok(SeekTo::Offset(12)));
        assert!(matches!(position("2030-01-31T12:00:00Z"), Ok(SeekTo::Time(_))));
        assert!(position("soon").unwrap_err().contains("earliest"));
    }
}
