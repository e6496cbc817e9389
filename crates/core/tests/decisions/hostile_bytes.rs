//! Bytes that no shard wrote: they are refused or they mean something, but they never bring the reader down.

use crate::support::Draft;
use crate::support::log::Batch;
use crate::support::world::{World, cases, settings, steps};
use driftq_core::{
    Attempt, ConsumerId, DeadLetter, Deadline, DeliveryFact, Envelope, Fact, GroupId, Input, Jitter, Message,
    MessageFact, OrderInput, Origin, Output, Place, Position, Query, RetryPolicy, Routing, Settings, Shard,
    State, Style, Subscription, Ticket, Time, Token, TopicId,
};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Snapshots of busy shards, each with a few batches that follow it.
fn corpus() -> Vec<(Vec<u8>, Vec<Batch>)> {
    let mut runner = TestRunner::deterministic();
    let worlds = (0..12).map(|round| {
        let mut world = World::new(settings(round % 2 == 0));
        world.play(&steps(250).new_tree(&mut runner).expect("steps").current());
        world.rig.write();
        let batches = &world.rig.log.batches;
        let cut = batches.len() * 3 / 4;
        (world.rig.recovered(cut, 0).encode(), batches[cut..].to_vec())
    });
    worlds.collect()
}

/// Numbers that break sums, shifts and lists.
const NUMBERS: [u64; 11] =
    [0, 1, 2, 0xffff, 1 << 31, u32::MAX as u64, 1 << 62, 1 << 63, u64::MAX - 511, u64::MAX - 1, u64::MAX];

