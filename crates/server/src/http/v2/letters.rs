//! Dead letters: found, sent back, thrown away.

use driftq_api::v2::{
    DeadTopic, DeadTopics, LetterFilter, Letters, LettersQuery, Page, Position, Purge, Redrive, Selection,
    path_offset, path_partition,
};
use driftq_api::{Code, Fault};
use driftq_engine::core::{Browse, KeyHash, TopicId};
use driftq_engine::{Broker, JobCall, JobKind};
use hyper::StatusCode;

use super::filled::Filled;
use super::jobs::shown as shown_job;
use super::words::{Looked, looked, moment, seen_item, time};
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::audit::noted;
use crate::http::failure::Call;
use crate::http::tenancy::Holding;
use crate::http::v1::Handled;

/// Letters that one question takes from the broker.
const STRETCH: u32 = 200;
/// Letters that one call reads; the cursor says where to go on.
const LETTERS_READ_MAX: usize = 2_000;

pub(super) async fn topics(request: &Request<'_>) -> Handled {
    let page = Page::from_query(&request.query()?)?;
    let prefix = Broker::dead_letter_topic("");
    let caller = request.caller;
    let names = request.app.broker.topics_of(|tenant| caller.holding(tenant) == Some(Holding::Own));
    let sources = names.into_iter().filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned));
    let sources: Vec<String> = sources.filter(|source| caller.sees(source)).collect();
    let mut dead = Vec::new();
    for source in sources {
        let Ok(topic) = request.app.broker.describe_topic(&Broker::dead_letter_topic(&source)).await else {
            continue;
        };
        let letters: u64 = topic.partitions.iter().map(|partition| partition.messages).sum();
        let oldest = topic.partitions.iter().filter_map(|partition| partition.oldest_at).min();
        if letters > 0 {
            dead.push(DeadTopic { name: source, letters, oldest_at: oldest.map(moment) });
        }
    }
    let (topics, cursor) = page.cut(dead, |topic| &topic.name);
    Ok(json(StatusCode::OK, &DeadTopics { topics, cursor }))
}

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let letters = Broker::dead_letter_topic(&request.name(0, "topic")?);
    let query = LettersQuery::from_query(request.query()?)?;
    let filter = taken(&query.filter);
    let (mut partition, mut from) =
        query.cursor.map_or((0, 0), |after| (after.partition, after.offset.saturating_add(1)));
    let broker = &request.app.broker;
    let (mut filled, mut scanned, mut read) = (Filled::new(query.limit, &request.app.budget), 0, 0);
    let limit = STRETCH.min(u32::try_from(query.limit).unwrap_or(u32::MAX));
    let cursor = loop {
        let key = query.filter.key.as_ref().map_or(KeyHash::NONE, |key| KeyHash::of(key.as_bytes()));
        let browse = Browse { topic: TopicId::default(), partition, alone: false, from, limit, key };
        let glance = broker.glance(&letters, browse).await.map_err(|failure| unknown(&failure))?;
        scanned += glance.scanned;
        read += glance.found.len();
        for found in glance.found {
            let seen = filled.see(broker, glance.topic, found).await?;
            let fits = looked(std::slice::from_ref(&seen)).any(|(_, message)| {
                let letter = message.envelope.as_deref().and_then(|envelope| envelope.dead_letter.as_ref());
                letter.is_some_and(|letter| filter.matches(&message, letter))
            });
            if fits {
                filled.keep(seen);
            }
            if filled.end().is_some() {
                break;
            }
        }
        if let Some(end) = filled.end() {
            break Some(end);
        }
        let Some(next) = glance.next else { break None };
        (partition, from) = next;
        if read >= LETTERS_READ_MAX && from > 0 {
            break Some((partition, from - 1));
        }
    };
    let looked: Vec<Looked<'_>> = looked(&filled.kept).collect();
    let reader = request.reader(&letters);
    let page = Letters {
        letters: looked.iter().map(|looked| seen_item(&reader, looked)).collect(),
        cursor: cursor.map(|(partition, offset)| Position { partition, offset }.cursor()),
        scanned,
    };
    Ok(json(StatusCode::OK, &page))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let letters = Broker::dead_letter_topic(&request.name(0, "topic")?);
    let (partition, offset) = (path_partition(request.names[1])?, path_offset(request.names[2])?);
    let looked_at = request.app.broker.look_at(&letters, partition, offset).await;
    let (seen, _) = looked_at.map_err(|failure| unknown(&failure))?;
    let seen = [seen];
    let Some(looked) = looked(&seen).next() else {
        return Err(Fault::new(Code::MessageUnknown, "the letter was gone when it was read"));
    };
    let reader = request.reader(&letters);
    Ok(json(StatusCode::OK, &seen_item(&reader, &looked)))
}

