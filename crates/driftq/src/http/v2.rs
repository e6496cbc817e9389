//! The calls of `/v2` that exist so far: all of them only look.

use std::borrow::Cow;
use std::time::Instant;

use driftq_api::v2::{
    Group, GroupPartition, Groups, Health, Page, Partition, Recovery, Status, Topic, TopicSummary, Topics,
};
use driftq_api::{Code, Fault, Moment, Query, decode_segment};
use driftq_engine::Failure;
use driftq_engine::core::{GroupDescription, Reject, Time, TopicDescription};
use hyper::StatusCode;
use hyper::http::request::Parts;

use super::answer::{Answer, json};
use super::app::App;
use super::failure::{Call, fault};
use super::request::raw_query;
use super::v1::Handled;
use super::{COMMIT, VERSION};

pub(crate) fn healthz() -> Answer {
    json(StatusCode::OK, &Health { status: "ok".into() })
}

pub(crate) fn readyz(app: &App) -> Handled {
    let status = app.broker.status();
    if status.ready && status.writable {
        return Ok(json(StatusCode::OK, &Health { status: "ready".into() }));
    }
    let why = status.why.unwrap_or_else(|| "the broker is not ready".to_owned());
    Err(Fault::new(Code::Unavailable, why))
}

pub(crate) fn status(app: &App) -> Answer {
    let (status, counters) = (app.broker.status(), app.broker.counters());
    let durability = if status.durable {
        "an answered request is on disk and survives a crash"
    } else {
        "everything is in memory and gone when the server stops"
    };
    let answer = Status {
        version: VERSION.into(),
        commit: COMMIT.into(),
        ready: status.ready,
        writable: status.writable,
        why: status.why.map(Cow::Owned),
        durability: durability.into(),
        durable: status.durable,
        data: status.data.map(|path| path.display().to_string()),
        epoch: status.epoch,
        uptime_ms: u64::try_from(Instant::now().saturating_duration_since(app.started).as_millis())
            .unwrap_or(u64::MAX),
        topics: app.broker.topics().len() as u64,
        streams: counters.streams,
        connections: app.metrics.connections(),
        segments: counters.segments,
        recovery: Recovery { duration_ms: counters.recovery_ms },
    };
    json(StatusCode::OK, &answer)
}

pub(crate) async fn list_topics(app: &App, head: &Parts) -> Handled {
    let page = Page::from_query(&Query::parse(raw_query(head))?)?;
    let (names, cursor) = page.cut(app.broker.topics(), |name| name);
    let mut topics = Vec::with_capacity(names.len());
    for name in names {
        match app.broker.describe_topic(&name).await {
            Ok(topic) => topics.push(summary(&topic)),
            // Deleted since the names were read.
            Err(Failure::Reject(Reject::TopicUnknown)) => {}
            Err(failure) => return Err(fault(&failure, Call::Other)),
        }
    }
    Ok(json(StatusCode::OK, &Topics { topics, cursor }))
}

pub(crate) async fn describe_topic(app: &App, topic: &str) -> Handled {
    let described = app.broker.describe_topic(&name(topic)?).await;
    let topic = described.map_err(|failure| fault(&failure, Call::Other))?;
    Ok(json(StatusCode::OK, &described_topic(&topic)))
}

pub(crate) async fn list_groups(app: &App, head: &Parts, topic: &str) -> Handled {
    let page = Page::from_query(&Query::parse(raw_query(head))?)?;
    let described = app.broker.describe_groups(&name(topic)?, None).await;
    let mut groups = described.map_err(|failure| fault(&failure, Call::Other))?;
    groups.sort_by(|one, other| one.name.cmp(&other.name));
    let (groups, cursor) = page.cut(groups, |group| &group.name);
    Ok(json(StatusCode::OK, &Groups { groups: groups.iter().map(described_group).collect(), cursor }))
}

pub(crate) async fn describe_group(app: &App, [topic, group]: [&str; 2]) -> Handled {
    let described = app.broker.describe_groups(&name(topic)?, Some(&name(group)?)).await;
    let groups = described.map_err(|failure| fault(&failure, Call::Other))?;
    let Some(group) = groups.first() else {
        return Err(Fault::new(Code::GroupUnknown, "the topic has no group of that name"));
    };
    Ok(json(StatusCode::OK, &described_group(group)))
}

pub(crate) fn unknown() -> Fault {
    Fault::new(Code::NotFound, "there is no such call")
}

fn name(segment: &str) -> Result<Cow<'_, str>, Fault> {
    decode_segment(segment).ok_or_else(|| Fault::invalid("bad percent-encoding in the path"))
}

fn moment(time: Time) -> Moment {
    Moment::saturating_from_epoch_ms(time.0)
}

fn summary(topic: &TopicDescription) -> TopicSummary {
    TopicSummary {
        name: topic.name.to_string(),
        partitions: topic.partitions.len() as u64,
        groups: topic.groups.len() as u64,
        messages: topic.partitions.iter().map(|partition| partition.messages).sum(),
        bytes: topic.partitions.iter().map(|partition| partition.bytes).sum(),
    }
}

fn described_topic(topic: &TopicDescription) -> Topic {
    let summary = summary(topic);
    let partitions = topic.partitions.iter().zip(0..).map(|(described, partition)| Partition {
        partition,
        messages: described.messages,
        bytes: described.bytes,
        oldest_offset: described.oldest_offset,
        oldest_at: described.oldest_at.map(moment),
    });
    Topic {
        name: summary.name,
        created_at: moment(topic.created),
        next_offset: topic.next_offset,
        messages: summary.messages,
        bytes: summary.bytes,
        oldest_at: topic.partitions.iter().filter_map(|partition| partition.oldest_at).min().map(moment),
        dead_letters: topic.dead_letters,
        partitions: partitions.collect(),
        groups: topic.groups.iter().map(ToString::to_string).collect(),
    }
}

fn described_group(group: &GroupDescription) -> Group {
    let partitions = group.partitions.iter().zip(0..).map(|(described, partition)| GroupPartition {
        partition,
        lag: described.lag,
        in_flight: described.in_flight,
        retrying: described.retrying,
        acked_below: described.acked_below,
    });
    Group {
        topic: group.topic.to_string(),
        name: group.name.to_string(),
        consumers: group.consumers,
        seen_at: moment(group.seen),
        lag: group.partitions.iter().map(|partition| partition.lag).sum(),
        in_flight: group.partitions.iter().map(|partition| u64::from(partition.in_flight)).sum(),
        retrying: group.partitions.iter().map(|partition| u64::from(partition.retrying)).sum(),
        partitions: partitions.collect(),
    }
}
