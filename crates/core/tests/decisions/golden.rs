//! The bytes of every format, as they were when they were frozen. A difference means that logs written before can
//! no longer be read: it needs a new version, not a new text here. `DRIFTQ_BLESS=1` writes texts that are missing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use driftq_core::{
    Attempt, AuditFact, DeadLetter, Deadline, DefinitionFact, DefinitionKind, DeliveryFact, Envelope, Fact,
    GroupId, Identity, Jitter, KeyHash, Message, MessageFact, Order, OrderFact, Origin, Place, Position,
    RequestHash, RetryPolicy, Routing, ShardId, Spotted, State, Style, TenantFact, TenantLimits, Time, Token,
    TopicId, TopicSettings,
};

use crate::support::ledger_facts;

const TOPIC: TopicId = TopicId(0x0102_0304);
const PLACE: Place = Place { topic: TOPIC, group: GroupId(5), partition: 6, offset: 0x0708 };
/// Where a message was born.
const BORN: Spotted = Spotted { topic: TopicId(0x0a0b), partition: 0x0c0d, offset: 0x0e0f };
const POLICY: RetryPolicy =
    RetryPolicy { max_attempts: 3, backoff_ms: 250, max_backoff_ms: 5000, jitter: Jitter::Half };

/// Settings in which everything is said.
const SETTINGS: TopicSettings = TopicSettings {
    retention_ms: Some(1),
    retention_bytes: Some(2),
    messages_max: Some(3),
    bytes_max: Some(4),
    retry: Some(RetryPolicy { jitter: Jitter::Full, ..POLICY }),
    lease_ms: Some(6),
    in_flight_max: Some(7),
    order: Order::Key,
    retry_share: Some(8),
    keep_ms: None,
    keep_bytes: None,
};

/// An attempt that lapsed.
const fn failed<'a>(place: Place, at: Time, retry_at: Time, error: &'a str) -> Fact<'a> {
    Fact::Delivery(place, DeliveryFact::Failed { at, retry_at, nacked: false, dead: false, error })
}

/// The same, and what is done stays.
const KEEPING: TopicSettings = TopicSettings { keep_ms: Some(0x0908), keep_bytes: Some(0x0a0b), ..SETTINGS };

/// Lines that only older versions wrote, and what they mean today.
fn old_facts() -> Vec<(&'static str, Fact<'static>)> {
    let (token, remembered) = (Token { epoch: 3, n: 4 }, Time(0x1617));
    let (at, expires, style) = (Time(0), Time(0x1819), Style::Borrowed);
    vec![
        (
            "topic-created",
            Fact::TopicCreated {
                topic: TOPIC,
                partitions: 7,
                at: Time(0x0910),
                name: "orders",
                scoped: false,
                tenant: None,
            },
        ),
        (
            "leased",
            Fact::Delivery(
                PLACE,
                DeliveryFact::Leased { token, attempt: 2, at, expires, owner: "worker", style },
            ),
        ),
        ("acked", Fact::Delivery(PLACE, DeliveryFact::Acked { remembered, token: Token::default() })),
        ("failed", failed(PLACE, at, expires, "ack_timeout")),
    ]
}