pub(super) async fn redrive(request: &Request<'_>) -> Handled {
    let asked = Redrive::from_json(request.json()?)?;
    request.caller.may_use(&request.name(0, "topic")?)?;
    let target_topic = asked.target_topic.map(std::borrow::Cow::into_owned);
    if let Some(topic) = &target_topic {
        request.caller.may_use(topic)?;
        request.caller.may_reach(&request.app.broker, topic, Call::Other)?;
    }
    let call = call(request, JobKind::Redrive, &asked.selection, asked.dry_run)?;
    start(request, JobCall { rate_per_second: asked.rate_per_second, target_topic, ..call }).await
}

pub(super) async fn purge(request: &Request<'_>) -> Handled {
    let asked = Purge::from_json(request.json()?)?;
    start(request, call(request, JobKind::Purge, &asked.selection, asked.dry_run)?).await
}

async fn start(request: &Request<'_>, call: JobCall) -> Handled {
    request.no_query()?;
    let detail = told(&call);
    let job = request.app.broker.start_job(call).await.map_err(|failure| unknown(&failure))?;
    Ok(noted(json(StatusCode::ACCEPTED, &shown_job(&job)), format!("job {}: {detail}", job.id)))
}

/// Which letters, for the audit.
fn told(call: &JobCall) -> String {
    let which = match call.filter.letters.len() {
        0 if call.filter == driftq_engine::LetterFilter::default() => "all letters".to_owned(),
        0 => "letters that meet conditions".to_owned(),
        count => format!("{count} named letters"),
    };
    let to = call.target_topic.as_ref().map_or_else(String::new, |topic| format!(" to topic {topic}"));
    let dry = if call.dry_run { ", counted only" } else { "" };
    format!("{which}{to}{dry}")
}

fn call(
    request: &Request<'_>,
    kind: JobKind,
    selection: &Selection<'_>,
    dry_run: bool,
) -> Result<JobCall, Fault> {
    let filter = match selection {
        Selection::All => driftq_engine::LetterFilter::default(),
        Selection::Filter(filter) => taken(filter),
        Selection::Letters(letters) => driftq_engine::LetterFilter {
            letters: letters.iter().map(|letter| (letter.partition, letter.offset)).collect(),
            ..driftq_engine::LetterFilter::default()
        },
    };
    Ok(JobCall {
        kind,
        topic: request.name(0, "topic")?.into_owned(),
        filter,
        rate_per_second: None,
        dry_run,
        target_topic: None,
        request_key: request.key()?,
    })
}

/// Conditions as the broker takes them.
pub(super) fn taken(filter: &LetterFilter<'_>) -> driftq_engine::LetterFilter {
    let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_ref().map(ToString::to_string);
    let labels = filter.labels.pairs().iter();
    driftq_engine::LetterFilter {
        letters: Vec::new(),
        group: text(&filter.group),
        key: filter.key.as_ref().map(|key| key.as_bytes().to_vec()),
        run_id: text(&filter.run_id),
        tenant_id: text(&filter.tenant_id),
        labels: labels.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        reason: text(&filter.reason),
        cause: text(&filter.cause),
        before: filter.before.map(time),
        after: filter.after.map(time),
    }
}

/// A topic that never had a dead letter has no topic for them either.
pub(super) fn unknown(failure: &driftq_engine::Failure) -> Fault {
    let mut fault = fault(failure);
    if fault.code == Code::TopicUnknown {
        fault.message = "the topic has no dead letters, and has had none since it was created".into();
    }
    fault
}
