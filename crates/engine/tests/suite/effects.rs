//! Effects, commits and outputs through the broker: real threads, real files.

use crate::common::{ack_of, at, config, next, reader, restart_killed, soon, start, text, until};
use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{About, EffectLease, Ending, NewOutput, OutputList, Reject, Urge};
use driftq_engine::{
    Begun, Broker, CommitCall, Config, Draft, EffectCall, EffectEnd, EffectFilter, Failure, LeaseCall,
};

/// A lease that does not lapse during a test.
const LONG_MS: u64 = 600_000;

fn call(key: &str) -> EffectCall<'_> {
    let about = About { scope: "charges".into(), key: key.into(), ..About::default() };
    EffectCall { about, lease_ms: Some(LONG_MS), ..EffectCall::default() }
}

fn succeeded(body: &str) -> EffectEnd<'_> {
    let ending = Ending { code: Some(200), body: Some(body.as_bytes().into()), ..Ending::default() };
    EffectEnd { status: Status::Succeeded, ending }
}

async fn begin(broker: &Broker, call: &EffectCall<'_>) -> EffectLease {
    match soon(broker.begin_effect(call)).await.unwrap() {
        Begun::Execute(lease) => lease,
        other => panic!("not to be run: {other:?}"),
    }
}

/// The body that a replay gives.
async fn replayed(broker: &Broker, call: &EffectCall<'_>) -> String {
    match soon(broker.begin_effect(call)).await.unwrap() {
        Begun::Replay(seen) => {
            let ending = seen.ending.unwrap();
            let body = Ending::decode(&ending).unwrap().body.unwrap().into_owned();
            String::from_utf8(body).unwrap()
        }
        other => panic!("no replay: {other:?}"),
    }
}

#[tokio::test]
async fn an_outcome_is_replayed_also_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(at(dir.path()));
    let lease = begin(&broker, &call("a")).await;
    let running = begin(&broker, &call("b")).await;
    let done = broker.finish_effect(lease.receipt, &succeeded("paid")).await.unwrap();
    assert!(!done.already);
    assert!(broker.finish_effect(lease.receipt, &succeeded("paid")).await.unwrap().already);
    let otherwise = broker.finish_effect(lease.receipt, &succeeded("paid twice")).await;
    assert_eq!(otherwise.unwrap_err(), Failure::Reject(Reject::EffectDiffers));
    assert_eq!(replayed(&broker, &call("a")).await, "paid");

    let (_image, restarted) = restart_killed(dir.path()).await;
    let broker = restarted.broker;
    assert_eq!(replayed(&broker, &call("a")).await, "paid");
    let told = broker.begin_effect(&call("b")).await.unwrap();
    assert!(matches!(told, Begun::Running { epoch: 1, attempt: 1, .. }), "{told:?}");
    // The lease is as good as before: whoever ran it did not stop because the broker did.
    broker.finish_effect(running.receipt, &succeeded("late")).await.unwrap();
    assert_eq!(replayed(&broker, &call("b")).await, "late");
    let counters = broker.counters();
    assert_eq!((counters.effects_finished, counters.effects_stale), (1, 0));
}

#[tokio::test]
async fn a_hundred_at_once_run_it_once_and_the_rest_hear_how_it_went() {
    let broker = start(config());
    let waits = EffectCall { wait_ms: 15_000, ..call("one") };
    let (go, gone) = tokio::sync::watch::channel(false);
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (broker, waits, mut gone) = (broker.clone(), waits.clone(), gone.clone());
            tokio::spawn(async move {
                match soon(broker.begin_effect(&waits)).await.unwrap() {
                    Begun::Execute(lease) => {
                        // Not before everybody else is there: the others must have something to wait for.
                        gone.wait_for(|gone| *gone).await.unwrap();
                        broker.finish_effect(lease.receipt, &succeeded("once")).await.unwrap();
                        true
                    }
                    Begun::Replay(seen) => {
                        let ending = seen.ending.unwrap();
                        assert_eq!(Ending::decode(&ending).unwrap().body.as_deref(), Some(&b"once"[..]));
                        false
                    }
                    other => panic!("{other:?}"),
                }
            })
        })
        .collect();
    until("99 wait", async || broker.tally().await.unwrap().effects.waiting == 99).await;
    go.send_replace(true);
    let mut executed = 0;
    for task in tasks {
        executed += u32::from(soon(task).await.unwrap());
    }
    assert_eq!(executed, 1);
    assert_eq!(broker.tally().await.unwrap().effects.waiting, 0);
}

#[tokio::test]
async fn whoever_gives_up_waiting_is_not_kept() {
    let broker = start(config());
    begin(&broker, &call("one")).await;
    let waits = EffectCall { wait_ms: 60_000, ..call("one") };
    let waiting = |broker: Broker| async move { broker.tally().await.unwrap().effects.waiting };
    let task = tokio::spawn({
        let (broker, waits) = (broker.clone(), waits.clone());
        async move { broker.begin_effect(&waits).await }
    });
    until("somebody waits", async || waiting(broker.clone()).await == 1).await;
    task.abort();
    until("nobody waits", async || waiting(broker.clone()).await == 0).await;

    // A stop does not wait for them either.
    let task = tokio::spawn({
        let (broker, waits) = (broker.clone(), waits.clone());
        async move { broker.begin_effect(&waits).await }
    });
    until("somebody waits", async || waiting(broker.clone()).await == 1).await;
    soon(broker.stop()).await;
    assert!(matches!(soon(task).await.unwrap(), Err(Failure::Unavailable(_))));
}

