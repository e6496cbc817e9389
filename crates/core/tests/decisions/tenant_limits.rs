//! Limits of tenants: what may be added, and what is never lost to them.

use crate::support::ledger::{effect_identity, wish};
use crate::support::orders::nack_dead;
use crate::support::{Draft, Rig};
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, BeginEffect, Commit, CommitPart, Input, KeyLimits, OrderInput, Quota, Reject, Settings,
    TenantLimits, TenantView, TopicId, TopicSettings, short_hash,
};

impl Rig {
    fn limit(&mut self, tenant: &str, limits: TenantLimits) -> Answer {
        let tenant = tenant.to_owned();
        self.ask_durably(|ticket| Input::Order(OrderInput::LimitTenant { ticket, tenant, limits }))
    }

    fn tenant(&self, name: &str) -> Option<TenantView> {
        self.shard.state().tenants().into_iter().find(|view| view.tenant == name)
    }

    /// Topics, messages, bytes and effects of a tenant.
    fn held(&self, name: &str) -> [u64; 4] {
        let view = self.tenant(name).expect("something is known of it");
        [view.topics, view.messages, view.bytes, view.effects]
    }

    fn try_topic(&mut self, name: &str, tenant: Option<&str>, settings: TopicSettings) -> Answer {
        let (name, tenant) = (name.to_owned(), tenant.map(str::to_owned));
        let order =
            |ticket| OrderInput::CreateTopic { ticket, name, partitions: 2, settings, tenant, exact: true };
        let answer = self.ask_durably(|ticket| Input::Order(order(ticket)));
        self.published();
        answer
    }

    fn topic_of(&mut self, name: &str, tenant: &str) -> TopicId {
        self.try_topic(name, Some(tenant), TopicSettings::default());
        self.shard.state().topics().find(|topic| *topic.name == *name).expect("the topic was created").id
    }
}

fn exceeded(quota: Quota) -> Answer {
    Answer::Rejected(Reject::QuotaExceeded(quota))
}

fn messages(messages: u64) -> TenantLimits {
    TenantLimits { messages, ..TenantLimits::NONE }
}

fn of_tenant(tenant: &str, key: &str) -> BeginEffect {
    BeginEffect { tenant: short_hash(tenant), whose: tenant.into(), ..wish(key) }
}

#[test]
fn messages_and_bytes_are_counted_over_all_topics_of_a_tenant() {
    let mut rig = Rig::new(Settings::default());
    let (first, second) = (rig.topic_of("first", "acme"), rig.topic_of("second", "acme"));
    let (foreign, free) = (rig.topic_of("foreign", "globex"), rig.topic("free", 1));
    rig.limit("acme", TenantLimits { messages: 3, bytes: 20, ..TenantLimits::NONE });
    rig.produce(&Draft::to(first).value("0123456789"));
    rig.produce(&Draft::to(second).partition(1).value("0123456"));
    assert_eq!(rig.held("acme"), [2, 2, 17, 0]);
    let large = Draft::to(second).value("0123");
    assert_eq!(rig.try_produce(&large), exceeded(Quota::Bytes));
    rig.produce(&Draft::to(second).value("012"));
    assert_eq!(rig.try_produce(&Draft::to(first).value("")), exceeded(Quota::Messages));
    for other in [foreign, free] {
        rig.produce(&Draft::to(other).value("others are not held up"));
    }
    // What is settled makes room, as what is deleted does.
    rig.lease(second, 1);
    rig.crash();
    assert_eq!(rig.try_produce(&Draft::to(first).value("")), exceeded(Quota::Messages));
    let settled = rig.lease(first, 1);
    rig.ack_token(&settled[0]);
    assert_eq!(rig.held("acme"), [2, 2, 10, 0]);
    rig.delete_topic(second);
    assert_eq!(rig.held("acme"), [1, 0, 0, 0]);
    rig.produce(&Draft::to(first).value("there is room again"));
}