/// The name of a fact's kind. A new kind does not compile before it has one, and is not green before it has bytes.
fn name(fact: &Fact<'_>) -> &'static str {
    match fact {
        Fact::Opened { keeps_leases: true, .. } => "opened-keeping",
        Fact::Opened { .. } => "opened",
        Fact::TopicCreated { tenant: Some(_), .. } => "topic-created-owned",
        Fact::TopicCreated { .. } => "topic-created-scoped",
        Fact::Order(OrderFact::Configured { settings, .. }) if *settings == TopicSettings::default() => {
            "configured-plain"
        }
        Fact::Order(OrderFact::Configured { settings: TopicSettings { keep_ms: Some(_), .. }, .. }) => {
            "configured-keeping"
        }
        Fact::Order(OrderFact::Configured { .. }) => "configured",
        Fact::Order(OrderFact::TopicDeleted { .. }) => "topic-deleted",
        Fact::Order(OrderFact::Paused { since: None, .. }) => "resumed",
        Fact::Order(OrderFact::Paused { group: None, .. }) => "paused",
        Fact::Order(OrderFact::Paused { .. }) => "paused-group",
        Fact::Keyed { .. } => "keyed",
        Fact::Appended(MessageFact { lineage: Some(lineage), .. }) if !lineage.tenant.is_empty() => {
            "appended-of-tenant"
        }
        Fact::Appended(MessageFact { lineage: Some(_), origin: Some(_), .. }) => "appended-more",
        Fact::Appended(MessageFact { origin: Some(_), .. }) => "appended-origin",
        Fact::Appended(MessageFact { deadline: Some(_), lineage: Some(_), .. }) => "appended-bound-in-run",
        Fact::Appended(MessageFact { deadline: Some(_), .. }) => "appended-bound",
        Fact::Appended(MessageFact { lineage: Some(_), .. }) => "appended-in-run",
        Fact::Appended(MessageFact { only: Some(_), .. }) => "appended-special",
        Fact::Appended(MessageFact { identity: None, .. }) => "appended-plain",
        Fact::Appended(_) => "appended",
        Fact::GroupCreated { .. } => "group-created",
        Fact::Delivery(_, DeliveryFact::Leased { style: Style::Pushed, .. }) => "leased-pushed",
        Fact::Delivery(_, DeliveryFact::Leased { .. }) => "leased-at",
        Fact::Delivery(_, DeliveryFact::Acked { token: Token { epoch: 0, n: 0 }, .. }) => "acked",
        Fact::Delivery(_, DeliveryFact::Acked { .. }) => "acked-by",
        Fact::Delivery(_, DeliveryFact::Failed { nacked: true, .. }) => "failed-by-word",
        Fact::Delivery(_, DeliveryFact::Failed { .. }) => "failed-at",
        Fact::Delivery(_, DeliveryFact::Extended { .. }) => "extended",
        Fact::Delivery(_, DeliveryFact::Released) => "released",
        Fact::Delivery(_, DeliveryFact::Snoozed { .. }) => "snoozed",
        Fact::Delivery(_, DeliveryFact::SnoozedFor { .. }) => "snoozed-for",
        Fact::Delivery(_, DeliveryFact::Hurried { .. }) => "hurried",
        Fact::Delivery(_, DeliveryFact::Retired { .. }) => "retired",
        Fact::Order(OrderFact::Cancelled { .. }) => "cancelled",
        Fact::Order(OrderFact::Removed { .. }) => "removed",
        Fact::Order(OrderFact::Sought { .. }) => "sought",
        Fact::GroupExpired { .. } => "group-expired",
        Fact::Expired { .. } => "expired",
        Fact::Trimmed { .. } => "trimmed",
        Fact::Forgotten { group: None, .. } => "forgotten-stored",
        Fact::Forgotten { .. } => "forgotten-done",
        Fact::Moved { .. } => "moved",
        Fact::Effect(_)
        | Fact::Run(_)
        | Fact::Output(_)
        | Fact::Commit(_)
        | Fact::Entity(_)
        | Fact::Key(_)
        | Fact::Audit(_)
        | Fact::Tenant(_)
        | Fact::Definition(_)
        | Fact::Outbox(_) => ledger_facts::name(fact).expect("every kind has a name"),
    }
}

/// A message of which only what every message has is told.
fn plain_message() -> MessageFact<'static> {
    MessageFact {
        topic: TOPIC,
        partition: 6,
        offset: 0x0708,
        at: Time(0x0910),
        size: 11,
        check: 0x1213_1415,
        bytes: b"payload",
        ..MessageFact::default()
    }
}

fn message_facts() -> Vec<Fact<'static>> {
    let plain = plain_message();
    let identity = Some((Identity::of("tenant", "scope", "key"), Time(0x1617)));
    let retry = Some(POLICY);
    let special = MessageFact {
        retry: SETTINGS.retry,
        request: RequestHash(0x2021),
        key: KeyHash(0x2223),
        priority: 9,
        due: Some(Time(0x2425)),
        only: Some(GroupId(5)),
        identity,
        ..plain
    };
    vec![
        Fact::Appended(plain),
        Fact::Appended(MessageFact { retry, identity, ..plain }),
        Fact::Appended(special),
        Fact::Appended(MessageFact { lineage: Some(ledger_facts::LINEAGE), ..special }),
        Fact::Appended(MessageFact { origin: Some(BORN), ..plain }),
        Fact::Appended(MessageFact { lineage: Some(ledger_facts::LINEAGE), origin: Some(BORN), ..special }),
        Fact::Appended(MessageFact { deadline: Some(Time(0x2627)), ..plain }),
        Fact::Appended(MessageFact {
            deadline: Some(Time(0x2627)),
            lineage: Some(ledger_facts::LINEAGE),
            ..special
        }),
        Fact::Appended(MessageFact { lineage: Some(ledger_facts::LINEAGE_OF_TENANT), ..plain }),
        Fact::Moved { topic: TOPIC, partition: 6, offset: 0x0708, bytes: b"payload" },
    ]
}

