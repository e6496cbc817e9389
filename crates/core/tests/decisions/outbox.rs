//! What a commit stores in topics of other shards: written down with the rest of it, sent when that is durable, stored
//! there once.

use crate::support::ledger::{finishing, in_run, named, wish};
use crate::support::post::{Pair, RECEIVER, SENDER};
use crate::support::{Draft, Rig, START};
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, Commit, CommitInput, CommitPart, Committed, Description, Fact, Identity, Input, Jitter, KeyHash,
    NewLineage, NewMessage, OrderInput, OutboxFact, Overload, Parcel, Query, Reject, RequestHash,
    RetryPolicy, Settings, ShardId, Spotted, Start, Stored, TopicId,
};

fn pair() -> Pair {
    Pair::new(&Settings::default())
}

fn stored(topic: TopicId, partition: u32, offset: u64, duplicate: bool) -> Stored {
    Stored { topic: Some(topic), partition, offset, duplicate }
}

fn numbers(parcels: &[Parcel]) -> Vec<u64> {
    parcels.iter().map(|parcel| parcel.number).collect()
}

fn committed(answer: Option<Answer>) -> Committed {
    match answer {
        Some(Answer::Committed(done)) => done,
        other => panic!("not committed: {other:?}"),
    }
}

/// Where the three messages of [`Pair::mixed`] lie if they are the first ones.
fn places(pair: &Pair) -> Vec<Stored> {
    vec![stored(pair.far, 0, 0, false), stored(pair.near, 0, 0, false), stored(pair.far, 1, 1, false)]
}

#[test]
fn parcels_are_sent_when_the_commit_is_durable_and_the_answer_waits_for_their_places() {
    let mut pair = pair();
    let lease = pair.here.executes(wish("k"));
    let finishes = vec![finishing(lease.receipt, Status::Succeeded, "done")];
    let mark = pair.here.write();
    let ticket = pair.here.ask_commit(named("c", Commit { finishes, ..pair.mixed() }));
    assert!(pair.here.is_urgent());
    assert_eq!(pair.here.write(), mark + 1, "one batch");
    assert_eq!((pair.posts(), pair.here.answer(ticket)), (Vec::new(), None), "nothing before its sync");
    pair.here.sync();
    let parcels = pair.posts();
    assert_eq!(numbers(&parcels), [(1 << 32) + 1, (1 << 32) + 2]);
    assert_eq!(pair.here.answer(ticket), None, "where they lie is not known yet");
    let places = pair.forward(parcels.clone());
    pair.confirm(&parcels[..1], &places[..1]);
    assert_eq!(pair.here.answer(ticket), None, "not of all of them");
    pair.confirm(&parcels[1..], &places[1..]);
    assert_eq!(committed(pair.here.answer(ticket)).stored, self::places(&pair));
    assert_eq!(pair.here.status("k"), Status::Succeeded);
    assert_eq!(pair.arrived(), ["a", "b"]);
    let facts = pair.here.facts_since(mark);
    let sent = facts.iter().filter(|fact| matches!(fact, Fact::Outbox(OutboxFact::Sent { .. })));
    assert_eq!(sent.count(), 2);
    pair.here.sync();
    pair.here.crash();
    assert_eq!(pair.posts(), [], "what has arrived is not sent again");
}

#[test]
fn a_commit_that_was_not_durable_sends_nothing() {
    let mut pair = pair();
    let commit = pair.mixed();
    pair.here.ask_commit(commit.clone());
    pair.here.crash();
    assert_eq!((pair.posts(), pair.here.shard.state().messages()), (Vec::new(), 0));
    pair.here.ask_commit(commit);
    pair.here.sync();
    assert_eq!(numbers(&pair.posts()), [(2 << 32) + 1, (2 << 32) + 2], "each run has numbers of its own");
}

#[test]
fn what_has_not_arrived_is_sent_again_by_the_next_run_and_stored_once() {
    for (lucky, percent) in [(false, 0), (false, 100), (true, 50), (true, 100)] {
        let mut pair = pair();
        pair.here.snapshot_percent = percent;
        let commit = pair.mixed();
        pair.here.ask_commit(commit);
        pair.here.sync();
        let parcels = pair.posts();
        let places = pair.forward(parcels.clone());
        if lucky {
            // The sender heard of one, and of that the log tells only by luck.
            pair.confirm(&parcels[..1], &places[..1]);
            pair.here.write();
        }
        pair.here.reboot(if lucky { pair.here.log.batches.len() } else { pair.here.log.synced });
        assert_eq!(pair.posts(), [], "not before the run is durable");
        pair.here.sync();
        let again = pair.posts();
        let known = usize::from(lucky);
        assert_eq!(again, parcels[known..], "just as they were, in their order");
        assert_eq!(pair.forward(again), places[known..], "the receiver knows them");
        assert_eq!(pair.arrived(), ["a", "b"]);
    }
}