#[test]
fn what_every_group_is_done_with_counts_for_as_long_as_it_is_kept() {
    let mut rig = Rig::new(Settings::default());
    let keeping = TopicSettings { keep_ms: Some(1000), ..TopicSettings::default() };
    rig.try_topic("t", Some("acme"), keeping);
    let topic = rig.shard.state().topics().next().expect("the topic was created").id;
    rig.limit("acme", messages(1));
    rig.produce(&Draft::to(topic).value("x"));
    let settled = rig.lease(topic, 1);
    rig.ack_token(&settled[0]);
    assert_eq!(rig.held("acme"), [1, 1, 1, 0]);
    assert_eq!(rig.try_produce(&Draft::to(topic)), exceeded(Quota::Messages));
    rig.advance(5000);
    assert_eq!(rig.held("acme"), [1, 0, 0, 0]);
    rig.produce(&Draft::to(topic));
}

#[test]
fn a_commit_is_counted_as_a_whole() {
    let mut rig = Rig::new(Settings::default());
    let (first, second) = (rig.topic_of("first", "acme"), rig.topic_of("second", "acme"));
    let free = rig.topic("free", 1);
    rig.limit("acme", messages(2));
    let to = |topics: &[TopicId]| Commit {
        messages: topics.iter().map(|topic| Draft::to(*topic).message()).collect(),
        ..Commit::default()
    };
    let refused = rig.refused(to(&[first, free, second, free, first]));
    assert_eq!(refused, (CommitPart::Produce(4), Reject::QuotaExceeded(Quota::Messages)));
    assert_eq!(rig.held("acme"), [2, 0, 0, 0], "all or nothing");
    assert_eq!(rig.commit(to(&[first, free, second, free])).stored.len(), 4);
    assert_eq!(rig.held("acme")[1], 2);
}

#[test]
fn a_message_that_was_stored_before_is_not_counted_again() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic_of("t", "acme");
    rig.limit("acme", messages(1));
    rig.produce(&Draft::to(topic).keyed("once"));
    assert_eq!(rig.produce(&Draft::to(topic).keyed("once")), 0, "it is told where the first one lies");
    assert_eq!(rig.try_produce(&Draft::to(topic).keyed("other")), exceeded(Quota::Messages));
}

#[test]
fn dead_letters_are_kept_whatever_the_limit_and_go_back_to_where_they_were() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic_of("t", "acme");
    rig.limit("acme", TenantLimits { topics: 1, ..messages(2) });
    rig.produce(&Draft::to(topic).value("first"));
    rig.produce(&Draft::to(topic).value("second"));
    let given_up = rig.lease(topic, 1);
    rig.settle(&given_up[0], nack_dead("it never works"));
    let burial = rig.fetches().pop().expect("it is to be buried");
    rig.bury(&burial);
    rig.sync();
    let [topics, kept, ..] = rig.held("acme");
    assert_eq!((topics, kept), (2, 2), "the dead-letter topic came although there was no room for one");
    assert_eq!(rig.try_produce(&Draft::to(topic)), exceeded(Quota::Messages));
    let grave = rig.shard.state().topics().find(|topic| *topic.name == *"dlq.t").expect("it is there").id;
    let letter = driftq_core::Spotted { topic: grave, partition: given_up[0].receipt.partition, offset: 0 };
    let message = Draft::to(topic).value("first").message();
    let answer =
        rig.ask_durably(|ticket| Input::Order(OrderInput::Redrive { ticket, letter, message, group: None }));
    assert!(matches!(answer, Answer::Produced(_)), "it takes no more room than before: {answer:?}");
    assert_eq!(rig.held("acme")[1], 2);
}