fn topic_facts() -> Vec<Fact<'static>> {
    let (topic, group, at) = (TOPIC, GroupId(5), Time(0x0910));
    vec![
        Fact::Opened { epoch: 3, at, keeps_leases: false },
        Fact::Opened { epoch: 3, at, keeps_leases: true },
        Fact::Keyed { secret: [0x5a; 32] },
        Fact::TopicCreated { topic, partitions: 7, at, name: "orders", scoped: true, tenant: None },
        Fact::TopicCreated { topic, partitions: 7, at, name: "orders", scoped: true, tenant: Some("tenant") },
        Fact::Order(OrderFact::Configured { topic, settings: SETTINGS }),
        Fact::Order(OrderFact::Configured { topic, settings: TopicSettings::default() }),
        Fact::Order(OrderFact::Configured { topic, settings: KEEPING }),
        Fact::Order(OrderFact::TopicDeleted { topic }),
        Fact::Order(OrderFact::Paused { topic, group: None, since: Some(at) }),
        Fact::Order(OrderFact::Paused { topic, group: Some(group), since: Some(at) }),
        Fact::Order(OrderFact::Paused { topic, group: None, since: None }),
        Fact::GroupCreated { topic, group, at, name: "billing" },
        Fact::GroupExpired { topic, group },
        Fact::Order(OrderFact::Sought { topic, group, partition: 6, from: 0x0708 }),
        Fact::Order(OrderFact::Cancelled { topic, partition: 6, offset: 0x0708 }),
        Fact::Order(OrderFact::Removed { topic, partition: 6, offset: 0x0708 }),
        Fact::Expired { topic, partition: 6, below: 0x0708 },
        Fact::Trimmed { topic, partition: 6, below: 0x0708 },
        Fact::Forgotten { group: None, upto: Time(0x1617), most: 1024 },
        Fact::Forgotten { group: Some((topic, group)), upto: Time(0x1617), most: 1024 },
    ]
}

fn facts() -> Vec<Fact<'static>> {
    let (place, token, at) = (PLACE, Token { epoch: 3, n: 4 }, Time(0x0910));
    let expires = Time(0x1819);
    let deliveries = vec![
        Fact::Delivery(
            place,
            DeliveryFact::Leased { token, attempt: 2, at, expires, owner: "worker", style: Style::Borrowed },
        ),
        Fact::Delivery(
            place,
            DeliveryFact::Leased { token, attempt: 2, at, expires, owner: "worker", style: Style::Pushed },
        ),
        Fact::Delivery(place, DeliveryFact::Extended { expires }),
        Fact::Delivery(place, DeliveryFact::Acked { remembered: Time(0x1617), token: Token::default() }),
        Fact::Delivery(place, DeliveryFact::Acked { remembered: Time(0x1617), token }),
        failed(place, at, expires, "ack_timeout"),
        Fact::Delivery(
            place,
            DeliveryFact::Failed { at, retry_at: expires, nacked: true, dead: true, error: "no such card" },
        ),
        Fact::Delivery(place, DeliveryFact::Released),
        Fact::Delivery(place, DeliveryFact::Snoozed { at, until: expires }),
        Fact::Delivery(place, DeliveryFact::SnoozedFor { at, until: expires, effect: 0x2021 }),
        Fact::Delivery(place, DeliveryFact::Hurried { at }),
        Fact::Delivery(place, DeliveryFact::Retired { dead: true }),
    ];
    [deliveries, message_facts(), topic_facts(), ledger_facts::facts()].concat()
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.hex"))
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| {
        let pairs: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        pairs.join(" ") + "\n"
    });
    lines.collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect()
}

/// The frozen bytes; they must be those given.
fn frozen(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = path(name);
    if std::env::var_os("DRIFTQ_BLESS").is_some() && !path.exists() {
        std::fs::write(&path, hex(bytes)).expect("the text can be written");
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(text, hex(bytes), "the format of {name} changed");
    unhex(&text)
}

/// The one fact in `bytes`.
fn only_fact(bytes: &[u8]) -> Fact<'_> {
    let base = Position(1 << 32);
    let mut read = Vec::new();
    Fact::each(base, bytes, |end, fact| {
        assert_eq!(end, base.plus(bytes.len()));
        read.push(fact);
        Ok(())
    })
    .expect("frozen bytes can be read");
    assert_eq!(read.len(), 1);
    read[0]
}