/// One way to damage bytes.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Number(Index, u64),
    Cut(Index),
    Drop(Index, u8),
    Repeat(Index, u8),
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let numbers = prop::sample::select(NUMBERS.to_vec());
    let one = prop_oneof![
        4 => (any::<Index>(), 1..=255_u8).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        4 => (any::<Index>(), numbers).prop_map(|(at, number)| Damage::Number(at, number)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), 1..40_u8).prop_map(|(at, count)| Damage::Drop(at, count)),
        1 => (any::<Index>(), 1..40_u8).prop_map(|(at, count)| Damage::Repeat(at, count)),
    ];
    prop::collection::vec(one, 1..4)
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        if bytes.is_empty() {
            break;
        }
        let reach = |at: usize, count: u8| at..(at + usize::from(count)).min(bytes.len());
        match *damage {
            Damage::Flip(at, bits) => {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            Damage::Number(at, number) => {
                let range = reach(at.index(bytes.len()), 8);
                let count = range.len();
                bytes[range].copy_from_slice(&number.to_le_bytes()[..count]);
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Damage::Drop(at, count) => drop(bytes.drain(reach(at.index(bytes.len()), count))),
            Damage::Repeat(at, count) => {
                let range = reach(at.index(bytes.len()), count);
                let copy = bytes[range].to_vec();
                let at = at.index(bytes.len());
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

/// Opens a shard over whatever came of it, lets some time pass, and brings something new to every topic.
fn run(state: State) {
    let topics: Vec<TopicId> = state.topics().map(|topic| topic.id).collect();
    let mut shard = Shard::new(Settings { shard: state.shard(), ..settings(true) }, state);
    let mut out = Output::default();
    let now = crate::support::START.after_ms(1_000_000);
    let base = Position(900 << 32);
    shard.open(now, base, [9; 32], &mut out);
    shard.handle(now, Input::Durable { upto: base.plus(out.facts.len()) }, &mut out);
    for topic in topics {
        let (ticket, message) = (Ticket(1), Draft::to(topic).message());
        shard.handle(now, Input::Produce { ticket, message }, &mut out);
        let (group, owner) = ("new".into(), "o".into());
        let subscription = Subscription {
            consumer: ConsumerId(topic.0.into()),
            topic,
            group,
            owner,
            lease_ms: Some(9),
            credit: 9,
            style: Style::Borrowed,
        };
        shard.handle(now, Input::Subscribe { ticket, subscription }, &mut out);
    }
    crate::support::hostile::touch(&mut shard, now, &mut out);
    for later in 0..20 {
        shard.handle(now.after_ms(later * 500), Input::Tick, &mut out);
    }
    shard.handle(now.after_ms(9500), Input::Describe { ticket: Ticket(1), query: Query::Tally }, &mut out);
    // Everything leaves: no count may go below nothing on the way.
    let topics: Vec<TopicId> = shard.state().topics().map(|topic| topic.id).collect();
    for topic in topics {
        shard.handle(
            now.after_ms(9500),
            Input::Order(OrderInput::DeleteTopic { ticket: Ticket(1), topic }),
            &mut out,
        );
    }
    for later in 1..9 {
        shard.handle(now.after_ms(later * 1_000_000), Input::Tick, &mut out);
    }
    drop(shard.state().encode());
}

/// The most address space that this process ever had, where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmPeak:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

fn message() -> Message<'static> {
    Message {
        key: b"user:1"[..].into(),
        value: b"charge 5"[..].into(),
        envelope: Some(Box::new(Envelope {
            run_id: "run".into(),
            labels: vec![("model".into(), "small".into())],
            partition_override: Some(0),
            deadline: Some(Deadline { seconds: 5, nanos: 6, offset_minutes: 7 }),
            retry_policy: Some(RetryPolicy {
                max_attempts: 5,
                backoff_ms: 250,
                max_backoff_ms: 5000,
                ..RetryPolicy::default()
            }),
            dead_letter: Some(DeadLetter {
                topic: "orders".into(),
                retry_policy: Some(RetryPolicy { jitter: Jitter::Full, ..RetryPolicy::default() }),
                history: vec![Attempt {
                    number: 1,
                    owner: "o".into(),
                    error: "no".into(),
                    ..Attempt::default()
                }],
                ..DeadLetter::default()
            }),
            ..Envelope::default()
        })),
        routing: Some(Routing { label: "finance".into(), meta: vec![("score".into(), "0.92".into())] }),
        origin: Some(Origin { topic: "inbox".into(), incarnation: TopicId(3), partition: 1, offset: 9 }),
    }
}

#[test]
fn every_cut_of_a_snapshot_is_refused_and_so_is_every_tail() {
    for (snapshot, _) in corpus().iter().take(3) {
        for cut in 0..snapshot.len() {
            assert!(State::decode(&snapshot[..cut], 1).is_err(), "cut at {cut}");
        }
        let mut longer = snapshot.clone();
        longer.push(0);
        assert!(State::decode(&longer, 1).is_err());
    }
}

#[test]
fn every_number_of_a_snapshot_may_lie() {
    let corpus = corpus();
    let busy = corpus.iter().filter(|(snapshot, _)| {
        let state = State::decode(snapshot, 1).expect("this one is whole");
        state.messages() > 0 && state.groups() > 0
    });
    let (snapshot, batches) = busy.min_by_key(|(snapshot, _)| snapshot.len()).expect("some are busy");
    let mut accepted = 0;
    for at in 0..snapshot.len() {
        for (number, width) in NUMBERS.iter().flat_map(|number| [(number, 1), (number, 4), (number, 8)]) {
            let mut bytes = snapshot.clone();
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            if let Ok(mut state) = State::decode(&bytes, 1) {
                accepted += 1;
                run(state.clone());
                if batches.iter().all(|batch| state.apply_batch(batch.base, &batch.bytes).is_ok()) {
                    run(state);
                }
            }
        }
    }
    assert!(accepted > 0, "numbers that only count something may be anything");
}

#[test]
fn a_fact_that_contradicts_the_state_is_refused() {
    let corpus = corpus();
    let mut refused = 0;
    for (snapshot, batches) in &corpus {
        for batch in batches {
            let mut state = State::decode(snapshot, 1).unwrap();
            state.apply_batch(batch.base, &batch.bytes).ok();
            // Facts happen once; most of them cannot happen again.
            refused += usize::from(state.apply_batch(batch.base, &batch.bytes).is_err());
        }
    }
    assert!(refused > 20, "{refused}");
}

/// Tokens are kept as ranges, and a range ends behind its last number: there is nothing behind the last of all.
#[test]
fn a_token_at_the_end_of_all_numbers_is_survived() {
    for epoch in [1, u64::MAX] {
        let (topic, group, at) = (TopicId(0), GroupId(0), Time(1));
        let place = |offset| Place { topic, group, partition: 0, offset };
        let token = Token { epoch, n: u64::MAX };
        let message = |offset| MessageFact { topic, offset, bytes: b"x", ..MessageFact::default() };
        let style = Style::Borrowed;
        let lease = |offset| {
            Fact::Delivery(
                place(offset),
                DeliveryFact::Leased { token, attempt: 1, at, expires: at, owner: "o", style },
            )
        };
        let facts = [
            Fact::TopicCreated { topic, partitions: 1, at, name: "t", scoped: true, tenant: None },
            Fact::GroupCreated { topic, group, at, name: "g" },
            Fact::Appended(message(0)),
            Fact::Appended(message(1)),
            lease(0),
            lease(1),
            Fact::Delivery(place(0), DeliveryFact::Acked { remembered: Time(0), token }),
            Fact::Delivery(place(1), DeliveryFact::Retired { dead: true }),
        ];
        let mut bytes = Vec::new();
        facts.iter().for_each(|fact| fact.encode(&mut bytes));
        let mut state = State::new(1);
        state.apply_batch(Position(1 << 32), &bytes).expect("it means something");
        assert!(State::decode(&state.encode(), 1).is_ok());
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn damaged_snapshots_and_batches_never_panic(damages in damage(), more in damage(), which: Index) {
        let corpus = CORPUS.with(Clone::clone);
        let (snapshot, batches) = &corpus[which.index(corpus.len())];
        let before = peak_bytes();
        // A damaged snapshot and the true rest.
        if let Ok(mut state) = State::decode(&damaged(snapshot.clone(), &damages), 1)
            && batches.iter().all(|batch| state.apply_batch(batch.base, &batch.bytes).is_ok())
        {
            run(state);
        }
        // The true snapshot and a damaged rest.
        let mut state = State::decode(snapshot, 1).expect("this one is whole");
        let accepted = batches.iter().all(|batch| {
            state.apply_batch(batch.base, &damaged(batch.bytes.clone(), &more)).is_ok()
        });
        if accepted {
            run(state);
        }
        if let (Some(before), Some(after)) = (before, peak_bytes()) {
            prop_assert!(after - before < 128 << 20, "{} bytes for {}", after - before, snapshot.len());
        }
    }

    #[test]
    fn noise_is_never_a_state(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for version in 1_u32..=9 {
            drop(State::decode(&[&version.to_le_bytes()[..], &bytes].concat(), 1));
        }
        drop(State::decode(&bytes, 1));
        State::new(1).apply_batch(Position(64), &bytes).ok();
        drop(Message::decode(&bytes));
        drop(Message::decode(&[&[1, 3][..], &bytes].concat()));
    }

    #[test]
    fn damaged_messages_never_panic(damages in damage()) {
        let bytes = damaged(message().encode(), &damages);
        if let Ok(message) = Message::decode(&bytes) {
            // What can be read can be written: nothing is lost on the way.
            let written = message.encode();
            prop_assert_eq!(Message::decode(&written), Ok(message));
        }
    }
}

thread_local! {
    static CORPUS: std::rc::Rc<Vec<(Vec<u8>, Vec<Batch>)>> = std::rc::Rc::new(corpus());
}

/// Found by a fuzzer: a tenant whose run has no name was read, and could not be written again.
#[test]
fn a_fact_that_no_shard_wrote_is_written_as_it_was_read() {
    let bytes = include_bytes!("../../../../fuzz/corpus/facts/begun-of-tenant-without-run");
    let base = Position(1 << 32);
    let mut facts = 0;
    Fact::each(base, bytes, |_, fact| {
        facts += 1;
        let mut written = Vec::new();
        fact.encode(&mut written);
        Fact::each(base, &written, |_, again| {
            assert_eq!(again, fact);
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(facts, 1);
}
