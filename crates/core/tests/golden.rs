//! The bytes of every format, as they were when they were frozen. A difference means that logs written before can
//! no longer be read: it needs a new version, not a new text here. `DRIFTQ_BLESS=1` writes texts that are missing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use driftq_core::{
    DeadLetter, Deadline, Envelope, Fact, GroupId, Identity, Message, MessageFact, Place, Position,
    RetryPolicy, Routing, State, Time, Token, TopicId,
};

const TOPIC: TopicId = TopicId(0x0102_0304);
const PLACE: Place = Place { topic: TOPIC, group: GroupId(5), partition: 6, offset: 0x0708 };
const POLICY: RetryPolicy =
    RetryPolicy { max_attempts: 3, backoff_ms: 250, max_backoff_ms: 5000, jitter: Jitter::Half };

/// The name of a fact's kind. A new kind does not compile before it has one, and is not green before it has bytes.
fn name(fact: &Fact<'_>) -> &'static str {
    match fact {
        Fact::Opened { .. } => "opened",
        Fact::TopicCreated { .. } => "topic-created",
        Fact::Appended(MessageFact { identity: None, .. }) => "appended-plain",
        Fact::Appended(_) => "appended",
        Fact::GroupCreated { .. } => "group-created",
        Fact::Leased { .. } => "leased",
        Fact::Acked { .. } => "acked",
        Fact::Failed { .. } => "failed",
        Fact::Released { .. } => "released",
        Fact::Retired { .. } => "retired",
        Fact::GroupExpired { .. } => "group-expired",
        Fact::Expired { .. } => "expired",
        Fact::Forgotten { group: None, .. } => "forgotten-stored",
        Fact::Forgotten { .. } => "forgotten-done",
        Fact::Moved { .. } => "moved",
    }
}

fn facts() -> Vec<Fact<'static>> {
    let plain = MessageFact {
        topic: TOPIC,
        partition: 6,
        offset: 0x0708,
        at: Time(0x0910),
        size: 11,
        check: 0x1213_1415,
        retry: None,
        identity: None,
        bytes: b"payload",
    };
    let identity = Some((Identity::of("tenant", "scope", "key"), Time(0x1617)));
    vec![
        Fact::Opened { epoch: 3, at: Time(0x0910) },
        Fact::TopicCreated { topic: TOPIC, partitions: 7, at: Time(0x0910), name: "orders" },
        Fact::Appended(plain),
        Fact::Appended(MessageFact { retry: Some(POLICY), identity, ..plain }),
        Fact::GroupCreated { topic: TOPIC, group: GroupId(5), at: Time(0x0910), name: "billing" },
        Fact::Leased {
            place: PLACE,
            token: Token { epoch: 3, n: 4 },
            attempt: 2,
            expires: Time(0x1819),
            owner: "worker",
        },
        Fact::Acked { place: PLACE, remembered: Time(0x1617) },
        Fact::Failed { place: PLACE, retry_at: Time(0x1819), error: "ack_timeout" },
        Fact::Released { place: PLACE },
        Fact::Retired { place: PLACE, dead: true },
        Fact::GroupExpired { topic: TOPIC, group: GroupId(5) },
        Fact::Expired { topic: TOPIC, partition: 6, below: 0x0708 },
        Fact::Forgotten { group: None, upto: Time(0x1617), most: 1024 },
        Fact::Forgotten { group: Some((TOPIC, GroupId(5))), upto: Time(0x1617), most: 1024 },
        Fact::Moved { topic: TOPIC, partition: 6, offset: 0x0708, bytes: b"payload" },
    ]
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

#[test]
fn facts_are_written_and_read_as_ever() {
    for fact in facts() {
        let mut bytes = Vec::new();
        fact.encode(&mut bytes);
        let frozen = frozen(name(&fact), &bytes);
        let base = Position(1 << 32);
        let mut read = 0;
        Fact::each(base, &frozen, |end, again| {
            assert_eq!((again, end), (fact, base.plus(frozen.len())));
            read += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(read, 1);
    }
}

#[test]
fn every_kind_of_fact_has_its_text() {
    let names: BTreeSet<&str> = facts().iter().map(name).collect();
    assert_eq!(names.len(), 15, "{names:?}");
    // The kind is the first byte after the length; there are thirteen, without gaps.
    let kinds: BTreeSet<u8> = facts()
        .iter()
        .map(|fact| {
            let mut bytes = Vec::new();
            fact.encode(&mut bytes);
            bytes[4]
        })
        .collect();
    assert_eq!(kinds, (1..=13).collect());
    let folder = path("").parent().expect("it has a folder").to_owned();
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let expected = names.into_iter().chain(["snapshot", "message", "message-plain"]);
    assert_eq!(files, expected.map(String::from).collect());
}

#[test]
fn messages_are_written_and_read_as_ever() {
    let plain = Message { key: b"k"[..].into(), value: b"value"[..].into(), ..Message::default() };
    let full = Message {
        envelope: Some(Envelope {
            run_id: "run".into(),
            step_id: "step".into(),
            parent_step_id: "parent".into(),
            tenant_id: "acme".into(),
            labels: vec![("model".into(), "small".into()), ("zone".into(), "eu".into())],
            idempotency_key: "once".into(),
            target_topic: "elsewhere".into(),
            partition_override: Some(2),
            deadline: Some(Deadline { seconds: 253_402_300_799, nanos: 5_000_000 }),
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
            }),
        }),
        routing: Some(Routing { label: "finance".into(), meta: vec![("score".into(), "0.92".into())] }),
        ..plain.clone()
    };
    for (name, message) in [("message-plain", plain), ("message", full)] {
        let frozen = frozen(name, &message.encode());
        assert_eq!(Message::decode(&frozen), Ok(message));
    }
}

/// A small history in which every part of a snapshot occurs.
fn history() -> State {
    let topic = TopicId(0);
    let group = GroupId(0);
    let place = |offset| Place { topic, group, partition: 0, offset };
    let message = |offset, identity: Option<&str>| {
        let identity = identity.map(|key| (Identity::of("tenant", "orders", key), Time(9000)));
        let retry = (offset % 2 == 0).then_some(POLICY);
        let (at, bytes) = (Time(1000 + offset), &b"payload"[..]);
        Fact::Appended(MessageFact {
            topic,
            partition: 0,
            offset,
            at,
            size: 5,
            check: 77,
            retry,
            identity,
            bytes,
        })
    };
    let lease = |offset, n| Fact::Leased {
        place: place(offset),
        token: Token { epoch: 1, n },
        attempt: 1,
        expires: Time(5000),
        owner: "worker",
    };
    let mut facts = vec![
        Fact::Opened { epoch: 1, at: Time(1000) },
        Fact::TopicCreated { topic, partitions: 2, at: Time(1000), name: "orders" },
        Fact::TopicCreated { topic: TopicId(1), partitions: 1, at: Time(1001), name: "dlq.orders" },
        Fact::GroupCreated { topic, group, at: Time(1002), name: "billing" },
        message(0, None),
        message(1, Some("a")),
        message(2, None),
        message(3, Some("b")),
        message(4, None),
        lease(0, 1),
        lease(1, 2),
        lease(2, 3),
        Fact::Acked { place: place(1), remembered: Time(8000) },
        Fact::Failed { place: place(2), retry_at: Time(4000), error: "broken" },
        Fact::Retired { place: place(4), dead: false },
        Fact::GroupCreated { topic, group: GroupId(1), at: Time(1003), name: "audit" },
        Fact::Acked { place: Place { group: GroupId(1), ..place(3) }, remembered: Time(8001) },
    ];
    // A whole chunk of messages that came and went.
    for offset in 5..5 + 512 {
        if let Fact::Appended(plain) = message(offset, None) {
            facts.push(Fact::Appended(MessageFact { partition: 1, ..plain }));
        }
        for group in [GroupId(0), GroupId(1)] {
            let place = Place { group, partition: 1, ..place(offset) };
            facts.push(Fact::Acked { place, remembered: Time(0) });
        }
    }
    let mut bytes = Vec::new();
    for fact in facts {
        fact.encode(&mut bytes);
    }
    let mut state = State::new(1);
    state.apply_batch(Position(7 << 32 | 64), &bytes).expect("this could have happened");
    state
}

#[test]
fn snapshots_are_written_and_read_as_ever() {
    let frozen = frozen("snapshot", &history().encode());
    let state = State::decode(&frozen, 5).unwrap();
    assert_eq!(state.encode(), frozen);
    assert_eq!((state.epoch(), state.messages(), state.groups()), (1, 3, 2));
    assert_eq!(state.live_bytes().iter().map(|(s, b)| (*s, *b)).collect::<Vec<_>>(), [(7, 21)]);
}
