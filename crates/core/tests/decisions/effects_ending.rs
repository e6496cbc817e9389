//! What time does to effects: lapses, late endings, people who find out, and forgetting.

use crate::support::ledger::{
    TTL_MS, eager, effect_identity, finishing, rejected, repeatable, resolving, wish,
};
use crate::support::{LEASE_MS, Rig};
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, BeginEffect, EffectAnswer, EffectFact, EffectInput, EffectList, EffectPart, Input, NewBlob,
    Reject, Settings, Time, Urge,
};

/// Records are swept this much after their time.
const SLACK_MS: u64 = 10_000;

fn rig() -> Rig {
    Rig::new(Settings::default())
}

fn ended(already: bool, epoch: u32, attempt: u32, expires: Time) -> Answer {
    Answer::EffectEnded { already, epoch, attempt, expires }
}

#[test]
fn what_may_have_happened_becomes_unknown_by_time_alone() {
    for percent in [0, 100] {
        for restart in [false, true] {
            let mut rig = rig();
            rig.snapshot_percent = percent;
            rig.executes(wish("held"));
            rig.executes(BeginEffect { attempts_max: Some(1), ..repeatable("used up") });
            rig.executes(BeginEffect { attempts_max: Some(2), ..repeatable("may run") });
            let mark = rig.write();
            if restart {
                rig.crash();
            }
            rig.advance(LEASE_MS - 1);
            assert_eq!(rig.status("held"), Status::InProgress);
            rig.advance(1);
            let at = rig.now;
            let lapsed: Vec<_> = rig.effect_facts_since(mark);
            let expected = [1, 2].map(|number| EffectFact::Lapsed { number, at });
            assert_eq!(lapsed, expected);
            for key in ["held", "used up"] {
                let view = rig.effect(key).expect("it never expires");
                assert_eq!((view.status, view.ended, view.expires), (Status::Unknown, Some(at), None));
                assert!(!view.live);
                for ask in [repeatable(key), eager(repeatable(key))] {
                    assert!(matches!(rig.begin(ask), EffectAnswer::Unknown(_)), "{key}");
                }
            }
            assert_eq!(rig.status("may run"), Status::InProgress);
            // Nobody forgets what may have happened.
            rig.advance(100 * TTL_MS);
            let tally = rig.tally().effects;
            assert_eq!((tally.records, tally.unknown, tally.in_progress), (2, 2, 0));
        }
    }
}

#[test]
fn somebody_who_comes_before_the_clock_ticks_sees_the_lapse_too() {
    let mut rig = rig();
    rig.executes(wish("k"));
    let mark = rig.write();
    rig.now = rig.now.after_ms(LEASE_MS);
    let EffectAnswer::Unknown(view) = rig.begin(wish("k")) else { panic!("it may have happened") };
    assert_eq!((view.status, view.ended), (Status::Unknown, Some(rig.now)));
    assert_eq!(rig.effect_facts_since(mark).len(), 1, "and it is written down");
    rig.advance(1);
    assert_eq!(rig.effect_facts_since(mark).len(), 1, "once");
}

/// An asker that brings a smaller cap along is told that nobody knows; then the record must say so, too.
#[test]
fn whoever_is_told_that_nobody_knows_finds_a_record_that_says_so() {
    let mut rig = rig();
    let capped = BeginEffect { attempts_max: Some(1), ..repeatable("k") };
    rig.executes(capped.clone());
    rig.advance(LEASE_MS);
    let EffectAnswer::Unknown(view) = rig.begin(capped) else { panic!("its attempts are used up") };
    assert_eq!((view.status, view.ended), (Status::Unknown, Some(rig.now)));
    assert!(matches!(rig.begin(repeatable("k")), EffectAnswer::Unknown(_)), "for everybody");
}

#[test]
fn a_late_finish_is_heard_as_long_as_nobody_took_over() {
    for (ask, lapsed) in [(wish("k"), Status::Unknown), (repeatable("k"), Status::InProgress)] {
        let mut rig = rig();
        let lease = rig.executes(ask);
        rig.advance(LEASE_MS * 3);
        assert_eq!(rig.status("k"), lapsed);
        let renewed = rig.renew(lease.receipt, Some(50));
        assert!(
            matches!(renewed, Answer::EffectRenewed { epoch: 1, .. }),
            "its holder is at it: {renewed:?}"
        );
        assert_eq!(rig.status("k"), Status::InProgress);
        rig.advance(50);
        assert_eq!(rig.status("k"), lapsed, "and lapses again");
        let remembered = rig.now.after_ms(TTL_MS);
        assert_eq!(rig.finish(lease, Status::Succeeded, "late"), ended(false, 1, 1, remembered));
        let EffectAnswer::Replay(view) = rig.begin(wish("k")) else { panic!("no replay") };
        assert_eq!(rig.outcome(&view), "late");
    }
}

