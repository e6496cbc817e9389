//! Effects that are tied to a delivery: kept alive by it, and fenced off with it.

use crate::support::deeds::at;
use crate::support::ledger::{TTL_MS, rejected, repeatable, tied, wish};
use crate::support::orders::{EXTEND, nack, nack_dead, spotted};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, BeginEffect, Delivery, EffectAnswer, EffectLease, GroupId, Outcome, Receipt, Reject, Settings,
    Token, TopicId, Verdict,
};

/// One message on loan, and an effect begun on its behalf whose own lease is `lease_ms` long.
fn tied_rig(ask: BeginEffect, lease_ms: u64) -> (Rig, TopicId, Delivery, EffectLease) {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic));
    let delivery = rig.lease(topic, 1).remove(0);
    let lease = rig.executes(BeginEffect { lease_ms: Some(lease_ms), ..tied(ask, &delivery) });
    (rig, topic, delivery, lease)
}

#[test]
fn a_delivery_on_loan_keeps_its_effect_alive() {
    let (mut rig, _, delivery, lease) = tied_rig(wish("k"), LEASE_MS / 2);
    assert_eq!(lease.expires, rig.now.after_ms(LEASE_MS / 2));
    let view = rig.effect("k").expect("known");
    assert_eq!((view.live, view.until), (true, rig.now.after_ms(LEASE_MS)), "as long as the delivery");
    assert_eq!(view.message, Some(("t".into(), 0, 0)));
    for _ in 0..5 {
        rig.advance(LEASE_MS - 1);
        rig.settle(&delivery, EXTEND);
        let running = EffectAnswer::Running { epoch: 1, attempt: 1, retry_after_ms: LEASE_MS };
        assert_eq!(rig.begin(wish("k")), running);
    }
    rig.advance(LEASE_MS - 1);
    assert_eq!(rig.status("k"), Status::InProgress);
    rig.advance(1);
    assert_eq!(rig.status("k"), Status::Unknown, "it lapses at the very moment when the delivery does");
}

#[test]
fn the_longer_of_the_two_leases_counts() {
    let (mut rig, _, _, lease) = tied_rig(wish("k"), LEASE_MS * 3);
    rig.advance(LEASE_MS * 3 - 1);
    assert_eq!(rig.status("k"), Status::InProgress, "nobody else has the message");
    rig.renew(lease.receipt, Some(LEASE_MS));
    rig.advance(LEASE_MS - 1);
    assert_eq!(rig.status("k"), Status::InProgress);
    rig.advance(1);
    assert_eq!(rig.status("k"), Status::Unknown);
}

