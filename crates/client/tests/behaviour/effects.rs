//! Effects outside of the scenarios: alone, in a run, at the same time, too large, too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driftq_client::testkit::{effects, expect_effects, run_until_idle};
use driftq_client::wire::{EffectState, TopicSpec};
use driftq_client::{Error, Failure, Final, Found, Worker, current, guarded, json};
use tokio::sync::Notify;

use crate::support;

#[tokio::test]
async fn an_effect_alone_happens_once() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let count = AtomicU32::new(0);
    for _ in 0..3 {
        let effect = client.effect("mail").key("order-1").args(&("a", 1));
        let id: String = effect
            .run(|| async {
                count.fetch_add(1, Ordering::Relaxed);
                Ok("m-1".to_owned())
            })
            .await
            .unwrap();
        assert_eq!(id, "m-1");
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
    expect_effects(&client, "mail", 1).await.unwrap();
    assert!(expect_effects(&client, "mail", 2).await.is_err());
    let other =
        client.effect("mail").key("order-1").args(&("b", 1)).run(|| async { Ok(()) }).await.unwrap_err();
    assert_eq!(other.error().unwrap().name(), "KeyReused");
    let unread = client.effect("mail").key("order-1").run(|| async { Ok(7_u32) }).await.unwrap_err();
    assert!(matches!(unread.error(), Some(Error::ResultUnreadable { .. })), "{unread}");
    let keyless = client.effect("mail").run(|| async { Ok(()) }).await.unwrap_err();
    assert!(keyless.to_string().contains("give it a key"), "{keyless}");
    let odd = client.run("r", "s").effect("mail").args(&f64::NAN).run(|| async { Ok(()) }).await.unwrap_err();
    assert!(odd.to_string().contains("canonical"), "{odd}");
}

#[tokio::test]
async fn who_comes_second_waits_or_is_told_that_it_is_busy() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let first = tokio::spawn({
        let (client, begun, go_on) = (client.clone(), Arc::clone(&begun), Arc::clone(&go_on));
        async move {
            let function = || async {
                begun.notify_one();
                go_on.notified().await;
                Ok(1)
            };
            client.effect("charge").key("k").run(function).await
        }
    });
    begun.notified().await;
    let impatient = client.effect("charge").key("k").wait(Duration::ZERO);
    let busy = impatient.run(|| async { Ok(2) }).await.unwrap_err();
    assert!(matches!(busy.error(), Some(Error::EffectBusy { .. })), "{busy}");
    let second = tokio::spawn({
        let client = client.clone();
        async move { client.effect("charge").key("k").run(|| async { Ok(3) }).await }
    });
    go_on.notify_one();
    assert_eq!((first.await.unwrap().unwrap(), second.await.unwrap().unwrap()), (1, 1));
}

#[tokio::test]
async fn a_result_that_is_too_large_is_given_once() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let large = "x".repeat(5 << 20);
    let run = |result: String| client.effect("render").key("k").run(|| async { Ok(result) });
    assert_eq!(run(large.clone()).await.unwrap().len(), large.len());
    let replay = run("again".to_owned()).await.unwrap_err();
    assert!(matches!(replay.error(), Some(Error::ResultNotKept { .. })), "{replay}");
    expect_effects(&client, "render", 1).await.unwrap();
}

#[tokio::test]
async fn a_long_effect_is_renewed() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let lease = Duration::from_millis(300);
    let effect = client.effect("train").key("k").lease(lease);
    let value = effect
        .run(|| async {
            tokio::time::sleep(lease * 4).await;
            let other = client.effect("train").key("k").wait(Duration::ZERO);
            let busy = other.run(|| async { Ok(2) }).await.unwrap_err();
            assert!(matches!(busy.error(), Some(Error::EffectBusy { .. })), "{busy}");
            Ok(1)
        })
        .await;
    assert_eq!(value.unwrap(), 1);
    expect_effects(&client, "train", 1).await.unwrap();
}