#[test]
fn a_renewal_moves_the_end_of_the_lease_but_never_to_an_earlier_time() {
    for restart in [false, true] {
        let mut rig = rig();
        let lease = rig.executes(wish("k"));
        for _ in 0..3 {
            rig.advance(LEASE_MS - 1);
            rig.renew(lease.receipt, Some(LEASE_MS));
            if restart {
                rig.crash();
            }
        }
        assert_eq!(rig.status("k"), Status::InProgress);
        rig.renew(lease.receipt, Some(5));
        rig.advance(LEASE_MS - 1);
        assert_eq!(rig.status("k"), Status::InProgress);
        rig.advance(1);
        assert_eq!(rig.status("k"), Status::Unknown, "restart: {restart}");
    }
}

#[test]
fn people_find_out_what_nobody_runs() {
    let mut rig = rig();
    let resolve =
        |key: &str, seen| driftq_core::ResolveEffect { seen, ..resolving(key, Status::Succeeded, "found") };
    assert_eq!(rig.resolve(resolve("k", None)), rejected(Reject::EffectUnknown));
    let lease = rig.executes(wish("k"));
    assert_eq!(rig.resolve(resolve("k", None)), rejected(Reject::EffectRunning));
    rig.advance(LEASE_MS);
    assert_eq!(rig.resolve(resolve("k", Some(2))), rejected(Reject::EffectStale(Some(1))));
    let remembered = rig.now.after_ms(TTL_MS);
    assert_eq!(rig.resolve(resolve("k", Some(1))), ended(false, 2, 1, remembered));
    let before = rig.snapshot();
    assert_eq!(rig.resolve(resolve("k", Some(1))), ended(true, 2, 1, remembered), "the same again");
    let other = resolving("k", Status::FailedFinal, "found");
    assert_eq!(rig.resolve(other), rejected(Reject::EffectFinished), "what is over stays what it is");
    assert_eq!(rig.finish(lease, Status::Succeeded, "found"), rejected(Reject::EffectStale(Some(2))));
    assert!(rig.snapshot() == before);
    let EffectAnswer::Replay(view) = rig.begin(wish("k")) else { panic!("no replay") };
    assert_eq!((rig.outcome(&view), view.epoch, view.attempts), ("found".to_owned(), 2, 1));
    for status in [Status::InProgress, Status::Unknown] {
        let told = rig.resolve(resolving("k", status, "x"));
        assert!(matches!(told, Answer::Rejected(Reject::Invalid(_))), "{told:?}");
    }
    // The lapse was not noticed yet, and what failed before is found to have happened.
    rig.executes(repeatable("lapsed"));
    rig.advance(LEASE_MS);
    assert_eq!(rig.resolve(resolve("lapsed", None)), ended(false, 2, 1, rig.now.after_ms(TTL_MS)));
    let failed = rig.executes(wish("failed"));
    rig.finish(failed, Status::FailedRetryable, "no");
    assert_eq!(rig.resolve(resolve("failed", None)), ended(false, 2, 1, rig.now.after_ms(TTL_MS)));
    rig.advance(TTL_MS);
    assert_eq!(rig.resolve(resolve("failed", None)), rejected(Reject::EffectUnknown), "it is forgotten");
}

