//! A router at arm's length: time-out, limit, breaker, cache, checks and policy around it.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_core::Message;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::breaker::{Breaker, BreakerConfig, Outcome, Pass};
use super::cache::Cache;
use super::check::{check_destination, check_opinion};
use super::counts::{Meters, RouterCounts};
use super::opinion::{Decision, Opinion};
use super::scope::Scope;
use super::{AskError, Router};
use crate::locks::lock;

/// Most messages in one call, whatever the router says it can take.
pub const CALL_MESSAGES_MAX: usize = 1_000;
/// A call takes no further message once it carries this many bytes of keys and values.
pub const CALL_BYTES_MAX: usize = 1 << 20;
/// Longest text of a failure that is passed on.
const FAILURE_BYTES_MAX: usize = 256;

/// What happens to a message that the router failed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnError {
    /// It goes on as if there were no router.
    #[default]
    Pass,
    /// Its producer is refused.
    Reject,
}

/// The knobs of a hook.
#[derive(Clone, Debug)]
pub struct HookConfig {
    /// Longest time that a producer waits for the router, the wait for a free place included.
    pub timeout: Duration,
    /// Calls under way at once, 1 at least.
    pub concurrency_max: usize,
    /// When the router is left alone.
    pub breaker: BreakerConfig,
    /// Which topics are routed.
    pub scope: Scope,
    /// Opinions that are remembered; 0 turns the cache off.
    pub cache_entries_max: usize,
    /// What a failure means for the message.
    pub on_error: OnError,
}

impl Default for HookConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(250),
            concurrency_max: 64,
            breaker: BreakerConfig::default(),
            scope: Scope::default(),
            cache_entries_max: 10_000,
            on_error: OnError::Pass,
        }
    }
}

/// What to do with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Send it where its producer said.
    Unrouted,
    /// Apply this to it first.
    Routed(Decision),
    /// Refuse it.
    Refused(Refusal),
}

/// Why the router did not decide about a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No answer came in time.
    #[error("the router gave no answer in time")]
    TimedOut,
    /// It could not be asked in time, because too many calls were under way.
    #[error("too many questions wait for the router")]
    Busy,
    /// It has failed too often and is left alone.
    #[error("the router keeps failing and is left alone for a while")]
    BreakerOpen,
    /// The call failed.
    #[error("the router failed: {0}")]
    Failed(String),
    /// The answer makes no sense.
    #[error("the router answered nonsense: {0}")]
    Nonsense(String),
    /// It sent the message to a topic that does not exist.
    #[error("the router chose topic `{0}`, which does not exist")]
    TargetUnknown(String),
    /// It sent the message to a partition that does not exist.
    #[error("the router chose partition {partition} of topic `{topic}`, which has {partitions}")]
    PartitionOutOfRange {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
}

impl Refusal {
    /// Whether the router chose a place that does not exist.
    const fn is_misdirection(&self) -> bool {
        matches!(self, Self::TargetUnknown(_) | Self::PartitionOutOfRange { .. })
    }
}

/// Says how many partitions a topic has, or none if there is no such topic.
pub type PartitionsOf<'a> = &'a (dyn Fn(&str) -> Option<u32> + Sync);

/// What the router said about each message of a call, or why it said nothing.
type Answers = Result<Vec<Result<Opinion, Refusal>>, Refusal>;

/// A router with everything that keeps it from doing harm.
pub struct RouterHook {
    router: Arc<dyn Router>,
    config: HookConfig,
    permits: Semaphore,
    breaker: Mutex<Breaker>,
    cache: Cache,
    meters: Meters,
}

impl std::fmt::Debug for RouterHook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The router behind it may be anything.
        formatter.debug_struct("RouterHook").field("config", &self.config).finish_non_exhaustive()
    }
}

impl RouterHook {
    /// How it is held.
    #[must_use]
    pub const fn config(&self) -> &HookConfig {
        &self.config
    }

