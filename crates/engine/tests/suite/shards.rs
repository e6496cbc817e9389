//! A broker of several shards: what lives where, and what goes from one to another.

use std::collections::BTreeSet;

use crate::common::{at, config, keyed, restart_killed, soon, start, text, until};
use driftq_core::ledger::Status;
use driftq_core::{
    About, CommitPart, EffectLease, Ending, Envelope, Expected, Identity, Message, Named, NewOutput, Outcome,
    OutputList, Reject, RunList, Settlement, ShardId, TenantLimits, TopicSettings, Verdict,
};
use driftq_engine::{
    Begun, Broker, CommitCall, Config, Delivered, Draft, EffectCall, EffectEnd, EffectFilter, Failure,
    JobCall, JobKind, JobState, LeaseCall, LetterFilter, StartError,
};

const SHARDS: u8 = 4;
const LONG_MS: u64 = 600_000;

fn several() -> Config {
    Config { shards: SHARDS, ..config() }
}

fn shard_of(broker: &Broker, topic: &str) -> ShardId {
    broker.topic_number(topic).unwrap().shard()
}

/// Makes topics until there is one in each shard; the first name of each, in the order of the shards.
async fn one_in_each(broker: &Broker) -> Vec<String> {
    let mut names = vec![None; usize::from(SHARDS)];
    for number in 0_u32.. {
        let name = format!("topic-{number}");
        broker.create_topic(&name, 1).await.unwrap();
        names[usize::from(shard_of(broker, &name).0)].get_or_insert(name);
        if names.iter().all(Option::is_some) {
            break;
        }
    }
    names.into_iter().flatten().collect()
}

fn lease_call(topic: &str) -> LeaseCall {
    LeaseCall {
        topic: topic.into(),
        group: "g".into(),
        owner: "me".into(),
        max: 10,
        lease_ms: Some(LONG_MS),
        wait_ms: 10_000,
        request_id: None,
    }
}

async fn leased(broker: &Broker, topic: &str) -> Vec<Delivered> {
    soon(broker.lease(lease_call(topic))).await.unwrap()
}

/// A message of a topic, on loan.
async fn one_leased(broker: &Broker, topic: &str, value: &str) -> Delivered {
    broker.produce(topic, text(value)).await.unwrap();
    let mut leased = leased(broker, topic).await;
    assert_eq!(leased.len(), 1);
    leased.remove(0)
}

fn values(leased: &[Delivered]) -> Vec<String> {
    let value = |delivered: &Delivered| {
        let message = Message::decode(&delivered.payload).unwrap();
        String::from_utf8(message.value.to_vec()).unwrap()
    };
    leased.iter().map(value).collect()
}

fn effect<'a>(scope: &'a str, key: &'a str) -> EffectCall<'a> {
    let about = About { scope: scope.into(), key: key.into(), ..About::default() };
    EffectCall { about, lease_ms: Some(LONG_MS), ..EffectCall::default() }
}

fn paid() -> EffectEnd<'static> {
    let ending = Ending { code: Some(200), body: Some(b"paid"[..].into()), ..Ending::default() };
    EffectEnd { status: Status::Succeeded, ending }
}

async fn begin(broker: &Broker, call: &EffectCall<'_>) -> EffectLease {
    match soon(broker.begin_effect(call)).await.unwrap() {
        Begun::Execute(lease) => lease,
        other => panic!("not to be run: {other:?}"),
    }
}

/// The shard of an effect, read off its lease as it leaves the broker.
fn shard_of_effect(lease: &EffectLease) -> ShardId {
    ShardId(u8::try_from(lease.receipt.number >> 56).unwrap())
}

fn follow_up<'a>(topic: &'a str, value: &'a str) -> (std::borrow::Cow<'a, str>, Draft<'a>) {
    (topic.into(), Draft { message: text(value), ..Draft::default() })
}

fn replaced(location: &str) -> NewOutput {
    NewOutput {
        dataset: "reports".into(),
        version: "v1".into(),
        partition_key: "p".into(),
        dedupe_key: String::new(),
        location: location.into(),
        digest: "d".into(),
    }
}

async fn location(broker: &Broker) -> String {
    let list = OutputList {
        dataset: Named::of("", "reports"),
        version: "v1".into(),
        partition_key: None,
        from: None,
        limit: 10,
    };
    let page = broker.outputs(list).await.unwrap();
    page.outputs[0].location.to_string()
}

