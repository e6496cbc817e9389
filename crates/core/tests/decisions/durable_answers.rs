//! Nothing is told that a power cut could take back: what looks at facts, and what is refused because of them, waits
//! for the disk like every other answer.

use crate::support::orders::{nack_dead, request, spotted};
use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, Browse, Description, Input, KeyHash, OrderInput, Query, Reject, RequestHash, Settings,
    Settlement, Ticket, TopicId, Verdict,
};

fn browse(topic: TopicId) -> Query {
    Query::Browse(Browse { topic, partition: 0, alone: true, from: 0, limit: 10, key: KeyHash::NONE })
}

/// Asks while something is not durable, sees no answer, then takes the one that the disk lets go.
fn told_late(rig: &mut Rig, ticket: Ticket) -> Answer {
    assert_eq!(rig.answer(ticket), None, "told before it was durable");
    rig.sync();
    rig.answer(ticket).expect("told once it is durable")
}

fn listed(answer: Answer) -> Vec<u64> {
    match answer {
        Answer::Described(Description::Browse(stretch)) => {
            stretch.found.iter().map(|found| found.offset).collect()
        }
        other => panic!("not a stretch: {other:?}"),
    }
}

#[test]
fn browsing_waits_for_what_it_shows() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic));
    let message = Draft::to(topic).message();
    rig.ask(|ticket| Input::Produce { ticket, message });
    let ticket = rig.ask(|ticket| Input::Describe { ticket, query: browse(topic) });
    assert_eq!(listed(told_late(&mut rig, ticket)), [0, 1]);
}

#[test]
fn browsing_what_is_durable_does_not_wait() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic));
    let ticket = rig.ask(|ticket| Input::Describe { ticket, query: browse(topic) });
    assert_eq!(listed(rig.answer(ticket).expect("nothing is under way")), [0]);
}

#[test]
fn dead_letters_are_listed_once_they_lie_where_they_stay() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.lease(topic, 1);
    rig.produce(&Draft::to(topic));
    let delivery = rig.lease(topic, 1).remove(0);
    rig.settle(&delivery, nack_dead("no"));
    for burial in rig.fetches() {
        rig.bury(&burial);
    }
    let letters =
        rig.shard.state().topics().find(|topic| &*topic.name == "dlq.t").expect("it has letters").id;
    let ticket = rig.ask(|ticket| Input::Describe { ticket, query: browse(letters) });
    assert_eq!(listed(told_late(&mut rig, ticket)), [0]);
}

#[test]
fn a_message_is_described_as_it_stays() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic));
    rig.ask(|ticket| Input::Order(OrderInput::Cancel { ticket, message: spotted(topic, 0) }));
    let query = Query::Message(spotted(topic, 0));
    let ticket = rig.ask(|ticket| Input::Describe { ticket, query });
    told_late(&mut rig, ticket);
}

#[test]
fn a_key_is_refused_as_used_once_its_use_is_durable() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    let first = Draft { request: RequestHash(1), ..Draft::to(topic).keyed("k") };
    let other = Draft { request: RequestHash(2), ..first.clone() };
    rig.ask(|ticket| Input::Produce { ticket, message: first.message() });
    let ticket = rig.ask(|ticket| Input::Produce { ticket, message: other.message() });
    assert_eq!(told_late(&mut rig, ticket), Answer::Rejected(Reject::KeyReused));
}

#[test]
fn a_holder_is_told_that_it_is_stale_once_that_is_durable() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.lease_as(request(topic, 1));
    rig.produce(&Draft::to(topic));
    let delivery = rig.lease(topic, 1).remove(0);
    let items = || vec![Settlement { receipt: delivery.receipt, verdict: Verdict::Release { delay_ms: 0 } }];
    rig.ask(|ticket| Input::Settle { ticket, items: items() });
    let items = vec![Settlement { receipt: delivery.receipt, verdict: Verdict::Ack }];
    let ticket = rig.ask(|ticket| Input::Settle { ticket, items });
    let answer = told_late(&mut rig, ticket);
    assert!(matches!(&answer, Answer::Settlements(outcomes) if outcomes.len() == 1), "{answer:?}");
}
