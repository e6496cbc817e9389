//! Bytes that no ledger wrote: they are refused or they mean something, but they never bring the reader down.

use crate::support::ledger_facts;
use crate::support::world::settings;
use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{
    About, BegunFact, CommitFact, EffectFact, EffectPart, EndedFact, Ending, Fact, GroupId, How, Identity,
    Input, Lent, Lineage, MessageFact, OrderInput, Output, OutputFact, Place, Position, Receipt, RequestHash,
    RunFact, Settings, Shard, State, Ticket, Time, Token, TopicId,
};

const NUMBERS: [u64; 9] = [0, 1, 2, 1 << 31, u32::MAX as u64, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX];

fn bytes_of(facts: &[Fact<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    facts.iter().for_each(|fact| fact.encode(&mut bytes));
    bytes
}

fn base() -> Position {
    Position(7 << 32 | 64)
}

/// A topic, a group, and a ledger in which everything is.
fn history() -> Vec<Fact<'static>> {
    let (topic, group, at) = (TopicId(0), GroupId(0), Time(1000));
    let message = |offset| MessageFact { topic, offset, at, size: 5, bytes: b"x", ..MessageFact::default() };
    let mut facts = vec![
        Fact::Opened { epoch: 1, at, keeps_leases: true },
        Fact::TopicCreated { topic, partitions: 1, at, name: "t", scoped: true, tenant: None },
        Fact::GroupCreated { topic, group, at, name: "g" },
    ];
    facts.extend(ledger_facts::history(message));
    facts
}

fn state() -> State {
    let mut state = State::new(1);
    state.apply_batch(base(), &bytes_of(&history())).expect("this could have happened");
    state
}

/// Opens a shard over it, touches everything, and lets everything leave. Gives what is left, if it can be read.
fn run(state: State) -> Option<State> {
    let topics: Vec<TopicId> = state.topics().map(|topic| topic.id).collect();
    let mut shard = Shard::new(Settings { shard: state.shard(), ..settings(false) }, state);
    let mut out = Output::default();
    let (now, base) = (crate::support::START, Position(900 << 32));
    shard.open(now, base, [9; 32], &mut out);
    shard.handle(now, Input::Durable { upto: base.plus(out.facts.len()) }, &mut out);
    crate::support::hostile::touch(&mut shard, now, &mut out);
    for topic in topics {
        shard.handle(now, Input::Order(OrderInput::DeleteTopic { ticket: Ticket(1), topic }), &mut out);
    }
    for later in 1..9 {
        shard.handle(now.after_ms(later * 1_000_000), Input::Tick, &mut out);
    }
    State::decode(&shard.state().encode(), 1).ok()
}

#[test]
fn every_cut_of_a_snapshot_with_a_ledger_is_refused_and_so_is_every_tail() {
    let snapshot = state().encode();
    assert!(State::decode(&snapshot, 1).is_ok());
    for cut in 0..snapshot.len() {
        assert!(State::decode(&snapshot[..cut], 1).is_err(), "cut at {cut}");
    }
    assert!(State::decode(&[&snapshot[..], &[0]].concat(), 1).is_err());
}

#[test]
fn every_number_of_a_ledger_may_lie() {
    let snapshot = state().encode();
    let mut accepted = 0;
    for at in 0..snapshot.len() {
        for (number, width) in NUMBERS.iter().flat_map(|number| [(number, 1), (number, 4), (number, 8)]) {
            let mut bytes = snapshot.clone();
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            if let Ok(state) = State::decode(&bytes, 1) {
                accepted += 1;
                let again = run(state);
                // Counting on from the greatest number that is read leads to one that is not.
                assert!(again.is_some() || *number >= 1 << 62, "{number} at {at} became unreadable later");
            }
        }
    }
    assert!(accepted > 100, "{accepted}: times and digests may be anything");
}