#[test]
fn topics_of_a_tenant_are_counted_and_those_that_are_there_stay() {
    let mut rig = Rig::new(Settings::default());
    let first = rig.topic_of("first", "acme");
    rig.topic_of("second", "acme");
    rig.limit("acme", TenantLimits { topics: 1, ..TenantLimits::NONE });
    let create = |rig: &mut Rig, name, tenant| rig.try_topic(name, tenant, TopicSettings::default());
    assert_eq!(create(&mut rig, "third", Some("acme")), exceeded(Quota::Topics));
    let there = Answer::TopicReady { partitions: 2, created: false };
    assert_eq!(create(&mut rig, "second", Some("acme")), there, "what is there is confirmed");
    for tenant in [None, Some("globex")] {
        let name = tenant.unwrap_or("free");
        assert_eq!(create(&mut rig, name, tenant), Answer::TopicReady { partitions: 2, created: true });
    }
    rig.delete_topic(first);
    assert_eq!(create(&mut rig, "third", Some("acme")), exceeded(Quota::Topics));
    let second = rig.shard.state().topics().find(|topic| *topic.name == *"second").expect("it is there").id;
    rig.delete_topic(second);
    assert_eq!(create(&mut rig, "third", Some("acme")), Answer::TopicReady { partitions: 2, created: true });
}

#[test]
fn effects_of_a_tenant_are_counted_until_they_are_forgotten() {
    for percent in [0, 100] {
        let mut rig = Rig::new(Settings::default());
        rig.snapshot_percent = percent;
        rig.limit("acme", TenantLimits { effects: 2, ..TenantLimits::NONE });
        let lease = rig.executes(of_tenant("acme", "first"));
        rig.finish(lease, Status::Succeeded, "done");
        rig.executes(BeginEffect {
            on_lapse: driftq_core::ledger::OnLapse::Retry,
            ..of_tenant("acme", "second")
        });
        assert_eq!(rig.try_begin(of_tenant("acme", "third")), exceeded(Quota::Effects));
        rig.executes(BeginEffect { identity: effect_identity("other"), ..of_tenant("globex", "third") });
        rig.executes(of_tenant("", "of no tenant"));
        // What is known is told, and tried again, whatever the limit.
        assert!(matches!(rig.try_begin(of_tenant("acme", "first")), Answer::Effect(_)));
        rig.crash();
        assert_eq!(rig.held("acme"), [0, 0, 0, 2]);
        assert_eq!(rig.try_begin(of_tenant("acme", "third")), exceeded(Quota::Effects));
        rig.advance(10 * crate::support::ledger::TTL_MS);
        assert_eq!(rig.held("acme"), [0, 0, 0, 0]);
        rig.executes(of_tenant("acme", "third"));
    }
}

#[test]
fn limits_are_remembered_and_lifted() {
    for percent in [0, 50, 100] {
        let mut rig = Rig::new(Settings::default());
        rig.snapshot_percent = percent;
        let pace = KeyLimits { requests_per_second: 1, bytes_per_second: 2, waits: 3 };
        let limits = TenantLimits { pace, topics: 4, messages: 5, bytes: 6, effects: 7 };
        let Answer::Tenant(view) = rig.limit("acme", limits) else { panic!("it is told how it is now") };
        assert_eq!((&*view.tenant, view.limits), ("acme", limits));
        let written = rig.log.batches.len();
        rig.limit("acme", limits);
        assert_eq!(rig.log.batches.len(), written, "the same again changes nothing");
        rig.crash();
        assert_eq!(rig.tenant("acme").map(|view| view.limits), Some(limits));
        rig.limit("acme", TenantLimits::NONE);
        rig.crash();
        assert_eq!(rig.tenant("acme"), None, "nothing is said of it any more");
    }
}

#[test]
fn a_name_that_is_none_and_a_full_disk_are_refused() {
    let mut rig = Rig::new(Settings::default());
    for name in ["", &"a".repeat(256)] {
        assert!(matches!(rig.limit(name, messages(1)), Answer::Rejected(Reject::Invalid(_))), "{name}");
    }
    rig.limit("acme", messages(1));
    rig.tell(Input::Space { roomy: false });
    assert_eq!(rig.limit("acme", messages(2)), Answer::Rejected(Reject::DiskFull));
    assert!(matches!(rig.limit("acme", TenantLimits::NONE), Answer::Tenant(_)), "lifting makes room");
}
