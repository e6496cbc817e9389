//! What holders of tokens may say, and when it is too late to say it.

use crate::support::deeds::at;
use crate::support::orders::{EXTEND, nack, nack_after, nack_dead, request, spotted};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::{
    Answer, Delivery, GroupId, Input, LeaseRequest, Outcome, Query, Receipt, RetryPolicy, Settings,
    Settlement, Token, TopicId, Verdict,
};

fn rig_with(drafts: impl Fn(TopicId) -> Vec<Draft>) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    for draft in drafts(topic) {
        rig.produce(&draft);
    }
    (rig, topic)
}

/// One message on loan.
fn held() -> (Rig, TopicId, Delivery) {
    let (mut rig, topic) = rig_with(|topic| vec![Draft::to(topic)]);
    let delivery = rig.lease(topic, 1).remove(0);
    (rig, topic, delivery)
}

fn verdicts() -> [Verdict; 5] {
    [Verdict::Ack, nack("no"), nack_dead("no"), EXTEND, Verdict::Release { delay_ms: 0 }]
}

fn extended(rig: &Rig, ms: u64) -> Outcome {
    Outcome::Extended { expires: rig.now.after_ms(ms), cancelled: false }
}

/// Nothing may change by what is said with this receipt, and every answer is the one expected.
fn nothing_by(rig: &mut Rig, receipt: Receipt, expected: Outcome) {
    for verdict in verdicts() {
        let (before, actions) = (rig.snapshot(), rig.actions.len());
        let text = format!("{verdict:?}");
        assert_eq!(rig.settle_many(vec![Settlement { receipt, verdict }]), [expected], "{text}");
        assert!(rig.snapshot() == before && rig.actions.len() == actions, "{text} changed something");
    }
}

#[test]
fn every_item_has_its_own_answer() {
    let (mut rig, topic) = rig_with(|topic| vec![Draft::to(topic); 5]);
    let leased = rig.lease(topic, 5);
    let stranger = Receipt { offset: 99, ..leased[3].receipt };
    let items =
        verdicts().into_iter().zip(&leased).map(|(verdict, d)| Settlement { receipt: d.receipt, verdict });
    let items = items.chain([Settlement { receipt: stranger, verdict: Verdict::Ack }]).collect();
    let expected =
        [Outcome::Ok, Outcome::Ok, Outcome::Buried, extended(&rig, LEASE_MS), Outcome::Ok, Outcome::Unknown];
    assert_eq!(rig.settle_many(items), expected);
    assert_eq!(rig.lag(topic, "g"), 4, "one is acked, one died and waits for its burial");
    assert_eq!(rig.in_flight(topic), 1, "one is extended");
    rig.advance(0);
    let again = rig.lease(topic, 9);
    let attempts: Vec<_> = again.iter().map(|d| (d.receipt.offset, d.attempt)).collect();
    assert_eq!(attempts, [(1, 2), (4, 1)], "one failed, one was given back");
}

#[test]
fn an_answer_waits_until_what_it_says_is_durable() {
    let (mut rig, _, delivery) = held();
    let items = vec![Settlement { receipt: delivery.receipt, verdict: Verdict::Ack }];
    let tickets = [0, 1].map(|_| rig.ask(|ticket| Input::Settle { ticket, items: items.clone() }));
    assert_eq!(tickets.map(|ticket| rig.answer(ticket)), [None, None], "the second rests on the first");
    rig.sync();
    let ok = Some(Answer::Settlements(vec![Outcome::Ok]));
    assert_eq!(tickets.map(|ticket| rig.answer(ticket)), [ok.clone(), ok]);
}

#[test]
fn a_token_is_stale_once_a_newer_attempt_began() {
    let (mut rig, topic, old) = held();
    rig.advance(LEASE_MS);
    let new = rig.lease(topic, 1).remove(0);
    assert_eq!(new.attempt, 2);
    nothing_by(&mut rig, old.receipt, Outcome::Stale { attempt: Some(2) });
    assert_eq!(rig.ack_token(&new), Outcome::Ok);
    nothing_by(&mut rig, old.receipt, Outcome::Stale { attempt: None });
}