fn encoded(fact: &Fact<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    fact.encode(&mut bytes);
    bytes
}

/// Frozen bytes that nobody writes any more.
fn relic(name: &str) -> Vec<u8> {
    unhex(&std::fs::read_to_string(path(name)).expect("what was frozen stays"))
}

#[test]
fn facts_are_written_and_read_as_ever() {
    for fact in facts() {
        assert_eq!(only_fact(&frozen(name(&fact), &encoded(&fact))), fact);
    }
}

#[test]
fn facts_of_older_versions_are_read_as_ever() {
    for (name, fact) in old_facts() {
        assert_eq!(only_fact(&relic(name)), fact, "{name}");
    }
}

#[test]
fn every_kind_of_fact_has_its_text() {
    let names: BTreeSet<&str> =
        facts().iter().map(name).chain(old_facts().iter().map(|(name, _)| *name)).collect();
    assert_eq!(
        names.len(),
        facts().len() + old_facts().len() - 1,
        "only an ack by name is still written: {names:?}"
    );
    // The kind is the first byte after the length; there are no gaps but those between families.
    let kinds = facts().iter().map(|fact| encoded(fact)[4]).collect::<BTreeSet<u8>>();
    let old_kinds = old_facts().iter().map(|(name, _)| relic(name)[4]).collect::<BTreeSet<u8>>();
    let families = (1..=43).chain(48..=58).chain(64..=65).chain([72, 73, 88, 89]).chain(96..=107);
    assert_eq!(kinds.union(&old_kinds).copied().collect::<BTreeSet<u8>>(), families.collect());
    let folder = path("").parent().expect("it has a folder").to_owned();
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let snapshots = [
        "snapshot",
        "snapshot-2",
        "snapshot-3",
        "snapshot-4",
        "snapshot-6",
        "snapshot-7",
        "snapshot-8",
        "snapshot-9",
        "snapshot-of-tenants",
    ];
    let messages = ["message", "message-plain", "message-letter", "message-origin", "message-offset"];
    let others = snapshots.into_iter().chain(messages);
    assert_eq!(files, names.into_iter().chain(others).map(String::from).collect());
}

#[test]
fn messages_are_written_and_read_as_ever() {
    let plain = Message { key: b"k"[..].into(), value: b"value"[..].into(), ..Message::default() };
    let full = Message {
        envelope: Some(Box::new(Envelope {
            run_id: "run".into(),
            step_id: "step".into(),
            parent_step_id: "parent".into(),
            tenant_id: "acme".into(),
            labels: vec![("model".into(), "small".into()), ("zone".into(), "eu".into())],
            idempotency_key: "once".into(),
            target_topic: "elsewhere".into(),
            partition_override: Some(2),
            deadline: Some(Deadline { seconds: 253_402_300_799, nanos: 5_000_000, offset_minutes: 0 }),
            retry_policy: Some(POLICY),
            dead_letter: Some(DeadLetter {
                topic: "orders".into(),
                partition: 1,
                offset: 0x0708,
                group: "billing".into(),
                attempts: 3,
                last_error: "broken".into(),
                reason: "max_attempts_reached".into(),
                tenant_id: "acme".into(),
                idempotency_key: "once".into(),
                at: Time(0x0910),
                ..DeadLetter::default()
            }),
        })),
        routing: Some(Routing { label: "finance".into(), meta: vec![("score".into(), "0.92".into())] }),
        ..plain.clone()
    };
    let mut letter = full.clone();
    if let Some(envelope) = &mut letter.envelope {
        envelope.retry_policy = SETTINGS.retry;
        let letter = envelope.dead_letter.as_mut().expect("it is one");
        letter.retry_policy = Some(RetryPolicy { jitter: Jitter::None, ..POLICY });
        let (owner, error) = ("worker".into(), "broken".into());
        letter.history = vec![Attempt { number: 3, owner, error, leased: Time(0x0901), ended: Time(0x0909) }];
    }
    let origin = Origin { topic: "orders".into(), incarnation: TOPIC, partition: 6, offset: 0x0708 };
    let born = Message { origin: Some(origin), ..letter.clone() };
    let deadline = Some(Deadline { seconds: 5, nanos: 6, offset_minutes: -450 });
    let offset =
        Message { envelope: Some(Box::new(Envelope { deadline, ..Envelope::default() })), ..plain.clone() };
    for (name, message) in [
        ("message-plain", plain),
        ("message", full),
        ("message-letter", letter),
        ("message-origin", born),
        ("message-offset", offset),
    ] {
        let frozen = frozen(name, &message.encode());
        assert_eq!(Message::decode(&frozen), Ok(message));
    }
}