#[tokio::test]
async fn topics_are_spread_and_stay_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(Config { shards: SHARDS, ..at(dir.path()) });
    for number in 0..40 {
        broker.create_topic(&format!("t{number}"), 2).await.unwrap();
    }
    let places: Vec<ShardId> = (0..40).map(|n| shard_of(&broker, &format!("t{n}"))).collect();
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), usize::from(SHARDS), "{places:?}");
    assert_eq!(broker.topics().len(), 40);
    for number in 0..40 {
        let topic = format!("t{number}");
        broker.produce(&topic, keyed(&topic, "k")).await.unwrap();
        assert!(broker.produce(&topic, keyed(&topic, "k")).await.unwrap().duplicate);
    }
    broker.stop().await;
    // Without a word about it there are as many as there were.
    let (_image, restarted) = restart_killed(dir.path()).await;
    let broker = restarted.broker;
    assert_eq!((broker.shard_count(), restarted.recovery.messages), (usize::from(SHARDS), 40));
    let after: Vec<ShardId> = (0..40).map(|n| shard_of(&broker, &format!("t{n}"))).collect();
    assert_eq!(after, places);
    let mut tokens = Vec::new();
    for number in 0..40 {
        let topic = format!("t{number}");
        assert!(broker.produce(&topic, keyed(&topic, "k")).await.unwrap().duplicate);
        let leased = leased(&broker, &topic).await;
        assert_eq!(values(&leased), [topic]);
        tokens.push(broker.token(&leased[0].receipt));
    }
    // One call settles what lies in several shards, each answer in its place.
    tokens.push("nonsense".into());
    let receipts: Vec<_> = tokens.iter().map(|token| broker.receipt(token)).collect();
    assert_eq!(receipts[40], None);
    let items = receipts.into_iter().flatten().map(|receipt| Settlement { receipt, verdict: Verdict::Ack });
    let outcomes = broker.settle(items.collect()).await.unwrap();
    assert_eq!(outcomes, vec![Outcome::Ok; 40]);
    assert_eq!(broker.counters().acked, 40);
    assert_eq!(broker.tally().await.unwrap().topic_count, 40);
}

#[tokio::test]
async fn a_directory_with_one_shard_gets_more_and_never_fewer() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(at(dir.path()));
    for number in 0..8 {
        let topic = format!("old{number}");
        broker.create_topic(&topic, 1).await.unwrap();
        broker.produce(&topic, text("old")).await.unwrap();
    }
    let lease = begin(&broker, &effect("charges", "a")).await;
    broker.finish_effect(lease.receipt, &paid()).await.unwrap();
    broker.stop().await;

    let broker = start(Config { shards: SHARDS, ..at(dir.path()) });
    for number in 0..8 {
        let topic = format!("old{number}");
        assert_eq!(shard_of(&broker, &topic), ShardId(0));
        assert_eq!(values(&leased(&broker, &topic).await), ["old"]);
    }
    // What a scope has stays where it is, and what comes goes there, too.
    assert!(matches!(broker.begin_effect(&effect("charges", "a")).await.unwrap(), Begun::Replay(_)));
    assert_eq!(shard_of_effect(&begin(&broker, &effect("charges", "b")).await), ShardId(0));
    let fresh = one_in_each(&broker).await;
    assert_eq!(fresh.len(), usize::from(SHARDS));
    broker.stop().await;

    let refused = Broker::start(Config { shards: 2, ..at(dir.path()) }).map(|_| ()).unwrap_err();
    assert!(matches!(refused, StartError::Shards { found: SHARDS, wanted: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("--shards 4"), "{refused}");
}

#[tokio::test]
async fn logs_that_lie_in_the_wrong_place_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    for dir in [&dir, &other] {
        start(Config { shards: 3, ..at(dir.path()) }).stop().await;
    }
    let (one, two) = (dir.path().join("shard-1"), dir.path().join("shard-2"));
    let refusal = || match Broker::start(at(dir.path())) {
        Err(StartError::Damaged(why)) => why,
        other => panic!("{:?}", other.map(|_| ()).err()),
    };
    let spare = dir.path().join("spare");
    std::fs::rename(&one, &spare).unwrap();
    assert!(refusal().contains("shard-1 is missing"), "{}", refusal());
    std::fs::rename(&two, &one).unwrap();
    std::fs::rename(&spare, &two).unwrap();
    assert!(refusal().contains("this is the log of shard"), "{}", refusal());
    std::fs::rename(&one, &spare).unwrap();
    std::fs::rename(&two, &one).unwrap();
    std::fs::rename(other.path().join("shard-2"), &two).unwrap();
    assert!(refusal().contains("belongs to another broker"), "{}", refusal());
    std::fs::remove_dir_all(&two).unwrap();
    std::fs::rename(&spare, &two).unwrap();
    assert_eq!(start(at(dir.path())).shard_count(), 3);
}

