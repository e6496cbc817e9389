//! Messages handed out once to whoever asks: at once, after a wait, or not at all.

use crate::support::orders::{nack, offsets, patient, request};
use crate::support::{Draft, LEASE_MS, Rig, START};
use driftq_core::{
    Answer, Identity, Input, LEASE_BYTES_MAX, LEASE_MESSAGES_MAX, LEASE_WAIT_MS_MAX, LeaseRequest, Reject,
    Settings, Ticket, TopicId, TopicSettings, Verdict,
};

fn rig() -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    (rig, topic)
}

fn named(topic: TopicId, max: u32, wait_ms: u64, name: &str) -> LeaseRequest {
    LeaseRequest { request: Some(Identity::of("", "", name)), ..patient(topic, max, wait_ms) }
}

/// The offsets that a ticket got, if it was answered.
fn got(rig: &mut Rig, ticket: Ticket) -> Option<Vec<u64>> {
    rig.leased(ticket).map(|deliveries| offsets(&deliveries))
}

#[test]
fn a_request_gets_at_most_what_it_asks_for_in_order() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0; 5]);
    assert_eq!(rig.lease_offsets(topic, 2), [0, 1]);
    assert_eq!(rig.lease_offsets(topic, 1000), [2, 3, 4]);
    assert_eq!(rig.lease_offsets(topic, 1), []);
    let group = rig.group_described(topic, "g").expect("it was created by the first request");
    assert_eq!((group.waiters, group.partitions[0].in_flight), (0, 5));
}

/// Whoever asks for a thousand messages does not get gigabytes.
#[test]
fn an_answer_is_full_when_its_payloads_are_large_enough() {
    let (mut rig, topic) = rig();
    let half = "v".repeat(LEASE_BYTES_MAX as usize / 2);
    let quarter = &half[..half.len() / 2];
    for value in [quarter, quarter, &half, "v", &half.repeat(3), "v"] {
        rig.produce(&Draft { value: value.to_owned(), ..Draft::to(topic) });
    }
    assert_eq!(
        rig.lease_offsets(topic, 1000),
        [0, 1],
        "with the third, it would be a little more than is allowed"
    );
    assert_eq!(rig.lease_offsets(topic, 1000), [2, 3], "and with the fifth, far more");
    assert_eq!(rig.lease_offsets(topic, 1000), [4], "what is larger than that goes alone");
    assert_eq!(rig.lease_offsets(topic, 1000), [5]);
}

#[test]
fn a_delivery_says_what_its_holder_must_know() {
    let (mut rig, topic) = rig();
    rig.produce(&Draft { priority: 4, ..Draft::to(topic) });
    rig.advance(7);
    let first = rig.lease(topic, 1).remove(0);
    assert_eq!((first.attempt, first.at, first.priority, first.due), (1, START, 4, None));
    assert_eq!((first.expires, &*first.last_error), (rig.now.after_ms(LEASE_MS), ""));
    rig.settle(&first, nack("broken"));
    rig.advance(0);
    let second = rig.lease(topic, 1).remove(0);
    assert_eq!((second.attempt, &*second.last_error), (2, "broken"));
    assert_ne!(second.receipt.token, first.receipt.token);
}

/// The length of a lease: as asked for, else as the topic says, else as the shard says.
#[test]
fn a_lease_lasts_as_long_as_the_first_who_says_so() {
    let settings = Settings { lease_ms_default: 300, ..Settings::default() };
    for (asked, of_topic, expected) in [(Some(5), Some(70), 5), (None, Some(70), 70), (None, None, 300)] {
        let mut rig = Rig::new(settings.clone());
        let topic = rig.topic_with("t", 1, TopicSettings { lease_ms: of_topic, ..TopicSettings::default() });
        rig.produce_to(topic, &[0]);
        let lease = rig.lease_as(LeaseRequest { lease_ms: asked, ..request(topic, 1) }).remove(0);
        assert_eq!(lease.expires, rig.now.after_ms(expected), "{asked:?} {of_topic:?}");
    }
}

