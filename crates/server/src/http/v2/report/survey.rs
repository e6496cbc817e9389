//! A look at everything that a report is about. What it costs is bounded: the numbers that metrics are made of tell which
//! groups are behind, and only those are looked at closely.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use driftq_api::v2::{DeadTopic, DeliveryState, Group, RouterStatus};
use driftq_engine::core::{
    Browse, GroupTally, KeyHash, Stage, Tally, TopicDescription, TopicId, Wait, ledger,
};
use driftq_engine::{Broker, EffectFilter, Failure, Status};

use super::super::groups;
use super::super::router;
use super::super::words::moment;
use crate::http::app::App;

/// Groups that are looked at closely: those that are furthest behind.
const GROUPS_MAX: usize = 500;
/// Most looks at the front of a partition.
const FRONTS_MAX: usize = 1_000;
/// Topics in which failing messages are looked for, and how many messages from the front on.
const FAILING_TOPICS_MAX: usize = 20;
const FAILING_SCANNED_MAX: u32 = 100;

/// What was seen.
pub(super) struct Survey {
    pub(super) status: Status,
    pub(super) uptime_ms: u64,
    pub(super) router: RouterStatus,
    pub(super) topic_count: u64,
    pub(super) group_count: u64,
    pub(super) topics: Vec<Topic>,
    /// Groups for which something waits, those that are furthest behind.
    pub(super) groups: Vec<Seen>,
    pub(super) dead: Vec<DeadTopic>,
    /// Effects whose outcome is unknown.
    pub(super) unknown: u64,
    pub(super) unknown_oldest_ms: Option<u64>,
    pub(super) failing: Vec<Failing>,
    /// Groups and partitions that were not looked at.
    pub(super) left_out: u64,
}

/// A topic, and what its groups make of it.
pub(super) struct Topic {
    pub(super) described: TopicDescription,
    pub(super) is_read: bool,
    /// Messages that its groups together could be given.
    pub(super) waiting: u64,
    pub(super) messages_max: u64,
    pub(super) bytes_max: u64,
}

/// A group, and how long its oldest message has waited.
pub(super) struct Seen {
    pub(super) group: Group,
    pub(super) is_topic_paused: bool,
    /// None if nothing waits, or if too many others were looked at first.
    pub(super) oldest_ms: Option<u64>,
}

impl Seen {
    /// Messages that could be delivered if a worker asked for them: without those whose time has not come.
    pub(super) fn waiting(&self) -> u64 {
        let scheduled = self.group.waiting.get(DeliveryState::Scheduled.name()).copied().unwrap_or(0);
        self.group.lag.saturating_sub(scheduled)
    }
}

/// A message that keeps failing.
pub(super) struct Failing {
    pub(super) topic: String,
    pub(super) partition: u32,
    pub(super) offset: u64,
    pub(super) group: String,
    pub(super) attempts: u32,
    /// How many there will be; none if there is no limit.
    pub(super) max_attempts: Option<u32>,
    pub(super) error: String,
}

pub(super) async fn take(app: &App) -> Result<Survey, Failure> {
    let broker = &app.broker;
    let tally = broker.tally().await?;
    let (groups, skipped) = behind(broker, &tally).await?;
    let uptime = Instant::now().saturating_duration_since(app.started);
    Ok(Survey {
        status: broker.status(),
        uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
        router: router::told(broker),
        topic_count: tally.topic_count,
        group_count: tally.group_count,
        unknown: tally.effects.unknown,
        unknown_oldest_ms: oldest_unknown(broker, tally.effects.unknown).await?,
        failing: failing(broker, &tally).await?,
        dead: dead(&tally),
        left_out: tally.left_out + skipped,
        topics: topics(broker, tally, &groups),
        groups,
    })
}

/// The groups that are furthest behind, and how many that are behind were not looked at.
async fn behind(broker: &Broker, tally: &Tally) -> Result<(Vec<Seen>, u64), Failure> {
    let lag = |group: &GroupTally| group.partitions.iter().map(|lane| lane.lag).sum::<u64>();
    let mut behind: Vec<(u64, &GroupTally)> =
        tally.groups.iter().map(|group| (lag(group), group)).filter(|(lag, _)| *lag > 0).collect();
    behind.sort_by_key(|(lag, _)| std::cmp::Reverse(*lag));
    let skipped = behind.len().saturating_sub(GROUPS_MAX) as u64;
    let paused: BTreeSet<&str> =
        tally.topics.iter().filter(|topic| topic.paused.is_some()).map(|topic| &*topic.name).collect();
    let (mut seen, mut fronts) = (Vec::new(), 0);
    for (_, group) in behind.into_iter().take(GROUPS_MAX) {
        let described = match broker.describe_groups(&group.topic, Some(&group.name)).await {
            // Deleted since it was counted: there is nothing to say about it.
            Err(Failure::Reject(_)) => continue,
            described => described?,
        };
        let Some(described) = described.first() else { continue };
        let group = groups::shown(described);
        let is_topic_paused = paused.contains(&*group.topic);
        let oldest_ms = front(broker, &group, &mut fronts).await?;
        seen.push(Seen { group, is_topic_paused, oldest_ms });
    }
    Ok((seen, skipped))
}

