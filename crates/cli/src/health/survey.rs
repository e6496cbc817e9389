//! A look at everything that the server has: what `driftq report` and `driftq check` judge.

use driftq_api::v2::{
    Breaker, Browsed, DeadTopic, DeadTopics, DeliveryState, Effects, Group, Groups, MessageState, OnError,
    RouterKind, RouterStatus, Status, Topic, Topics,
};
use indicatif::ProgressBar;

use crate::{
    client::{CallError, Path, Session},
    rows::{Amount, Pages},
    when::Now,
};

/// Most looks at the front of a partition: each is a call.
const FRONTS_MAX: usize = 1_000;
/// Most failing messages that are looked at in one topic.
const FAILING_MAX: u64 = 20;
/// Most pages of unknown effects: more would tell an operator nothing new.
const UNKNOWN_PAGES_MAX: usize = 100;

/// What to look at, beyond what costs little.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Depth {
    /// How long the oldest message of each group has waited.
    pub(super) fronts: bool,
    /// Settings and partitions of topics, and messages that keep failing.
    pub(super) topics: bool,
}

/// What was found.
pub(super) struct Survey {
    pub(super) status: Status<'static>,
    pub(super) router: RouterStatus,
    /// How many topics there are, with those of dead letters.
    pub(super) topic_names: Vec<String>,
    /// Topics in detail, if that was asked for.
    pub(super) topics: Vec<Topic>,
    pub(super) groups: Vec<Seen>,
    pub(super) dead: Vec<DeadTopic>,
    pub(super) unknown: Unknown,
    pub(super) failing: Vec<Failing>,
}

impl Survey {
    /// Why new messages are refused; none if they are taken. The server may not say why.
    pub(super) fn refusal(&self) -> Option<Option<&str>> {
        let takes_messages = self.status.ready && self.status.writable;
        (!takes_messages).then_some(self.status.why.as_deref())
    }

    /// What becomes of messages while the router fails; none if there is no router, or if it is asked.
    pub(super) fn router_failure(&self) -> Option<OnError> {
        let fails = self.router.kind != RouterKind::None && self.router.breaker == Breaker::Open;
        fails.then_some(self.router.on_error)
    }
}

/// A group, and how long its oldest message has waited.
pub(super) struct Seen {
    pub(super) group: Group,
    /// None if nothing waits, or if it was not looked at.
    pub(super) oldest_ms: Option<u64>,
}

impl Seen {
    /// Messages that could be delivered if a worker asked for them: without those whose time has not come.
    pub(super) fn waiting(&self) -> u64 {
        let scheduled = self.group.waiting.get(DeliveryState::Scheduled.name()).copied().unwrap_or(0);
        self.group.lag.saturating_sub(scheduled)
    }
}

/// Effects whose outcome is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unknown {
    pub(super) count: u64,
    /// Whether there may be more.
    pub(super) more: bool,
    /// How long the oldest has been so.
    pub(super) oldest_ms: Option<u64>,
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

/// Looks at the server, call by call.
pub(super) async fn take(
    session: &mut Session,
    depth: Depth,
    bar: &ProgressBar,
) -> Result<Survey, CallError> {
    let status: Status<'static> = session.get("/v2/status").await?;
    let router: RouterStatus = session.get("/v2/router").await?;
    let topic_names = names(session).await?;
    let mut survey = Survey {
        status,
        router,
        topic_names,
        topics: Vec::new(),
        groups: Vec::new(),
        dead: dead(session).await?,
        unknown: unknown(session).await?,
        failing: Vec::new(),
    };
    bar.set_length(survey.topic_names.len().max(1) as u64);
    for name in survey.topic_names.clone() {
        match of_topic(session, &name, depth, &mut survey).await {
            // Deleted since it was listed: there is nothing to say about it.
            Err(error) if error.code() == "TOPIC_UNKNOWN" || error.code() == "GROUP_UNKNOWN" => {}
            other => other?,
        }
        bar.inc(1);
    }
    if depth.fronts {
        fronts(session, &mut survey).await?;
    }
    Ok(survey)
}

async fn names(session: &mut Session) -> Result<Vec<String>, CallError> {
    let mut names = Vec::new();
    let mut pages = Pages::new(Path::of("/v2/topics"), &Amount::ALL);
    while let Some(path) = pages.next(0) {
        let page: Topics = session.get(path.as_str()).await?;
        names.extend(page.topics.into_iter().map(|topic| topic.name));
        pages.turn(page.cursor);
    }
    Ok(names)
}

