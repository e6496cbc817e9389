//! Topics that belong to a tenant: whose they are never changes, and their dead letters are theirs.

use crate::support::orders::nack_dead;
use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, Envelope, Input, Message, OrderInput, Reject, Settings, TopicId, TopicInfo, TopicSettings,
};

fn create(rig: &mut Rig, name: &str, tenant: Option<&str>, exact: bool) -> Answer {
    let (name, tenant) = (name.to_owned(), tenant.map(str::to_owned));
    let answer = rig.ask_durably(|ticket| {
        Input::Order(OrderInput::CreateTopic {
            ticket,
            name,
            partitions: 1,
            settings: TopicSettings::default(),
            tenant,
            exact,
        })
    });
    rig.published();
    answer
}

const MADE: Answer = Answer::TopicReady { partitions: 1, created: true };
const THERE: Answer = Answer::TopicReady { partitions: 1, created: false };

fn tenant_of(rig: &Rig, name: &str) -> Option<String> {
    let topic = rig.shard.state().topics().find(|topic| *topic.name == *name);
    topic.and_then(|topic| topic.tenant).map(|tenant| tenant.to_string())
}

#[test]
fn whose_a_topic_is_stays() {
    for percent in [0, 100] {
        let mut rig = Rig::new(Settings::default());
        rig.snapshot_percent = percent;
        assert_eq!(create(&mut rig, "mine", Some("acme"), true), MADE);
        assert_eq!(create(&mut rig, "shared", None, true), MADE);
        rig.crash();
        assert_eq!(tenant_of(&rig, "mine").as_deref(), Some("acme"));
        assert_eq!(tenant_of(&rig, "shared"), None);
        let differs = Answer::Rejected(Reject::SettingsDiffer("tenant"));
        for (name, tenant, exact, expected) in [
            ("mine", Some("acme"), true, &THERE),
            ("mine", Some("acme"), false, &THERE),
            ("mine", Some("globex"), true, &differs),
            // Who names a tenant is not told that it is ready for another one.
            ("mine", Some("globex"), false, &differs),
            ("shared", Some("globex"), false, &differs),
            ("mine", None, true, &differs),
            ("mine", None, false, &THERE),
            ("shared", None, true, &THERE),
        ] {
            assert_eq!(create(&mut rig, name, tenant, exact), *expected, "{name} {tenant:?} {exact}");
        }
    }
}

#[test]
fn of_a_topic_of_another_tenant_nothing_else_is_told() {
    let mut rig = Rig::new(Settings::default());
    create(&mut rig, "mine", Some("acme"), true);
    let answer = rig.ask_durably(|ticket| {
        Input::Order(OrderInput::CreateTopic {
            ticket,
            name: "mine".into(),
            partitions: 7,
            settings: TopicSettings { lease_ms: Some(5), ..TopicSettings::default() },
            tenant: Some("globex".into()),
            exact: true,
        })
    });
    assert_eq!(answer, Answer::Rejected(Reject::SettingsDiffer("tenant")));
}

#[test]
fn a_name_of_a_tenant_has_bounds() {
    let mut rig = Rig::new(Settings::default());
    for tenant in ["", &"a".repeat(256)] {
        let answer = create(&mut rig, "mine", Some(tenant), true);
        assert!(matches!(answer, Answer::Rejected(Reject::Invalid(_))), "{answer:?}");
    }
    assert_eq!(create(&mut rig, "mine", Some(&"a".repeat(255)), true), MADE);
}

#[test]
fn dead_letters_lie_with_the_tenant_of_their_topic() {
    for percent in [0, 100] {
        let mut rig = Rig::new(Settings::default());
        rig.snapshot_percent = percent;
        create(&mut rig, "mine", Some("acme"), true);
        let topic = rig.shard.state().topics().next().expect("it was made").id;
        rig.lease(topic, 1);
        rig.produce(&Draft::to(topic));
        let delivery = rig.lease(topic, 1).remove(0);
        rig.settle(&delivery, nack_dead("no"));
        rig.sync();
        for burial in rig.fetches() {
            rig.bury(&burial);
        }
        rig.sync();
        assert_eq!(tenant_of(&rig, "dlq.mine").as_deref(), Some("acme"));
        rig.crash();
        assert_eq!(tenant_of(&rig, "dlq.mine").as_deref(), Some("acme"));
    }
}

#[test]
fn no_tenant_gets_the_dead_letters_of_another() {
    let mut rig = Rig::new(Settings::default());
    // Who comes first with the name of the dead letters does not get those of another tenant.
    assert_eq!(create(&mut rig, "dlq.mine", Some("globex"), true), MADE);
    assert_eq!(create(&mut rig, "shared", None, true), MADE);
    for (name, tenant) in [
        ("mine", Some("acme")),
        ("mine", None),
        ("dlq.shared", Some("globex")),
        ("dlq.dlq.mine", Some("acme")),
        ("dlq.dlq.mine", None),
    ] {
        let answer = create(&mut rig, name, tenant, true);
        assert!(matches!(answer, Answer::Rejected(Reject::TenantDiffers(_))), "{name}: {answer:?}");
    }
    assert_eq!(create(&mut rig, "mine", Some("globex"), true), MADE);
    assert_eq!(create(&mut rig, "dlq.shared", None, true), MADE);
}

#[test]
fn a_message_gets_the_tenant_of_its_topic_and_no_other() {
    let topic = |tenant: Option<&str>| TopicInfo {
        id: TopicId(0),
        name: "mine".into(),
        partitions: 1,
        scoped: true,
        tenant: tenant.map(Into::into),
    };
    let message = |tenant: &str| Message {
        envelope: Some(Box::new(Envelope { tenant_id: tenant.to_owned().into(), ..Envelope::default() })),
        ..Message::default()
    };
    let adopted = |own: Option<&str>, mut message: Message<'static>| {
        let adopted = topic(own).adopt(&mut message);
        adopted.map(|()| message.envelope.map(|envelope| envelope.tenant_id.into_owned()))
    };
    let acme = Some("acme".to_owned());
    assert_eq!(adopted(Some("acme"), Message::default()), Ok(acme.clone()));
    assert_eq!(adopted(Some("acme"), message("")), Ok(acme.clone()));
    assert_eq!(adopted(Some("acme"), message("acme")), Ok(acme.clone()));
    assert!(matches!(adopted(Some("acme"), message("globex")), Err(Reject::TenantDiffers(_))));
    assert_eq!(adopted(None, message("acme")), Ok(acme));
    assert_eq!(adopted(None, Message::default()), Ok(None));
}
