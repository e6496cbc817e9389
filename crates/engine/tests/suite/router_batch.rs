//! Many messages in few calls, and messages that need no call at all.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::router_brain::{
    Act, cached, config, counts, hook, label, labelled, message, partitions_of, route, route_one,
};
use driftq_engine::core::Message;
use driftq_engine::router::{
    Asked, CALL_BYTES_MAX, CacheHint, Decision, HookConfig, Opinion, Part, Refusal, Router, RouterHook,
    Ruling, Scope,
};

#[tokio::test(start_paused = true)]
async fn what_the_router_promised_is_not_asked_again() {
    let ttl = Duration::from_secs(60);
    let script = [Act::Answer(cached("first", vec![Part::Key], ttl)), Act::Answer(labelled("again"))];
    let (brain, hook) = hook(script, config());
    for _ in 0..3 {
        assert_eq!(label(&route_one(&hook).await), "first");
    }
    assert_eq!(brain.calls().len(), 1);
    let seen = counts(&hook);
    assert_eq!((seen.cache_hits, seen.cache_misses, seen.cache_entries), (2, 1, 1));
    assert_eq!(seen.routed, [("first".to_owned(), 3)], "a hit is routed like any other");
    assert_eq!(label(&route(&hook, &[message("other")]).await[0]), "again");
    tokio::time::advance(ttl).await;
    assert_eq!(label(&route_one(&hook).await), "again");
    assert_eq!(brain.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_cached_opinion_survives_the_router_and_is_still_checked() {
    let away =
        Decision { label: "x".to_owned(), target_topic: Some("later".to_owned()), ..Decision::default() };
    let cache = Some(CacheHint { on: vec![Part::Key], ttl: Duration::from_secs(60) });
    let script = [Act::Answer(Opinion { decision: Some(away), cache }), Act::Hang];
    let (brain, hook) = hook(script, config());
    let (sent, exists) = (message("k"), |topic: &str| (topic == "later").then_some(1));
    assert_eq!(label(&hook.route("t", &[&sent], &exists).await[0]), "x");
    assert_eq!(label(&hook.route("t", &[&sent], &exists).await[0]), "x");
    let gone = hook.route("t", &[&sent], &|_| None).await.remove(0);
    assert_eq!(gone, Ruling::Refused(Refusal::TargetUnknown("later".to_owned())));
    assert_eq!(brain.calls().len(), 1);
}

#[tokio::test]
async fn other_topics_are_left_alone() {
    let scope = Scope::parse(["orders", "tasks.*"]).unwrap();
    let (brain, hook) = hook([Act::Answer(labelled("x"))], HookConfig { scope, ..config() });
    let sent = message("k");
    for (topic, expected) in [("orders", true), ("tasks.a", true), ("t", false), ("orders.x", false)] {
        let ruling = hook.route(topic, &[&sent], &partitions_of).await.remove(0);
        assert_eq!(ruling != Ruling::Unrouted, expected, "{topic}");
        assert_eq!(hook.is_asked_about(topic), expected);
    }
    assert_eq!(brain.calls().len(), 2);
}

#[tokio::test]
async fn a_batch_is_as_few_calls_as_the_router_allows() {
    let messages: Vec<_> = (0..25).map(|n| message(&n.to_string())).collect();
    for (batch_max, expected) in
        [(10, vec![10, 10, 5]), (25, vec![25]), (1, vec![1; 25]), (0, vec![1; 25]), (usize::MAX, vec![25])]
    {
        let (brain, hook) = hook([Act::Answer(labelled("x"))], config());
        brain.batch_max.store(batch_max, SeqCst);
        assert_eq!(route(&hook, &messages).await.iter().filter(|it| label(it) == "x").count(), 25);
        assert_eq!(brain.calls(), expected, "{batch_max}");
    }
    let (brain, hook) = hook([Act::Answer(labelled("x"))], config());
    assert!(route(&hook, &[]).await.is_empty());
    assert!(brain.calls().is_empty());
}

#[tokio::test]
async fn a_call_carries_a_bounded_number_of_bytes() {
    let large = Message { value: vec![b'x'; CALL_BYTES_MAX / 2].into(), ..Message::default() };
    let huge = Message { value: vec![b'x'; CALL_BYTES_MAX * 2].into(), ..Message::default() };
    let (brain, hook) = hook([Act::Answer(labelled("x"))], config());
    brain.batch_max.store(100, SeqCst);
    route(&hook, &[large.clone(), large.clone(), large, huge, message("k")]).await;
    assert_eq!(brain.calls(), [2, 1, 1, 1]);
}

#[tokio::test]
async fn a_batch_learns_from_its_own_answers() {
    let opinion = cached("x", vec![Part::Key], Duration::from_secs(60));
    let (brain, hook) = hook([Act::Answer(opinion)], HookConfig { concurrency_max: 1, ..config() });
    let rulings = route(&hook, &vec![message("same"); 20]).await;
    assert!(rulings.iter().all(|ruling| label(ruling) == "x"));
    assert_eq!((brain.calls().len(), counts(&hook).cache_hits), (1, 19));
}

#[tokio::test]
async fn messages_keep_their_order() {
    struct Echo;
    impl Router for Echo {
        fn ask<'a>(&'a self, _: &'a str, messages: &'a [&'a Message<'a>]) -> Asked<'a> {
            Box::pin(async move {
                // Later calls overtake earlier ones.
                let first: usize = String::from_utf8_lossy(&messages[0].key).parse().unwrap();
                for _ in 0..100 - first {
                    tokio::task::yield_now().await;
                }
                let echo = |message: &&Message<'_>| labelled(&String::from_utf8_lossy(&message.key));
                Ok(messages.iter().map(echo).collect())
            })
        }
        fn batch_max(&self) -> usize {
            3
        }
    }
    let hook = RouterHook::new(Arc::new(Echo), HookConfig { timeout: Duration::from_secs(60), ..config() });
    let messages: Vec<_> = (0..100).map(|n| message(&n.to_string())).collect();
    for (n, ruling) in route(&hook, &messages).await.iter().enumerate() {
        assert_eq!(label(ruling), n.to_string());
    }
}