/// Any byte of any fact of the history, and the history goes on or is refused.
#[test]
fn every_number_of_every_fact_may_lie() {
    let facts = history();
    let mut refused = 0;
    for (index, fact) in facts.iter().enumerate().skip(3) {
        let whole = bytes_of(&[*fact]);
        let (before, after) = (bytes_of(&facts[..index]), bytes_of(&facts[index + 1..]));
        for at in 0..whole.len() {
            for (number, width) in NUMBERS.iter().flat_map(|number| [(number, 1), (number, 4), (number, 8)]) {
                let mut bytes = whole.clone();
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
                let mut state = State::new(1);
                let all = [&before[..], &bytes, &after].concat();
                match state.apply_batch(base(), &all) {
                    Ok(()) if at % 3 == 0 && width != 4 => drop(run(state)),
                    Ok(()) => drop(state.encode()),
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// One of every kind, with every number at its end.
#[test]
fn facts_with_the_greatest_numbers_are_survived() {
    let (most, never) = (u64::MAX, Time::NEVER);
    let tie = Receipt {
        topic: TopicId(u32::MAX),
        group: GroupId(u32::MAX),
        partition: u32::MAX,
        offset: most,
        token: Token { epoch: most, n: most },
    };
    let lent = Lent {
        epoch: u32::MAX,
        attempt: u32::MAX,
        at: never,
        until: never,
        ttl_ms: most,
        on_lapse: OnLapse::Retry,
        attempts_max: Some(u32::MAX),
        caller: most,
        tie: Some(tie),
        owner: "worker",
    };
    let begun = |number| {
        EffectFact::Begun(BegunFact {
            number,
            identity: Identity([0xff; 16]),
            request: RequestHash(most),
            tenant: u32::MAX,
            scope: u32::MAX,
            lent,
            whose: "",
            run: "run",
            check: u32::MAX,
            bytes: b"",
        })
    };
    let ended = |number| {
        EffectFact::Ended(EndedFact {
            number,
            epoch: u32::MAX,
            status: Status::FailedRetryable,
            attempts_max: Some(u32::MAX),
            at: never,
            expires: never,
            digest: most,
            check: u32::MAX,
            bytes: b"",
        })
    };
    for number in [1_u64, 6, most / 2, most / 2 + 1, most] {
        let effects = [
            begun(number),
            EffectFact::Taken { number, lent },
            EffectFact::Renewed { number, until: never },
            ended(number),
            EffectFact::Lapsed { number, at: never },
            EffectFact::Moved { number, part: EffectPart::About, bytes: b"" },
            EffectFact::Moved { number, part: EffectPart::Ending, bytes: b"" },
            EffectFact::Swept { numbers: &[0xff; 23] },
        ];
        let mut state = state();
        for fact in effects {
            state.apply_batch(base(), &bytes_of(&[Fact::Effect(fact)])).ok();
            run(state.clone());
        }
    }
    let place = Place { topic: TopicId(0), group: GroupId(0), partition: u32::MAX, offset: 700 };
    let ends = |history| RunFact::StepEnded {
        place,
        at: never,
        how: How::Dead,
        attempts: u32::MAX,
        leased: never,
        history,
    };
    let others = [
        Fact::Run(ends(&[0, 0, 0, 0])),
        Fact::Run(ends(b"nonsense")),
        Fact::Run(ends(&[0xff; 64])),
        Fact::Run(RunFact::Forgotten { run: u64::MAX, most: u32::MAX }),
        Fact::Run(RunFact::Forgotten { run: 1, most: u32::MAX }),
        Fact::Commit(CommitFact::Done {
            name: Identity::default(),
            request: RequestHash(7),
            until: never,
            results: b"",
        }),
        Fact::Commit(CommitFact::Done {
            name: Identity::default(),
            request: RequestHash(7),
            until: never,
            results: &[0xff; 40],
        }),
        Fact::Commit(CommitFact::Forgotten { upto: never, most: u32::MAX }),
        Fact::Output(OutputFact::Dropped { tenant: "", dataset: "dataset", version: "v2" }),
        Fact::Output(OutputFact::RolledBack { tenant: "", dataset: "nobody's", at: never }),
        Fact::Output(OutputFact::CutOver { tenant: "", dataset: "dataset", version: "v9", at: never }),
    ];
    for fact in others {
        let mut state = state();
        for _ in 0..3 {
            state.apply_batch(base(), &bytes_of(&[fact])).ok();
        }
        run(state);
    }
}

/// A run may list a message of another run: whoever counts what is open must not count below nothing.
#[test]
fn runs_that_list_each_others_messages_are_survived() {
    let (topic, at) = (TopicId(0), Time(1000));
    let message = |offset, run| {
        let lineage = Some(Lineage { tenant: "", run, step: "", parent: "" });
        Fact::Appended(MessageFact {
            topic,
            offset,
            at,
            size: 1,
            lineage,
            bytes: b"x",
            ..MessageFact::default()
        })
    };
    let facts = [
        Fact::Opened { epoch: 1, at, keeps_leases: true },
        Fact::TopicCreated { topic, partitions: 1, at, name: "t", scoped: true, tenant: None },
        message(0x1111, "one"),
        message(0x2222, "one"),
        message(0x3333, "two"),
        message(0x4444, "two"),
    ];
    let mut state = State::new(1);
    state.apply_batch(base(), &bytes_of(&facts)).expect("this could have happened");
    let snapshot = state.encode();
    let entry = |offset: u64| [&0_u32.to_le_bytes()[..], &offset.to_le_bytes()].concat();
    let lists: Vec<usize> = [0x1111, 0x2222, 0x3333, 0x4444]
        .map(|offset| {
            let entry = entry(offset);
            let found = snapshot.windows(12).position(|window| window == entry);
            found.expect("the run lists it before anything else does")
        })
        .to_vec();
    let mut accepted = 0;
    for from in [0x1111_u64, 0x2222, 0x3333, 0x4444] {
        for &at in &lists {
            let mut bytes = snapshot.clone();
            bytes[at..at + 12].copy_from_slice(&entry(from));
            if let Ok(state) = State::decode(&bytes, 1) {
                accepted += 1;
                run(state);
            }
        }
    }
    assert!(accepted >= 4, "the true ones are read");
}

#[test]
fn damaged_bytes_of_effects_are_refused_or_mean_something() {
    let about = About { tenant: "t".into(), scope: "s".into(), key: "k".into(), ..About::default() };
    let ending = Ending {
        code: Some(-5),
        headers: vec![("a".into(), "b".into())],
        body: Some(b"body"[..].into()),
        error: "no".into(),
        by: "me".into(),
        why: "because".into(),
    };
    let none = Ending::default();
    assert_eq!(About::decode(&about.encode()), Ok(about.clone()));
    for ending in [&ending, &none, &Ending { body: Some(b""[..].into()), ..Ending::default() }] {
        assert_eq!(Ending::decode(&ending.encode()).as_ref(), Ok(ending));
    }
    assert_ne!(Ending::digest(&ending.encode()), Ending::digest(&none.encode()));
    for bytes in [about.encode(), ending.encode()] {
        for at in 0..bytes.len() {
            assert!(About::decode(&bytes[..at]).is_err() && Ending::decode(&bytes[..at]).is_err());
            for bits in 1..=255 {
                let mut bytes = bytes.clone();
                bytes[at] ^= bits;
                drop((About::decode(&bytes), Ending::decode(&bytes)));
            }
        }
    }
}
