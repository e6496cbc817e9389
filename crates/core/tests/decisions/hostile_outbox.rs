//! Bytes about other shards that no shard wrote: they are refused or they mean something, but they never bring the reader
//! down.

use crate::support::Draft;
use crate::support::ledger::named;
use crate::support::post::{Pair, RECEIVER, SENDER};
use driftq_core::{
    Commit, CommitInput, Fact, Input, MessageFact, OutboxFact, OutboxInput, Output, Parcel, Position,
    Settings, Shard, ShardId, State, Stored, Ticket, Time, TopicId,
};

const NUMBERS: [u64; 9] = [0, 1, 2, 1 << 31, u32::MAX as u64, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX];
const TICKET: Ticket = Ticket(1);

/// A sender with commits whose parcels are on their way, all of them or some, and a receiver that remembers places.
fn busy() -> Pair {
    let mut pair = Pair::new(&Settings::default());
    let mixed = pair.mixed();
    pair.here.ask_commit(named("a", mixed.clone()));
    pair.here.sync();
    let parcels = pair.posts();
    let places = pair.forward(parcels.clone());
    pair.confirm(&parcels[..1], &places[..1]);
    pair.here.ask_commit(named("b", mixed));
    pair.here.sync();
    let parcels = pair.posts();
    pair.forward(parcels);
    pair
}

fn place(offset: u64) -> Stored {
    Stored { topic: Some(TopicId(7)), partition: 1, offset, duplicate: false }
}

/// Opens a shard over whatever came of it, has everything arrive that waits, and sends and receives something new.
fn run(state: State) {
    let shard = state.shard();
    let (near, far) = (TopicId::new(shard, 0), TopicId::new(ShardId((shard.0 + 1) % 64), 0));
    let (near, far) = (near.expect("there is one"), far.expect("there is one"));
    let mut shard = Shard::new(Settings { shard, ..Settings::default() }, state);
    let (mut out, now, base) = (Output::default(), Time(2_000_000), Position(900 << 32));
    shard.open(now, base, [9; 32], &mut out);
    shard.handle(now, Input::Durable { upto: base.plus(out.facts.len()) }, &mut out);
    let posted = |out: &Output| {
        let posted = out.actions.iter().filter_map(|action| match action {
            driftq_core::Action::Post { parcel, .. } => Some((parcel.number, place(parcel.number))),
            _ => None,
        });
        Input::Outbox(OutboxInput::Posted { stored: posted.collect() })
    };
    let messages = vec![Draft::to(far).message(), Draft::to(near).message()];
    for name in ["a", "b", "c"] {
        let commit = named(name, Commit { messages: messages.clone(), ..Commit::default() });
        let input = CommitInput::One { ticket: TICKET, commit: Box::new(commit) };
        shard.handle(now, Input::Commit(input), &mut out);
    }
    for from in [0, 1, 2, 63].map(ShardId) {
        let numbers = [1, (1 << 32) + 1, (1 << 32) + 2, (1 << 32) + 9, u64::MAX];
        let parcels = numbers.map(|number| Parcel { number, message: Draft::to(near).message() }).to_vec();
        for settled in [0, 5, (1 << 32) + 2, u64::MAX] {
            let parcels = parcels.clone();
            let input = OutboxInput::Receive { ticket: TICKET, from, settled, parcels };
            shard.handle(now, Input::Outbox(input), &mut out);
            let empty = OutboxInput::Receive { ticket: TICKET, from, settled, parcels: Vec::new() };
            shard.handle(now, Input::Outbox(empty), &mut out);
        }
    }
    shard.handle(now, Input::Durable { upto: base.plus(out.facts.len()) }, &mut out);
    let input = posted(&out);
    shard.handle(now, input, &mut out);
    drop((shard.outbox_settled(), shard.state().encode(), shard.abandon()));
}