#[tokio::test]
async fn a_name_is_given_once_and_letters_stay_with_their_topic() {
    let broker = start(several());
    for number in 0..20 {
        let (name, letters) = (format!("t{number}"), format!("dlq.t{number}"));
        // Two tenants that would put it into different shards, at the same time.
        let put =
            |tenant: &'static str| broker.put_topic(&name, 1, TopicSettings::default(), Some(tenant), false);
        let (one, two) = tokio::join!(put("acme"), put("zeta"));
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
        assert_eq!(broker.topics().iter().filter(|topic| **topic == name).count(), 1);
        broker.put_topic(&letters, 1, TopicSettings::default(), None, false).await.ok();
        if broker.topic_number(&letters).is_some() {
            assert_eq!(shard_of(&broker, &letters), shard_of(&broker, &name));
        }
    }
    // Whichever is made first, also for the question whose they are.
    broker.put_topic("dlq.later", 1, TopicSettings::default(), Some("acme"), false).await.unwrap();
    let foreign = broker.put_topic("later", 1, TopicSettings::default(), Some("zeta"), false).await;
    assert!(matches!(foreign.unwrap_err(), Failure::Reject(Reject::TenantDiffers(_))));
    broker.put_topic("later", 1, TopicSettings::default(), Some("acme"), false).await.unwrap();
    assert_eq!(shard_of(&broker, "later"), shard_of(&broker, "dlq.later"));
}

#[tokio::test]
async fn all_that_a_tenant_has_is_counted_in_one_place() {
    let broker = start(several());
    let limits = TenantLimits { topics: 3, messages: 4, ..TenantLimits::NONE };
    broker.limit_tenant("acme".into(), limits).await.unwrap();
    let put = |name: &'static str| broker.put_topic(name, 1, TopicSettings::default(), Some("acme"), false);
    for name in ["a", "b", "c"] {
        put(name).await.unwrap();
    }
    assert!(matches!(put("d").await.unwrap_err(), Failure::Reject(Reject::QuotaExceeded(_))));
    for name in ["a", "b", "c", "a"] {
        broker.produce(name, text("v")).await.unwrap();
    }
    let fifth = broker.produce("b", text("v")).await.unwrap_err();
    assert!(matches!(fifth, Failure::Reject(Reject::QuotaExceeded(_))), "{fifth}");
    let tenant = broker.tenant("acme").await.unwrap();
    assert_eq!((tenant.topics, tenant.messages, tenant.limits), (3, 4, limits));
    assert_eq!(broker.tenants().await.unwrap(), [tenant]);
}

#[tokio::test]
async fn effects_live_with_the_delivery_that_their_scope_began_with() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let home = one_leased(&broker, &topics[2], "m").await;
    let begun = begin(&broker, &EffectCall { delivery: Some(home.receipt), ..effect("mail", "a") }).await;
    assert_eq!(shard_of_effect(&begun), ShardId(2));
    // From then on the scope is there, for whoever asks, and no effect of it runs twice.
    assert_eq!(shard_of_effect(&begin(&broker, &effect("mail", "b")).await), ShardId(2));
    let abroad = one_leased(&broker, &topics[1], "m").await;
    let again = EffectCall { delivery: Some(abroad.receipt), ..effect("mail", "a") };
    assert!(matches!(broker.begin_effect(&again).await.unwrap(), Begun::Running { .. }));
    broker.finish_effect(begun.receipt, &paid()).await.unwrap();
    assert!(matches!(broker.begin_effect(&again).await.unwrap(), Begun::Replay(_)));
    let token = broker.effect_token(begun.receipt);
    assert_eq!(broker.effect_receipt(&token), Some(begun.receipt));

    // A stale delivery of another shard begins nothing, but may be told.
    broker.settle(vec![Settlement { receipt: abroad.receipt, verdict: Verdict::Ack }]).await.unwrap();
    assert!(matches!(broker.begin_effect(&again).await.unwrap(), Begun::Replay(_)));
    let fresh = EffectCall { delivery: Some(abroad.receipt), ..effect("mail", "c") };
    let stale = broker.begin_effect(&fresh).await.unwrap_err();
    assert!(matches!(stale, Failure::Reject(Reject::LeaseStale(_))), "{stale}");

    // Many in one call, each answered in its place.
    let calls: Vec<EffectCall<'_>> =
        ["mail", "sms", "fax", "mail", "push", "post"].iter().map(|scope| effect(scope, "a")).collect();
    let begun = broker.begin_effects(&calls).await.unwrap();
    let runs: Vec<bool> = begun.iter().map(|begun| matches!(begun, Ok(Begun::Execute(_)))).collect();
    assert_eq!(runs, [false, true, true, false, true, true]);
}

