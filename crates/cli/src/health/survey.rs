//! A look at everything that the server has: what `driftq check` judges.

use driftq_api::v2::{
    Breaker, Browsed, DeadTopic, DeadTopics, DeliveryState, Effects, Group, Groups, OnError, RouterKind,
    RouterStatus, Status, Topics,
};
use driftq_api::when::Now;

use crate::{
    client::{CallError, Path, Session},
    rows::{Amount, Pages},
};

/// Most looks at the front of a partition: each is a call.
const FRONTS_MAX: usize = 1_000;
/// Most pages of unknown effects: more would tell an operator nothing new.
const UNKNOWN_PAGES_MAX: usize = 100;

/// What was found.
pub(super) struct Survey {
    pub(super) status: Status<'static>,
    pub(super) router: RouterStatus,
    /// How many topics there are, with those of dead letters.
    pub(super) topic_names: Vec<String>,
    pub(super) groups: Vec<Seen>,
    pub(super) dead: Vec<DeadTopic>,
    pub(super) unknown: Unknown,
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

/// Looks at the server, call by call.
///
/// `with_fronts` asks how long the oldest message of each group has waited.
pub(super) async fn take(session: &mut Session, with_fronts: bool) -> Result<Survey, CallError> {
    let status: Status<'static> = session.get("/v2/status").await?;
    let router: RouterStatus = session.get("/v2/router").await?;
    let topic_names = names(session).await?;
    let mut survey = Survey {
        status,
        router,
        topic_names,
        groups: Vec::new(),
        dead: dead(session).await?,
        unknown: unknown(session).await?,
    };
    for name in survey.topic_names.clone() {
        match of_topic(session, &name, &mut survey).await {
            // Deleted since it was listed: there is nothing to say about it.
            Err(error) if error.code() == "TOPIC_UNKNOWN" || error.code() == "GROUP_UNKNOWN" => {}
            other => other?,
        }
    }
    if with_fronts {
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

async fn of_topic(session: &mut Session, name: &str, survey: &mut Survey) -> Result<(), CallError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut pages = Pages::new(Path::topic(name).word("groups"), &Amount::ALL);
    while let Some(path) = pages.next(0) {
        let page: Groups = session.get(path.as_str()).await?;
        groups.extend(page.groups);
        pages.turn(page.cursor);
    }
    survey.groups.extend(groups.into_iter().map(|group| Seen { group, oldest_ms: None }));
    Ok(())
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