    /// Takes charge of a router.
    #[must_use]
    pub fn new(router: Arc<dyn Router>, config: HookConfig) -> Self {
        let permits = config.concurrency_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            router,
            permits: Semaphore::new(permits),
            breaker: Mutex::new(Breaker::new(config.breaker, Instant::now())),
            cache: Cache::new(config.cache_entries_max),
            meters: Meters::default(),
            config,
        }
    }

    /// Whether messages to this topic are routed at all; cheap, for callers that would have to prepare a question.
    #[must_use]
    pub fn is_asked_about(&self, topic: &str) -> bool {
        self.config.scope.contains(topic)
    }

    /// What to do with messages that a producer sent to `topic`: one ruling each, in their order. Takes no longer
    /// than the configured time-out.
    pub async fn route(
        &self,
        topic: &str,
        messages: &[&Message<'_>],
        partitions_of: PartitionsOf<'_>,
    ) -> Vec<Ruling> {
        if !self.is_asked_about(topic) {
            return messages.iter().map(|_| Ruling::Unrouted).collect();
        }
        let decisions = self.decide(topic, messages, partitions_of).await;
        decisions.into_iter().map(|decision| self.ruling(decision)).collect()
    }

    /// The same before the policy: why each message was not decided about, even if that is of no consequence. Calls are
    /// counted as ever; messages are not, because it is not known whether they will be stored.
    pub async fn decide(
        &self,
        topic: &str,
        messages: &[&Message<'_>],
        partitions_of: PartitionsOf<'_>,
    ) -> Vec<Result<Option<Decision>, Refusal>> {
        if !self.is_asked_about(topic) {
            return messages.iter().map(|_| Ok(None)).collect();
        }
        let mut found = self.opinions(topic, messages).await;
        for (outcome, message) in found.iter_mut().zip(messages) {
            let Ok(Some(decision)) = outcome else { continue };
            if let Err(refusal) = check_destination(topic, message, decision, partitions_of) {
                *outcome = Err(refusal);
            }
        }
        found
    }

    /// Whether a question about this message would be answered from the cache, at this moment.
    #[must_use]
    pub fn is_cached(&self, topic: &str, message: &Message<'_>) -> bool {
        self.cache.find(topic, message, Instant::now()).is_some()
    }

    /// Whether the router's answers come from outside this process.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.router.is_remote()
    }

    /// Numbers about the router.
    #[must_use]
    pub fn counts(&self) -> RouterCounts {
        let breaker = lock(&self.breaker);
        RouterCounts {
            breaker: breaker.state(),
            breaker_opened: breaker.opened(),
            cache_entries: self.cache.len() as u64,
            ..self.meters.read()
        }
    }

    fn ruling(&self, decision: Result<Option<Decision>, Refusal>) -> Ruling {
        match decision {
            Ok(None) => {
                self.meters.no_opinion.one();
                Ruling::Unrouted
            }
            Ok(Some(decision)) => {
                self.meters.on_routed(&decision.label);
                Ruling::Routed(decision)
            }
            Err(refusal) => {
                if refusal.is_misdirection() {
                    self.meters.misdirected.one();
                }
                tracing::debug!(%refusal, policy = ?self.config.on_error, "a message was not routed");
                match self.config.on_error {
                    OnError::Pass => {
                        self.meters.passed.one();
                        Ruling::Unrouted
                    }
                    OnError::Reject => {
                        self.meters.rejected.one();
                        Ruling::Refused(refusal)
                    }
                }
            }
        }
    }

    /// Asks about all messages, in as few calls as the router allows and a few calls at a time.
    async fn opinions(
        &self,
        topic: &str,
        messages: &[&Message<'_>],
    ) -> Vec<Result<Option<Decision>, Refusal>> {
        let mut found: Vec<_> = messages.iter().map(|_| Ok(None)).collect();
        let mut open: VecDeque<usize> = (0..messages.len()).collect();
        let started = Instant::now();
        let mut calls = FuturesUnordered::new();
        loop {
            while calls.len() < self.config.concurrency_max.max(1) {
                let places = self.next_call(topic, messages, &mut open, &mut found);
                if places.is_empty() {
                    break;
                }
                calls.push(async {
                    let asked: Vec<&Message<'_>> = places.iter().map(|place| messages[*place]).collect();
                    let answers = self.call(topic, &asked, started).await;
                    (places, answers)
                });
            }
            let Some((places, answers)) = calls.next().await else { return found };
            let answers = answers.unwrap_or_else(|refusal| vec![Err(refusal); places.len()]);
            for (place, answer) in places.into_iter().zip(answers) {
                found[place] = answer.map(|opinion| {
                    self.cache.remember(topic, messages[place], &opinion, Instant::now());
                    opinion.decision
                });
            }
        }
    }

    /// Takes the messages of the next call out of those that are open. What the cache knows needs no call; it is
    /// looked at this late because an earlier call of the same batch may have said it.
    fn next_call(
        &self,
        topic: &str,
        messages: &[&Message<'_>],
        open: &mut VecDeque<usize>,
        found: &mut [Result<Option<Decision>, Refusal>],
    ) -> Vec<usize> {
        let messages_max = self.router.batch_max().clamp(1, CALL_MESSAGES_MAX);
        let (mut places, mut bytes) = (Vec::new(), 0);
        while places.len() < messages_max
            && let Some(place) = open.front().copied()
        {
            let message = messages[place];
            // A cache that is off knows nothing.
            if let Some(decision) = self.cache.find(topic, message, Instant::now()) {
                self.meters.cache_hits.one();
                found[place] = Ok(decision);
                open.pop_front();
                continue;
            }
            bytes += message.size();
            if bytes > CALL_BYTES_MAX && !places.is_empty() {
                break;
            }
            if self.cache.is_on() {
                self.meters.cache_misses.one();
            }
            open.pop_front();
            places.push(place);
        }
        places
    }

    /// One call. Everything that began at `started` ends within the time-out from there.
    async fn call(&self, topic: &str, messages: &[&Message<'_>], started: Instant) -> Answers {
        let count = messages.len() as u64;
        let deadline = started + self.config.timeout;
        let left_alone = || {
            self.meters.refused_by_breaker.add(count);
            Err(Refusal::BreakerOpen)
        };
        if !lock(&self.breaker).would_pass(Instant::now()) {
            return left_alone();
        }
        let permit = timeout_at(deadline, self.permits.acquire()).await;
        let began = Instant::now();
        // The permit may have been free although the time is over: then it is no use asking.
        let Some(_permit) = permit.ok().and_then(Result::ok).filter(|_| began < deadline) else {
            self.meters.refused_by_limit.add(count);
            return Err(Refusal::Busy);
        };
        let Some(open) = OpenCall::begin(self, began) else { return left_alone() };
        // A router is code that others wrote: its panic is an answer that did not come. Nothing of it is used afterwards.
        let question = AssertUnwindSafe(async { self.router.ask(topic, messages).await }).catch_unwind();
        let answer = timeout_at(deadline, question).await;
        let meters = &self.meters;
        let (meter, outcome, answers) = match answer {
            Err(_) => {
                // A call that had waited for its place for most of the time had no fair chance.
                let fair = deadline.duration_since(began) * 2 >= self.config.timeout;
                let outcome = if fair { Outcome::Bad } else { Outcome::Unknown };
                (&meters.timed_out, outcome, Err(Refusal::TimedOut))
            }
            Ok(Err(_panic)) => {
                (&meters.failed, Outcome::Bad, Err(Refusal::Failed("the router panicked".to_owned())))
            }
            Ok(Ok(Err(AskError::Failed(why)))) => {
                (&meters.failed, Outcome::Bad, Err(Refusal::Failed(clip(why))))
            }
            Ok(Ok(Err(AskError::Nonsense(why)))) => {
                (&meters.nonsense, Outcome::Bad, Err(Refusal::Nonsense(clip(why))))
            }
            Ok(Ok(Ok(opinions))) => match checked(opinions, messages.len()) {
                Ok(answers) if answers.iter().all(Result::is_ok) => {
                    (&meters.answered, Outcome::Good, Ok(answers))
                }
                answers => (&meters.nonsense, Outcome::Bad, answers),
            },
        };
        meter.one();
        open.end(outcome);
        answers
    }
}

/// Holds an answer against the rules.
fn checked(opinions: Vec<Opinion>, expected: usize) -> Answers {
    if opinions.len() != expected {
        return Err(Refusal::Nonsense(format!("{} opinions on {expected} messages", opinions.len())));
    }
    let check = |mut opinion: Opinion| match check_opinion(&mut opinion) {
        Ok(()) => Ok(opinion),
        Err(why) => Err(Refusal::Nonsense(why.to_owned())),
    };
    Ok(opinions.into_iter().map(check).collect())
}

/// The text, cut where a reader has seen enough.
fn clip(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(FAILURE_BYTES_MAX));
    text
}

/// A call under way. If the caller does not wait for its end, the breaker still hears of it.
struct OpenCall<'a> {
    hook: &'a RouterHook,
    pass: Pass,
    is_ended: bool,
}

impl<'a> OpenCall<'a> {
    fn begin(hook: &'a RouterHook, now: Instant) -> Option<Self> {
        let pass = lock(&hook.breaker).pass(now)?;
        hook.meters.asked.one();
        hook.meters.in_flight.one();
        Some(Self { hook, pass, is_ended: false })
    }

    fn end(mut self, outcome: Outcome) {
        self.is_ended = true;
        self.report(outcome);
    }

    fn report(&self, outcome: Outcome) {
        self.hook.meters.in_flight.less(1);
        let mut breaker = lock(&self.hook.breaker);
        if breaker.report(self.pass, outcome, Instant::now()) {
            let (state, opened) = (breaker.state(), breaker.opened());
            drop(breaker);
            tracing::warn!(?state, opened, "the router's breaker changed its state");
        }
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.hook.meters.abandoned.one();
            self.report(Outcome::Unknown);
        }
    }
}