#[test]
fn a_heartbeat_without_a_length_is_as_long_as_the_loan() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    for length in [LEASE_MS / 10, LEASE_MS * 10] {
        rig.produce_to(topic, &[0]);
        let held = rig.lease_as(LeaseRequest { lease_ms: Some(length), ..request(topic, 1) }).remove(0);
        rig.advance(length / 2);
        // Whatever another heartbeat asked for: that was for once.
        rig.settle(&held, Verdict::Extend { lease_ms: Some(7), begun: true });
        assert_eq!(
            rig.settle(&held, Verdict::Extend { lease_ms: None, begun: true }),
            extended(&rig, length)
        );
        assert_eq!(rig.ack_token(&held), Outcome::Ok);
    }
}

#[test]
fn a_token_that_was_given_back_is_stale() {
    let (mut rig, topic, old) = held();
    assert_eq!(rig.settle(&old, Verdict::Release { delay_ms: 0 }), Outcome::Ok);
    nothing_by(&mut rig, old.receipt, Outcome::Stale { attempt: None });
    let zero = Receipt { token: Token::default(), ..old.receipt };
    nothing_by(&mut rig, zero, Outcome::Stale { attempt: None });
    // Given back after a failure: it is pending, and nobody's.
    let first = rig.lease(topic, 1).remove(0);
    rig.settle(&first, nack("no"));
    rig.advance(0);
    let second = rig.lease(topic, 1).remove(0);
    rig.settle(&second, Verdict::Release { delay_ms: 0 });
    nothing_by(&mut rig, zero, Outcome::Stale { attempt: Some(1) });
    nothing_by(&mut rig, second.receipt, Outcome::Stale { attempt: Some(1) });
}

#[test]
fn who_was_slow_but_not_too_slow_may_still_say_how_it_went() {
    let (mut rig, topic, slow) = held();
    rig.advance(LEASE_MS * 3);
    assert_eq!(rig.in_flight(topic), 0, "the lease has lapsed");
    assert_eq!(rig.ack_token(&slow), Outcome::Ok);
    assert_eq!((rig.lag(topic, "g"), rig.lease_offsets(topic, 1)), (0, vec![]));

    let (mut rig, topic, slow) = held();
    rig.advance(LEASE_MS * 3);
    assert_eq!(rig.settle(&slow, EXTEND), extended(&rig, LEASE_MS));
    assert_eq!((rig.in_flight(topic), rig.lease_offsets(topic, 1)), (1, vec![]), "nobody else gets it");
    rig.advance(LEASE_MS - 1);
    assert_eq!(rig.in_flight(topic), 1);
    rig.advance(1);
    let next = rig.lease(topic, 1).remove(0);
    assert_eq!((next.receipt.offset, next.attempt), (0, 2), "an extended lease lapses, too");
}

#[test]
fn a_heartbeat_moves_the_end_of_the_lease() {
    let (mut rig, topic, delivery) = held();
    for _ in 0..5 {
        rig.advance(LEASE_MS - 1);
        assert_eq!(rig.settle(&delivery, EXTEND), extended(&rig, LEASE_MS));
    }
    assert_eq!((rig.in_flight(topic), rig.lease_offsets(topic, 1)), (1, vec![]));
    // It can become shorter, too.
    rig.settle(&delivery, Verdict::Extend { lease_ms: Some(5), begun: true });
    rig.advance(5);
    assert_eq!(rig.lease_offsets(topic, 1), [0]);
}

#[test]
fn an_ack_may_be_repeated_also_after_a_restart() {
    for percent in [0, 100] {
        let (mut rig, topic, delivery) = held();
        rig.snapshot_percent = percent;
        for round in 0..3 {
            let before = rig.snapshot();
            assert_eq!(rig.ack_token(&delivery), Outcome::Ok, "round {round}");
            assert_eq!(rig.snapshot() == before, round > 0, "only the first one changes something");
            if round == 1 {
                rig.crash();
            }
        }
        assert_eq!(rig.settle(&delivery, nack("no")), Outcome::Stale { attempt: None });
        assert_eq!(rig.topic_described(topic).partitions[0].messages, 0);
    }
}

#[test]
fn an_ack_that_was_lost_with_the_power_is_repeated() {
    let (mut rig, topic, delivery) = held();
    let items = vec![Settlement { receipt: delivery.receipt, verdict: Verdict::Ack }];
    rig.sync();
    rig.ask(|ticket| Input::Settle { ticket, items });
    rig.crash();
    assert_eq!(rig.lease_offsets(topic, 1), [], "it is on loan as before");
    assert_eq!((rig.ack_token(&delivery), rig.lag(topic, "g")), (Outcome::Ok, 0));
}