fn message_of(offset: u64, identity: Option<&str>) -> MessageFact<'static> {
    MessageFact {
        topic: TopicId(0),
        partition: 0,
        offset,
        at: Time(1000 + offset),
        size: 5,
        check: 77,
        retry: offset.is_multiple_of(2).then_some(POLICY),
        identity: identity.map(|key| (Identity::of("tenant", "orders", key), Time(9000))),
        bytes: b"payload",
        ..MessageFact::default()
    }
}

const fn place_of(offset: u64) -> Place {
    Place { topic: TopicId(0), group: GroupId(0), partition: 0, offset }
}

/// A small history in which every part of the first snapshots occurs.
fn history() -> Vec<Fact<'static>> {
    let (topic, group) = (TopicId(0), GroupId(0));
    let message = |offset, identity| Fact::Appended(message_of(offset, identity));
    let lease = |offset, n| {
        Fact::Delivery(
            place_of(offset),
            DeliveryFact::Leased {
                token: Token { epoch: 1, n },
                attempt: 1,
                at: Time(2000),
                expires: Time(5000),
                owner: "worker",
                style: Style::Borrowed,
            },
        )
    };
    let acked = |place, remembered| {
        Fact::Delivery(place, DeliveryFact::Acked { remembered, token: Token::default() })
    };
    let mut facts = vec![
        Fact::Opened { epoch: 1, at: Time(1000), keeps_leases: false },
        Fact::TopicCreated {
            topic,
            partitions: 2,
            at: Time(1000),
            name: "orders",
            scoped: false,
            tenant: None,
        },
        Fact::TopicCreated {
            topic: TopicId(1),
            partitions: 1,
            at: Time(1001),
            name: "dlq.orders",
            scoped: false,
            tenant: None,
        },
        Fact::GroupCreated { topic, group, at: Time(1002), name: "billing" },
        message(0, None),
        message(1, Some("a")),
        message(2, None),
        message(3, Some("b")),
        message(4, None),
        lease(0, 1),
        lease(1, 2),
        lease(2, 3),
        acked(place_of(1), Time(8000)),
        failed(place_of(2), Time(3000), Time(4000), "broken"),
        Fact::Delivery(place_of(4), DeliveryFact::Retired { dead: false }),
        Fact::GroupCreated { topic, group: GroupId(1), at: Time(1003), name: "audit" },
        acked(Place { group: GroupId(1), ..place_of(3) }, Time(8001)),
    ];
    // A whole chunk of messages that came and went.
    for offset in 5..5 + 512 {
        facts.push(Fact::Appended(MessageFact { partition: 1, ..message_of(offset, None) }));
        for group in [GroupId(0), GroupId(1)] {
            facts.push(acked(Place { group, partition: 1, ..place_of(offset) }, Time(0)));
        }
    }
    facts
}

