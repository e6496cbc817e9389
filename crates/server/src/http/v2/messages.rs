//! Messages one by one: looked through, looked at, cancelled, tried again at once.

use std::borrow::Cow;

use driftq_api::v2::{
    BrowseQuery, Browsed, Cancelled, DeliveryState, GroupState, MessageState, Position, Retried, path_offset,
    path_partition,
};
use driftq_api::{Code, Fault};
use driftq_engine::core::{self, Browse, GroupStanding, KeyHash, Reject, Stage, TopicId, Wait};
use driftq_engine::{Failure, Seen};
use hyper::StatusCode;

use super::filled::Filled;
use super::words::{Looked, attempt, looked, moment, seen_item, shown_policy};
use super::{Request, fault};
use crate::http::answer::{Answer, json};
use crate::http::failure::Call;
use crate::http::guard::Caller;
use crate::http::tenancy::Holding;
use crate::http::v1::Handled;

/// Messages that one question takes from the broker.
const STRETCH: u32 = 200;
/// Payloads that one call reads; the cursor says where to go on.
const PAYLOADS_MAX: u64 = 2_000;

pub(super) async fn browse(request: &Request<'_>) -> Handled {
    let topic = request.name(0, "topic")?;
    let query = BrowseQuery::from_query(request.query()?)?;
    let sight = Sight::of(request, &topic, &query)?;
    let (partition, from) = first_place(&query);
    if let Some(key) = &query.idempotency_key
        && let Some(page) = by_identity(request, (&topic, sight), &query, key).await?
    {
        return Ok(page);
    }
    let mut browse = Browse {
        topic: TopicId::default(),
        partition,
        alone: query.partition.is_some(),
        from,
        limit: STRETCH.min(u32::try_from(query.limit).unwrap_or(u32::MAX)),
        key: query.key.as_ref().map_or(KeyHash::NONE, |key| KeyHash::of(key.as_bytes())),
    };
    let broker = &request.app.broker;
    let (mut filled, mut scanned, mut read) = (Filled::new(query.limit, &request.app.budget), 0, 0);
    let cursor = loop {
        let glance = broker.glance(&topic, browse.clone()).await.map_err(|f| fault(&f))?;
        if sight.is_whole() {
            scanned += glance.scanned;
        }
        read += glance.found.len() as u64;
        for found in glance.found {
            let seen = filled.see(broker, glance.topic, found).await?;
            let is_own = looked(std::slice::from_ref(&seen)).any(|(_, message)| sight.has(&message));
            scanned += u64::from(is_own && !sight.is_whole());
            let fits = is_own
                && looked(std::slice::from_ref(&seen)).any(|(_, message)| is_wanted(&query, &seen, &message));
            if fits && stands_so(request, &topic, &query, &seen).await {
                filled.keep(seen);
            }
            if filled.end().is_some() {
                break;
            }
        }
        if let Some(end) = filled.end() {
            break Some(end);
        }
        let Some((partition, offset)) = glance.next else { break None };
        (browse.partition, browse.from) = (partition, offset);
        // A cursor names the last message that was looked at; before the first of a partition there is none.
        if read >= PAYLOADS_MAX && offset > 0 {
            break Some((partition, offset - 1));
        }
    };
    page(&request.reader(&topic), &filled.kept, cursor, scanned)
}

/// Which messages of a topic exist for the caller.
#[derive(Clone, Copy)]
enum Sight<'a> {
    /// All of them.
    Whole,
    /// Those of its tenants: the topic is shared.
    Of(&'a Caller),
}

impl<'a> Sight<'a> {
    fn of(request: &Request<'a>, topic: &str, query: &BrowseQuery<'_>) -> Result<Self, Fault> {
        if let Some(tenant) = &query.tenant_id {
            request.tenant(Cow::Borrowed(tenant))?;
        }
        let sight = Self::into(request, topic)?;
        let tells_of_groups = query.state.is_some_and(|state| !is_of_message(state));
        if tells_of_groups && !sight.is_whole() {
            let text = "state: how groups stand to messages of a shared topic is not told to a key that is bound to \
                        tenants; ask for ready, scheduled, backoff or in_flight";
            return Err(Fault::new(Code::Forbidden, text));
        }
        Ok(sight)
    }