#[tokio::test]
async fn an_effect_waits_for_an_entity_of_another_shard_once() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let there = one_leased(&broker, &topics[3], "m").await;
    let expect = vec![Expected { entity: "order-1".into(), version: 0 }];
    let call = EffectCall { delivery: Some(there.receipt), expect, ..effect("ship", "order-1") };
    let lease = begin(&broker, &call).await;
    assert_eq!(shard_of_effect(&lease), ShardId(3));
    assert_eq!(broker.entity(Named::of("", "order-1")).await.unwrap().version, 1);
    assert!(matches!(broker.begin_effect(&call).await.unwrap(), Begun::Running { .. }));
    assert_eq!(broker.entity(Named::of("", "order-1")).await.unwrap().version, 1);
    let late = EffectCall { about: About { key: "order-1b".into(), ..call.about.clone() }, ..call.clone() };
    let refused = broker.begin_effect(&late).await.unwrap_err();
    assert_eq!(refused, Failure::Entity { entity: "order-1".into(), version: 1 });
}

#[tokio::test]
async fn an_effect_on_a_condition_stays_tied_to_its_delivery() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let there = one_leased(&broker, &topics[3], "m").await;
    let expect = vec![Expected { entity: "order-1".into(), version: 0 }];
    let call = EffectCall { delivery: Some(there.receipt), expect, ..effect("ship", "order-1") };
    let lease = begin(&broker, &call).await;
    let failed = Verdict::Nack { delay_ms: Some(0), dead: false, error: "the worker was overtaken".into() };
    broker.settle(vec![Settlement { receipt: there.receipt, verdict: failed }]).await.unwrap();
    assert_eq!(leased(&broker, &topics[3]).await.len(), 1);
    // Another worker has the message, and with it the say about the effect.
    let late = broker.finish_effect(lease.receipt, &paid()).await.unwrap_err();
    assert_eq!(late, Failure::Reject(Reject::EffectFenced));
}

#[tokio::test]
async fn an_effect_that_is_taken_on_is_held_to_its_first_condition() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let there = one_leased(&broker, &topics[3], "m").await;
    let version = async || broker.entity(Named::of("", "order-1")).await.map_or(0, |entity| entity.version);
    let free = EffectCall { delivery: Some(there.receipt), ..effect("ship", "order-1") };
    let on =
        |version| EffectCall { expect: vec![Expected { entity: "order-1".into(), version }], ..free.clone() };
    let lease = begin(&broker, &free).await;
    assert_eq!(shard_of_effect(&lease), ShardId(3));
    // Who is only told how it stands raises nothing.
    assert!(matches!(broker.begin_effect(&on(0)).await.unwrap(), Begun::Running { .. }));
    assert_eq!(version().await, 0);
    broker.release_effect(lease.receipt, false).await.unwrap();
    let refused = broker.begin_effect(&on(7)).await.unwrap_err();
    assert_eq!(refused, Failure::Entity { entity: "order-1".into(), version: 0 });
    let lease = begin(&broker, &on(0)).await;
    assert_eq!(version().await, 1);
    // From then on the record remembers it, whatever is expected.
    broker.release_effect(lease.receipt, false).await.unwrap();
    let lease = begin(&broker, &on(1)).await;
    assert_eq!(version().await, 1);
    // One that waits is held to it when it is its turn.
    let waits =
        EffectCall { wait_ms: 20_000, about: About { key: "b".into(), ..free.about.clone() }, ..on(9) };
    let first = begin(&broker, &EffectCall { about: waits.about.clone(), ..free.clone() }).await;
    let (waited, released) = tokio::join!(broker.begin_effect(&waits), async {
        until("one waits", async || broker.tally().await.unwrap().effects.waiting == 1).await;
        broker.release_effect(first.receipt, false).await
    });
    released.unwrap();
    assert_eq!(waited.unwrap_err(), Failure::Entity { entity: "order-1".into(), version: 1 });
    let again = begin(&broker, &EffectCall { about: waits.about.clone(), ..free.clone() }).await;
    assert!(again.receipt.epoch > first.receipt.epoch, "what was refused is nobody's");
    // If it is met by then, the record remembers it like any other.
    let waits = EffectCall { expect: on(1).expect, ..waits };
    let (waited, released) = tokio::join!(broker.begin_effect(&waits), async {
        until("one waits", async || broker.tally().await.unwrap().effects.waiting == 1).await;
        broker.release_effect(again.receipt, false).await
    });
    released.unwrap();
    let Begun::Execute(met) = waited.unwrap() else { panic!("it was given up") };
    assert_eq!(version().await, 2);
    broker.release_effect(met.receipt, false).await.unwrap();
    begin(&broker, &EffectCall { expect: on(7).expect, ..waits }).await;
    assert_eq!(version().await, 2);
    broker.finish_effect(lease.receipt, &paid()).await.unwrap();
}