#[test]
fn who_waits_long_enough_is_told_that_there_is_nothing() {
    let (mut rig, topic) = rig();
    let ticket = rig.ask_lease(patient(topic, 3, 500));
    rig.sync();
    rig.advance(499);
    assert_eq!(got(&mut rig, ticket), None);
    rig.advance(1);
    assert_eq!(got(&mut rig, ticket), Some(vec![]));
    rig.produce_to(topic, &[0]);
    assert_eq!(rig.lease_offsets(topic, 1), [0], "nobody waits for it any more");
}

#[test]
fn a_message_wakes_who_waits_once_it_is_durable_and_not_before() {
    let (mut rig, topic) = rig();
    let ticket = rig.ask_lease(patient(topic, 3, 500));
    rig.sync();
    let message = Draft::to(topic).message();
    rig.ask(|ticket| Input::Produce { ticket, message });
    rig.write();
    rig.advance(499);
    assert_eq!(got(&mut rig, ticket), None, "it is written, but not durable");
    rig.sync();
    assert_eq!(got(&mut rig, ticket), Some(vec![0]));
    rig.advance(2);
    assert_eq!(rig.answer(ticket), None, "one answer is enough");
}

/// Whoever looks at a partition for the first time sees no further than the disk does.
#[test]
fn who_comes_before_a_message_is_durable_does_not_get_it() {
    let (mut rig, topic) = rig();
    let messages = [0, 5].map(|priority| Draft { priority, ..Draft::to(topic) }.message()).to_vec();
    rig.ask(|ticket| Input::ProduceMany { ticket, messages });
    assert_eq!(rig.lease_offsets(topic, 9), []);
    rig.sync();
    assert_eq!(rig.lease_offsets(topic, 9), [1, 0]);
}

#[test]
fn who_came_first_is_served_first_and_completely() {
    let (mut rig, topic) = rig();
    let tickets = [2, 2, 2].map(|max| rig.ask_lease(patient(topic, max, 500)));
    let messages = (0..3).map(|_| Draft::to(topic).message()).collect();
    rig.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
    assert_eq!(tickets.map(|ticket| got(&mut rig, ticket)), [Some(vec![0, 1]), Some(vec![2]), None]);
    assert_eq!(rig.group_described(topic, "g").map(|group| group.waiters), Some(1));
}

#[test]
fn streams_and_requests_take_turns() {
    let (mut rig, topic) = rig();
    rig.borrow(topic, "stream", 3);
    let ticket = rig.ask_lease(patient(topic, 3, 500));
    let messages = (0..6).map(|_| Draft::to(topic).message()).collect();
    rig.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
    let (streamed, leased) = (rig.offsets(), got(&mut rig, ticket).expect("it was answered"));
    assert_eq!(streamed.len() + leased.len(), 6);
    let both: Vec<_> = (0..6).map(|offset| leased.contains(&offset)).collect();
    assert!(both.windows(2).all(|pair| pair[0] != pair[1]), "{both:?}");
}

#[test]
fn the_same_request_gets_the_same_messages_while_they_are_on_loan() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0; 5]);
    let first = rig.lease_as(named(topic, 3, 0, "r"));
    let state = rig.snapshot();
    assert_eq!(rig.lease_as(named(topic, 3, 0, "r")), first, "the same tokens, too");
    assert_eq!(rig.snapshot(), state);
    assert_eq!(offsets(&rig.lease_as(named(topic, 1, 0, "s"))), [3], "another request is another one");
    // Of what is settled, nothing comes back.
    rig.ack_token(&first[1]);
    assert_eq!(offsets(&rig.lease_as(named(topic, 3, 0, "r"))), [0, 2]);
    rig.advance(LEASE_MS - 1);
    assert_eq!(offsets(&rig.lease_as(named(topic, 3, 0, "r"))), [0, 2]);
    // An extended lease is the same lease.
    rig.settle(&first[0], crate::support::orders::EXTEND);
    rig.advance(1);
    assert_eq!(offsets(&rig.lease_as(named(topic, 3, 0, "r"))), [0]);
    rig.advance(LEASE_MS);
    let anew = rig.lease_as(named(topic, 3, 0, "r"));
    assert_eq!(anew.len(), 3, "nothing of the first answer is on loan: it is a request like any other");
    assert!(anew.iter().all(|delivery| first.iter().all(|old| old.receipt.token != delivery.receipt.token)));
}

