//! What deserves a look, and what deserves action: from what was seen to findings, and nothing else.

use driftq_api::v2::{Breaker, DeliveryState, OnError, RouterKind, Topic};
use serde::Serialize;

use super::survey::{Failing, Seen, Survey};
use crate::{
    cut,
    output::{grouped, printable},
    shell::word,
    when::{Now, length},
};
use driftq_api::units::about_bytes;

/// A message that waits longer than this in front of readers is worth a look.
const OLDEST_LOOK_MS: u64 = 5 * 60_000;
/// And longer than this, an operator must act.
const OLDEST_ACT_MS: u64 = 60 * 60_000;
/// Readers that were not heard of for this long have gone.
const READERS_GONE_MS: u64 = 60_000;
/// A message that failed this often is likely to fail again.
const ATTEMPTS_MANY: u32 = 5;
/// Topics of dead letters need no readers.
const DEAD_PREFIX: &str = "dlq.";
/// Shares of a limit, in percent.
const LIMIT_LOOK_PERCENT: u64 = 80;
const LIMIT_ACT_PERCENT: u64 = 95;

/// What a finding asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Urgency {
    Ok,
    /// An operator should look when there is time.
    Look,
    /// An operator must do something.
    Act,
}

impl Urgency {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Look => "look",
            Self::Act => "act",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    #[serde(rename = "verdict")]
    pub(super) urgency: Urgency,
    /// What it is.
    pub(super) what: String,
    /// Why it is so, or why it matters.
    pub(super) cause: String,
    /// A command to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    fn new(
        urgency: Urgency,
        what: impl Into<String>,
        cause: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { urgency, what: what.into(), cause: cause.into(), next: Some(next.into()) }
    }

    fn ok(what: impl Into<String>) -> Self {
        Self { urgency: Urgency::Ok, what: what.into(), cause: String::new(), next: None }
    }
}

/// Everything worth saying, what is most urgent first.
pub(super) fn findings(survey: &Survey, now: Now) -> Vec<Finding> {
    let mut findings = vec![server(survey)];
    findings.extend(durability(survey));
    findings.push(router(survey));
    findings.extend(dead_letters(survey, now));
    findings.push(effects(survey));
    findings.extend(survey.topics.iter().flat_map(|topic| topic_findings(survey, topic, now)));
    findings.extend(history(survey));
    findings.extend(groups(survey, now));
    findings.extend(survey.failing.iter().filter_map(poison));
    // Stable: within a urgency the order of the areas stays.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.urgency));
    findings
}

fn server(survey: &Survey) -> Finding {
    let status = &survey.status;
    let Some(why) = survey.refusal() else {
        let uptime = length(u128::from(status.uptime_ms));
        return Finding::ok(format!("server {} takes messages, up for {uptime}", printable(&status.version)));
    };
    let why = why.map_or_else(|| "it does not say why".to_owned(), printable);
    let next = status
        .data
        .as_ref()
        .map_or_else(|| "driftq serve --help".to_owned(), |data| format!("df -h {}", word(data)));
    let what = if status.ready { "the server takes no new messages" } else { "the server is not ready" };
    Finding::new(Urgency::Act, what, why, next)
}

fn durability(survey: &Survey) -> Option<Finding> {
    if survey.status.durable {
        return None;
    }
    let cause = "everything is in memory, and gone when the process ends; fine for tests";
    Some(Finding::new(Urgency::Look, "nothing is on disk", cause, "driftq serve --data ./driftq-data"))
}

fn router(survey: &Survey) -> Finding {
    let status = "driftq router status";
    let left_alone = |then: &str| {
        let cause = format!("it failed too often; {then}");
        Finding::new(Urgency::Act, "the router is left alone", cause, status)
    };
    match (survey.router_failure(), survey.router.kind, survey.router.breaker) {
        (Some(OnError::Pass), ..) => left_alone("messages go on without routing"),
        (Some(OnError::Reject), ..) => left_alone("messages that need it are refused"),
        (None, RouterKind::None, _) => Finding::ok("no router is configured"),
        (None, _, Breaker::HalfOpen) => {
            let cause = "it failed too often a moment ago";
            Finding::new(Urgency::Look, "the router is being tried again", cause, status)
        }
        (None, ..) => Finding::ok("the router is asked"),
    }
}