fn lies(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let places = (0..bytes.len()).flat_map(|at| NUMBERS.map(|number| (at, number)));
    places.flat_map(move |(at, number)| {
        [1, 8].map(|width: usize| {
            let mut damaged = bytes.to_vec();
            let end = (at + width).min(damaged.len());
            damaged[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            damaged
        })
    })
}

#[test]
fn every_number_of_a_snapshot_of_shards_may_lie() {
    let pair = busy();
    for rig in [&pair.here, &pair.there] {
        let snapshot = rig.shard.state().encode();
        assert_eq!(snapshot[0], 9);
        for cut in 0..snapshot.len() {
            assert!(State::decode(&snapshot[..cut], 1).is_err(), "cut at {cut}");
        }
        let accepted = lies(&snapshot).filter_map(|bytes| State::decode(&bytes, 1).ok());
        let accepted = accepted.map(run).count();
        assert!(accepted > 0, "numbers that only count something may be anything");
    }
}

#[test]
fn every_number_of_a_batch_about_shards_may_lie() {
    let pair = busy();
    for rig in [&pair.here, &pair.there] {
        let (last, before) = rig.log.batches.split_last().expect("there are some");
        let before = rig.recovered(before.len(), 0);
        let accepted = lies(&last.bytes).filter_map(|bytes| {
            let mut state = before.clone();
            state.apply_batch(last.base, &bytes).ok()?;
            Some(state)
        });
        assert!(accepted.map(run).count() > 0);
    }
}

/// A log whose first shard is its sender is one that a shard may go on from.
#[test]
fn what_was_not_damaged_goes_on() {
    let pair = busy();
    run(pair.here.shard.state().clone());
    run(pair.there.shard.state().clone());
    assert_eq!(pair.here.shard.state().shard(), SENDER);
}

#[test]
fn facts_that_contradict_the_outbox_are_refused() {
    let mut pair = Pair::new(&Settings::default());
    let commit = pair.mixed();
    pair.here.ask_commit(commit);
    pair.here.sync();
    pair.there.receive(ShardId(0), 0, pair.here.posts(RECEIVER)).expect("they are stored");
    let place = place(0);
    let (first, last) = ((1 << 32) + 1, (1 << 32) + 2);
    let sent = |number, topic| {
        let message = MessageFact { topic, ..MessageFact::default() };
        OutboxFact::Sent { number, native: false, reserved: false, message }
    };
    let here = [
        (OutboxFact::Posted { number: first, stored: place }, true),
        (OutboxFact::Posted { number: first - 1, stored: place }, false),
        (OutboxFact::Posted { number: last + 1, stored: place }, false),
        (sent(last + 1, pair.far), true),
        (sent(last, pair.far), false),
        (sent(u64::MAX, pair.far), false),
        (sent(last + 1, pair.near), false),
        (sent(last + 1, TopicId(u32::MAX)), false),
        (OutboxFact::Housed { shard: ShardId(1) }, false),
        (OutboxFact::Received { from: ShardId(0), number: 1, stored: place }, false),
        (OutboxFact::Settled { from: ShardId(1), below: 1 }, false),
    ];
    let there = [
        (OutboxFact::Received { from: ShardId(0), number: first, stored: place }, false),
        (OutboxFact::Received { from: ShardId(0), number: last + 9, stored: place }, true),
        (OutboxFact::Received { from: ShardId(64), number: 1, stored: place }, false),
        (OutboxFact::Settled { from: ShardId(0), below: 0 }, false),
        (OutboxFact::Settled { from: ShardId(0), below: last }, true),
        (OutboxFact::Settled { from: ShardId(2), below: 1 }, false),
    ];
    let cases = here.map(|case| (&pair.here, case)).into_iter();
    for (rig, (fact, allowed)) in cases.chain(there.map(|case| (&pair.there, case))) {
        let mut state = rig.shard.state().clone();
        let mut bytes = Vec::new();
        Fact::Outbox(fact).encode(&mut bytes);
        let applied = state.apply_batch(rig.log.base, &bytes);
        assert_eq!(applied.is_ok(), allowed, "{fact:?}");
    }
}