#[test]
fn another_owner_with_the_same_name_for_its_request_is_another_request() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0; 2]);
    assert_eq!(offsets(&rig.lease_as(named(topic, 1, 0, "r"))), [0]);
    let other = LeaseRequest { owner: "p".into(), ..named(topic, 1, 0, "r") };
    assert_eq!(offsets(&rig.lease_as(other)), [1]);
}

#[test]
fn a_request_that_is_sent_again_takes_the_place_of_the_first() {
    let (mut rig, topic) = rig();
    let first = rig.ask_lease(named(topic, 1, 500, "r"));
    let second = rig.ask_lease(named(topic, 1, 500, "r"));
    rig.sync();
    assert_eq!(got(&mut rig, first), Some(vec![]));
    rig.produce_to(topic, &[0]);
    assert_eq!(got(&mut rig, second), Some(vec![0]));
}

#[test]
fn who_left_gets_nothing() {
    let (mut rig, topic) = rig();
    let (gone, there) = (rig.ask_lease(patient(topic, 1, 500)), rig.ask_lease(patient(topic, 1, 500)));
    rig.sync();
    rig.tell(Input::Forsake { ticket: gone });
    rig.produce_to(topic, &[0]);
    assert_eq!((got(&mut rig, gone), got(&mut rig, there)), (None, Some(vec![0])));
    rig.advance(1000);
    assert_eq!(rig.answer(gone), None);
    rig.tell(Input::Forsake { ticket: Ticket(999) });
}

#[test]
fn what_is_given_back_goes_to_the_next_in_line() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0]);
    let held = rig.lease(topic, 1).remove(0);
    let ticket = rig.ask_lease(patient(topic, 1, 500));
    rig.settle(&held, Verdict::Release { delay_ms: 0 });
    let next = rig.leased(ticket).expect("somebody waits").remove(0);
    assert_eq!((next.receipt.offset, next.attempt), (0, 1), "an attempt that was not begun does not count");
}

#[test]
fn what_no_request_may_ask_for_is_refused() {
    let settings = Settings { groups_max: 1, consumers_max: 2, ..Settings::default() };
    let mut rig = Rig::new(settings.clone());
    let topic = rig.topic("t", 1);
    let base = request(topic, 1);
    let invalid = |request: LeaseRequest| (request, "Invalid");
    let cases = [
        invalid(LeaseRequest { max: 0, ..base.clone() }),
        invalid(LeaseRequest { max: LEASE_MESSAGES_MAX + 1, ..base.clone() }),
        invalid(LeaseRequest { wait_ms: LEASE_WAIT_MS_MAX + 1, ..base.clone() }),
        invalid(LeaseRequest { lease_ms: Some(0), ..base.clone() }),
        invalid(LeaseRequest { lease_ms: Some(settings.lease_ms_max + 1), ..base.clone() }),
        invalid(LeaseRequest { group: String::new(), ..base.clone() }),
        invalid(LeaseRequest { owner: String::new(), ..base.clone() }),
        (LeaseRequest { topic: TopicId(9), ..base.clone() }, "TopicUnknown"),
    ];
    let refusal = |rig: &mut Rig, request: LeaseRequest| {
        let ticket = rig.ask_lease(request);
        match rig.answer(ticket) {
            Some(Answer::Rejected(reject)) => format!("{reject:?}"),
            other => format!("{other:?}"),
        }
    };
    let before = rig.snapshot();
    for (request, expected) in cases {
        let text = format!("{request:?}");
        assert!(refusal(&mut rig, request).starts_with(expected), "{text}");
    }
    assert_eq!(rig.snapshot(), before, "a refusal changes nothing");
    for most in
        [LeaseRequest { max: LEASE_MESSAGES_MAX, ..base.clone() }, patient(topic, 1, LEASE_WAIT_MS_MAX)]
    {
        rig.ask_lease(most);
    }
    assert!(refusal(&mut rig, LeaseRequest { group: "h".into(), ..base.clone() }).starts_with("Limit"));
    rig.ask_lease(patient(topic, 1, 9));
    assert!(refusal(&mut rig, base).starts_with("Limit"), "two wait already");
}