/// A lease that is in the log outlives the broker: until its own end its holder decides, and nobody else gets it.
#[test]
fn a_lease_outlives_the_broker() {
    for (percent, verdict) in verdicts().into_iter().flat_map(|v| [(0, v.clone()), (100, v)]) {
        let (mut rig, topic, delivery) = held();
        rig.snapshot_percent = percent;
        rig.sync();
        for _ in 0..3 {
            rig.advance(LEASE_MS / 4);
            rig.crash();
            assert_eq!(rig.lease(topic, 1), [], "nobody else gets it");
        }
        let expected = match &verdict {
            Verdict::Extend { .. } => extended(&rig, LEASE_MS),
            Verdict::Nack { dead: true, .. } => Outcome::Buried,
            _ => Outcome::Ok,
        };
        assert_eq!(rig.settle(&delivery, verdict.clone()), expected, "{verdict:?}");
    }
}

#[test]
fn a_lease_lapses_when_it_was_to_whatever_the_broker_did_meanwhile() {
    for percent in [0, 100] {
        let (mut rig, topic, delivery) = held();
        rig.snapshot_percent = percent;
        rig.sync();
        rig.advance(LEASE_MS - 1);
        rig.crash();
        assert_eq!(rig.lease(topic, 1), []);
        rig.advance(1);
        let again = rig.lease(topic, 1).remove(0);
        assert!(again.receipt.token.epoch > delivery.receipt.token.epoch);
        assert_eq!((again.attempt, &*again.last_error), (2, "ack_timeout"));
        nothing_by(&mut rig, delivery.receipt, Outcome::Stale { attempt: Some(2) });
        assert_eq!(rig.ack_token(&again), Outcome::Ok);
    }
}

/// A delivery that supersedes a holder is handed out when the log has it, so that no crash brings that holder back.
#[test]
fn a_superseded_holder_never_comes_back() {
    type End = fn(&mut Rig, &Delivery);
    let ends: [(&str, End); 4] = [
        ("lapse", |rig, _| rig.advance_unsynced(LEASE_MS)),
        ("nack", |rig, held| {
            rig.settle(held, nack("no"));
            rig.advance_unsynced(0);
        }),
        ("release", |rig, held| rig.release(&[held.receipt])),
        ("snooze", |rig, held| {
            rig.settle(held, Verdict::Release { delay_ms: 5 });
            rig.advance_unsynced(5);
        }),
    ];
    for (name, end) in ends {
        let (mut rig, topic, held) = held();
        rig.sync();
        end(&mut rig, &held);
        let ticket = rig.ask_lease(request(topic, 1));
        assert_eq!(rig.leased(ticket), None, "{name}: not before it is on the disk");
        rig.write();
        assert_eq!(rig.leased(ticket), None, "{name}: written is not synced");
        rig.sync();
        let next = rig.leased(ticket).expect("durable").remove(0);
        rig.crash();
        assert!(matches!(rig.ack_token(&held), Outcome::Stale { .. }), "{name}");
        assert_eq!(rig.ack_token(&next), Outcome::Ok, "{name}");
    }
}

/// A first delivery is not worth a sync: lost with the power, the message goes out again.
#[test]
fn a_first_delivery_leaves_at_once_and_is_at_worst_made_again() {
    let (mut rig, topic) = rig_with(|topic| vec![Draft::to(topic)]);
    rig.subscribe(topic, "g", "makes the group", 0);
    let lost = rig.lease(topic, 1).remove(0);
    assert!(!rig.is_urgent());
    rig.write();
    rig.crash();
    nothing_by(&mut rig, lost.receipt, Outcome::Stale { attempt: None });
    let again = rig.lease(topic, 1).remove(0);
    assert_eq!((again.attempt, rig.ack_token(&again)), (1, Outcome::Ok));
}