/// How a delivery can end, and whether its holder may still say how its effect went.
#[test]
fn every_end_of_a_delivery_says_whether_its_effect_is_fenced_off() {
    type End = fn(&mut Rig, TopicId, &Delivery);
    let again: End = |rig, topic, _| {
        rig.advance(LEASE_MS);
        assert_eq!(rig.lease(topic, 1)[0].attempt, 2);
    };
    let bury: End = |rig, _, delivery| {
        rig.settle(delivery, nack_dead("poison"));
        let burial = rig.fetches().remove(0);
        rig.bury(&burial);
        rig.sync();
    };
    let restart: End = |rig, topic, _| {
        rig.crash();
        assert_eq!(rig.lease(topic, 1), [], "it is on loan as before");
    };
    let restart_and_again: End = |rig, topic, _| {
        rig.crash();
        rig.advance(LEASE_MS);
        assert_eq!(rig.lease(topic, 1)[0].attempt, 2);
    };
    let ends: [(&str, End, bool); 14] = [
        ("still on loan", |_, _, _| (), false),
        ("lapsed, and nobody else has it", |rig, _, _| rig.advance(LEASE_MS), false),
        (
            "acked",
            |rig, _, delivery| {
                rig.settle(delivery, Verdict::Ack);
            },
            false,
        ),
        (
            "nacked, and nobody else has it",
            |rig, _, delivery| {
                rig.settle(delivery, nack("no"));
            },
            false,
        ),
        (
            "dying, and not buried yet",
            |rig, _, d| {
                rig.settle(d, nack_dead("no"));
            },
            false,
        ),
        ("of an older run of the broker", restart, false),
        ("taken by a newer attempt", again, true),
        ("of an older run, and taken by a newer attempt", restart_and_again, true),
        (
            "given back",
            |rig, _, delivery| {
                rig.settle(delivery, Verdict::Release { delay_ms: 0 });
            },
            true,
        ),
        ("buried", bury, true),
        ("acked by name", |rig, topic, _| drop(rig.ack(&at(topic, 0), "o")), true),
        (
            "removed",
            |rig, topic, _| {
                rig.remove(vec![spotted(topic, 0)]);
            },
            true,
        ),
        ("without a group", |rig, topic, _| drop(rig.delete_group(topic, "g")), true),
        ("without a topic", |rig, topic, _| drop(rig.delete_topic(topic)), true),
    ];
    for (name, end, fenced) in ends {
        for ask in [wish("k"), repeatable("k")] {
            let (mut rig, topic, delivery, lease) = tied_rig(ask.clone(), LEASE_MS * 9);
            end(&mut rig, topic, &delivery);
            assert_eq!(rig.effect("k").expect("known").live, !fenced, "{name}");
            let before = rig.snapshot();
            let renewed = rig.renew(lease.receipt, Some(LEASE_MS * 9));
            let finished = rig.finish(lease, Status::Succeeded, "x");
            if fenced {
                let stale = rejected(Reject::EffectFenced);
                assert_eq!((renewed, finished), (stale.clone(), stale), "{name}");
                assert!(rig.snapshot() == before, "{name}");
                let told = rig.begin(BeginEffect { delivery: None, ..ask.clone() });
                let holds = ask.on_lapse == wish("k").on_lapse;
                assert_eq!(matches!(told, EffectAnswer::Unknown(_)), holds, "{name}: {told:?}");
                let takes = matches!(told, EffectAnswer::Execute(lease) if lease.receipt.epoch == 2);
                assert_eq!(takes, !holds, "{name}: {told:?}");
                let late = rig.finish(lease, Status::Succeeded, "x");
                let why = if holds { Reject::EffectFenced } else { Reject::EffectStale(Some(2)) };
                assert_eq!(late, rejected(why), "{name}");
            } else {
                assert!(matches!(renewed, Answer::EffectRenewed { .. }), "{name}: {renewed:?}");
                assert!(matches!(finished, Answer::EffectEnded { .. }), "{name}: {finished:?}");
                assert!(matches!(rig.begin(ask), EffectAnswer::Replay(_)), "{name}");
            }
        }
    }
}

/// A restart of the broker changes nothing for an effect and the delivery that it is tied to.
#[test]
fn a_restart_changes_nothing_for_a_tied_effect() {
    for percent in [0, 100] {
        let (mut rig, topic, delivery, lease) = tied_rig(wish("k"), LEASE_MS * 3);
        rig.snapshot_percent = percent;
        rig.advance(LEASE_MS / 2);
        rig.crash();
        assert_eq!(rig.lease(topic, 1), [], "it is on loan as before");
        assert_eq!(
            rig.settle(&delivery, EXTEND),
            Outcome::Extended { expires: rig.now.after_ms(LEASE_MS), cancelled: false }
        );
        rig.advance(LEASE_MS * 5 / 2 - 1);
        assert_eq!(rig.status("k"), Status::InProgress);
        // The newer attempt ends the effect of the one before, whose holder has no say any more.
        let next = rig.lease(topic, 1).remove(0);
        assert_eq!((next.attempt, rig.status("k")), (2, Status::Unknown));
        let told = rig.finish(lease, Status::Succeeded, "late");
        assert_eq!(told, rejected(Reject::EffectFenced));
    }
}

#[test]
fn the_next_attempt_takes_over_and_is_tied_to_its_own_delivery() {
    let (mut rig, topic, first, old) = tied_rig(repeatable("k"), LEASE_MS * 9);
    rig.advance(LEASE_MS);
    let second = rig.lease(topic, 1).remove(0);
    let mark = rig.write();
    let new = rig.executes(tied(repeatable("k"), &second));
    assert_eq!((new.receipt.number, new.receipt.epoch, new.attempt), (old.receipt.number, 2, 2));
    let facts = rig.effect_facts_since(mark);
    assert!(matches!(facts[..], [driftq_core::EffectFact::Taken { lent, .. }]
        if lent.tie == Some(second.receipt)));
    assert_eq!(rig.finish(old, Status::Succeeded, "x"), rejected(Reject::EffectStale(Some(2))));
    let told = rig.begin(tied(repeatable("k"), &first));
    assert!(matches!(told, EffectAnswer::Running { epoch: 2, .. }), "it may look, not take: {told:?}");
    rig.settle(&second, Verdict::Extend { lease_ms: Some(LEASE_MS * 5), begun: true });
    rig.advance(LEASE_MS * 5 - 1);
    assert!(matches!(rig.begin(repeatable("k")), EffectAnswer::Running { .. }), "it lives with the second");
    assert!(matches!(rig.finish(new, Status::Succeeded, "x"), Answer::EffectEnded { .. }));
}