#[tokio::test]
async fn a_failure_for_good_is_replayed_as_one() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    for _ in 0..2 {
        let failed: Result<(), Failure> =
            client.effect("charge").key("k").run(|| async { Err(Final::new("no such card").into()) }).await;
        let failed = failed.unwrap_err();
        assert!(matches!(failed.error(), Some(Error::EffectFailed { .. })), "{failed}");
        assert!(failed.to_string().contains("no such card"), "{failed}");
    }
}

#[tokio::test]
async fn a_reconciler_can_say_that_it_failed() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let effect =
        || client.effect("charge").key("k").lease(Duration::from_millis(1)).wait(Duration::from_secs(10));
    let unclear: Result<u32, Failure> = effect().run(|| async { Err(Failure::new("time-out")) }).await;
    assert!(unclear.unwrap_err().error().is_none(), "the function's own error comes back");
    let uncertain = effect().run(|| async { Ok(1) }).await.unwrap_err();
    assert!(matches!(uncertain.error(), Some(Error::EffectUncertain { .. })), "{uncertain}");
    let told = effect().reconcile(|record| async move {
        assert_eq!((record.state, &*record.key), (EffectState::Unknown, "k"));
        Ok(Found::Failed("the provider says no".to_owned()))
    });
    let failed = told.run(|| async { Ok(1) }).await.unwrap_err();
    assert!(failed.to_string().contains("the provider says no"), "{failed}");
    assert_eq!(effects(&client, "charge").await.unwrap()[0].state, EffectState::FailedFinal);
}

#[tokio::test]
async fn guarded_functions_belong_to_where_they_are_called() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let mail = Arc::new(guarded("mail", move |address: String| {
        let count = Arc::clone(&counted);
        async move { Ok(format!("{address}: {}", count.fetch_add(1, Ordering::Relaxed))) }
    }));
    let outside = mail.call("a".to_owned()).await.unwrap_err();
    assert!(outside.to_string().contains("outside of a handler"), "{outside}");
    for (run, expected) in [("run-1", "a: 0"), ("run-1", "a: 0"), ("run-2", "a: 1")] {
        let id = client.run(run, "step").scope(mail.call("a".to_owned())).await.unwrap();
        assert_eq!(id, expected);
    }
    client.create_topic("orders", &TopicSpec::default()).await.unwrap();
    client.produce("orders", json(&"b")).await.unwrap();
    let worker = Worker::new(&client, "g").handle("orders", move |address: String, context| {
        let mail = Arc::clone(&mail);
        async move {
            assert_eq!(current().map(|current| current.offset()), Some(context.offset()));
            let (once, again) = (mail.call(address.clone()).await?, mail.call(address).await?);
            if once == again { Ok(()) } else { Err(Failure::new("carried out twice")) }
        }
    });
    run_until_idle(worker).await.unwrap();
    assert_eq!((count.load(Ordering::Relaxed), current().is_none()), (3, true));
    expect_effects(&client, "mail", 3).await.unwrap();
}

/// "Only if it is still version 0": whoever comes second with the same version is refused, and nothing runs.
#[tokio::test]
async fn an_effect_runs_only_if_its_entity_has_the_version_that_was_read() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let count = AtomicU32::new(0);
    let count = &count;
    let ship = |key: &'static str, version: u64| {
        client.effect("ship").key(key).expect("order-7", version).run(move || async move {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(version)
        })
    };
    assert_eq!(ship("first", 0).await.unwrap(), 0);
    assert_eq!(ship("first", 0).await.unwrap(), 0, "a repeat is replayed, not judged again");
    let late = ship("second", 0).await.unwrap_err();
    assert_eq!(late.error().unwrap().name(), "PreconditionFailed", "{late}");
    assert_eq!(ship("second", 1).await.unwrap(), 1);
    assert_eq!(count.load(Ordering::Relaxed), 2);
}
