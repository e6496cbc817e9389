//! What deserves a look, and what deserves action: from what was seen to findings, and nothing else.

use driftq_api::shown::{cut, grouped, word};
use driftq_api::units::about_bytes;
use driftq_api::v2::{Area, Breaker, DeadTopic, DeliveryState, Finding, OnError, RouterKind, Urgency};
use driftq_api::when::{Now, length};

use super::super::words::moment;
use super::survey::{Failing, Seen, Survey, Topic};
use crate::http::VERSION;

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
const LIMIT_LOOK_PERCENT: u128 = 80;
const LIMIT_ACT_PERCENT: u128 = 95;

/// `1 message`, `2 messages`.
fn many(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Messages that wait.
fn wait(count: u64) -> String {
    format!("{} {}", many(count, "message"), if count == 1 { "waits" } else { "wait" })
}

/// Something that asks for a look or for action.
fn found(
    verdict: Urgency,
    area: Area,
    what: impl Into<String>,
    cause: impl Into<String>,
    next: impl Into<String>,
) -> Finding<'static> {
    Finding { verdict, cause: cause.into().into(), next: Some(next.into().into()), ..fine(area, what) }
}

/// Something that is as it should be.
fn fine(area: Area, what: impl Into<String>) -> Finding<'static> {
    Finding {
        verdict: Urgency::Ok,
        what: what.into().into(),
        cause: "".into(),
        next: None,
        area,
        topic: None,
        group: None,
        message: None,
    }
}

/// Everything worth saying, what is most urgent first.
pub(super) fn findings(survey: &Survey, now: Now) -> Vec<Finding<'static>> {
    let mut findings = vec![server(survey)];
    findings.extend(durability(survey));
    findings.push(router(survey));
    findings.extend(dead_letters(survey, now));
    findings.push(effects(survey));
    findings.extend(survey.topics.iter().flat_map(|topic| topic_findings(topic, now)));
    findings.extend(history(survey));
    findings.extend(groups(survey, now));
    findings.extend(survey.failing.iter().filter_map(poison));
    // Stable: within a urgency the order of the areas stays.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    findings
}

fn server(survey: &Survey) -> Finding<'static> {
    let status = &survey.status;
    if status.ready && status.writable {
        let uptime = length(survey.uptime_ms.into());
        return fine(Area::Server, format!("server {VERSION} takes messages, up for {uptime}"));
    }
    let why = status.why.clone().unwrap_or_else(|| "it does not say why".to_owned());
    let data = status.data.as_ref().map(|data| format!("df -h {}", word(&data.display().to_string())));
    let what = if status.ready { "the server takes no new messages" } else { "the server is not ready" };
    found(Urgency::Act, Area::Server, what, why, data.unwrap_or_else(|| "driftq serve --help".to_owned()))
}

fn durability(survey: &Survey) -> Option<Finding<'static>> {
    if survey.status.durable {
        return None;
    }
    let cause = "everything is in memory, and gone when the process ends; fine for tests";
    let next = "driftq serve --data ./driftq-data";
    Some(found(Urgency::Look, Area::Server, "nothing is on disk", cause, next))
}

fn router(survey: &Survey) -> Finding<'static> {
    let status = "driftq router status";
    let left_alone = |then: &str| {
        let cause = format!("it failed too often; {then}");
        found(Urgency::Act, Area::Router, "the router is left alone", cause, status)
    };
    match (survey.router.kind, survey.router.breaker, survey.router.on_error) {
        (RouterKind::None, ..) => fine(Area::Router, "no router is configured"),
        (_, Breaker::Open, OnError::Pass) => left_alone("messages go on without routing"),
        (_, Breaker::Open, OnError::Reject) => left_alone("messages that need it are refused"),
        (_, Breaker::HalfOpen, _) => {
            let cause = "it failed too often a moment ago";
            found(Urgency::Look, Area::Router, "the router is being tried again", cause, status)
        }
        (_, Breaker::Closed, _) => fine(Area::Router, "the router is asked"),
    }
}