#[test]
fn a_receiver_that_crashes_stores_what_it_is_sent_again() {
    let mut pair = pair();
    let commit = pair.mixed();
    let ticket = pair.here.ask_commit(commit);
    pair.here.sync();
    let parcels = pair.posts();
    let input = |parcels: &[Parcel]| {
        let parcels = parcels.to_vec();
        move |ticket| {
            Input::Outbox(driftq_core::OutboxInput::Receive { ticket, from: SENDER, settled: 0, parcels })
        }
    };
    let unheard = pair.there.ask(input(&parcels));
    assert_eq!(pair.there.answer(unheard), None, "not durable yet");
    pair.there.crash();
    assert_eq!(pair.there.shard.state().messages(), 0);
    let first = pair.forward(parcels.clone());
    for percent in [0, 50, 100] {
        pair.there.snapshot_percent = percent;
        pair.there.crash();
        assert_eq!(pair.forward(parcels.clone()), first, "the same places, and nothing new");
        assert_eq!(pair.forward(parcels[1..].to_vec()), first[1..]);
    }
    pair.confirm(&parcels, &first);
    assert_eq!(committed(pair.here.answer(ticket)).stored, places(&pair));
    assert_eq!(pair.arrived(), ["a", "b"]);
}

#[test]
fn every_field_of_a_message_arrives() {
    let mut pair = pair();
    let lineage = NewLineage {
        tenant: "tenant".into(),
        run: "run".into(),
        step: "step".into(),
        parent: "parent".into(),
    };
    let full = NewMessage {
        topic: pair.far,
        partition: 1,
        deadline: Some(START.after_ms(50_000)),
        retry: Some(RetryPolicy { max_attempts: 3, backoff_ms: 1, max_backoff_ms: 2, jitter: Jitter::Full }),
        native: true,
        identity: Some(Identity([7; 16])),
        reserved: true,
        request: RequestHash(8),
        key: KeyHash(9),
        priority: 5,
        start: Start::After(700),
        lineage: Some(Box::new(lineage)),
        origin: Some(Spotted { topic: pair.near, partition: 0, offset: 3 }),
        payload: pair.letter("full").payload,
    };
    let messages =
        vec![full.clone(), NewMessage { start: Start::At(START), ..full.clone() }, pair.letter("")];
    pair.here.ask_commit(Commit { messages, ..Commit::default() });
    pair.here.sync();
    let expected = NewMessage { reserved: false, start: Start::At(START.after_ms(700)), ..full };
    for percent in [0, 100] {
        let sent: Vec<NewMessage> = pair.posts().into_iter().map(|parcel| parcel.message).collect();
        let second = NewMessage { start: Start::At(START), ..expected.clone() };
        assert_eq!(sent, [expected.clone(), second, pair.letter("")]);
        pair.here.snapshot_percent = percent;
        pair.here.crash();
    }
}

#[test]
fn a_named_commit_that_is_repeated_is_answered_when_its_messages_have_arrived() {
    let mut pair = pair();
    let commit = named("c", pair.mixed());
    let first = pair.here.ask_commit(commit.clone());
    let early = pair.here.ask_commit(commit.clone());
    pair.here.sync();
    let late = pair.here.ask_commit(commit.clone());
    let check = pair
        .here
        .ask(|ticket| Input::Commit(CommitInput::Check { ticket, commit: Box::new(commit.clone()) }));
    let parcels = pair.posts();
    assert_eq!(parcels.len(), 2, "it is done once");
    pair.here.sync();
    let expected = places(&pair);
    for ticket in [first, early, late, check] {
        assert_eq!(pair.here.answer(ticket), None);
    }
    let places = pair.forward(parcels.clone());
    pair.confirm(&parcels, &places);
    for ticket in [first, early, late, check] {
        let done = committed(pair.here.answer(ticket));
        assert_eq!((done.stored, done.already), (expected.clone(), ticket != first));
    }
    let again = committed(Some(pair.here.try_commit(commit.clone())));
    assert_eq!((again.stored, again.already), (expected.clone(), true), "it is remembered");
    pair.here.crash();
    let again = committed(Some(pair.here.try_commit(commit)));
    assert_eq!((again.stored, pair.posts()), (expected, Vec::new()), "by the next run, too");
}