#[test]
fn nobody_is_served_before_the_run_is_durable() {
    let (mut rig, topic) = rig();
    rig.produce_to(topic, &[0]);
    rig.reboot(rig.log.batches.len());
    let ticket = rig.ask_lease(patient(topic, 1, 500));
    assert_eq!(got(&mut rig, ticket), None);
    rig.sync();
    assert_eq!(got(&mut rig, ticket), Some(vec![0]));
}

/// A worker that polls again and again is not forgotten between two polls, nor is what came meanwhile.
#[test]
fn what_comes_between_two_requests_is_there_for_the_second() {
    for pause_ms in [0, 9_999, 10_000, 60_000] {
        let (mut rig, topic) = rig();
        assert_eq!(rig.lease_offsets(topic, 1), []);
        rig.advance(pause_ms);
        rig.produce_to(topic, &[0]);
        rig.produce(&Draft { priority: 5, ..Draft::to(topic) });
        rig.advance(pause_ms);
        assert_eq!(rig.lease_offsets(topic, 2), [1, 0], "after {pause_ms}");
    }
}

#[test]
fn a_group_that_goes_takes_those_who_wait_along() {
    let (mut rig, topic) = rig();
    let ticket = rig.ask_lease(patient(topic, 1, 500));
    assert_eq!(rig.delete_group(topic, "g"), Answer::Deleted);
    assert_eq!(rig.answer(ticket), Some(Answer::Rejected(Reject::GroupUnknown)));
    rig.advance(1000);
    assert_eq!(rig.answer(ticket), None);
}

/// Between two calls of a worker nothing of it is here, and still it reads.
#[test]
fn who_asked_a_moment_ago_is_a_member() {
    let (mut rig, topic) = rig();
    let members = |rig: &mut Rig| -> Vec<String> {
        let group = rig.group_described(topic, "g").expect("it was created by the first request");
        group.members.iter().map(|member| member.owner.to_string()).collect()
    };
    let ask = |rig: &mut Rig, owner: &str| {
        let asked = LeaseRequest { owner: owner.into(), ..request(topic, 1) };
        assert_eq!(rig.lease_as(asked), []);
    };
    ask(&mut rig, "a");
    rig.advance(3_000);
    ask(&mut rig, "b");
    assert_eq!(members(&mut rig), ["a", "b"]);
    rig.advance(1_999);
    assert_eq!(members(&mut rig), ["a", "b"]);
    rig.advance(1);
    assert_eq!(members(&mut rig), ["b"], "five seconds without a word");
    // Waiting counts for as long as it lasts, and the rest begins at its end.
    let ticket = rig.ask_lease(patient(topic, 1, 30_000));
    rig.advance(30_000);
    assert_eq!(got(&mut rig, ticket), Some(vec![]));
    rig.advance(4_999);
    assert_eq!(members(&mut rig), ["o"]);
    // However many names there are, what is kept of them is bounded.
    for number in 0..1_500 {
        ask(&mut rig, &format!("w{number:04}"));
    }
    assert_eq!(members(&mut rig).len(), 1_000);
    rig.advance(5_000);
    ask(&mut rig, "last");
    assert_eq!(members(&mut rig), ["last"]);
}