/// What came since: tokens, schedules, priorities, keys, settings, pauses, and a topic that is gone.
fn newer_history() -> Vec<Fact<'static>> {
    let topic = TopicId(0);
    let due = |offset, due| Fact::Appended(MessageFact { due: Some(Time(due)), ..message_of(offset, None) });
    let lease = |offset, n| {
        Fact::Delivery(
            place_of(offset),
            DeliveryFact::Leased {
                token: Token { epoch: 1, n },
                attempt: 1,
                at: Time(2100),
                expires: Time(5100),
                owner: "worker",
                style: Style::Borrowed,
            },
        )
    };
    let keyed = |offset| Fact::Appended(MessageFact { key: KeyHash(offset), ..message_of(offset, None) });
    let special = MessageFact {
        request: RequestHash(0x2021),
        key: KeyHash(0x2223),
        priority: 9,
        retry: SETTINGS.retry,
        ..message_of(600, Some("c"))
    };
    vec![
        Fact::Keyed { secret: [0x5a; 32] },
        Fact::TopicCreated {
            topic: TopicId(2),
            partitions: 1,
            at: Time(1004),
            name: "brief",
            scoped: true,
            tenant: None,
        },
        Fact::Order(OrderFact::TopicDeleted { topic: TopicId(2) }),
        Fact::TopicCreated {
            topic: TopicId(3),
            partitions: 1,
            at: Time(1005),
            name: "brief",
            scoped: true,
            tenant: None,
        },
        Fact::Order(OrderFact::Configured { topic, settings: SETTINGS }),
        Fact::Order(OrderFact::Paused { topic: TopicId(3), group: None, since: Some(Time(1006)) }),
        Fact::Order(OrderFact::Paused { topic, group: Some(GroupId(1)), since: Some(Time(1007)) }),
        Fact::Appended(special),
        due(601, 7000),
        due(602, 7001),
        keyed(603),
        keyed(604),
        lease(603, 4),
        lease(604, 5),
        Fact::Delivery(
            place_of(603),
            DeliveryFact::Acked { remembered: Time(0), token: Token { epoch: 1, n: 4 } },
        ),
        Fact::Order(OrderFact::Cancelled { topic, partition: 0, offset: 604 }),
        Fact::Order(OrderFact::Cancelled { topic, partition: 0, offset: 602 }),
        Fact::Delivery(place_of(0), DeliveryFact::Extended { expires: Time(6000) }),
        lease(600, 6),
        failed(place_of(600), Time(3000), Time(3000), "poison"),
        Fact::Delivery(place_of(600), DeliveryFact::Retired { dead: true }),
    ]
}

fn folded(facts: &[Fact<'_>]) -> State {
    let bytes: Vec<u8> = facts.iter().flat_map(encoded).collect();
    let mut state = State::new(1);
    state.apply_batch(Position(7 << 32 | 64), &bytes).expect("this could have happened");
    state
}

/// What came with the ledger: effects, runs, outputs and commits.
fn newest_history() -> Vec<Fact<'static>> {
    ledger_facts::history(|offset| message_of(offset, None))
}

/// What came since then: messages that were born elsewhere.
fn present_history() -> Vec<Fact<'static>> {
    let letter = MessageFact { topic: TopicId(1), ..message_of(700, None) };
    let born = |offset| Some(Spotted { topic: TopicId(0), partition: 0, offset });
    vec![
        Fact::Appended(MessageFact { origin: born(600), ..letter }),
        Fact::Appended(MessageFact { origin: born(601), offset: 701, ..letter }),
    ]
}

/// What came with the fourth version: a delivery that was pushed.
fn latest_history() -> Vec<Fact<'static>> {
    let (token, attempt, at) = (Token { epoch: 1, n: 90 }, 2, Time(4000));
    let (expires, owner, style) = (Time(5200), "reader", Style::Pushed);
    vec![Fact::Delivery(place_of(2), DeliveryFact::Leased { token, attempt, at, expires, owner, style })]
}

/// What came last: messages that stay when they are done, and messages with a deadline.
fn last_history() -> Vec<Fact<'static>> {
    let (topic, group) = (TopicId(4), GroupId(2));
    let message = |offset| MessageFact { topic, ..message_of(offset, None) };
    vec![
        Fact::TopicCreated {
            topic,
            partitions: 1,
            at: Time(1008),
            name: "lasting",
            scoped: true,
            tenant: None,
        },
        Fact::Order(OrderFact::Configured { topic, settings: KEEPING }),
        Fact::GroupCreated { topic, group, at: Time(1009), name: "late" },
        Fact::Appended(message(0)),
        Fact::Appended(MessageFact { deadline: Some(Time(7002)), ..message(1) }),
        Fact::Delivery(
            Place { topic, group, ..place_of(0) },
            DeliveryFact::Acked { remembered: Time(0), token: Token::default() },
        ),
    ]
}

fn topics_of(state: &State) -> Vec<(String, TopicId, bool)> {
    state.topics().map(|topic| (topic.name.to_string(), topic.id, topic.scoped)).collect()
}

fn expected_topics() -> [(String, TopicId, bool); 3] {
    let expected = [("orders", 0, false), ("dlq.orders", 1, false), ("brief", 3, true)];
    expected.map(|(name, id, scoped)| (name.to_owned(), TopicId(id), scoped))
}