#[test]
fn a_named_commit_that_is_repeated_after_a_crash_waits_for_what_is_still_on_its_way() {
    for percent in [0, 60, 100] {
        let mut pair = pair();
        pair.here.snapshot_percent = percent;
        let commit = named("c", pair.mixed());
        pair.here.ask_commit(commit.clone());
        pair.here.sync();
        let parcels = pair.posts();
        let places = pair.forward(parcels.clone());
        pair.confirm(&parcels[..1], &places[..1]);
        pair.here.sync();
        pair.here.crash();
        let ticket = pair.here.ask_commit(commit.clone());
        let many = vec![commit.clone(), Commit::default(), commit.clone()];
        let all = pair.here.ask(|ticket| Input::Commit(CommitInput::Many { ticket, commits: many }));
        assert_eq!((pair.here.answer(ticket), pair.here.answer(all)), (None, None));
        let shown = |rig: &mut Rig, name| match rig
            .ask_durably(|ticket| Input::Describe { ticket, query: Query::Commit(name) })
        {
            Answer::Described(Description::Commit(done)) => done.expect("it is remembered").stored,
            other => panic!("not a commit: {other:?}"),
        };
        let name = commit.name.expect("it has one");
        let known = self::places(&pair);
        let topics: Vec<_> = shown(&mut pair.here, name).iter().map(|stored| stored.topic).collect();
        assert_eq!(topics, [known[0].topic, known[1].topic, None], "of one it is not known where it lies");
        let again = pair.posts();
        assert_eq!(numbers(&again), numbers(&parcels[1..]));
        assert_eq!(pair.deliver(), []);
        let places = pair.forward(again.clone());
        pair.confirm(&again, &places);
        assert_eq!(committed(pair.here.answer(ticket)).stored, known);
        let Some(Answer::CommittedMany(results)) = pair.here.answer(all) else { panic!("not answered") };
        let results: Vec<_> = results.into_iter().map(|result| result.expect("it is done").stored).collect();
        assert_eq!(results, [known.clone(), Vec::new(), known.clone()]);
        assert_eq!(shown(&mut pair.here, name), known);
    }
}

#[test]
fn commits_of_one_call_are_answered_together_when_everything_has_arrived() {
    let mut pair = pair();
    let commits = vec![pair.mixed(), Commit::default(), pair.mixed()];
    let ticket = pair.here.ask(|ticket| Input::Commit(CommitInput::Many { ticket, commits }));
    pair.here.sync();
    let parcels = pair.posts();
    let places = pair.forward(parcels.clone());
    pair.confirm(&parcels[1..], &places[1..]);
    assert_eq!(pair.here.answer(ticket), None);
    // Told twice, and of one that never was.
    pair.confirm(&parcels[1..], &places[1..]);
    let odd = Parcel { number: 99, ..parcels[0].clone() };
    pair.confirm(&[odd], &places[..1]);
    assert_eq!(pair.here.answer(ticket), None);
    pair.confirm(&parcels[..1], &places[..1]);
    let Some(Answer::CommittedMany(results)) = pair.here.answer(ticket) else { panic!("not answered") };
    let results: Vec<_> = results.into_iter().map(|result| result.expect("it is done").stored).collect();
    let second =
        vec![stored(pair.far, 0, 2, false), stored(pair.near, 0, 1, false), stored(pair.far, 1, 1, true)];
    assert_eq!(results, [self::places(&pair), Vec::new(), second], "the key was used before");
    assert_eq!(pair.arrived(), ["a", "b", "a"]);
}

#[test]
fn tickets_that_wait_for_parcels_are_listed_when_the_shard_is_given_up() {
    let mut pair = pair();
    let commit = pair.mixed();
    let tickets = [0, 1].map(|_| pair.here.ask_commit(commit.clone()));
    pair.here.sync();
    let unsynced = pair.here.ask_commit(Commit { messages: vec![Draft::to(pair.near).message()], ..commit });
    let waiting = pair.here.shard.abandon();
    let [first, second] = tickets;
    assert_eq!(waiting, [unsynced, first, second]);
}