fn dead_letters(survey: &Survey, now: Now) -> Vec<Finding<'static>> {
    if survey.dead.is_empty() {
        return vec![fine(Area::DeadLetters, "no dead letters")];
    }
    let finding = |dead: &DeadTopic| {
        let oldest =
            dead.oldest_at.map_or_else(String::new, |at| format!("; the oldest died {}", now.tell(at)));
        let cause = format!(
            "their attempts are used up, their time was over, or a worker gave them up{oldest}. No worker gets them until they are sent back"
        );
        let what = format!("{} of {}", many(dead.letters, "dead letter"), dead.name);
        let next = format!("driftq dlq list {}", word(&dead.name));
        let topic = Some(dead.name.clone().into());
        Finding { topic, ..found(Urgency::Act, Area::DeadLetters, what, cause, next) }
    };
    survey.dead.iter().map(finding).collect()
}

fn effects(survey: &Survey) -> Finding<'static> {
    if survey.unknown == 0 {
        return fine(Area::Effects, "no effects whose outcome is unknown");
    }
    let oldest = survey
        .unknown_oldest_ms
        .map_or_else(String::new, |age| format!("; the oldest since {}", length(age.into())));
    let cause = format!(
        "their workers were not heard of again, so they may have happened{oldest}. They wait until an operator has found out"
    );
    let what = format!("{} whose outcome is unknown", many(survey.unknown, "effect"));
    found(Urgency::Act, Area::Effects, what, cause, "driftq effect list --state unknown")
}

/// What topics keep after every group is done with it: it costs memory and disk, and is asked for.
fn history(survey: &Survey) -> Option<Finding<'static>> {
    let partitions = || survey.topics.iter().flat_map(|topic| &topic.described.partitions);
    let messages: u64 = partitions().map(|partition| partition.kept_messages).sum();
    let bytes: u64 = partitions().map(|partition| partition.kept_bytes).sum();
    let what = || format!("history is kept: {}, {}", many(messages, "message"), about_bytes(bytes));
    (messages > 0).then(|| fine(Area::Topics, what()))
}

fn topic_findings(topic: &Topic, now: Now) -> Vec<Finding<'static>> {
    let described = &topic.described;
    let name = &*described.name;
    let mut findings = Vec::new();
    if let Some(at) = described.paused.filter(|_| topic.waiting > 0) {
        let what = format!("topic {name} is paused, and {}", wait(topic.waiting));
        let cause = format!("an operator paused it {}", now.tell(moment(at)));
        let next = format!("driftq topic resume {}", word(name));
        findings.push(found(Urgency::Look, Area::Topics, what, cause, next));
    }
    let messages: u64 = described.partitions.iter().map(|partition| partition.messages).sum();
    let kept = messages.saturating_sub(described.scheduled);
    if kept > 0 && !topic.is_read && !name.starts_with(DEAD_PREFIX) {
        let what = format!("no group reads {name}, which keeps {}", many(kept, "message"));
        let cause = "a group begins with its first reader, and then gets all of them";
        let next = format!("driftq message list {}", word(name));
        findings.push(found(Urgency::Look, Area::Topics, what, cause, next));
    }
    for (number, partition) in described.partitions.iter().enumerate() {
        let limits = [
            ("messages", partition.messages, topic.messages_max, grouped as fn(u64) -> String),
            ("bytes", partition.bytes, topic.bytes_max, about_bytes),
        ];
        for (what, kept, most, show) in limits {
            findings.extend(limit(name, number, what, (kept, most), show));
        }
    }
    for finding in &mut findings {
        finding.topic = Some(name.to_owned().into());
    }
    findings
}