#[test]
fn snapshots_are_written_and_read_as_ever() {
    let older = [history(), newer_history(), newest_history(), present_history()];
    let newer = [latest_history(), last_history(), ledger_facts::entity_history()];
    let all = folded(&[older.concat(), newer.concat()].concat());
    let frozen = frozen("snapshot-4", &all.encode());
    let state = State::decode(&frozen, 5).unwrap();
    assert_eq!(state.encode(), frozen);
    assert_eq!((state.epoch(), state.messages(), state.groups()), (1, 14, 3));
    assert_eq!(state.secret(), &[0x5a; 32]);
    let topics = expected_topics().into_iter().chain([("lasting".to_owned(), TopicId(4), true)]);
    assert_eq!(topics_of(&state), topics.collect::<Vec<_>>());
    assert_eq!(state.live_bytes(), all.live_bytes(), "what effects keep in the log is counted again");
    let pieces = state.effects_pinned_in(7, 99);
    let shown: Vec<_> = pieces.iter().map(|piece| (piece.number, piece.blob.length)).collect();
    assert_eq!(shown, [(1, 5), (2, 5), (2, 6), (3, 5), (3, 6), (4, 5), (6, 5)]);
    let bytes = pieces.iter().map(|piece| u64::from(piece.blob.length)).sum::<u64>();
    assert_eq!(state.live_bytes()[&7], 14 * 7 + bytes);
}

/// A snapshot with topics of a tenant and with keys, one of them bound to tenants. Without them it is of the version
/// before, so that older servers can read it.
#[test]
fn snapshots_of_tenants_are_written_and_read_as_ever() {
    let owned = |topic, name| Fact::TopicCreated {
        topic: TopicId(topic),
        partitions: 1,
        at: Time(1010),
        name,
        scoped: true,
        tenant: Some("tenant"),
    };
    let opened = Fact::Opened { epoch: 1, at: Time(1000), keeps_leases: true };
    let topics = folded(&[opened, owned(0, "mine"), owned(1, "dlq.mine")]);
    let without_keys = State::decode(&topics.encode(), 5).unwrap();
    assert_eq!(without_keys.encode(), topics.encode());
    let mut facts = vec![opened, owned(0, "mine"), owned(1, "dlq.mine")];
    facts.extend(ledger_facts::key_history());
    let frozen = frozen("snapshot-of-tenants", &folded(&facts).encode());
    let state = State::decode(&frozen, 5).unwrap();
    assert_eq!(state.encode(), frozen);
    assert!(state.topics().all(|topic| topic.tenant.as_deref() == Some("tenant")));
    assert_eq!(state.topics().count(), 2);
}

/// The state after a run that voids leases: for how long they were lent was not told in older snapshots.
fn reopened(state: &State) -> Vec<u8> {
    let mut state = state.clone();
    let opened = Fact::Opened { epoch: state.epoch() + 1, at: Time(9000), keeps_leases: false };
    state.apply_batch(Position(9 << 32 | 64), &encoded(&opened)).expect("a run may begin");
    state.encode()
}

/// A snapshot of the third version is the state of its time: leases did not outlive a run then.
#[test]
fn snapshots_of_the_third_version_are_read_as_ever() {
    let state = State::decode(&relic("snapshot-3"), 5).unwrap();
    assert_eq!((state.epoch(), state.messages(), state.groups()), (1, 10, 2));
    let then = folded(&[history(), newer_history(), newest_history()].concat());
    // For which delivery an effect was begun was not told then.
    assert_eq!((topics_of(&state), state.live_bytes()), (topics_of(&then), then.live_bytes()));
    let again = State::decode(&state.encode(), 5).unwrap();
    assert_eq!(again.encode(), state.encode());
}

/// A snapshot of the second version is the state of its time: nothing was known of a ledger then.
#[test]
fn snapshots_of_the_second_version_are_read_as_ever() {
    let state = State::decode(&relic("snapshot-2"), 5).unwrap();
    assert_eq!((state.epoch(), state.messages(), state.groups()), (1, 7, 2));
    assert_eq!((state.secret(), topics_of(&state)), (&[0x5a; 32], expected_topics().to_vec()));
    assert_eq!(state.effects_pinned_in(7, 99), []);
    let then = folded(&[history(), newer_history()].concat());
    assert_eq!(reopened(&state), reopened(&then), "it is what the same history makes today");
    let again = State::decode(&state.encode(), 5).unwrap();
    assert_eq!(again.encode(), state.encode());
}