#[test]
fn a_person_may_let_it_run_once_more() {
    for percent in [0, 100] {
        let mut rig = rig();
        rig.snapshot_percent = percent;
        rig.executes(BeginEffect { attempts_max: Some(1), ..repeatable("k") });
        rig.advance(LEASE_MS);
        assert_eq!(rig.status("k"), Status::Unknown);
        rig.resolve(resolving("k", Status::FailedRetryable, "it did not happen"));
        rig.crash();
        let EffectAnswer::Retryable { left, .. } = rig.begin(repeatable("k")) else { panic!("not told") };
        assert_eq!(left, Some(1));
        let again = BeginEffect { urge: Urge::Reacquire, ..repeatable("k") };
        let lease = rig.executes(again);
        assert_eq!((lease.receipt.epoch, lease.attempt), (3, 2), "the resolver had an epoch of its own");
        // A cap that was not reached stays what it was.
        rig.finish(lease, Status::FailedRetryable, "no");
        rig.executes(BeginEffect { attempts_max: Some(9), ..eager(repeatable("k")) });
        rig.advance(LEASE_MS);
        rig.resolve(resolving("k", Status::FailedRetryable, "it did not happen"));
        assert_eq!(rig.effect("k").expect("known").attempts_max, Some(9));
    }
}

#[test]
fn an_outcome_is_remembered_from_its_end_on_and_then_the_key_is_free() {
    for percent in [0, 100] {
        let mut rig = rig();
        rig.snapshot_percent = percent;
        let old = rig.executes(wish("k"));
        rig.advance(LEASE_MS / 2);
        rig.finish(old, Status::Succeeded, "x");
        rig.advance(TTL_MS - 1);
        assert!(matches!(rig.begin(wish("k")), EffectAnswer::Replay(_)));
        rig.advance(1);
        assert_eq!(rig.effect("k"), None);
        let mark = rig.write();
        let new = rig.executes(wish("k"));
        assert_eq!((new.receipt.number, new.receipt.epoch, new.attempt), (2, 1, 1));
        assert_eq!(rig.effect_facts_since(mark).len(), 1, "the new one takes the old one's place");
        let stale = rig.finish(old, Status::Succeeded, "x");
        assert_eq!(stale, rejected(Reject::EffectStale(None)), "a token is never good for another record");
        rig.crash();
        assert_eq!(rig.tally().effects.records, 1);
    }
}