#[test]
fn only_the_current_holder_of_a_delivery_may_begin_on_its_behalf() {
    let (mut rig, topic, delivery, _) = tied_rig(wish("other"), LEASE_MS);
    let receipt = delivery.receipt;
    let begin = |rig: &mut Rig, receipt| {
        let before = rig.snapshot();
        let told = rig.try_begin(BeginEffect { delivery: Some(receipt), ..wish("k") });
        assert!(rig.snapshot() == before, "{told:?} changed something");
        told
    };
    for receipt in [
        Receipt { topic: TopicId(9), ..receipt },
        Receipt { group: GroupId(9), ..receipt },
        Receipt { partition: 9, ..receipt },
        Receipt { offset: 9, ..receipt },
    ] {
        assert_eq!(begin(&mut rig, receipt), rejected(Reject::LeaseUnknown), "{receipt:?}");
    }
    let forged = Receipt { token: Token { n: receipt.token.n + 1, ..receipt.token }, ..receipt };
    assert_eq!(begin(&mut rig, forged), rejected(Reject::LeaseStale(Some(1))));
    rig.settle(&delivery, nack("no"));
    assert_eq!(begin(&mut rig, receipt), rejected(Reject::LeaseStale(Some(1))), "it said that it failed");
    rig.advance(LEASE_MS);
    let second = rig.lease(topic, 1).remove(0);
    assert_eq!(begin(&mut rig, receipt), rejected(Reject::LeaseStale(Some(2))));
    rig.ack_token(&second);
    assert_eq!(begin(&mut rig, second.receipt), rejected(Reject::LeaseStale(None)), "it is acked");
    assert_eq!(begin(&mut rig, receipt), rejected(Reject::LeaseStale(None)));
}

/// A heartbeat may keep an effect alive for longer than its own lease and its record's time together.
#[test]
fn a_record_is_never_swept_while_its_delivery_is_on_loan() {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic));
    let delivery = rig.lease(topic, 1).remove(0);
    let ask = BeginEffect { lease_ms: Some(1), ttl_ms: Some(1), ..tied(repeatable("k"), &delivery) };
    let lease = rig.executes(ask.clone());
    // Something else is swept meanwhile.
    let brief = rig.executes(BeginEffect { ttl_ms: Some(1), ..repeatable("brief") });
    rig.finish(brief, Status::Succeeded, "x");
    for _ in 0..200 {
        rig.advance(LEASE_MS - 1);
        rig.settle(&delivery, EXTEND);
    }
    assert_eq!(rig.tally().effects.records, 1);
    assert!(matches!(rig.begin(ask), EffectAnswer::Running { epoch: 1, attempt: 1, .. }));
    assert!(matches!(rig.finish(lease, Status::Succeeded, "x"), Answer::EffectEnded { .. }));
    rig.ack_token(&delivery);
    rig.advance(TTL_MS);
    assert_eq!(rig.tally().effects.records, 0);
}

/// Nobody has to ask: a newer delivery is the end of what the one before began.
#[test]
fn a_newer_attempt_ends_the_effects_of_the_one_before_at_once() {
    let policies = [(wish("k"), Status::Unknown), (repeatable("k"), Status::InProgress)];
    let ends = [nack("no"), Verdict::Release { delay_ms: 0 }];
    for ((ask, told), end) in policies.iter().flat_map(|policy| ends.iter().map(move |end| (policy, end))) {
        let (mut rig, topic, delivery, _) = tied_rig(ask.clone(), LEASE_MS * 9);
        let waiter = rig.ask_begin(BeginEffect { wait_ms: 30_000, ..ask.clone() });
        rig.settle(&delivery, end.clone());
        assert_eq!((rig.status("k"), rig.answer(waiter)), (Status::InProgress, None));
        rig.advance(LEASE_MS);
        rig.lease(topic, 1);
        assert_eq!(rig.status("k"), *told);
        rig.write();
        rig.sync();
        let answer = rig.answer(waiter).expect("it does not wait for a lease that is over");
        let taken =
            matches!(&answer, Answer::Effect(EffectAnswer::Execute(lease)) if lease.receipt.epoch == 2);
        let unknown = matches!(answer, Answer::Effect(EffectAnswer::Unknown(_)));
        assert_eq!((unknown, taken), (*told == Status::Unknown, *told == Status::InProgress), "{answer:?}");
    }
}