#[test]
fn what_may_be_on_its_way_is_bounded() {
    let outbox_bytes_max = 2_000;
    let mut pair = Pair::new(&Settings { outbox_bytes_max, ..Settings::default() });
    let commit = |pair: &Pair, count| {
        let letter = pair.letter(&"x".repeat(200));
        Commit { messages: vec![letter; count], ..Commit::default() }
    };
    let full = Reject::Overloaded(Overload::Outbox);
    let many = commit(&pair, 5);
    assert_eq!(pair.here.refused(many), (CommitPart::Produce(4), full));
    let three = commit(&pair, 3);
    let ticket = pair.here.ask_commit(three.clone());
    pair.here.sync();
    assert_eq!(pair.here.refused(three.clone()), (CommitPart::Produce(1), full));
    pair.here.crash();
    assert_eq!(pair.here.refused(three.clone()), (CommitPart::Produce(1), full), "after a crash, too");
    pair.deliver();
    pair.here.ask_commit(three);
    pair.here.sync();
    assert_eq!((pair.posts().len(), pair.here.answer(ticket)), (3, None), "there is room again");
}

#[test]
fn a_full_disk_sends_nothing_and_receives_nothing_new() {
    let mut pair = pair();
    let commit = pair.mixed();
    pair.here.ask_commit(commit);
    pair.here.sync();
    let parcels = pair.posts();
    pair.there.tell(Input::Space { roomy: false });
    let refused = pair.there.receive(SENDER, 0, parcels.clone());
    assert_eq!(refused, Err(Reject::DiskFull));
    pair.there.tell(Input::Space { roomy: true });
    let places = pair.forward(parcels.clone());
    pair.there.tell(Input::Space { roomy: false });
    assert_eq!(pair.forward(parcels), places, "what is there is told");
    pair.here.tell(Input::Space { roomy: false });
    let commit = Commit { messages: vec![pair.letter("a")], ..Commit::default() };
    assert_eq!(pair.here.refused(commit), (CommitPart::Produce(0), Reject::DiskFull));
}

#[test]
fn limits_of_the_receiver_do_not_refuse_what_is_done() {
    let settings = Settings {
        partition_messages_max: 0,
        idempotency_records_max: 0,
        partition_bytes_max: 0,
        ..Settings::default()
    };
    let mut pair = Pair::new(&settings);
    let late = NewMessage { deadline: Some(START), native: true, ..pair.letter("late") };
    let messages = vec![pair.letter("a"), Draft::to(pair.far).keyed("k").message(), late];
    pair.here.ask_commit(Commit { messages, ..Commit::default() });
    pair.here.sync();
    let places = pair.deliver();
    assert_eq!(places, [0, 1, 2].map(|offset| stored(pair.far, 0, offset, false)));
}

/// Policies that can be told apart.
const POLICIES_MAX: u32 = u16::MAX as u32 - 1;

#[test]
fn a_message_that_arrives_with_a_policy_too_many_is_stored_without_it() {
    let mut pair = pair();
    let far = pair.far;
    for first in (0..POLICIES_MAX).step_by(10_000) {
        let numbers = first..(first + 10_000).min(POLICIES_MAX);
        let messages = numbers.map(|number| Draft::to(far).attempts(number + 1).message()).collect();
        pair.there.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
    }
    let before = pair.there.shard.state().messages();
    let messages = [1, 70_000, 80_000].map(|most| Draft::to(far).attempts(most).message()).to_vec();
    let ticket = pair.here.ask_commit(Commit { messages, ..Commit::default() });
    pair.here.sync();
    pair.deliver();
    assert_eq!(committed(pair.here.answer(ticket)).stored.len(), 3);
    assert_eq!((before, pair.there.shard.state().messages()), (65_534, 65_537));
}

#[test]
fn what_comes_for_a_topic_that_is_gone_goes_the_same_way() {
    let mut pair = pair();
    let messages = [pair.letter("a"), Draft::to(pair.far).partition(9).message()];
    let ticket = pair.here.ask_commit(Commit { messages: messages[..1].to_vec(), ..Commit::default() });
    let far = pair.far;
    pair.here.sync();
    pair.there.ask_durably(|ticket| Input::Order(OrderInput::DeleteTopic { ticket, topic: far }));
    assert_eq!(pair.deliver(), [stored(far, 0, 0, false)]);
    assert_eq!(committed(pair.here.answer(ticket)).stored, [stored(far, 0, 0, false)]);
    let other = pair.there.topic("there", 1);
    assert_ne!(other, far);
    let odd = NewMessage { topic: other, ..messages[1].clone() };
    pair.here.ask_commit(Commit { messages: vec![odd], ..Commit::default() });
    pair.here.sync();
    assert_eq!(pair.deliver(), [stored(other, 9, 0, false)]);
    assert_eq!(pair.there.shard.state().messages(), 0);
}