/// A scope whose effects live in another shard than entities do.
async fn scope_elsewhere(broker: &Broker) -> String {
    for number in 0_u32.. {
        let scope = format!("scope-{number}");
        if shard_of_effect(&begin(broker, &effect(&scope, "any")).await) != ShardId(0) {
            return scope;
        }
    }
    unreachable!("scopes are spread by their hash")
}

/// As in one shard: an asker may wait for so long, and not a moment longer.
#[tokio::test]
async fn a_wait_has_the_same_bound_where_another_shard_is_asked() {
    let broker = start(several());
    let scope = scope_elsewhere(&broker).await;
    let expect = vec![Expected { entity: "order-1".into(), version: 0 }];
    let waits = |wait_ms| EffectCall { wait_ms, expect: expect.clone(), ..effect(&scope, "order-1") };
    for wait_ms in [60_001, u64::MAX] {
        let refused = broker.begin_effect(&waits(wait_ms)).await.unwrap_err();
        let too_long = Reject::Invalid("wait_ms must be at most 60000");
        assert_eq!(refused, Failure::Reject(too_long), "{wait_ms}");
    }
    assert_ne!(shard_of_effect(&begin(&broker, &waits(60_000)).await), ShardId(0));
}

#[tokio::test]
async fn a_condition_is_forgotten_with_the_record_that_met_it() {
    let broker = start(several());
    // Not of a delivery, whose message could ask for it again for as long as it is kept.
    let scope = scope_elsewhere(&broker).await;
    let expect = vec![Expected { entity: "order-1".into(), version: 0 }];
    let on_first = EffectCall { ttl_ms: Some(1), expect, ..effect(&scope, "order-1") };
    let lease = begin(&broker, &on_first).await;
    broker.finish_effect(lease.receipt, &paid()).await.unwrap();
    let refused = async || broker.begin_effect(&on_first).await.err();
    let differs = Failure::Entity { entity: "order-1".into(), version: 1 };
    until("the record is over", async || refused().await.as_ref() == Some(&differs)).await;
}

#[tokio::test]
async fn a_commit_takes_an_effect_that_has_ended_in_just_this_way() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let work = one_leased(&broker, &topics[1], "work").await;
    for (home, scope) in [(0, "charge"), (2, "mail")] {
        let there = one_leased(&broker, &topics[home], "m").await;
        let call = EffectCall { delivery: Some(there.receipt), ..effect(scope, "1") };
        let lease = begin(&broker, &call).await;
        broker.finish_effect(lease.receipt, &paid()).await.unwrap();
        // What goes to the shard of the effect besides is done in the name of the delivery.
        let commit = CommitCall {
            fences: vec![work.receipt],
            effects: vec![(lease.receipt, paid())],
            messages: vec![follow_up(&topics[home], "far")],
            expect: vec![Expected { entity: scope.into(), version: 0 }],
            ..CommitCall::default()
        };
        assert_eq!(broker.commit(commit).await.unwrap().produced.len(), 1, "{scope}");
        assert_eq!(broker.entity(Named::of("", scope)).await.unwrap().version, 1);
    }
}

