//! A router that hangs, floods, lies, panics and dies, held at arm's length.

use std::sync::Arc;
use std::time::Duration;

use crate::router_brain::{Act, TIMEOUT, config, counts, hook, label, labelled, message, route, route_one};
use driftq_engine::core::Message;
use driftq_engine::router::{
    Asked, BreakerConfig, BreakerState, Decision, HookConfig, OnError, Opinion, Refusal, Router, RouterHook,
    Ruling,
};
use tokio::sync::Notify;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_router_that_hangs_costs_the_time_out_and_no_more() {
    let (_, hook) = hook([Act::Hang], config());
    let began = Instant::now();
    assert_eq!(route_one(&hook).await, Ruling::Refused(Refusal::TimedOut));
    assert_eq!(began.elapsed(), TIMEOUT);
    assert_eq!(counts(&hook).timed_out, 1);
    assert_eq!(counts(&hook).in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_no_longer_than_one_message() {
    let (brain, hook) = hook([Act::Hang], HookConfig { concurrency_max: 3, ..config() });
    let messages: Vec<_> = (0..50).map(|n| message(&n.to_string())).collect();
    let began = Instant::now();
    let rulings = route(&hook, &messages).await;
    assert_eq!(began.elapsed(), TIMEOUT);
    let timed_out = rulings.iter().filter(|it| **it == Ruling::Refused(Refusal::TimedOut)).count();
    let busy = rulings.iter().filter(|it| **it == Ruling::Refused(Refusal::Busy)).count();
    assert_eq!((timed_out, busy), (3, 47));
    assert_eq!(brain.calls().len(), 3, "nobody is asked once the time is over");
    assert_eq!(counts(&hook).refused_by_limit, 47);
}

#[tokio::test]
async fn what_goes_wrong_is_passed_or_rejected_as_configured() {
    for (act, refusal) in [
        (Act::Fail, "failed"),
        (Act::Nonsense, "gibberish"),
        (Act::Panic, "panicked"),
        (Act::Count(0), "0 opinions on 1 messages"),
        (Act::Count(100_000), "100000 opinions on 1 messages"),
        (Act::Answer(labelled(&"l".repeat(1 << 20))), "label"),
    ] {
        let (_, rejecting) = hook([act.clone()], config());
        let Ruling::Refused(why) = route_one(&rejecting).await else { panic!("{refusal}") };
        assert!(why.to_string().contains(refusal), "{why}");
        assert!(why.to_string().len() < 400, "a router's text is cut");
        assert_eq!(counts(&rejecting).rejected, 1);

        let (_, passing) = hook([act], HookConfig { on_error: OnError::Pass, ..config() });
        assert_eq!(route_one(&passing).await, Ruling::Unrouted);
        assert_eq!(counts(&passing).passed, 1);
        assert_eq!(counts(&passing).answered, 0);
    }
}

#[tokio::test]
async fn the_place_must_exist() {
    let to = |target: Option<&str>, partition_override| {
        let target_topic = target.map(str::to_owned);
        let decision = Decision { label: "x".to_owned(), target_topic, partition_override, meta: Vec::new() };
        Act::Answer(decision.into())
    };
    for act in [to(Some("small"), Some(0)), to(None, Some(1)), to(Some("small"), None)] {
        let (_, hook) = hook([act], config());
        assert_eq!(label(&route_one(&hook).await), "x");
        assert_eq!(counts(&hook).routed, [("x".to_owned(), 1)]);
    }
    for act in [to(Some("none"), None), to(None, Some(2)), to(Some("small"), Some(1))] {
        let strict = BreakerConfig { failures_max: 1, ..BreakerConfig::default() };
        let (_, hook) = hook([act], HookConfig { breaker: strict, ..config() });
        assert!(matches!(
            route_one(&hook).await,
            Ruling::Refused(Refusal::TargetUnknown(_) | Refusal::PartitionOutOfRange { .. })
        ));
        let counts = counts(&hook);
        assert_eq!((counts.misdirected, counts.routed), (1, vec![]));
        // The router is alive and well; it is the catalogue that is of another mind.
        assert_eq!((counts.answered, counts.breaker), (1, BreakerState::Closed));
    }
}

#[tokio::test]
async fn one_bad_opinion_spoils_only_its_own_message() {
    let bad = Opinion::from(Decision { target_topic: Some("none".to_owned()), ..Decision::default() });
    struct Mixed(Vec<Opinion>);
    impl Router for Mixed {
        fn ask<'a>(&'a self, _: &'a str, _: &'a [&'a Message<'a>]) -> Asked<'a> {
            Box::pin(async { Ok(self.0.clone()) })
        }
        fn batch_max(&self) -> usize {
            10
        }
    }
    let opinions = vec![labelled("good"), labelled(&"l".repeat(257)), bad, Opinion::default()];
    let hook = RouterHook::new(Arc::new(Mixed(opinions)), config());
    let messages: Vec<_> = (0..4).map(|n| message(&n.to_string())).collect();
    let rulings = route(&hook, &messages).await;
    assert_eq!(label(&rulings[0]), "good");
    assert!(matches!(rulings[1], Ruling::Refused(Refusal::Nonsense(_))));
    assert!(matches!(rulings[2], Ruling::Refused(Refusal::TargetUnknown(_))));
    assert_eq!(rulings[3], Ruling::Unrouted);
    let counts = counts(&hook);
    assert_eq!((counts.nonsense, counts.misdirected, counts.no_opinion), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_probes_and_closes() {
    let breaker =
        BreakerConfig { failures_max: 3, cooldown: Duration::from_secs(5), ..BreakerConfig::default() };
    let script = [Act::Fail, Act::Hang, Act::Nonsense, Act::Fail, Act::Answer(labelled("back"))];
    let (brain, hook) = hook(script, HookConfig { breaker, ..config() });
    for _ in 0..3 {
        assert_ne!(route_one(&hook).await, Ruling::Refused(Refusal::BreakerOpen));
    }
    assert_eq!(counts(&hook).breaker, BreakerState::Open);
    for _ in 0..10 {
        let began = Instant::now();
        assert_eq!(route_one(&hook).await, Ruling::Refused(Refusal::BreakerOpen));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
    assert_eq!((brain.calls().len(), counts(&hook).refused_by_breaker), (3, 10));

    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(matches!(route_one(&hook).await, Ruling::Refused(Refusal::Failed(_))), "one is let through");
    assert_eq!(route_one(&hook).await, Ruling::Refused(Refusal::BreakerOpen));
    assert_eq!((counts(&hook).breaker, counts(&hook).breaker_opened), (BreakerState::Open, 2));

    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(label(&route_one(&hook).await), "back");
    assert_eq!(counts(&hook).breaker, BreakerState::Closed);
    assert_eq!(label(&route_one(&hook).await), "back");
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_leaves_gives_its_place_back() {
    let breaker = BreakerConfig { failures_max: 1, ..BreakerConfig::default() };
    let signal = Arc::new(Notify::new());
    let script = [Act::Fail, Act::Wait(Arc::clone(&signal)), Act::Answer(labelled("back"))];
    let (brain, hook) = hook(script, HookConfig { breaker, concurrency_max: 1, ..config() });
    route_one(&hook).await;
    brain.asked.notified().await;
    tokio::time::advance(breaker.cooldown).await;
    let probe = tokio::spawn({
        let hook = Arc::clone(&hook);
        async move { route_one(&hook).await }
    });
    brain.asked.notified().await;
    assert_eq!((counts(&hook).in_flight, counts(&hook).breaker), (1, BreakerState::HalfOpen));
    probe.abort();
    assert!(probe.await.unwrap_err().is_cancelled());
    let after = counts(&hook);
    assert_eq!((after.in_flight, after.abandoned), (0, 1));
    assert_eq!(label(&route_one(&hook).await), "back", "both the permit and the probe are free again");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_behind_a_probe() {
    let breaker = BreakerConfig { failures_max: 1, ..BreakerConfig::default() };
    let (brain, hook) = hook([Act::Fail, Act::Hang], HookConfig { breaker, concurrency_max: 1, ..config() });
    route_one(&hook).await;
    brain.asked.notified().await;
    tokio::time::advance(breaker.cooldown).await;
    let probe = tokio::spawn({
        let hook = Arc::clone(&hook);
        async move { route_one(&hook).await }
    });
    brain.asked.notified().await;
    let began = Instant::now();
    assert_eq!(route_one(&hook).await, Ruling::Refused(Refusal::BreakerOpen));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(probe.await.unwrap(), Ruling::Refused(Refusal::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn a_full_house_is_waited_for() {
    let signal = Arc::new(Notify::new());
    let script = [Act::Wait(Arc::clone(&signal)), Act::Answer(labelled("second"))];
    let (brain, hook) = hook(script, HookConfig { concurrency_max: 1, ..config() });
    let spawn = || {
        let hook = Arc::clone(&hook);
        tokio::spawn(async move { route_one(&hook).await })
    };
    let first = spawn();
    brain.asked.notified().await;
    let second = spawn();
    // One thread runs everything here: the second has begun to wait when this goes on.
    tokio::task::yield_now().await;
    tokio::time::advance(TIMEOUT / 4).await;
    assert_eq!(brain.calls().len(), 1, "the second waits");
    signal.notify_one();
    assert_eq!(label(&first.await.unwrap()), "told");
    assert_eq!(label(&second.await.unwrap()), "second");

    assert_eq!(counts(&hook).refused_by_limit, 0);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_place_is_part_of_the_time_out() {
    let (brain, hook) = hook([Act::Hang], HookConfig { concurrency_max: 1, ..config() });
    let spawn = || {
        let hook = Arc::clone(&hook);
        tokio::spawn(async move { (route_one(&hook).await, Instant::now()) })
    };
    let began = Instant::now();
    let first = spawn();
    brain.asked.notified().await;
    let second = spawn();
    // One thread runs everything here: the second has begun to wait when this goes on.
    tokio::task::yield_now().await;
    tokio::time::advance(TIMEOUT / 2).await;
    let third = spawn();
    assert_eq!(first.await.unwrap(), (Ruling::Refused(Refusal::TimedOut), began + TIMEOUT));
    // Its time is over at the very moment at which the place becomes free.
    let (ruling, ended) = second.await.unwrap();
    assert_eq!((ruling, ended), (Ruling::Refused(Refusal::Busy), began + TIMEOUT));
    // Half of its time is left when it gets the place.
    let (ruling, ended) = third.await.unwrap();
    assert_eq!((ruling, ended), (Ruling::Refused(Refusal::TimedOut), began + TIMEOUT * 3 / 2));
    assert_eq!((brain.calls().len(), counts(&hook).refused_by_limit), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_fair_chance_is_not_held_against_the_router() {
    let slow = TIMEOUT * 3 / 5;
    let breaker = BreakerConfig { failures_max: 1, ..BreakerConfig::default() };
    let (_, hook) = hook([Act::Slow(slow)], HookConfig { breaker, concurrency_max: 1, ..config() });
    let rulings = route(&hook, &[message("a"), message("b")]).await;
    assert_eq!(label(&rulings[0]), "slow");
    assert_eq!(rulings[1], Ruling::Refused(Refusal::TimedOut));
    assert_eq!(counts(&hook).breaker, BreakerState::Closed);
}