    /// The caller's sight into a topic.
    fn into(request: &Request<'a>, topic: &str) -> Result<Self, Fault> {
        Ok(match request.caller.may_reach(&request.app.broker, topic, Call::Other)? {
            Holding::Own => Self::Whole,
            Holding::Shared => Self::Of(request.caller),
        })
    }

    const fn is_whole(self) -> bool {
        matches!(self, Self::Whole)
    }

    fn has(self, message: &core::Message<'_>) -> bool {
        match self {
            Self::Whole => true,
            Self::Of(caller) => {
                caller.acts_as(message.envelope.as_deref().map_or("", |envelope| &envelope.tenant_id))
            }
        }
    }

    fn only_tenant(self) -> Option<&'a str> {
        match self {
            Self::Whole => None,
            Self::Of(caller) => match caller.tenants() {
                Some([only]) => Some(only),
                _ => None,
            },
        }
    }
}

/// Whether a state is told of the message as a whole, and not of each group.
const fn is_of_message(state: DeliveryState) -> bool {
    use DeliveryState::{Backoff, InFlight, Ready, Scheduled};
    matches!(state, Backoff | InFlight | Ready | Scheduled)
}

/// Where the page begins.
fn first_place(query: &BrowseQuery<'_>) -> (u32, u64) {
    let begin = (query.partition.unwrap_or(0), query.from.unwrap_or(0));
    query.after.map_or(begin, |after| (after.partition, after.offset.saturating_add(1)))
}

/// The message that the produce gate remembers under an idempotency key. Without one, the messages are looked through:
/// the key may be another tenant's, or the gate may have forgotten it.
async fn by_identity(
    request: &Request<'_>,
    (topic, sight): (&str, Sight<'_>),
    query: &BrowseQuery<'_>,
    key: &str,
) -> Result<Option<Answer>, Fault> {
    let only = sight.only_tenant().unwrap_or("");
    let tenant = query.tenant_id.as_deref().unwrap_or(only);
    let place = request.app.broker.whereabouts(topic, tenant, key).await.map_err(|f| fault(&f))?;
    let Some((name, partition, offset)) = place else { return Ok(None) };
    let mut kept = Vec::new();
    if let Ok((seen, _)) = request.app.broker.look_at(&name, partition, offset).await
        && looked(std::slice::from_ref(&seen))
            .any(|(_, message)| sight.has(&message) && is_wanted(query, &seen, &message))
        && stands_so(request, &name, query, &seen).await
    {
        kept.push(seen);
    }
    // A router may have sent it elsewhere.
    page(&request.reader(&name), &kept, None, 1).map(Some)
}

fn page(reader: &super::Reader<'_>, kept: &[Seen], cursor: Option<(u32, u64)>, scanned: u64) -> Handled {
    let looked: Vec<Looked<'_>> = looked(kept).collect();
    let browsed = Browsed {
        messages: looked.iter().map(|looked| seen_item(reader, looked)).collect(),
        cursor: cursor.map(|(partition, offset)| Position { partition, offset }.cursor()),
        scanned,
    };
    Ok(json(StatusCode::OK, &browsed))
}

/// Whether a message stands as asked with some group, where that takes a closer look at it.
async fn stands_so(request: &Request<'_>, topic: &str, query: &BrowseQuery<'_>, seen: &Seen) -> bool {
    let Some(wanted) = query.state.filter(|state| !is_of_message(*state)) else { return true };
    // Without a group there is none that says so, and it is done all the same.
    if wanted == DeliveryState::Done && seen.found.stage == Stage::Done {
        return true;
    }
    let looked_at = request.app.broker.look_at(topic, seen.found.partition, seen.found.offset).await;
    looked_at.is_ok_and(|(_, described)| described.groups.iter().any(|group| state(group).state == wanted))
}

/// Whether a message meets every condition.
fn is_wanted(query: &BrowseQuery<'_>, seen: &Seen, message: &core::Message<'_>) -> bool {
    let empty = core::Envelope::default();
    let envelope = message.envelope.as_deref().unwrap_or(&empty);
    let given = |wanted: &Option<Cow<'_, str>>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    let stage = query.state.is_none_or(|state| match state {
        DeliveryState::Scheduled => seen.found.stage == Stage::Scheduled,
        DeliveryState::Ready => seen.found.stage == Stage::Ready,
        DeliveryState::Backoff => seen.found.stage == Stage::Backoff,
        DeliveryState::InFlight => seen.found.stage == Stage::InFlight,
        // The shard is asked about each: see `stands_so`.
        _ => true,
    });
    stage
        && query.key.as_deref().is_none_or(|key| key.as_bytes() == &*message.key)
        && given(&query.run_id, &envelope.run_id)
        && given(&query.tenant_id, &envelope.tenant_id)
        && given(&query.idempotency_key, &envelope.idempotency_key)
        && query.from.is_none_or(|from| seen.found.offset >= from)
        && query.partition.is_none_or(|partition| seen.found.partition == partition)
        && query.labels.pairs().iter().all(|label| envelope.labels.contains(label))
}