#[tokio::test]
async fn a_lease_whose_effect_has_ended_does_nothing_more_in_any_shard() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let there = one_leased(&broker, &topics[2], "m").await;
    let call = EffectCall { delivery: Some(there.receipt), ..effect("charge", "1") };
    let lease = begin(&broker, &call).await;
    let name = |name: &str| Some(Identity::of("", "commit", name));
    let expect = |version| vec![Expected { entity: "order-1".into(), version }];
    let end = |expect| CommitCall { effects: vec![(lease.receipt, paid())], expect, ..CommitCall::default() };
    let first = CommitCall { name: name("first"), ..end(expect(0)) };
    assert!(!broker.commit(first.clone()).await.unwrap().already);
    assert!(broker.commit(first).await.unwrap().already);
    let second = CommitCall { name: name("second"), ..end(expect(1)) };
    let refused = broker.commit(second).await.unwrap_err();
    let stale = Failure::Reject(Reject::EffectStale(Some(lease.receipt.epoch)));
    assert_eq!(refused, Failure::Commit(CommitPart::Effect(0), Box::new(stale)));
    assert_eq!(broker.entity(Named::of("", "order-1")).await.unwrap().version, 1);
}

#[tokio::test]
async fn a_commit_reaches_into_other_shards() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let delivered = one_leased(&broker, &topics[1], "work").await;
    let elsewhere = one_leased(&broker, &topics[2], "x").await;
    let bound = EffectCall { delivery: Some(elsewhere.receipt), ..effect("charge", "1") };
    let lease = begin(&broker, &bound).await;
    let commit = || CommitCall {
        name: Some(Identity::of("", "", "commit-1")),
        acks: vec![delivered.receipt],
        effects: vec![(lease.receipt, paid())],
        messages: vec![
            follow_up(&topics[3], "far"),
            follow_up(&topics[1], "near"),
            follow_up(&topics[0], "home"),
        ],
        outputs: vec![replaced("s3://one")],
        ..CommitCall::default()
    };
    let done = soon(broker.commit(commit())).await.unwrap();
    assert!(!done.already);
    let names: Vec<&str> = done.produced.iter().map(|produced| &*produced.topic).collect();
    assert_eq!(names, [&*topics[3], &*topics[1], &*topics[0]]);
    for (topic, value) in [(&topics[3], "far"), (&topics[1], "near"), (&topics[0], "home")] {
        assert_eq!(values(&leased(&broker, topic).await), [value]);
    }
    assert!(matches!(broker.begin_effect(&bound).await.unwrap(), Begun::Replay(_)));
    assert_eq!(location(&broker).await, "s3://one");
    // Asked for again, it gives the same answer and does nothing.
    let again = soon(broker.commit(commit())).await.unwrap();
    assert!(again.already);
    assert_eq!(again.produced, done.produced);
    assert_eq!(again.outputs, done.outputs);
    for topic in &topics {
        let call = LeaseCall { wait_ms: 0, ..lease_call(topic) };
        assert!(broker.lease(call).await.unwrap().is_empty(), "{topic}");
    }
    let shown = broker.committed_as(Identity::of("", "", "commit-1")).await.unwrap().unwrap();
    assert_eq!(shown.produced, done.produced);
}

#[tokio::test]
async fn an_effect_alone_commits_into_other_shards_once() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let bound = one_leased(&broker, &topics[2], "x").await;
    let begun = |key: &'static str| EffectCall { delivery: Some(bound.receipt), ..effect("render", key) };
    let lease = begin(&broker, &begun("1")).await;
    assert_eq!(shard_of_effect(&lease), ShardId(2));
    let commit = |name: Option<Identity>| CommitCall {
        name,
        effects: vec![(lease.receipt, paid())],
        messages: vec![follow_up(&topics[1], "rendered")],
        outputs: vec![replaced("s3://page")],
        ..CommitCall::default()
    };
    // Without a name it could not be repeated.
    let nameless = broker.commit(commit(None)).await.unwrap_err();
    assert!(matches!(nameless, Failure::Commit(CommitPart::Whole, _)), "{nameless}");
    assert!(matches!(broker.begin_effect(&begun("1")).await.unwrap(), Begun::Running { .. }));
    let name = Some(Identity::of("", "", "page-1"));
    let done = soon(broker.commit(commit(name))).await.unwrap();
    let again = soon(broker.commit(commit(name))).await.unwrap();
    assert_eq!((done.already, again.already), (false, true));
    assert_eq!((&again.produced, &again.outputs), (&done.produced, &done.outputs));
    assert_eq!(values(&leased(&broker, &topics[1]).await), ["rendered"]);
    assert_eq!(location(&broker).await, "s3://page");
    // A holder that is too late does nothing anywhere.
    let late = begin(&broker, &begun("2")).await;
    let stale = driftq_core::EffectReceipt { epoch: late.receipt.epoch + 1, ..late.receipt };
    let refused = broker
        .commit(CommitCall {
            name: Some(Identity::of("", "", "page-2")),
            effects: vec![(stale, paid())],
            outputs: vec![replaced("s3://late")],
            ..CommitCall::default()
        })
        .await;
    assert!(matches!(refused.unwrap_err(), Failure::Commit(CommitPart::Effect(0), _)));
    assert_eq!(location(&broker).await, "s3://page");
}