/// A partition that is nearly full.
fn limit(
    topic: &str,
    partition: usize,
    what: &str,
    (kept, most): (u64, u64),
    show: fn(u64) -> String,
) -> Option<Finding<'static>> {
    let percent = u128::from(kept) * 100 / u128::from(most.max(1));
    let verdict = match percent {
        _ if most == 0 => return None,
        LIMIT_ACT_PERCENT.. => Urgency::Act,
        LIMIT_LOOK_PERCENT.. => Urgency::Look,
        _ => return None,
    };
    let kept = format!("{} of {} {what}", show(kept), show(most));
    let cause = "at the limit new messages are refused with 429; let its groups catch up, add readers, or raise the limit";
    let next = format!("driftq topic set {} partition_{what}_max={}", word(topic), most.saturating_mul(2));
    let full = format!("partition {partition} of {topic} is {percent} % full: {kept}");
    Some(found(verdict, Area::Topics, full, cause, next))
}

fn groups(survey: &Survey, now: Now) -> Vec<Finding<'static>> {
    let found: Vec<Finding<'static>> = survey.groups.iter().filter_map(|seen| group(seen, now)).collect();
    if !found.is_empty() {
        return found;
    }
    let (groups, topics) = (many(survey.group_count, "group"), many(survey.topic_count, "topic"));
    vec![fine(Area::Groups, format!("{groups} of {topics}, and none is behind"))]
}

/// The one thing about a group that explains the most.
fn group(seen: &Seen, now: Now) -> Option<Finding<'static>> {
    let group = &seen.group;
    let waiting = seen.waiting();
    if waiting == 0 || seen.is_topic_paused {
        return None;
    }
    let name = format!("{} of {}", group.name, group.topic);
    let (topic, group_word) = (word(&group.topic), word(&group.name));
    let describe = format!("driftq group describe {topic} {group_word}");
    let finding = if let Some(at) = group.paused_at {
        let what = format!("group {name} is paused, and {}", wait(waiting));
        let cause = format!("an operator paused it {}", now.tell(at));
        let next = format!("driftq group resume {topic} {group_word}");
        found(Urgency::Look, Area::Groups, what, cause, next)
    } else if group.consumers == 0 && group.members.is_empty() {
        // Who reads call by call is not there between two calls.
        let is_gone = now.age_ms(group.seen_at) >= READERS_GONE_MS;
        let verdict = if is_gone { Urgency::Act } else { Urgency::Look };
        let what = format!("no worker reads for group {name}, and {}", wait(waiting));
        let cause = format!(
            "it was last seen {}; start its workers, or forget it with `driftq group delete {topic} {group_word}`",
            now.tell(group.seen_at)
        );
        found(verdict, Area::Groups, what, cause, describe)
    } else {
        let oldest = seen.oldest_ms.filter(|oldest| *oldest >= OLDEST_LOOK_MS)?;
        let verdict = if oldest >= OLDEST_ACT_MS { Urgency::Act } else { Urgency::Look };
        let (waiting, oldest) = (many(waiting, "message"), length(oldest.into()));
        let what = format!("group {name} is behind: {waiting}, the oldest for {oldest}");
        found(verdict, Area::Groups, what, behind(seen), describe)
    };
    let (topic, group) = (Some(group.topic.clone().into()), Some(group.name.clone().into()));
    Some(Finding { topic, group, ..finding })
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
fn poison(failing: &Failing) -> Option<Finding<'static>> {
    if failing.attempts < ATTEMPTS_MANY {
        return None;
    }
    let Failing { topic, partition, offset, group, attempts, max_attempts, error } = failing;
    let error = if error.is_empty() { "it says nothing".to_owned() } else { cut(error) };
    let what = format!("message {partition}/{offset} of {topic} has failed {attempts} times for {group}");
    let (verdict, end) = if max_attempts.is_none() {
        (
            Urgency::Act,
            "it has no limit of attempts, so it may go on for ever; `driftq topic set` has retry_max_attempts for new ones",
        )
    } else {
        (Urgency::Look, "it becomes a dead letter when its attempts are used up")
    };
    let next = format!("driftq message get {} {partition} {offset}", word(topic));
    Some(Finding {
        topic: Some(topic.clone().into()),
        group: Some(group.clone().into()),
        message: Some((*partition, *offset)),
        ..found(verdict, Area::Messages, what, format!("last error: {error}. {end}"), next)
    })
}
