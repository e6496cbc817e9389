//! `driftq message …`: a message in words, what it is and why it waits.

pub(crate) mod tables;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use driftq_api::v2::{
    Attempt, Browsed, Cancelled, DeliveryState, GroupState, Item, Labels, MessageState, Retried,
};

use crate::{
    Amount, Columns, Common, Facts, Now, Path, Subject, aligned, args::MessageAddress, output::pairs, parse,
    printable, table, topic::settings::policy_words,
};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show one message, where it stands with every group, and why it waits
    #[command(after_help = "Examples:
  driftq message get orders 0 12
  driftq message get orders 0 12 -o json | jq '.groups[] | {group, state, since, until}'")]
    Get(MessageAddress),
    /// Look through the messages of a topic without a group
    List(ListArgs),
    /// Let no further attempt of a message begin
    #[command(after_help = "Holds for all groups. A worker that holds the message learns it at the next \
`driftq lease extend`. Cancelling again changes nothing.

Examples:
  driftq message cancel orders 0 12")]
    Cancel(MessageAddress),
    /// Try a message again at once that waits for its next attempt
    #[command(
        after_help = "Ends the backoff in every group. The attempt counts like any other. What is not due \
yet, what a worker holds and what waits for an effect stays as it is.

Examples:
  driftq message retry orders 0 12"
    )]
    Retry(MessageAddress),
}

#[derive(clap::Args)]
#[command(after_help = "Conditions add up: only messages that fit all of them are listed. Looking changes \
nothing and needs no group.

Examples:
  driftq message list orders --limit 10
  driftq message list orders --key user:1 --state backoff
  driftq message list orders --label team=risk --all -o ndjson | jq -r .value
  driftq message list orders --partition 3 --from 1200")]
pub(crate) struct ListArgs {
    /// The topic
    topic: String,
    /// Only of this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// Only from this offset on
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
    /// Only with this key
    #[arg(long)]
    key: Option<String>,
    /// Only of this run
    #[arg(long, visible_alias = "run-id", value_name = "ID")]
    run: Option<String>,
    /// Only of this tenant
    #[arg(long, visible_alias = "tenant-id", value_name = "ID")]
    tenant: Option<String>,
    /// Only with this label; can be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::pair)]
    label: Vec<(String, String)>,
    /// Only with this idempotency key; keys belong to tenants, so name the --tenant too if the message has one
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Only in this state with at least one group
    #[arg(long, value_parser = PossibleValuesParser::new(DeliveryState::WORDS.map(|(word, _)| word)))]
    state: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

impl ListArgs {
    fn path(&self, labels: &Labels<'_>) -> Path {
        messages_of(&self.topic)
            .with_number("partition", self.partition.map(u64::from))
            .with_number("from", self.from)
            .with_some("key", self.key.as_deref())
            .with_some("run_id", self.run.as_deref())
            .with_some("tenant_id", self.tenant.as_deref())
            .with_some("idempotency_key", self.idempotency_key.as_deref())
            .with_some("state", self.state.as_deref())
            .with_labels(labels)
    }
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Get(address) => {
            let mut caller = common.about(Subject::Topic(&address.topic))?;
            common.show(&caller.get(address.within(messages_of(&address.topic))).await?, text)
        }
        Command::List(args) => {
            let first = args.path(&parse::labels(&args.label)?);
            let part = |page: Browsed<'static>| (page.messages, page.cursor);
            let mut caller = common.about(Subject::Topic(&args.topic))?;
            caller.list(common, (first, &args.amount), (tables::PLAIN, "no message fits"), part).await
        }
        Command::Cancel(address) => cancel(common, address).await,
        Command::Retry(address) => retry(common, address).await,
    }
}

/// `/v2/topics/{topic}/messages`.
fn messages_of(topic: &str) -> Path {
    Path::topic(topic).word("messages")
}

fn text(message: &MessageState<'static>) -> String {
    let now = Now::read();
    let mut facts = facts(&message.message, now);
    if message.cancelled {
        facts.push(("cancelled", "yes: no further attempt begins".to_owned()));
    }
    if message.message.kept {
        facts.push(("kept", "yes: every group is done with it".to_owned()));
    }
    facts.push(("retries", policy_words(&message.retry_policy)));
    let mut text = aligned(&facts);
    if message.groups.is_empty() {
        return text + "\nno group reads this topic yet; the first one gets the message\n";
    }
    text.push_str(&format!("\n{}", table(GROUPS, &message.groups)));
    for group in message.groups.iter().filter(|group| !group.history.is_empty()) {
        let attempts = table(ATTEMPTS, &group.history);
        text.push_str(&format!("\nattempts of {}\n{attempts}", printable(&group.group)));
    }
    text
}

const GROUPS: Columns<GroupState<'static>> = &[
    ("GROUP", |group, _| printable(&group.group)),
    ("STATE", |group, _| group.state.name().to_owned()),
    ("WHY", why),
];

/// Attempts that ended.
pub(crate) const ATTEMPTS: Columns<Attempt<'static>> = &[
    ("ATTEMPT", |attempt, _| attempt.attempt.to_string()),
    ("OWNER", |attempt, _| printable(&attempt.owner)),
    ("LEASED AT", |attempt, _| attempt.leased_at.to_string()),
    ("ENDED AT", |attempt, _| attempt.ended_at.to_string()),
    ("ERROR", |attempt, _| printable(&attempt.error)),
];