#[tokio::test]
async fn a_commit_that_any_shard_refuses_does_nothing() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let delivered = one_leased(&broker, &topics[1], "work").await;
    let spent = one_leased(&broker, &topics[2], "spent").await;
    broker.settle(vec![Settlement { receipt: spent.receipt, verdict: Verdict::Ack }]).await.unwrap();
    let produced = |broker: Broker, topic: String| async move {
        let described = broker.describe_topic(&topic).await.unwrap();
        described.next_offset
    };
    let before = produced(broker.clone(), topics[3].clone()).await;
    let base = || CommitCall {
        acks: vec![delivered.receipt],
        messages: vec![follow_up(&topics[3], "far")],
        ..CommitCall::default()
    };
    // The fence of another shard is stale.
    let fenced = broker.commit(CommitCall { fences: vec![spent.receipt], ..base() }).await.unwrap_err();
    let Failure::Commit(CommitPart::Fence(0), _) = fenced else { panic!("{fenced}") };
    // An entity at home has another version.
    let expect = vec![Expected { entity: "e".into(), version: 7 }];
    let unmet = broker.commit(CommitCall { expect, ..base() }).await.unwrap_err();
    assert!(matches!(unmet, Failure::Commit(CommitPart::Expect(0), _)), "{unmet}");
    // Deliveries of two shards cannot be acked together.
    let other = one_leased(&broker, &topics[0], "other").await;
    let acks = vec![delivered.receipt, other.receipt];
    let split = broker.commit(CommitCall { acks, ..base() }).await.unwrap_err();
    assert!(matches!(split, Failure::Commit(CommitPart::Ack(1), _)), "{split}");
    assert_eq!(produced(broker.clone(), topics[3].clone()).await, before);
    // And then it goes.
    soon(broker.commit(base())).await.unwrap();
    assert_eq!(produced(broker.clone(), topics[3].clone()).await, before + 1);
    let stale = broker.commit(base()).await.unwrap_err();
    assert!(matches!(stale, Failure::Commit(CommitPart::Ack(0), _)), "{stale}");
    assert_eq!(produced(broker.clone(), topics[3].clone()).await, before + 1);
}

#[tokio::test]
async fn many_commits_of_many_shards_are_answered_in_their_places() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let mut calls = Vec::new();
    for round in 0..3 {
        for (place, topic) in topics.iter().enumerate() {
            let delivered = one_leased(&broker, topic, "work").await;
            let next = &topics[(place + round) % topics.len()];
            calls.push(CommitCall {
                acks: vec![delivered.receipt],
                messages: vec![(next.clone().into(), Draft { message: text("next"), ..Draft::default() })],
                ..CommitCall::default()
            });
        }
    }
    let wanted: Vec<String> = calls.iter().map(|call| call.messages[0].0.to_string()).collect();
    let answers = soon(broker.commit_many(calls)).await.unwrap();
    let went: Vec<String> =
        answers.into_iter().map(|answer| answer.unwrap().produced[0].topic.to_string()).collect();
    assert_eq!(went, wanted);
    for topic in &topics {
        assert_eq!(values(&leased(&broker, topic).await), ["next"; 3]);
    }
}

