//! How much one input may hand out: no more than a turn, and to one stream no more than it writes out.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::orders::{offsets, patient};
use crate::support::{Draft, Rig};
use driftq_core::{GroupId, Identity, Input, LeaseRequest, OrderInput, Settings, Start, Style, TopicId};

const STEPS: usize = 10;
const MESSAGES: usize = 40;

fn rig(stream_unwritten_max: u32) -> Rig {
    Rig::new(Settings { stream_unwritten_max, turn_steps_max: STEPS as u32, ..Settings::default() })
}

/// A stream of a group of its own that can take everything, without a sync.
fn join(rig: &mut Rig, topic: TopicId, group: &str) {
    let mut subscription = rig.subscription(topic, group, "o", 1_000);
    subscription.style = Style::Borrowed;
    rig.ask(|ticket| Input::Subscribe { ticket, subscription });
}

/// The groups of what was handed out since the last look.
fn takers(rig: &mut Rig) -> Vec<GroupId> {
    rig.deliveries().into_iter().map(|(_, delivery)| delivery.receipt.group).collect()
}

fn is_unfinished(rig: &Rig) -> bool {
    rig.shard.next_deadline().is_some_and(|due| due <= rig.now)
}

#[test]
fn one_input_hands_out_a_turn_and_the_rest_goes_on_in_fair_order() {
    let mut rig = rig(1_000);
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0; MESSAGES]);
    for group in ["a", "b", "c"] {
        join(&mut rig, topic, group);
        let given = takers(&mut rig);
        assert_eq!(given.len(), STEPS, "{group}: a turn, and not everything");
    }
    let mut turns: Vec<GroupId> = Vec::new();
    let mut given: BTreeMap<GroupId, usize> = BTreeMap::new();
    while is_unfinished(&rig) {
        rig.tell(Input::Tick);
        let takers = takers(&mut rig);
        assert!(takers.len() <= STEPS, "{} in one turn", takers.len());
        turns.extend(takers.first());
        takers.into_iter().for_each(|group| *given.entry(group).or_default() += 1);
        assert!(turns.len() < 100, "it does not end");
    }
    assert_eq!(given.values().copied().collect::<Vec<_>>(), [MESSAGES - STEPS; 3], "nothing is left");
    let groups: Vec<GroupId> = given.into_keys().collect();
    assert_eq!(turns[..6], [&groups[..], &groups[..]].concat(), "one after the other");
}

/// What becomes durable is for all groups at once: still it is one turn.
#[test]
fn a_turn_is_one_for_all_groups_that_an_input_touches() {
    let mut rig = rig(1_000);
    let topic = rig.topic("t", 1);
    for group in ["a", "b", "c"] {
        join(&mut rig, topic, group);
    }
    rig.sync();
    for _ in 0..MESSAGES {
        rig.ask(|ticket| Input::Produce { ticket, message: Draft::to(topic).message() });
    }
    rig.sync();
    assert_eq!(takers(&mut rig).len(), STEPS);
    assert!(is_unfinished(&rig));
}

/// More groups than one tick looks at: none waits for those in front of it to finish.
#[test]
fn among_many_groups_each_gets_its_turn() {
    const GROUPS: usize = 300;
    let mut rig = rig(1_000);
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0; MESSAGES]);
    // Away first, so that none gets a turn of its own.
    rig.ask(|ticket| Input::Order(OrderInput::Pause { ticket, topic, group: None, paused: true }));
    for group in 0..GROUPS {
        join(&mut rig, topic, &group.to_string());
    }
    rig.ask(|ticket| Input::Order(OrderInput::Pause { ticket, topic, group: None, paused: false }));
    rig.sync();
    let mut served: BTreeSet<GroupId> = takers(&mut rig).into_iter().collect();
    for _ in 0..GROUPS {
        assert!(is_unfinished(&rig), "{} of {GROUPS} have got something", served.len());
        rig.tell(Input::Tick);
        served.extend(takers(&mut rig));
    }
    assert_eq!(served.len(), GROUPS, "after as many turns");
}

/// More messages on loan than a turn can pass over, in a run of the shard that begins to look at the front.
fn behind_many_on_loan() -> (Rig, TopicId, u64) {
    const LENT: usize = 16 * (STEPS + 2);
    let mut rig = rig(1_000);
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0; LENT]);
    let lent: usize = std::iter::repeat_with(|| rig.lease(topic, 8).len()).take_while(|lent| *lent > 0).sum();
    assert_eq!(lent, LENT);
    rig.sync();
    rig.crash_lucky();
    (rig, topic, LENT as u64)
}

fn finish(rig: &mut Rig) {
    while is_unfinished(rig) {
        rig.tell(Input::Tick);
    }
}

/// When the steps are used up on the way to the next message, nothing may go that stands further back.
#[test]
fn nothing_overtakes_what_a_turn_did_not_come_to() {
    let (mut rig, topic, next) = behind_many_on_loan();
    rig.produce_to(topic, &[0]);
    rig.produce(&Draft { start: Start::After(500), ..Draft::to(topic) });
    rig.advance(600);
    rig.borrow(topic, "late", 10);
    finish(&mut rig);
    assert_eq!(rig.offsets(), [next, next + 1]);
}

/// The asker of a request has given up and asks again: what is found goes to it once.
#[test]
fn a_request_that_is_repeated_while_a_turn_goes_on_gets_one_answer() {
    let (mut rig, topic, next) = behind_many_on_loan();
    rig.produce_to(topic, &[0; 2]);
    let named = LeaseRequest { request: Some(Identity([7; 16])), ..patient(topic, 1, 500) };
    let first = rig.ask_lease(named.clone());
    assert!(rig.leased(first).is_none(), "it is not known yet whether there is something");
    let again = rig.ask_lease(named);
    assert_eq!(rig.leased(first).as_deref(), Some(&[][..]));
    finish(&mut rig);
    assert_eq!(rig.leased(again).map(|found| offsets(&found)), Some(vec![next]));
    assert_eq!(rig.in_flight(topic), u32::try_from(next).unwrap() + 1, "nobody has the other one");
}

#[test]
fn a_stream_is_handed_no_more_than_it_writes_out_and_others_get_the_rest() {
    let mut rig = rig(3);
    let topic = rig.topic("t", 1);
    let stalled = rig.borrow(topic, "stalled", 100);
    rig.produce_to(topic, &[0; 5]);
    let held = rig.deliveries();
    assert_eq!(held.len(), 3, "however large its credit is");
    rig.ack_token(&held[0].1);
    assert_eq!(rig.offsets(), [], "what is settled may still lie in its queue");
    rig.tell(Input::Written { consumer: stalled, count: 1 });
    assert_eq!(rig.offsets(), [3]);
    let brisk = rig.borrow(topic, "brisk", 100);
    let other = rig.deliveries();
    assert_eq!((other.len(), other[0].0, other[0].1.receipt.offset), (1, brisk, 4), "what one leaves");
    rig.tell(Input::Written { consumer: stalled, count: 100 });
    rig.produce_to(topic, &[0; 9]);
    let given = rig.deliveries();
    let to = |reader| given.iter().filter(|(consumer, _)| *consumer == reader).count();
    assert_eq!((to(stalled), to(brisk)), (3, 2), "more words than deliveries are no credit");
}
