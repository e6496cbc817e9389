//! Topics as resources.

use std::borrow::Cow;

use driftq_api::Fault;
use driftq_api::v2::{
    Page, Partition, Paused, SettingChange, Topic, TopicChanged, TopicPatch, TopicPut, TopicSpec,
    TopicSummary, Topics, confirmed,
};
use driftq_engine::Failure;
use driftq_engine::core::{self, Reject, Settings, TopicDescription};
use hyper::StatusCode;

use super::settings::{changes, in_force, taken_patch, taken_spec};
use super::words::moment;
use super::{Request, fault};
use crate::http::answer::{json, no_content};
use crate::http::audit::noted;
use crate::http::v1::Handled;

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let page = Page::from_query(&request.query()?)?;
    let names = request.caller.own_topics(&request.app.broker);
    let (names, cursor) = page.cut(names, |name| name);
    let mut topics = Vec::with_capacity(names.len());
    for name in names {
        match request.app.broker.describe_topic(&name).await {
            Ok(topic) => topics.push(summary(&topic)),
            // Deleted since the names were read.
            Err(Failure::Reject(Reject::TopicUnknown)) => {}
            Err(failure) => return Err(fault(&failure)),
        }
    }
    Ok(json(StatusCode::OK, &Topics { topics, cursor }))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    Ok(json(StatusCode::OK, &describe(request, &request.name(0, "topic")?).await?))
}

pub(super) async fn put(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "topic")?;
    let spec = TopicSpec::from_json(request.json()?)?;
    let partitions = spec.partitions.unwrap_or(1);
    let tenant = spec.tenant.as_deref().map(Cow::Borrowed);
    let tenant = request.caller.tenant_or_all(tenant)?;
    let settings = taken_spec(&spec);
    let ready = request.app.broker.put_topic(&name, partitions, settings, tenant.as_deref(), true).await;
    let created = ready.map_err(|failure| fault(&failure))?.created;
    let topic = describe(request, &name).await?;
    let unset = in_force(&core::TopicSettings::default(), request.app.broker.settings());
    let detail = match created {
        true => format!("partitions {partitions} {}", told(&changes(&unset, &topic.settings))),
        false => "it was there".to_owned(),
    };
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(noted(json(status, &TopicPut { created, topic }), detail.trim_end()))
}

pub(super) async fn patch(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "topic")?;
    let patch = TopicPatch::from_json(request.json()?)?;
    let configured = request.app.broker.configure_topic(&name, taken_patch(&patch)).await;
    let (before, after) = configured.map_err(|failure| fault(&failure))?;
    let server = request.app.broker.settings();
    let changed = changes(&in_force(&before, server), &in_force(&after, server));
    let detail = told(&changed);
    Ok(noted(json(StatusCode::OK, &TopicChanged { topic: name.into_owned(), changed }), detail))
}

/// Changes in words, for the audit.
fn told(changed: &[SettingChange]) -> String {
    let told =
        changed.iter().map(|change| format!("{} {} -> {}", change.setting, change.before, change.after));
    told.collect::<Vec<_>>().join(", ")
}

pub(super) async fn delete(request: &Request<'_>) -> Handled {
    let name = request.name(0, "topic")?;
    confirmed(request.query()?, &name)?;
    request.app.broker.delete_topic(&name).await.map_err(|failure| fault(&failure))?;
    Ok(no_content())
}

pub(super) async fn pause(request: &Request<'_>, paused: bool) -> Handled {
    request.no_query()?;
    let since = request.app.broker.pause(&request.name(0, "topic")?, None, paused).await;
    let since = since.map_err(|failure| fault(&failure))?;
    Ok(json(StatusCode::OK, &Paused { paused_at: since.map(moment) }))
}

async fn describe(request: &Request<'_>, name: &str) -> Result<Topic, Fault> {
    let described = request.app.broker.describe_topic(name).await.map_err(|failure| fault(&failure))?;
    Ok(shown(&described, request.app.broker.settings()))
}

fn summary(topic: &TopicDescription) -> TopicSummary {
    TopicSummary {
        name: topic.name.to_string(),
        partitions: topic.partitions.len() as u64,
        groups: topic.groups.len() as u64,
        messages: topic.partitions.iter().map(|partition| partition.messages).sum(),
        bytes: topic.partitions.iter().map(|partition| partition.bytes).sum(),
        tenant: topic.tenant.as_deref().map(str::to_owned),
    }
}

fn shown(topic: &TopicDescription, server: &Settings) -> Topic {
    let summary = summary(topic);
    let partitions = topic.partitions.iter().zip(0..).map(|(described, partition)| Partition {
        partition,
        messages: described.messages,
        bytes: described.bytes,
        oldest_offset: described.oldest_offset,
        oldest_at: described.oldest_at.map(moment),
        kept_messages: described.kept_messages,
        kept_bytes: described.kept_bytes,
        earliest_offset: described.earliest_offset,
    });
    Topic {
        name: summary.name,
        tenant: summary.tenant,
        created_at: moment(topic.created),
        next_offset: topic.next_offset,
        messages: summary.messages,
        bytes: summary.bytes,
        oldest_at: topic.partitions.iter().filter_map(|partition| partition.oldest_at).min().map(moment),
        dead_letters: topic.dead_letters,
        partitions: partitions.collect(),
        groups: topic.groups.iter().map(ToString::to_string).collect(),
        scheduled: topic.scheduled,
        paused_at: topic.paused.map(moment),
        settings: in_force(&topic.settings, server),
    }
}