#[tokio::test]
async fn parcels_outlive_a_crash_and_arrive_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(Config { shards: SHARDS, ..at(dir.path()) });
    let topics = one_in_each(&broker).await;
    let mut work = Vec::new();
    for number in 0..40 {
        work.push(one_leased(&broker, &topics[number % 4], "work").await);
    }
    let mut tasks = Vec::new();
    for (number, delivered) in work.into_iter().enumerate() {
        let (broker, to) = (broker.clone(), topics[(number + 1) % 4].clone());
        tasks.push(tokio::spawn(async move {
            let value = format!("m{number}");
            let message = Draft { message: text(&value), ..Draft::default() };
            let call = CommitCall {
                name: Some(Identity::of("", "", &value)),
                acks: vec![delivered.receipt],
                messages: vec![(to.into(), message)],
                ..CommitCall::default()
            };
            broker.commit(call).await.is_ok()
        }));
    }
    for task in tasks {
        assert!(soon(task).await.unwrap());
    }
    let (_image, restarted) = restart_killed(dir.path()).await;
    let broker = restarted.broker;
    let mut seen = Vec::new();
    for topic in &topics {
        seen.extend(values(&leased(&broker, topic).await));
    }
    seen.sort();
    let mut wanted: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
    wanted.sort();
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn lists_go_over_all_shards_and_name_everything_once() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    for number in 0..30 {
        let (scope, run) = (format!("scope-{number}"), format!("run-{}", number % 10));
        begin(&broker, &effect(&scope, "k")).await;
        let envelope = Envelope { run_id: run.into(), ..Envelope::default() };
        let message = Message { envelope: Some(Box::new(envelope)), ..text("v") };
        broker.produce(&topics[number % topics.len()], message).await.unwrap();
    }
    let (mut scopes, mut after) = (Vec::new(), Some(0));
    while let Some(from) = after {
        let filter = EffectFilter { after: from, limit: 7, ..EffectFilter::default() };
        let sight = broker.effects(&filter).await.unwrap();
        assert!(sight.seen.len() <= 7);
        scopes.extend(sight.seen.iter().map(|seen| About::decode(&seen.about).unwrap().scope.into_owned()));
        after = sight.next;
    }
    assert_eq!(scopes.len(), 30);
    assert_eq!(scopes.iter().collect::<BTreeSet<_>>().len(), 30);
    assert_eq!(broker.tally().await.unwrap().effects.in_progress, 30);

    let (mut runs, mut before) = (Vec::new(), Some(u64::MAX));
    while let Some(upto) = before {
        let list = RunList { tenant: None, before: upto, began_before: None, limit: 3 };
        let (page, next) = broker.runs(list).await.unwrap();
        runs.extend(page);
        before = next;
    }
    assert!(runs.is_sorted_by(|one, two| one.started >= two.started));
    let mut named: Vec<(String, u64)> = runs.iter().map(|run| (run.id.to_string(), run.messages)).collect();
    named.sort();
    let wanted: Vec<(String, u64)> = (0..10).map(|number| (format!("run-{number}"), 3)).collect();
    assert_eq!(named, wanted);
    let (mut entries, mut from) = (0, Some(0));
    while let Some(place) = from {
        let sight = broker.run(Named::of("", "run-4"), place, 2).await.unwrap();
        assert_eq!(sight.summary.messages, 3);
        entries += sight.entries.len();
        from = sight.next;
    }
    assert_eq!(entries, 3);
    let unknown = broker.run(Named::of("", "none"), 0, 2).await.unwrap_err();
    assert_eq!(unknown, Failure::Reject(Reject::RunUnknown));
}

#[tokio::test]
async fn a_letter_is_sent_to_a_topic_of_another_shard() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let delivered = one_leased(&broker, &topics[1], "poison").await;
    let verdict = Verdict::Nack { delay_ms: None, dead: true, error: "no".into() };
    broker.settle(vec![Settlement { receipt: delivered.receipt, verdict }]).await.unwrap();
    let letters = Broker::dead_letter_topic(&topics[1]);
    until("the letter is there", async || broker.topic_number(&letters).is_some()).await;
    let job = broker
        .start_job(JobCall {
            kind: JobKind::Redrive,
            topic: topics[1].clone(),
            filter: LetterFilter::default(),
            rate_per_second: None,
            dry_run: false,
            target_topic: Some(topics[2].clone()),
            request_key: None,
        })
        .await
        .unwrap();
    until("the job is done", async || broker.job(job.id).unwrap().state == JobState::Done).await;
    assert_eq!(values(&leased(&broker, &topics[2]).await), ["poison"]);
    let left = broker.describe_topic(&letters).await.unwrap();
    assert_eq!(left.partitions.iter().map(|lane| lane.messages).sum::<u64>(), 0);
}

#[tokio::test]
async fn waiting_for_an_effect_of_another_shard_is_looking_again() {
    let broker = start(several());
    let topics = one_in_each(&broker).await;
    let home = one_leased(&broker, &topics[0], "m").await;
    let near = begin(&broker, &EffectCall { delivery: Some(home.receipt), ..effect("wait", "a") }).await;
    assert_eq!(shard_of_effect(&near), ShardId(0));
    let said = broker.awaiting(Some(&home.receipt), ("", "wait", "a"), None);
    assert!(matches!(said, Verdict::Await { delay_ms: None, .. }), "{said:?}");
    let abroad = one_leased(&broker, &topics[1], "m").await;
    let said = broker.awaiting(Some(&abroad.receipt), ("", "wait", "a"), Some(60_000));
    assert_eq!(said, Verdict::Release { delay_ms: 1_000 });
}