#[test]
fn records_are_swept_in_bounded_steps_until_no_byte_is_left() {
    for restart in [false, true] {
        let mut rig = rig();
        let leases: Vec<_> = (0..600).map(|n| rig.ask_begin(repeatable(&format!("done {n}")))).collect();
        rig.sync();
        for ticket in leases {
            let Some(Answer::Effect(EffectAnswer::Execute(lease))) = rig.answer(ticket) else { panic!() };
            let finish = finishing(lease.receipt, Status::Succeeded, "x");
            rig.ask(|ticket| Input::Effect(EffectInput::Finish { ticket, finish }));
        }
        rig.sync();
        rig.executes(wish("unknown"));
        rig.executes(repeatable("lapsed"));
        let live = rig.executes(repeatable("live"));
        rig.renew(live.receipt, Some(10 * TTL_MS));
        assert!(!rig.shard.state().live_bytes().is_empty());
        let mark = rig.write();
        rig.advance(TTL_MS - 1);
        if restart {
            rig.crash();
        }
        rig.advance(SLACK_MS);
        assert_eq!(rig.tally().effects.records, 603, "one sweep takes many");
        rig.advance(1 + LEASE_MS + SLACK_MS);
        let tally = rig.tally().effects;
        assert_eq!((tally.records, tally.unknown, tally.in_progress), (2, 1, 1), "restart: {restart}");
        let sweeps = rig.effect_facts_since(mark);
        let sizes = sweeps.iter().filter_map(|fact| match fact {
            EffectFact::Swept { numbers } => Some(numbers.len() / 8),
            _ => None,
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [256, 256, 89]);
        rig.finish(live, Status::Succeeded, "x");
        rig.resolve(resolving("unknown", Status::FailedFinal, "x"));
        rig.advance(TTL_MS + SLACK_MS);
        assert_eq!(rig.tally().effects.records, 0);
        assert!(rig.shard.state().live_bytes().is_empty(), "no byte is kept for nobody");
    }
}

#[test]
fn lists_show_what_counts_and_where_to_go_on() {
    let mut rig = rig();
    for key in ["a", "b", "c", "d"] {
        let scope = u32::from(key == "c");
        rig.executes(BeginEffect { scope, tenant: 5, ..wish(key) });
    }
    let lease = driftq_core::EffectReceipt { number: 2, epoch: 1 };
    rig.try_finish(finishing(lease, Status::Succeeded, "x"));
    let list = |rig: &mut Rig, list: EffectList| {
        let page = rig.effects(list);
        (page.effects.iter().map(|view| view.number).collect::<Vec<_>>(), page.next)
    };
    let all = EffectList { limit: 9, ..EffectList::default() };
    assert_eq!(list(&mut rig, all), (vec![1, 2, 3, 4], None));
    assert_eq!(list(&mut rig, EffectList { limit: 2, ..all }), (vec![1, 2], Some(2)));
    assert_eq!(list(&mut rig, EffectList { limit: 2, after: 2, ..all }), (vec![3, 4], None));
    assert_eq!(list(&mut rig, EffectList { scope: Some(1), ..all }), (vec![3], None));
    assert_eq!(list(&mut rig, EffectList { tenant: Some(4), ..all }), (vec![], None));
    let running = EffectList { status: Some(Status::InProgress), ..all };
    assert_eq!(list(&mut rig, running), (vec![1, 3, 4], None));
    assert_eq!(list(&mut rig, EffectList { limit: 1, after: 1, ..running }), (vec![3], Some(3)));
    assert_eq!(list(&mut rig, EffectList { status: Some(Status::Succeeded), ..all }), (vec![2], None));
    rig.advance(LEASE_MS);
    assert_eq!(list(&mut rig, running), (vec![], None));
    let unknown = EffectList { status: Some(Status::Unknown), ..all };
    assert_eq!(list(&mut rig, unknown), (vec![1, 3, 4], None));
    rig.advance(TTL_MS);
    assert_eq!(list(&mut rig, all), (vec![1, 3, 4], None), "what is forgotten is not shown");
    assert_eq!(rig.effect("b"), None);
    assert!(rig.effect("a").is_some_and(|view| view.number == 1 && view.begun == view.created));
    assert_ne!(effect_identity("a"), effect_identity("b"));
}

#[test]
fn bytes_of_an_effect_move_if_they_lie_where_they_were_read() {
    let mut rig = rig();
    let lease = rig.executes(repeatable("k"));
    rig.finish(lease, Status::Succeeded, "outcome");
    // Into another segment, so that the old one is free afterwards.
    let old_segments: Vec<u32> = rig.shard.state().live_bytes().keys().copied().collect();
    while rig.log.base.segment() <= old_segments[0] {
        rig.advance(1);
        rig.topic(&format!("t{}", rig.now.0), 1);
    }
    for part in [EffectPart::About, EffectPart::Ending] {
        let pieces = rig.shard.state().effects_pinned_in(old_segments[0], 9);
        let piece = pieces.into_iter().find(|piece| piece.part == part).expect("it lies there");
        let bytes = rig.log.read(piece.blob.position, piece.blob.length).expect("readable").to_vec();
        let (number, from) = (piece.number, piece.blob.position);
        let copy = NewBlob { bytes, check: piece.blob.check };
        let relocate = |rig: &mut Rig, number, from, copy: &NewBlob| {
            let mark = rig.write();
            rig.tell(Input::Effect(EffectInput::Relocate { number, part, from, copy: copy.clone() }));
            rig.effect_facts_since(mark).len()
        };
        assert_eq!(relocate(&mut rig, 9, from, &copy), 0, "no such effect");
        assert_eq!(relocate(&mut rig, number, from.plus(1), &copy), 0, "another place");
        let forged = NewBlob { check: copy.check ^ 1, ..copy.clone() };
        assert_eq!(relocate(&mut rig, number, from, &forged), 0, "another text");
        let longer = NewBlob { bytes: [&copy.bytes[..], b"x"].concat(), ..copy.clone() };
        assert_eq!(relocate(&mut rig, number, from, &longer), 0, "another length");
        rig.tell(Input::Space { roomy: false });
        assert_eq!(relocate(&mut rig, number, from, &copy), 0, "a full disk");
        rig.tell(Input::Space { roomy: true });
        assert_eq!(relocate(&mut rig, number, from, &copy), 1);
        assert_eq!(relocate(&mut rig, number, from, &copy), 0, "once");
    }
    rig.sync();
    assert!(!rig.shard.state().live_bytes().contains_key(&old_segments[0]), "the segment is free");
    rig.crash();
    let EffectAnswer::Replay(view) = rig.begin(wish("k")) else { panic!("no replay") };
    assert_eq!(rig.outcome(&view), "outcome");
    rig.advance(TTL_MS + SLACK_MS);
    assert!(rig.shard.state().live_bytes().is_empty());
}