/// A snapshot of the first version is the state of its time, without what was not told then.
#[test]
fn snapshots_of_the_first_version_are_read_as_ever() {
    let state = State::decode(&relic("snapshot"), 5).unwrap();
    assert_eq!((state.epoch(), state.messages(), state.groups()), (1, 3, 2));
    assert_eq!(state.live_bytes().iter().map(|(s, b)| (*s, *b)).collect::<Vec<_>>(), [(7, 21)]);
    assert_eq!(state.secret(), &[0; 32]);
    let again = State::decode(&state.encode(), 5).unwrap();
    assert_eq!(again.encode(), state.encode());
    assert!(state.topics().all(|topic| !topic.scoped));
}

#[test]
fn snapshots_with_an_audit_are_written_and_read_as_ever() {
    let recorded = ledger_facts::facts().into_iter().find_map(|fact| match fact {
        Fact::Audit(AuditFact::Recorded { words, .. }) => Some(words),
        _ => None,
    });
    let words = recorded.expect("there is one of each kind");
    let entry = |sequence| Fact::Audit(AuditFact::Recorded { sequence, at: Time(0x0304), words });
    let dropped = Fact::Audit(AuditFact::Dropped { below: 3 });
    let opened = Fact::Opened { epoch: 1, at: Time(0x0102), keeps_leases: true };
    let state = folded(&[opened, entry(1), entry(2), entry(3), entry(4), dropped]);
    let read = State::decode(&frozen("snapshot-6", &state.encode()), 2).expect("it can be read");
    assert_eq!(read.encode(), state.encode());
}

/// Limits of tenants are told by a version of their own, with an audit and without.
#[test]
fn snapshots_with_limits_are_written_and_read_as_ever() {
    let opened = Fact::Opened { epoch: 1, at: Time(0x0102), keeps_leases: true };
    let limited = |tenant, limits| Fact::Tenant(TenantFact::Limited { tenant, at: Time(0x0304), limits });
    let state = folded(&[
        opened,
        limited("acme", ledger_facts::LIMITS),
        limited("globex", ledger_facts::LIMITS),
        limited("globex", TenantLimits::NONE),
    ]);
    let read = State::decode(&frozen("snapshot-7", &state.encode()), 2).expect("it can be read");
    assert_eq!(read.encode(), state.encode());
    assert_eq!(read.tenants(), state.tenants());
    let tenants: Vec<_> = read.tenants().into_iter().map(|view| (view.tenant, view.limits)).collect();
    assert_eq!(tenants, [("acme".to_owned(), ledger_facts::LIMITS)]);
}

/// Definitions are told by a version of their own, with limits of tenants and without. One that is gone still counts as
/// a change.
#[test]
fn snapshots_with_definitions_are_written_and_read_as_ever() {
    let kind = DefinitionKind::Endpoint;
    let opened = Fact::Opened { epoch: 1, at: Time(0x0102), keeps_leases: true };
    let defined =
        |name, at, text| Fact::Definition(DefinitionFact::Defined { kind, name, at: Time(at), text });
    let state = folded(&[
        opened,
        defined("shop", 0x0304, "first"),
        defined("gone", 0x0305, "text"),
        defined("shop", 0x0306, "second"),
        Fact::Definition(DefinitionFact::Undefined { kind, name: "gone", at: Time(0x0307) }),
    ]);
    let read = State::decode(&frozen("snapshot-8", &state.encode()), 2).expect("it can be read");
    assert_eq!(read.encode(), state.encode());
    let page = read.definitions(kind);
    let seen: Vec<_> = page
        .definitions
        .iter()
        .map(|view| (&*view.name, view.version, &*view.text, view.created.0))
        .collect();
    assert_eq!((page.revision, seen), (4, vec![("shop", 3, "second", 0x0304)]));
}

/// What goes between shards is told by a version of its own, and so is everything of another shard than the first.
#[test]
fn snapshots_of_shards_are_written_and_read_as_ever() {
    let state = folded(&ledger_facts::outbox_history());
    let read = State::decode(&frozen("snapshot-9", &state.encode()), 2).expect("it can be read");
    assert_eq!((read.encode(), read.shard()), (state.encode(), ShardId(3)));
    let topics: Vec<TopicId> = read.topics().map(|topic| topic.id).collect();
    assert_eq!(topics, [TopicId::new(ShardId(3), 0).expect("there is one")]);
    let alone = folded(&[Fact::Opened { epoch: 1, at: Time(0x0102), keeps_leases: true }]);
    assert_eq!((alone.encode()[0], state.encode()[0]), (4, 9));
}
