//! A brain that follows a script, and what tests ask of the hook around it.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_engine::core::Message;
use driftq_engine::router::{
    AskError, Asked, BreakerConfig, CacheHint, Decision, HookConfig, OnError, Opinion, Part, Router,
    RouterCounts, RouterHook, Ruling,
};
use tokio::sync::Notify;

/// Divides well: the clock of tests knows whole milliseconds only.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(240);

/// What the brain does when it is asked.
#[derive(Clone)]
pub(crate) enum Act {
    Answer(Opinion),
    /// The same opinion on each of this many messages, however many were asked about.
    Count(usize),
    Fail,
    Nonsense,
    Hang,
    Panic,
    /// Answers after this long.
    Slow(Duration),
    /// Answers when it is told to.
    Wait(Arc<Notify>),
}

/// A brain that follows a script; the last line is repeated.
pub(crate) struct Brain {
    pub(crate) script: Mutex<VecDeque<Act>>,
    pub(crate) batch_max: AtomicUsize,
    /// Sizes of all calls.
    pub(crate) calls: Mutex<Vec<usize>>,
    pub(crate) asked: Notify,
}

impl Router for Brain {
    fn ask<'a>(&'a self, _topic: &'a str, messages: &'a [&'a Message<'a>]) -> Asked<'a> {
        self.calls.lock().expect("no test panics while it holds a lock").push(messages.len());
        self.asked.notify_one();
        let act = {
            let mut script = self.script.lock().expect("no test panics while it holds a lock");
            match script.len() {
                1 => script[0].clone(),
                _ => script.pop_front().expect("a script has a last line"),
            }
        };
        Box::pin(async move {
            match act {
                Act::Answer(opinion) => Ok(vec![opinion; messages.len()]),
                Act::Count(count) => Ok(vec![labelled("x"); count]),
                Act::Fail => Err(AskError::Failed("no ".repeat(10_000))),
                Act::Nonsense => Err(AskError::Nonsense("gibberish".to_owned())),
                Act::Hang => std::future::pending().await,
                Act::Panic => panic!("the brain has a bug"),
                Act::Slow(time) => {
                    tokio::time::sleep(time).await;
                    Ok(vec![labelled("slow"); messages.len()])
                }
                Act::Wait(signal) => {
                    signal.notified().await;
                    Ok(vec![labelled("told"); messages.len()])
                }
            }
        })
    }

    fn batch_max(&self) -> usize {
        self.batch_max.load(SeqCst)
    }
}

pub(crate) fn labelled(label: &str) -> Opinion {
    Decision { label: label.to_owned(), ..Decision::default() }.into()
}

pub(crate) fn cached(label: &str, on: Vec<Part>, ttl: Duration) -> Opinion {
    Opinion { cache: Some(CacheHint { on, ttl }), ..labelled(label) }
}

pub(crate) fn config() -> HookConfig {
    // A breaker that stays out of the way of tests about something else.
    let breaker = BreakerConfig { failures_max: 1_000, window_calls_min: 1_000, ..BreakerConfig::default() };
    HookConfig { timeout: TIMEOUT, breaker, on_error: OnError::Reject, ..HookConfig::default() }
}

pub(crate) fn hook(
    script: impl IntoIterator<Item = Act>,
    config: HookConfig,
) -> (Arc<Brain>, Arc<RouterHook>) {
    let brain = Arc::new(Brain {
        script: Mutex::new(script.into_iter().collect()),
        batch_max: AtomicUsize::new(1),
        calls: Mutex::default(),
        asked: Notify::new(),
    });
    let router: Arc<dyn Router> = brain.clone();
    (brain, Arc::new(RouterHook::new(router, config)))
}

impl Brain {
    pub(crate) fn calls(&self) -> Vec<usize> {
        self.calls.lock().expect("no test panics while it holds a lock").clone()
    }
}

pub(crate) fn partitions_of(topic: &str) -> Option<u32> {
    match topic {
        "t" => Some(2),
        "small" => Some(1),
        _ => None,
    }
}

pub(crate) fn message(key: &str) -> Message<'static> {
    Message { key: key.as_bytes().to_vec().into(), value: b"v"[..].into(), ..Message::default() }
}

pub(crate) async fn route(hook: &RouterHook, messages: &[Message<'_>]) -> Vec<Ruling> {
    let messages: Vec<&Message<'_>> = messages.iter().collect();
    hook.route("t", &messages, &partitions_of).await
}

pub(crate) async fn route_one(hook: &RouterHook) -> Ruling {
    route(hook, &[message("k")]).await.remove(0)
}

pub(crate) fn label(ruling: &Ruling) -> &str {
    match ruling {
        Ruling::Routed(decision) => &decision.label,
        other => panic!("not routed: {other:?}"),
    }
}

/// Every call ended as exactly one thing.
pub(crate) fn counts(hook: &RouterHook) -> RouterCounts {
    let counts = hook.counts();
    let ended = counts.answered + counts.failed + counts.timed_out + counts.nonsense + counts.abandoned;
    assert_eq!(counts.asked, ended + counts.in_flight, "{counts:?}");
    counts
}