#[test]
fn places_are_forgotten_when_it_is_durable_that_the_sender_knows_them() {
    let mut pair = pair();
    let commit = pair.mixed();
    pair.here.ask_commit(commit.clone());
    pair.here.sync();
    let parcels = pair.posts();
    let places = pair.forward(parcels.clone());
    pair.confirm(&parcels[1..], &places[1..]);
    pair.here.sync();
    assert_eq!(pair.here.shard.outbox_settled(), parcels[0].number, "the first one is still on its way");
    pair.confirm(&parcels[..1], &places[..1]);
    // The disk tells of what was written before.
    pair.here.sync_first(0);
    assert_eq!(pair.here.shard.outbox_settled(), parcels[0].number, "a crash would bring it back");
    pair.here.sync();
    let settled = pair.here.shard.outbox_settled();
    assert_eq!(settled, parcels[1].number + 1);
    pair.here.ask_commit(commit);
    pair.here.sync();
    let more = pair.posts();
    pair.forward(more.clone());
    for percent in [0, 50, 100] {
        let before = pair.there.shard.state().messages();
        // A request that was late.
        let late = pair.there.receive(SENDER, 0, parcels.clone()).expect("it is known");
        assert_eq!(late, [stored(pair.far, 0, 0, true), stored(pair.far, 1, 0, true)], "where is forgotten");
        assert_eq!(pair.there.shard.state().messages(), before, "that they came is not");
        pair.there.snapshot_percent = percent;
        pair.there.crash();
    }
    pair.here.crash();
    assert_eq!(pair.here.shard.outbox_settled(), more[0].number);
    assert_eq!(pair.there.receive(SENDER, settled, Vec::new()), Ok(Vec::new()), "only to settle");
}

#[test]
fn parcels_that_no_shard_sends_are_refused() {
    let mut pair = pair();
    let parcel = |number| Parcel { number, message: Draft::to(pair.far).message() };
    let elsewhere = Parcel { message: Draft::to(pair.near).message(), ..parcel(3) };
    let cases = [
        (SENDER, vec![parcel(2), parcel(1)]),
        (SENDER, vec![parcel(1), parcel(1)]),
        (SENDER, vec![parcel(1), elsewhere]),
        (RECEIVER, vec![parcel(1)]),
        (ShardId(64), vec![parcel(1)]),
        (SENDER, (0..10_001).map(parcel).collect()),
    ];
    let before = pair.there.shard.state().encode();
    for (from, parcels) in cases {
        let refused = pair.there.receive(from, 9, parcels);
        assert!(matches!(refused, Err(Reject::Invalid(_))), "{refused:?}");
    }
    assert!(pair.there.shard.state().encode() == before);
}

#[test]
fn a_run_has_numbers_that_no_run_before_it_had() {
    let mut pair = pair();
    let commit = Commit { messages: vec![pair.letter("a")], ..Commit::default() };
    pair.here.ask_commit(commit.clone());
    pair.here.sync();
    let copied = pair.here.log.batches.len();
    pair.here.ask_commit(commit.clone());
    pair.here.sync();
    assert_eq!(numbers(&pair.posts()), [(1 << 32) + 1, (1 << 32) + 2]);
    // The shard goes on from the copy: what came after it is not known any more.
    pair.here.log.synced = copied;
    pair.here.crash_keeping(copied);
    pair.here.ask_commit(commit);
    pair.here.sync();
    assert_eq!(numbers(&pair.posts()), [(1 << 32) + 1, (2 << 32) + 1]);
}

#[test]
fn a_message_of_a_run_is_a_step_of_it_where_it_arrives() {
    let mut pair = pair();
    let message = in_run(&Draft::to(pair.far), "run", "step");
    pair.here.ask_commit(Commit { messages: vec![message], ..Commit::default() });
    pair.here.sync();
    pair.deliver();
    let page = pair.there.run_page("run", 0, 9).expect("it is known there");
    assert_eq!(page.summary.messages, 1);
    assert!(pair.here.run_page("run", 0, 9).is_none());
}