fn place(request: &Request<'_>) -> Result<(u32, u64), Fault> {
    Ok((path_partition(request.names[1])?, path_offset(request.names[2])?))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let topic = request.name(0, "topic")?;
    let (partition, offset) = place(request)?;
    let looked_at = request.app.broker.look_at(&topic, partition, offset).await;
    let (seen, described) = looked_at.map_err(|failure| fault(&failure))?;
    let seen = [seen];
    let sight = Sight::into(request, &topic)?;
    let Some(looked) = looked(&seen).next() else {
        // Whose it was cannot be told.
        return Err(match sight {
            Sight::Whole => Fault::new(Code::MessageUnknown, "the message was gone when it was read"),
            Sight::Of(_) => fault(&Failure::Reject(Reject::MessageUnknown)),
        });
    };
    if !sight.has(&looked.1) {
        return Err(fault(&Failure::Reject(Reject::MessageUnknown)));
    }
    // Why it waits is told by what others have in the topic.
    let standings = if sight.is_whole() { &described.groups[..] } else { &[] };
    let mut groups: Vec<GroupState<'_>> = standings.iter().map(state).collect();
    groups.sort_by(|one, other| one.group.cmp(&other.group));
    let shown = MessageState {
        message: seen_item(&request.reader(&topic), &looked),
        cancelled: described.found.cancelled,
        retry_policy: shown_policy(described.found.retry.unwrap_or_default()),
        groups,
    };
    Ok(json(StatusCode::OK, &shown))
}

pub(super) const fn waits(wait: Wait) -> DeliveryState {
    match wait {
        Wait::Ready => DeliveryState::Ready,
        Wait::Scheduled => DeliveryState::Scheduled,
        Wait::InFlight => DeliveryState::InFlight,
        Wait::Backoff => DeliveryState::Backoff,
        Wait::Effect => DeliveryState::Effect,
        Wait::KeyBusy => DeliveryState::KeyBusy,
        Wait::SameIdentityRunning => DeliveryState::SameKeyRunning,
        Wait::WindowFull => DeliveryState::WindowFull,
        Wait::Paused => DeliveryState::Paused,
        Wait::Dying => DeliveryState::Dying,
        Wait::Done => DeliveryState::Done,
    }
}

fn state(standing: &GroupStanding) -> GroupState<'_> {
    GroupState {
        group: Cow::Borrowed(&standing.group),
        state: waits(standing.wait),
        since: moment(standing.since),
        until: standing.until.map(moment),
        owner: standing.owner.as_deref().map(Cow::Borrowed),
        attempt: standing.attempts,
        last_error: Some(&*standing.last_error).filter(|error| !error.is_empty()).map(Cow::Borrowed),
        history: standing.history.iter().map(|ended| own(attempt(&ended.borrowed()))).collect(),
    }
}

/// The attempt with texts of its own.
fn own(attempt: driftq_api::v2::Attempt<'_>) -> driftq_api::v2::Attempt<'static> {
    driftq_api::v2::Attempt {
        owner: Cow::Owned(attempt.owner.into_owned()),
        error: Cow::Owned(attempt.error.into_owned()),
        attempt: attempt.attempt,
        leased_at: attempt.leased_at,
        ended_at: attempt.ended_at,
    }
}

pub(super) async fn retry(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let (partition, offset) = place(request)?;
    let groups = request.app.broker.retry(&request.name(0, "topic")?, partition, offset).await;
    let groups = groups.map_err(|failure| fault(&failure))?;
    Ok(json(StatusCode::OK, &Retried { groups }))
}

pub(super) async fn cancel(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let (partition, offset) = place(request)?;
    let running = request.app.broker.cancel(&request.name(0, "topic")?, partition, offset).await;
    let running = running.map_err(|failure| fault(&failure))?;
    Ok(json(StatusCode::OK, &Cancelled { cancelled: true, running }))
}