/// A holder that said that it failed has no other say, after a restart neither; nor is a message that it called dead
/// tried again.
#[test]
fn a_nack_is_a_nack_after_a_restart_too() {
    let (mut rig, topic, held) = held();
    rig.settle(&held, nack_after(LEASE_MS));
    rig.crash();
    assert_eq!(rig.ack_token(&held), Outcome::Stale { attempt: Some(1) });
    assert_eq!(rig.settle(&held, EXTEND), Outcome::Stale { attempt: Some(1) });
    rig.advance(LEASE_MS);
    let next = rig.lease(topic, 1).remove(0);
    rig.settle(&next, nack_dead("of no use"));
    rig.crash();
    assert_eq!(rig.lease(topic, 1), []);
    let burial = rig.fetches().remove(0);
    assert_eq!((&*burial.last_error, burial.reason.name()), ("of no use", "nacked_dead"));
}

#[test]
fn a_nack_says_when_the_next_attempt_is() {
    let day = 24 * 60 * 60 * 1000;
    for (delay_ms, restart) in [(0, false), (700, false), (3 * day, false), (700, true), (3 * day, true)] {
        let (mut rig, topic, delivery) = held();
        assert_eq!(rig.settle(&delivery, nack_after(delay_ms)), Outcome::Ok);
        if restart {
            rig.crash();
        }
        if delay_ms > 0 {
            rig.advance(delay_ms - 1);
            assert_eq!(rig.lease_offsets(topic, 1), [], "{delay_ms} {restart}");
            rig.advance(1);
        }
        rig.advance(0);
        assert_eq!(rig.lease_offsets(topic, 1), [0], "{delay_ms} {restart}");
    }
}

#[test]
fn a_repeated_nack_fails_one_attempt_only() {
    let (mut rig, topic, delivery) = held();
    for _ in 0..3 {
        assert_eq!(rig.settle(&delivery, nack_after(100)), Outcome::Ok);
        rig.advance(10);
    }
    assert_eq!(rig.standing(topic, 0, "g").history.len(), 1);
    rig.advance(70);
    assert_eq!(rig.lease(topic, 1)[0].attempt, 2, "the delay was not begun anew");
}

#[test]
fn a_nack_may_be_the_last_word() {
    let retry = Some(RetryPolicy { max_attempts: 9, ..RetryPolicy::default() });
    let (mut rig, topic) = rig_with(|topic| vec![Draft { retry, ..Draft::to(topic) }]);
    let first = rig.lease(topic, 1).remove(0);
    rig.settle(&first, nack("hm"));
    rig.advance(5);
    let second = rig.lease(topic, 1).remove(0);
    assert_eq!(rig.settle(&second, nack_dead("poison")), Outcome::Buried);
    let burial = rig.fetches().remove(0);
    assert_eq!((burial.reason.name(), &*burial.last_error, burial.attempts), ("nacked_dead", "poison", 2));
    let history: Vec<_> =
        burial.history.iter().map(|a| (a.number, a.owner.to_string(), a.error.to_string())).collect();
    assert_eq!(history, [(1, "o".into(), "hm".into()), (2, "o".to_owned(), "poison".to_owned())]);
    assert_eq!((burial.history[1].leased, burial.history[1].ended), (rig.now, rig.now));
    // While it dies: a repeated nack changes nothing, and neither a heartbeat nor a release brings it back.
    let before = rig.snapshot();
    assert_eq!(rig.settle(&second, nack_dead("poison")), Outcome::Buried);
    for verdict in [EXTEND, Verdict::Release { delay_ms: 0 }] {
        assert_eq!(rig.settle(&second, verdict), Outcome::Stale { attempt: Some(2) });
    }
    assert!(rig.snapshot() == before && rig.fetches().is_empty());
    rig.bury(&burial);
    rig.sync();
    assert_eq!(rig.settle(&second, nack_dead("poison")), Outcome::Buried, "also after the burial");
    assert_eq!(rig.ack_token(&second), Outcome::Stale { attempt: None });
    assert_eq!(rig.settle(&first, nack("hm")), Outcome::Stale { attempt: None });
    rig.crash();
    assert_eq!(rig.settle(&second, nack("poison")), Outcome::Buried, "also after a restart");
    assert_eq!(rig.lag(topic, "g"), 0);
}

#[test]
fn an_ack_comes_in_time_until_the_letter_is_written() {
    let (mut rig, topic) = rig_with(|topic| vec![Draft::to(topic).attempts(1)]);
    let delivery = rig.lease(topic, 1).remove(0);
    rig.advance(LEASE_MS);
    let burial = rig.fetches().remove(0);
    assert_eq!(rig.ack_token(&delivery), Outcome::Ok);
    rig.bury(&burial);
    assert_eq!(rig.shard.state().topics().count(), 1, "no letter was written");
    assert_eq!(rig.lag(topic, "g"), 0);
}