fn dead_letters(survey: &Survey, now: Now) -> Vec<Finding> {
    if survey.dead.is_empty() {
        return vec![Finding::ok("no dead letters")];
    }
    let finding = |dead: &driftq_api::v2::DeadTopic| {
        let oldest =
            dead.oldest_at.map_or_else(String::new, |at| format!("; the oldest died {}", now.tell(at)));
        let cause = format!(
            "their attempts are used up, their time was over, or a worker gave them up{oldest}. No worker gets them until they are sent back"
        );
        let what = format!("{} dead letter(s) of {}", grouped(dead.letters), printable(&dead.name));
        Finding::new(Urgency::Act, what, cause, format!("driftq dlq list {}", word(&dead.name)))
    };
    survey.dead.iter().map(finding).collect()
}

fn effects(survey: &Survey) -> Finding {
    let unknown = survey.unknown;
    if unknown.count == 0 && !unknown.more {
        return Finding::ok("no effects whose outcome is unknown");
    }
    let more = if unknown.more { " or more" } else { "" };
    let oldest = unknown
        .oldest_ms
        .map_or_else(String::new, |age| format!("; the oldest since {}", length(age.into())));
    let cause = format!(
        "their workers were not heard of again, so they may have happened{oldest}. They wait until an operator has found out"
    );
    let what = format!("{}{more} effect(s) whose outcome is unknown", grouped(unknown.count));
    Finding::new(Urgency::Act, what, cause, "driftq effect list --state unknown")
}

/// What topics keep after every group is done with it: it costs memory and disk, and is asked for.
fn history(survey: &Survey) -> Option<Finding> {
    let partitions = || survey.topics.iter().flat_map(|topic| &topic.partitions);
    let messages: u64 = partitions().map(|partition| partition.kept_messages).sum();
    let bytes: u64 = partitions().map(|partition| partition.kept_bytes).sum();
    let what = || format!("{} message(s) of history are kept, {}", grouped(messages), about_bytes(bytes));
    (messages > 0).then(|| Finding::ok(what()))
}

fn topic_findings(survey: &Survey, topic: &Topic, now: Now) -> Vec<Finding> {
    let name = printable(&topic.name);
    let mut findings = Vec::new();
    let waiting: u64 = of_topic(survey, topic).map(Seen::waiting).sum();
    if let Some(at) = topic.paused_at.filter(|_| waiting > 0) {
        let what = format!("topic {name} is paused, and {} message(s) wait", grouped(waiting));
        let cause = format!("an operator paused it {}", now.tell(at));
        findings.push(Finding::new(
            Urgency::Look,
            what,
            cause,
            format!("driftq topic resume {}", word(&topic.name)),
        ));
    }
    let kept = topic.messages.saturating_sub(topic.scheduled);
    if kept > 0 && topic.groups.is_empty() && !topic.name.starts_with(DEAD_PREFIX) {
        let what = format!("no group reads {name}, and {} message(s) are kept", grouped(kept));
        let cause = "a group begins with its first reader, and then gets all of them";
        let next = format!("driftq message list {}", word(&topic.name));
        findings.push(Finding::new(Urgency::Look, what, cause, next));
    }
    for partition in &topic.partitions {
        let limits = [
            (
                "messages",
                partition.messages,
                topic.settings.partition_messages_max,
                grouped as fn(u64) -> String,
            ),
            ("bytes", partition.bytes, topic.settings.partition_bytes_max, about_bytes),
        ];
        for (what, kept, most, show) in limits {
            findings.extend(limit(topic, partition.partition, what, (kept, most), show));
        }
    }
    findings
}

/// A partition that is nearly full.
fn limit(
    topic: &Topic,
    partition: u64,
    what: &str,
    (kept, most): (u64, Option<u64>),
    show: fn(u64) -> String,
) -> Option<Finding> {
    let most = most.filter(|most| *most > 0)?;
    let percent = u64::try_from(u128::from(kept) * 100 / u128::from(most)).unwrap_or(u64::MAX);
    let urgency = match percent {
        LIMIT_ACT_PERCENT.. => Urgency::Act,
        LIMIT_LOOK_PERCENT.. => Urgency::Look,
        _ => return None,
    };
    let kept = format!("{} of {} {what}", show(kept), show(most));
    let cause = "at the limit new messages are refused with 429; let its groups catch up, add readers, or raise the limit";
    let next =
        format!("driftq topic set {} partition_{what}_max={}", word(&topic.name), most.saturating_mul(2));
    let full = format!("partition {partition} of {} is {percent} % full: {kept}", printable(&topic.name));
    Some(Finding::new(urgency, full, cause, next))
}