async fn dead(session: &mut Session) -> Result<Vec<DeadTopic>, CallError> {
    let mut dead = Vec::new();
    let mut pages = Pages::new(Path::of("/v2/dlq"), &Amount::ALL);
    while let Some(path) = pages.next(0) {
        let page: DeadTopics = session.get(path.as_str()).await?;
        dead.extend(page.topics.into_iter().filter(|topic| topic.letters > 0));
        pages.turn(page.cursor);
    }
    Ok(dead)
}

async fn unknown(session: &mut Session) -> Result<Unknown, CallError> {
    let now = Now::read();
    let mut unknown = Unknown::default();
    let mut pages = Pages::new(Path::of("/v2/effects").with("state", "unknown"), &Amount::ALL);
    for _ in 0..UNKNOWN_PAGES_MAX {
        let Some(path) = pages.next(0) else { return Ok(unknown) };
        let page: Effects<'static> = session.get(path.as_str()).await?;
        unknown.count += page.effects.len() as u64;
        let ages = page.effects.iter().filter_map(|effect| effect.unknown_since).map(|at| now.age_ms(at));
        unknown.oldest_ms = unknown.oldest_ms.max(ages.max());
        pages.turn(page.cursor);
    }
    unknown.more = pages.next(0).is_some();
    Ok(unknown)
}

async fn of_topic(
    session: &mut Session,
    name: &str,
    depth: Depth,
    survey: &mut Survey,
) -> Result<(), CallError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut pages = Pages::new(Path::topic(name).word("groups"), &Amount::ALL);
    while let Some(path) = pages.next(0) {
        let page: Groups = session.get(path.as_str()).await?;
        groups.extend(page.groups);
        pages.turn(page.cursor);
    }
    if depth.topics {
        survey.topics.push(session.get(Path::topic(name).as_str()).await?);
        if groups.iter().any(|group| group.retrying > 0) {
            survey.failing.extend(failing(session, name).await?);
        }
    }
    survey.groups.extend(groups.into_iter().map(|group| Seen { group, oldest_ms: None }));
    Ok(())
}

/// The messages of a topic that wait for another attempt.
async fn failing(session: &mut Session, topic: &str) -> Result<Vec<Failing>, CallError> {
    let path = Path::topic(topic).word("messages").with("state", DeliveryState::Backoff.name());
    let page: Browsed<'static> = session.get(path.with_number("limit", Some(FAILING_MAX)).as_str()).await?;
    let mut failing = Vec::new();
    for item in &page.messages {
        let path = Path::message(topic, item.partition, item.offset);
        let state: MessageState<'static> = match session.get(path.as_str()).await {
            // It was acked meanwhile.
            Err(error) if error.code() == "MESSAGE_UNKNOWN" => continue,
            other => other?,
        };
        failing.extend(state.groups.iter().filter(|group| group.state == DeliveryState::Backoff).map(
            |group| Failing {
                topic: topic.to_owned(),
                partition: item.partition,
                offset: item.offset,
                group: group.group.to_string(),
                attempts: group.attempt,
                max_attempts: state.retry_policy.max_attempts,
                error: group.last_error.as_deref().unwrap_or_default().to_owned(),
            },
        ));
    }
    Ok(failing)
}

/// How long the message at the front of each group has waited: the first one that the group has not acked.
async fn fronts(session: &mut Session, survey: &mut Survey) -> Result<(), CallError> {
    let now = Now::read();
    let mut looks = 0;
    for seen in survey.groups.iter_mut().filter(|seen| seen.waiting() > 0) {
        let group = &seen.group;
        for partition in group.partitions.iter().filter(|partition| partition.lag > 0) {
            if looks == FRONTS_MAX {
                return Ok(());
            }
            looks += 1;
            let path = Path::topic(&group.topic).word("messages");
            let path = path.with_number("partition", Some(partition.partition)).with_number("limit", Some(1));
            let path = path.with_number("from", partition.acked_below);
            let page: Browsed<'static> = match session.get(path.as_str()).await {
                Err(error) if error.code() == "TOPIC_UNKNOWN" => break,
                other => other?,
            };
            let Some(item) = page.messages.first() else { continue };
            // What is scheduled waits from the moment it is due.
            let since = item.deliver_at.filter(|at| *at > item.produced_at).unwrap_or(item.produced_at);
            seen.oldest_ms = seen.oldest_ms.max(Some(now.age_ms(since)));
        }
    }
    Ok(())
}