/// How long the message at the front of a group has waited: the first one that the group has not acked.
async fn front(broker: &Broker, group: &Group, looks: &mut usize) -> Result<Option<u64>, Failure> {
    let now = broker.now();
    let mut oldest = None;
    for lane in group.partitions.iter().filter(|lane| lane.lag > 0) {
        if *looks == FRONTS_MAX {
            break;
        }
        *looks += 1;
        let partition = u32::try_from(lane.partition).unwrap_or(u32::MAX);
        let browse = stretch(partition, lane.acked_below.unwrap_or(0), 1);
        let glance = match broker.glance(&group.topic, browse).await {
            Err(Failure::Reject(_)) => break,
            glance => glance?,
        };
        // What is scheduled waits from the moment it is due.
        let ages = glance.found.iter().map(|found| now.since_ms(found.due.unwrap_or(found.at).max(found.at)));
        oldest = oldest.max(ages.max());
    }
    Ok(oldest)
}

/// Messages of one partition from an offset on.
const fn stretch(partition: u32, from: u64, limit: u32) -> Browse {
    Browse { topic: TopicId(0), partition, alone: true, from, limit, key: KeyHash::NONE }
}

fn topics(broker: &Broker, tally: Tally, groups: &[Seen]) -> Vec<Topic> {
    let settings = broker.settings();
    let read: BTreeSet<&str> = tally.groups.iter().map(|group| &*group.topic).collect();
    let mut waiting: BTreeMap<&str, u64> = BTreeMap::new();
    for seen in groups {
        *waiting.entry(&seen.group.topic).or_default() += seen.waiting();
    }
    let topics = tally.topics.into_iter().map(|described| Topic {
        is_read: read.contains(&*described.name),
        waiting: waiting.get(&*described.name).copied().unwrap_or(0),
        messages_max: described.settings.messages_max.unwrap_or(settings.partition_messages_max),
        bytes_max: described.settings.bytes_max.unwrap_or(settings.partition_bytes_max),
        described,
    });
    topics.collect()
}

fn dead(tally: &Tally) -> Vec<DeadTopic> {
    let prefix = Broker::dead_letter_topic("");
    let dead = tally.topics.iter().filter_map(|topic| {
        let letters = topic.partitions.iter().map(|lane| lane.messages).sum();
        let oldest = topic.partitions.iter().filter_map(|lane| lane.oldest_at).min();
        let name = topic.name.strip_prefix(&prefix)?.to_owned();
        (letters > 0).then(|| DeadTopic { name, letters, oldest_at: oldest.map(moment) })
    });
    dead.collect()
}

/// How long the unknown effect that was begun first has been so.
async fn oldest_unknown(broker: &Broker, unknown: u64) -> Result<Option<u64>, Failure> {
    if unknown == 0 {
        return Ok(None);
    }
    let status = Some(ledger::Status::Unknown);
    let page =
        broker.effects(&EffectFilter { after: 0, limit: 1, status, tenant: None, scope: None }).await?;
    let since = page.seen.first().and_then(|effect| effect.view.ended);
    Ok(since.map(|since| broker.now().since_ms(since)))
}

/// Messages that wait for another attempt, at the front of topics that have some.
async fn failing(broker: &Broker, tally: &Tally) -> Result<Vec<Failing>, Failure> {
    let lanes = |group: &GroupTally| group.partitions.iter().position(|lane| lane.retrying > 0);
    let retrying = tally.groups.iter().filter_map(|group| Some((group, lanes(group)?)));
    let mut failing = Vec::new();
    for (group, partition) in retrying.take(FAILING_TOPICS_MAX) {
        let browse = stretch(u32::try_from(partition).unwrap_or(u32::MAX), 0, FAILING_SCANNED_MAX);
        let Ok(glance) = broker.glance(&group.topic, browse).await else { continue };
        for found in glance.found.iter().filter(|found| found.stage == Stage::Backoff) {
            // It may have been acked meanwhile.
            let Ok((_, described)) = broker.look_at(&group.topic, found.partition, found.offset).await else {
                continue;
            };
            let own = described.groups.into_iter().find(|standing| standing.group == group.name);
            let Some(standing) = own.filter(|standing| standing.wait == Wait::Backoff) else { continue };
            let most = found.retry.map(|policy| policy.max_attempts).filter(|most| *most > 0);
            failing.push(Failing {
                topic: group.topic.to_string(),
                partition: found.partition,
                offset: found.offset,
                group: standing.group.to_string(),
                attempts: standing.attempts,
                max_attempts: most,
                error: standing.last_error.to_string(),
            });
        }
    }
    Ok(failing)
}