fn of_topic<'a>(survey: &'a Survey, topic: &'a Topic) -> impl Iterator<Item = &'a Seen> {
    survey.groups.iter().filter(|seen| seen.group.topic == topic.name)
}

fn groups(survey: &Survey, now: Now) -> Vec<Finding> {
    let paused = |seen: &Seen| {
        survey.topics.iter().any(|topic| topic.name == seen.group.topic && topic.paused_at.is_some())
    };
    let found: Vec<Finding> =
        survey.groups.iter().filter_map(|seen| group(seen, paused(seen), now)).collect();
    if !found.is_empty() {
        return found;
    }
    let groups = survey.groups.len() as u64;
    vec![Finding::ok(format!(
        "{} group(s) of {} topic(s), and none is behind",
        grouped(groups),
        grouped(survey.topic_names.len() as u64)
    ))]
}

/// The one thing about a group that explains the most.
fn group(seen: &Seen, topic_is_paused: bool, now: Now) -> Option<Finding> {
    let group = &seen.group;
    let waiting = seen.waiting();
    if waiting == 0 || topic_is_paused {
        return None;
    }
    let name = format!("{} of {}", printable(&group.name), printable(&group.topic));
    let (topic, group_word) = (word(&group.topic), word(&group.name));
    let describe = format!("driftq group describe {topic} {group_word}");
    let waiting = grouped(waiting);
    if let Some(at) = group.paused_at {
        let what = format!("group {name} is paused, and {waiting} message(s) wait");
        let cause = format!("an operator paused it {}", now.tell(at));
        return Some(Finding::new(
            Urgency::Look,
            what,
            cause,
            format!("driftq group resume {topic} {group_word}"),
        ));
    }
    if group.consumers == 0 && group.members.is_empty() {
        // Who reads call by call is not there between two calls.
        let is_gone = now.age_ms(group.seen_at) >= READERS_GONE_MS;
        let urgency = if is_gone { Urgency::Act } else { Urgency::Look };
        let what = format!("no worker reads for group {name}, and {waiting} message(s) wait");
        let cause = format!(
            "it was last seen {}; start its workers, or forget it with `driftq group delete {topic} {group_word}`",
            now.tell(group.seen_at)
        );
        return Some(Finding::new(urgency, what, cause, describe));
    }
    if let Some(oldest) = seen.oldest_ms.filter(|oldest| *oldest >= OLDEST_LOOK_MS) {
        let urgency = if oldest >= OLDEST_ACT_MS { Urgency::Act } else { Urgency::Look };
        let what =
            format!("group {name} is behind: {waiting} message(s), the oldest for {}", length(oldest.into()));
        return Some(Finding::new(urgency, what, behind(seen), describe));
    }
    None
}

/// Why a group that reads is behind: what most of its messages wait for.
fn behind(seen: &Seen) -> String {
    let waiting = &seen.group.waiting;
    let idle = [DeliveryState::Scheduled.name(), DeliveryState::Done.name()];
    let most =
        waiting.iter().filter(|(state, _)| !idle.contains(&&***state)).max_by_key(|(_, count)| **count);
    match most.map(|(state, _)| &**state) {
        Some("backoff") => "most of it failed and waits for another attempt: see why with `driftq message list --state backoff`",
        Some("window_full") => "its readers hold as many messages as the topic allows: settle faster, or raise max_in_flight",
        Some("key_busy") => "most of it waits for an earlier message of the same key",
        Some("in_flight") => "its readers have it on loan and have not settled it",
        _ => "its readers are slower than its producers: add readers, or make them faster",
    }
    .to_owned()
}

/// A message that is likely to fail again and again.
fn poison(failing: &Failing) -> Option<Finding> {
    if failing.attempts < ATTEMPTS_MANY {
        return None;
    }
    let Failing { topic, partition, offset, group, attempts, max_attempts, error } = failing;
    let error = if error.is_empty() { "it says nothing".to_owned() } else { cut(&printable(error)) };
    let what = format!(
        "message {partition}/{offset} of {} has failed {attempts} times for {}",
        printable(topic),
        printable(group)
    );
    let (urgency, end) = if max_attempts.is_none() {
        (
            Urgency::Act,
            "it has no limit of attempts, so it may go on for ever; `driftq topic set` has retry_max_attempts for new ones",
        )
    } else {
        (Urgency::Look, "it becomes a dead letter when its attempts are used up")
    };
    let next = format!("driftq message get {} {partition} {offset}", word(topic));
    Some(Finding::new(urgency, what, format!("last error: {error}. {end}"), next))
}