#[test]
fn the_holder_of_a_cancelled_message_learns_of_it_by_its_heartbeat() {
    let (mut rig, topic, delivery) = held();
    rig.cancel(spotted(topic, 0));
    let expires = rig.now.after_ms(LEASE_MS);
    assert_eq!(rig.settle(&delivery, EXTEND), Outcome::Extended { expires, cancelled: true });
    assert_eq!(rig.ack_token(&delivery), Outcome::Ok, "what is done is done");
}

#[test]
fn tokens_of_what_was_never_there_are_unknown() {
    let (mut rig, topic, delivery) = held();
    let receipt = delivery.receipt;
    let cases = [
        Receipt { topic: TopicId(9), ..receipt },
        Receipt { group: GroupId(9), ..receipt },
        Receipt { partition: 9, ..receipt },
        Receipt { offset: 9, ..receipt },
    ];
    for receipt in cases {
        nothing_by(&mut rig, receipt, Outcome::Unknown);
    }
    let forged = Receipt { token: Token { n: receipt.token.n + 1, ..receipt.token }, ..receipt };
    nothing_by(&mut rig, forged, Outcome::Stale { attempt: Some(1) });
    rig.delete_group(topic, "g");
    nothing_by(&mut rig, receipt, Outcome::Unknown);
    rig.delete_topic(topic);
    nothing_by(&mut rig, receipt, Outcome::Unknown);
}

#[test]
fn what_was_acked_by_name_is_stale_by_token() {
    let (mut rig, topic, delivery) = held();
    assert_eq!(rig.ack(&at(topic, 0), "o"), Answer::Settled);
    assert_eq!(rig.ack_token(&delivery), Outcome::Stale { attempt: None });
}

#[test]
fn whoever_said_that_it_failed_has_nothing_more_to_say() {
    let retry = RetryPolicy { max_attempts: 9, backoff_ms: 60_000, ..RetryPolicy::default() };
    let (mut rig, topic) = rig_with(|topic| vec![Draft { retry: Some(retry), ..Draft::to(topic) }]);
    let receipt = rig.lease(topic, 1).remove(0).receipt;
    assert_eq!(rig.settle_many(vec![Settlement { receipt, verdict: nack("no") }]), [Outcome::Ok]);
    // A heartbeat that was overtaken by the nack on the wire must not bring the lease back.
    for verdict in [EXTEND, Verdict::Ack, Verdict::Release { delay_ms: 0 }] {
        let before = rig.snapshot();
        let stale = Outcome::Stale { attempt: Some(1) };
        assert_eq!(rig.settle_many(vec![Settlement { receipt, verdict }]), [stale]);
        assert!(rig.snapshot() == before);
    }
    assert_eq!(rig.settle_many(vec![Settlement { receipt, verdict: nack("no") }]), [Outcome::Ok]);
}

#[test]
fn an_attempt_that_lapsed_and_was_then_given_up_is_one_attempt() {
    let (mut rig, topic, delivery) = held();
    rig.advance(LEASE_MS);
    let said = Settlement { receipt: delivery.receipt, verdict: nack_dead("hopeless") };
    assert_eq!(rig.settle_many(vec![said]), [Outcome::Buried]);
    let history = rig.fetches().remove(0).history;
    let shown: Vec<_> = history.iter().map(|attempt| (attempt.number, &*attempt.error)).collect();
    assert_eq!(shown, [(1, "hopeless")]);
    assert_eq!(rig.lag(topic, "g"), 1);
}

#[test]
fn what_a_group_owes_is_told_when_it_is_durable() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce_to(topic, &[0]);
    let held = rig.lease(topic, 1).remove(0);
    rig.ask(|ticket| Input::Settle {
        ticket,
        items: vec![Settlement { receipt: held.receipt, verdict: Verdict::Ack }],
    });
    let asked = rig.ask(|ticket| Input::Describe { ticket, query: Query::Group(topic, "g".into()) });
    assert_eq!(rig.answer(asked), None, "a crash could still take the ack back");
    rig.sync();
    assert!(matches!(rig.answer(asked), Some(Answer::Described(_))));
}