async fn cancel(common: &Common, address: &MessageAddress) -> Result<()> {
    let MessageAddress { topic, partition, offset } = address;
    let mut caller = common.about(Subject::Topic(topic))?;
    let cancelled: Cancelled = caller.delete(address.within(messages_of(topic))).await?;
    common.show(&cancelled, |cancelled| {
        let mut text = format!("{topic} {partition}/{offset} is cancelled: no further attempt begins\n");
        if !cancelled.running.is_empty() {
            let groups = printable(&cancelled.running.join(", "));
            text.push_str(&format!("still at work, and told at the next heartbeat: {groups}\n"));
        }
        text
    })
}

async fn retry(common: &Common, address: &MessageAddress) -> Result<()> {
    let MessageAddress { topic, partition, offset } = address;
    let mut caller = common.about(Subject::Topic(topic))?;
    let retried: Retried = caller.order(address.within(messages_of(topic)).word("retry")).await?;
    common.show(&retried, |retried| {
        let groups = printable(&retried.groups.join(", "));
        match retried.groups.len() {
            0 => format!(
                "{topic} {partition}/{offset} waits for no attempt; `driftq message get` says where it stands\n"
            ),
            _ => format!("{topic} {partition}/{offset} is tried again at once by {groups}\n"),
        }
    })
}

/// Everything that a message says about itself, one fact per line.
pub(crate) fn facts(item: &Item<'_>, now: Now) -> Facts {
    let mut facts = vec![
        ("message", format!("{} {}/{}", printable(&item.topic), item.partition, item.offset)),
        ("key", printable(&item.key)),
        ("value", tables::whole_value(item)),
        ("priority", item.priority.to_string()),
        ("produced", now.show(item.produced_at)),
    ];
    facts.extend(item.deliver_at.map(|at| ("deliver at", now.show(at))));
    if let Some(envelope) = &item.envelope {
        facts.extend([
            ("run", printable(&envelope.run_id)),
            ("step", printable(&envelope.step_id)),
            ("parent step", printable(&envelope.parent_step_id)),
            ("tenant", printable(&envelope.tenant_id)),
            ("idempotency key", printable(&envelope.idempotency_key)),
        ]);
        facts.extend(envelope.deadline.map(|at| ("deadline", now.show(at))));
        facts.push(("labels", pairs(&envelope.labels)));
    }
    if let Some(routing) = &item.routing {
        let meta = routing.meta.pairs().iter().map(|(name, value)| format!(" {name}={value}"));
        facts.push(("routing", printable(&format!("{}{}", routing.label, meta.collect::<String>()))));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Where a message stands with a group, in a sentence.
fn why(state: &GroupState<'_>, now: Now) -> String {
    let mut words = match state.state {
        DeliveryState::Ready => "nothing is in its way: the next reader gets it".to_owned(),
        DeliveryState::Scheduled => "its time has not come".to_owned(),
        DeliveryState::InFlight => match &state.owner {
            Some(owner) => format!("on loan to {}", printable(owner)),
            None => "on loan".to_owned(),
        },
        DeliveryState::Backoff => "it failed and waits for its next attempt".to_owned(),
        DeliveryState::Effect => {
            "it waits for an effect that a caller runs, or whose outcome is unknown".to_owned()
        }
        DeliveryState::KeyBusy => "an earlier message of its key is not done".to_owned(),
        DeliveryState::SameKeyRunning => {
            "a message with the same idempotency key is being worked on".to_owned()
        }
        DeliveryState::WindowFull => "the group holds as many messages as the topic allows".to_owned(),
        DeliveryState::Paused => "the topic or the group is paused".to_owned(),
        DeliveryState::Dying => "it is about to become a dead letter".to_owned(),
        DeliveryState::Done => "the group is through with it".to_owned(),
    };
    words.push_str(&format!("; since {}", now.show(state.since)));
    if let Some(until) = state.until {
        words.push_str(&format!(", until {}", now.show(until)));
    }
    match state.attempt {
        0 => {}
        1 => words.push_str("; 1 attempt has begun"),
        more => words.push_str(&format!("; {more} attempts have begun")),
    }
    if let Some(error) = state.last_error.as_deref().filter(|error| !error.is_empty()) {
        words.push_str(&format!("; last error: {}", printable(error)));
    }
    words
}

#[cfg(test)]
mod tests {
    use driftq_api::Moment;

    use super::*;

    #[test]
    fn waiting_is_explained() {
        let state = GroupState {
            group: "g".into(),
            state: DeliveryState::Backoff,
            since: Moment::saturating_from_epoch_ms(0),
            until: Some(Moment::saturating_from_epoch_ms(1_000)),
            owner: None,
            attempt: 2,
            last_error: Some("card \u{7} declined".into()),
            history: Vec::new(),
        };
        let words = why(&state, Now::read());
        assert!(words.starts_with("it failed and waits for its next attempt; since 1970-01-01T00:00:00Z ("));
        assert!(words.ends_with("; 2 attempts have begun; last error: card \\u0007 declined"), "{words}");
        let held = GroupState { state: DeliveryState::InFlight, owner: Some("w1".into()), ..state };
        assert!(why(&held, Now::read()).starts_with("on loan to w1; since"));
    }
}