#[tokio::test]
async fn an_old_outcome_does_not_keep_its_segment() {
    let dir = tempfile::tempdir().unwrap();
    let small = Config { segment_bytes: 64 << 10, snapshot_every_bytes: 192 << 10, ..at(dir.path()) };
    let broker = start(small);
    let lease = begin(&broker, &call("precious")).await;
    broker.finish_effect(lease.receipt, &succeeded("kept")).await.unwrap();
    let pending = begin(&broker, &call("pending")).await;
    let first_segment = dir.path().join("seg-00000001.log");
    assert!(first_segment.exists());
    broker.create_topic("t", 1).await.unwrap();
    let mut stream = broker.consume(reader("t", "g")).await.unwrap();
    let large = "x".repeat(8_000);
    until("the segment is gone although its effects live", async || {
        for _ in 0..10 {
            soon(broker.produce("t", text(&large))).await.unwrap();
            let delivered = next(&mut stream).await;
            soon(broker.ack(ack_of("t", "g", &delivered))).await.unwrap();
        }
        !first_segment.exists()
    })
    .await;
    assert_eq!(replayed(&broker, &call("precious")).await, "kept");
    let (_image, restarted) = restart_killed(dir.path()).await;
    let broker = restarted.broker;
    assert_eq!(replayed(&broker, &call("precious")).await, "kept");
    let seen = broker.effect("", "charges", "pending").await.unwrap();
    assert_eq!(
        (seen.view.status, About::decode(&seen.about).unwrap().key),
        (Status::InProgress, "pending".into())
    );
    broker.finish_effect(pending.receipt, &succeeded("after all")).await.unwrap();
}

#[tokio::test]
async fn lists_tell_scopes_apart_and_go_on_where_they_ended() {
    let broker = start(config());
    for number in 0..25 {
        let key = number.to_string();
        let mut effect = call(&key);
        effect.about.scope = if number % 2 == 0 { "even".into() } else { "odd".into() };
        effect.on_lapse = OnLapse::Retry;
        effect.urge = Urge::BeginOrReacquire;
        let lease = begin(&broker, &effect).await;
        if number < 10 {
            broker.finish_effect(lease.receipt, &succeeded("")).await.unwrap();
        }
    }
    let mut filter = EffectFilter { limit: 3, scope: Some("odd".into()), ..EffectFilter::default() };
    let mut keys = Vec::new();
    loop {
        let sight = broker.effects(&filter).await.unwrap();
        keys.extend(sight.seen.iter().map(|seen| About::decode(&seen.about).unwrap().key.into_owned()));
        match sight.next {
            Some(next) => filter.after = next,
            None => break,
        }
    }
    let odd: Vec<String> =
        (0..25).filter(|number| number % 2 == 1).map(|number| number.to_string()).collect();
    assert_eq!(keys, odd);
    let running = EffectFilter { limit: 100, status: Some(Status::InProgress), ..EffectFilter::default() };
    assert_eq!(broker.effects(&running).await.unwrap().seen.len(), 15);
}

#[tokio::test]
async fn a_commit_is_whole_or_nothing_and_its_repeat_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(at(dir.path()));
    broker.create_topic("in", 1).await.unwrap();
    broker.create_topic("out", 1).await.unwrap();
    broker.produce("in", text("work")).await.unwrap();
    let lease = LeaseCall {
        topic: "in".into(),
        group: "g".into(),
        owner: "w".into(),
        max: 1,
        lease_ms: Some(LONG_MS),
        wait_ms: 5_000,
        request_id: None,
    };
    let delivered = soon(broker.lease(lease)).await.unwrap();
    let tied = EffectCall { delivery: Some(delivered[0].receipt), ..call("charge") };
    let effect = begin(&broker, &tied).await;
    let output = |version: &str| NewOutput {
        dataset: "d".into(),
        version: version.into(),
        partition_key: "p".into(),
        dedupe_key: String::new(),
        location: "s3://bucket/one".into(),
        digest: "abc".into(),
    };
    let commit = |topic: &str| CommitCall {
        name: Some(driftq_core::Identity::of("", "commit", topic)),
        acks: vec![delivered[0].receipt],
        effects: vec![(effect.receipt, succeeded("paid"))],
        messages: vec![(topic.to_owned().into(), Draft { message: text("next"), ..Draft::default() })],
        outputs: vec![output("1")],
        ..CommitCall::default()
    };
    let refused = broker.commit(commit("nowhere")).await.unwrap_err();
    assert!(matches!(refused, Failure::Commit(driftq_core::CommitPart::Produce(0), _)), "{refused:?}");
    let list =
        OutputList { dataset: "d".into(), version: "1".into(), partition_key: None, from: None, limit: 10 };
    assert_eq!(broker.outputs(list.clone()).await, Err(Failure::Reject(Reject::OutputUnknown)));
    assert!(matches!(broker.begin_effect(&call("charge")).await.unwrap(), Begun::Running { .. }));

    let done = broker.commit(commit("out")).await.unwrap();
    assert_eq!((done.already, done.produced[0].offset), (false, 0));
    let again = broker.commit(commit("out")).await.unwrap();
    assert_eq!((again.already, &again.produced, &again.outputs), (true, &done.produced, &done.outputs));
    let (_image, restarted) = restart_killed(dir.path()).await;
    let broker = restarted.broker;
    assert!(broker.commit(commit("out")).await.unwrap().already);
    assert_eq!(replayed(&broker, &call("charge")).await, "paid");
    assert_eq!(broker.outputs(list).await.unwrap().outputs.len(), 1);
    let out = broker.describe_topic("out").await.unwrap();
    assert_eq!((out.next_offset, out.partitions[0].messages), (1, 1));
}
