//! The router: how it does, and what it would say.

use std::borrow::Cow;
use std::time::Instant;

use driftq_api::v2::{
    Breaker, Decision, Labels, OnError, RouterKind, RouterOutcome, RouterStatus, RouterTest, RouterTested,
};
use driftq_engine::Broker;
use driftq_engine::core::Message;
use driftq_engine::router::{self, BreakerState, Refusal, RouterHook};
use hyper::StatusCode;

use super::produce::draft;
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::v1::Handled;

pub(super) fn status(request: &Request<'_>) -> Handled {
    request.no_query()?;
    Ok(json(StatusCode::OK, &told(&request.app.broker)))
}

pub(super) fn told(broker: &Broker) -> RouterStatus {
    broker.router().map_or_else(no_router, |hook| shown(hook))
}

const fn no_router() -> RouterStatus {
    RouterStatus {
        kind: RouterKind::None,
        breaker: Breaker::Closed,
        asked: 0,
        answered: 0,
        failed: 0,
        timed_out: 0,
        refused: 0,
        cached: 0,
        on_error: OnError::Pass,
        topics: Vec::new(),
    }
}

fn shown(hook: &RouterHook) -> RouterStatus {
    let (counts, config) = (hook.counts(), hook.config());
    RouterStatus {
        kind: if hook.is_remote() { RouterKind::Http } else { RouterKind::Rules },
        breaker: match counts.breaker {
            BreakerState::Closed => Breaker::Closed,
            BreakerState::Open => Breaker::Open,
            BreakerState::HalfOpen => Breaker::HalfOpen,
        },
        asked: counts.asked,
        answered: counts.answered,
        failed: counts.failed + counts.nonsense,
        timed_out: counts.timed_out,
        refused: counts.refused_by_breaker + counts.refused_by_limit,
        cached: counts.cache_hits,
        on_error: match config.on_error {
            router::OnError::Pass => OnError::Pass,
            router::OnError::Reject => OnError::Reject,
        },
        topics: config.scope.patterns().iter().map(ToString::to_string).collect(),
    }
}

pub(super) async fn test(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let test = RouterTest::from_json(request.json()?)?;
    let mut message = draft(test.message).message;
    let broker = &request.app.broker;
    let began = Instant::now();
    let said = match broker.router().filter(|hook| hook.is_asked_about(&test.topic)) {
        None => Said { outcome: RouterOutcome::NotAsked, decision: None, why: None },
        Some(hook) => ask(hook, &test.topic, &message, &|topic| broker.partitions_of(topic)).await,
    };
    let took = began.elapsed();
    if let Some(decision) = &said.decision {
        decision.clone().apply(&mut message);
    }
    let (topic, partition) = broker.destination(&test.topic, &message).map_err(|failure| fault(&failure))?;
    let tested = RouterTested {
        decision: said.decision.map(shown_decision),
        topic: Cow::Borrowed(&topic),
        partition,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        outcome: said.outcome,
        why: said.why.map(Cow::Owned),
    };
    Ok(json(StatusCode::OK, &tested))
}

/// What came of a question.
struct Said {
    outcome: RouterOutcome,
    decision: Option<router::Decision>,
    why: Option<String>,
}

async fn ask(
    hook: &RouterHook,
    topic: &str,
    message: &Message<'_>,
    partitions_of: router::PartitionsOf<'_>,
) -> Said {
    let is_cached = hook.is_cached(topic, message);
    match hook.decide(topic, &[message], partitions_of).await.pop() {
        Some(Ok(decision)) => {
            let outcome = if is_cached { RouterOutcome::Cached } else { RouterOutcome::Answered };
            Said { outcome, decision, why: None }
        }
        Some(Err(refusal)) => {
            let outcome = match refusal {
                Refusal::TimedOut => RouterOutcome::TimedOut,
                Refusal::Busy | Refusal::BreakerOpen => RouterOutcome::Refused,
                Refusal::Failed(_)
                | Refusal::Nonsense(_)
                | Refusal::TargetUnknown(_)
                | Refusal::PartitionOutOfRange { .. } => RouterOutcome::Failed,
            };
            Said { outcome, decision: None, why: Some(refusal.to_string()) }
        }
        None => Said { outcome: RouterOutcome::NotAsked, decision: None, why: None },
    }
}

fn shown_decision(decision: router::Decision) -> Decision<'static> {
    let meta = decision.meta.into_iter().map(|(name, value)| (Cow::Owned(name), Cow::Owned(value)));
    Decision {
        label: Cow::Owned(decision.label),
        target_topic: decision.target_topic.map(Cow::Owned),
        partition_override: decision.partition_override,
        meta: Labels::stored(meta.collect()),
    }
}
