//! Consumer groups as resources.

use std::collections::BTreeMap;

use driftq_api::v2::{
    Group, GroupLease, GroupPartition, Groups, Member, MemberKind, Page, Paused, Seek, SeekTo, Sought,
    SoughtPartition, confirmed,
};
use driftq_api::{Code, Fault};
use driftq_engine::core::{self, GroupDescription};
use hyper::StatusCode;

use super::words::{moment, time};
use super::{Request, fault};
use crate::http::answer::{json, no_content};
use crate::http::audit::noted;
use crate::http::v1::Handled;

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let page = Page::from_query(&request.query()?)?;
    let described = request.app.broker.describe_groups(&request.name(0, "topic")?, None).await;
    let mut groups = described.map_err(|failure| fault(&failure))?;
    groups.sort_by(|one, other| one.name.cmp(&other.name));
    let (groups, cursor) = page.cut(groups, |group| &group.name);
    Ok(json(StatusCode::OK, &Groups { groups: groups.iter().map(shown).collect(), cursor }))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let described = request
        .app
        .broker
        .describe_groups(&request.name(0, "topic")?, Some(&request.name(1, "group")?))
        .await;
    let groups = described.map_err(|failure| fault(&failure))?;
    let group = groups.first();
    let group = group.ok_or_else(|| Fault::new(Code::GroupUnknown, "the topic has no group of that name"))?;
    Ok(json(StatusCode::OK, &shown(group)))
}

pub(super) async fn delete(request: &Request<'_>) -> Handled {
    let (topic, group) = (request.name(0, "topic")?, request.name(1, "group")?);
    confirmed(request.query()?, &group)?;
    request.app.broker.delete_group(&topic, &group).await.map_err(|failure| fault(&failure))?;
    Ok(no_content())
}

pub(super) async fn pause(request: &Request<'_>, paused: bool) -> Handled {
    request.no_query()?;
    let since =
        request.app.broker.pause(&request.name(0, "topic")?, Some(&request.name(1, "group")?), paused).await;
    let since = since.map_err(|failure| fault(&failure))?;
    Ok(json(StatusCode::OK, &Paused { paused_at: since.map(moment) }))
}

pub(super) async fn seek(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let asked = Seek::from_json(request.json()?)?;
    let detail = match (asked.to, asked.partition) {
        (to, None) => told(to),
        (to, Some(partition)) => format!("partition {partition} {}", told(to)),
    };
    let to = match asked.to {
        SeekTo::Earliest => core::SeekTo::Earliest,
        SeekTo::Latest => core::SeekTo::Latest,
        SeekTo::Offset(offset) => core::SeekTo::Offset(offset),
        SeekTo::Time(at) => core::SeekTo::Time(time(at)),
    };
    let sought = request
        .app
        .broker
        .seek(&request.name(0, "topic")?, &request.name(1, "group")?, asked.partition, to)
        .await;
    let sought = sought.map_err(|failure| fault(&failure))?;
    let moved = (0..).zip(&sought).filter(|(number, _)| asked.partition.is_none_or(|only| only == *number));
    let partitions = moved.map(|(partition, described)| SoughtPartition {
        partition,
        next_offset: described.acked_below,
        lag: described.lag,
    });
    Ok(noted(json(StatusCode::OK, &Sought { partitions: partitions.collect() }), detail))
}

/// Where a group goes, for the audit.
fn told(to: SeekTo) -> String {
    match to {
        SeekTo::Earliest => "to the earliest message".to_owned(),
        SeekTo::Latest => "to the latest message".to_owned(),
        SeekTo::Offset(offset) => format!("to offset {offset}"),
        SeekTo::Time(at) => format!("to {at}"),
    }
}

pub(super) fn shown(group: &GroupDescription) -> Group {
    let partitions = group.partitions.iter().zip(0..).map(|(described, partition)| GroupPartition {
        partition,
        lag: described.lag,
        in_flight: described.in_flight,
        retrying: described.retrying,
        acked_below: described.acked_below,
    });
    let sum = |count: fn(&core::GroupPartition) -> u64| group.partitions.iter().map(count).sum::<u64>();
    let (lag, in_flight) = (sum(|lane| lane.lag), sum(|lane| lane.in_flight.into()));
    let (retrying, key_busy) = (sum(|lane| lane.retrying.into()), sum(|lane| lane.key_busy.into()));
    let (scheduled, same_key) = (sum(|lane| lane.scheduled.into()), sum(|lane| lane.same_identity.into()));
    let is_paused = group.paused.is_some() || group.topic_paused.is_some();
    let (mut ready, mut full) = (0, 0);
    for lane in &group.partitions {
        let held_back = lane.in_flight + lane.retrying + lane.key_busy + lane.scheduled + lane.same_identity;
        let rest = lane.lag.saturating_sub(held_back.into());
        if lane.is_full && !is_paused {
            full += rest;
        } else {
            ready += rest;
        }
    }
    let reasons = [
        ("in_flight", in_flight),
        ("backoff", retrying),
        ("key_busy", key_busy),
        ("scheduled", scheduled.min(lag)),
        ("same_key_running", same_key),
        ("window_full", full),
        (if is_paused { "paused" } else { "ready" }, ready),
    ];
    let waiting: BTreeMap<_, _> = reasons
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.into(), count))
        .collect();
    Group {
        topic: group.topic.to_string(),
        name: group.name.to_string(),
        consumers: group.consumers,
        readers: u32::try_from(group.members.len()).unwrap_or(u32::MAX),
        seen_at: moment(group.seen),
        lag,
        in_flight,
        retrying,
        partitions: partitions.collect(),
        paused_at: group.paused.map(moment),
        waiting,
        members: group.members.iter().map(member).collect(),
        leases: group.loans.iter().map(lease).collect(),
    }
}

fn lease(loan: &core::LoanDescription) -> GroupLease {
    GroupLease {
        partition: loan.partition,
        offset: loan.offset,
        owner: loan.owner.to_string(),
        attempt: loan.attempt,
        leased_at: moment(loan.leased),
        expires_at: moment(loan.expires),
    }
}

fn member(member: &core::Member) -> Member {
    let kind = if member.streams { MemberKind::Stream } else { MemberKind::Lease };
    Member { owner: member.owner.to_string(), kind, in_flight: member.in_flight }
}
