//! Runs: what belongs together, and how each part of it went.

use crate::support::ledger::{appended, finishing, output, repeatable, tied};
use crate::support::orders::{nack, nack_after, nack_dead, request, spotted};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::ledger::Status;
use driftq_core::{
    BeginEffect, Commit, Delivery, DeliveryFact, Fact, How, Input, NewLineage, OutputInput, RunEntry,
    RunFact, RunGroup, RunMessage, RunOutput, RunState, SeekTo, Settings, TopicId, Verdict, Wait,
};

/// One message of run `run` on loan to group `g`.
fn one_step(settings: Settings) -> (Rig, TopicId, Delivery) {
    let mut rig = Rig::new(settings);
    let topic = rig.topic("t", 1);
    rig.produce_in_run(&Draft::to(topic), "run", "step");
    let delivery = rig.lease(topic, 1).remove(0);
    (rig, topic, delivery)
}

/// The messages of a run.
fn messages(rig: &mut Rig, run: &str) -> Vec<RunMessage> {
    let page = rig.run_page(run, 0, 9999).expect("there is such a run");
    let messages = page.entries.into_iter().filter_map(|entry| match entry {
        RunEntry::Message(message) => Some(message),
        RunEntry::Effect { .. } => None,
    });
    messages.collect()
}

/// How each group stands to the only message of a run.
fn groups(rig: &mut Rig, run: &str) -> Vec<RunGroup> {
    let mut messages = messages(rig, run);
    assert_eq!(messages.len(), 1);
    messages.remove(0).groups
}

fn states(rig: &mut Rig, run: &str) -> Vec<(String, RunState)> {
    groups(rig, run).into_iter().map(|group| (group.group.to_string(), group.state)).collect()
}

/// Messages, open ones, effects, dead letters and what is not listed.
fn numbers(rig: &mut Rig, run: &str) -> [u64; 5] {
    let summary = rig.run_page(run, 0, 0).expect("there is such a run").summary;
    [summary.messages, summary.open, summary.effects, summary.dead, summary.unlisted]
}

#[test]
fn a_message_brings_its_run_along() {
    for percent in [0, 100] {
        let mut rig = Rig::new(Settings::default());
        rig.snapshot_percent = percent;
        let topic = rig.topic("t", 2);
        let start = rig.now;
        let lineage = |parent: &str| NewLineage {
            tenant: String::new(),
            run: "run".into(),
            step: "s".into(),
            parent: parent.into(),
        };
        for (parent, partition) in [("", 0), ("s", 1)] {
            rig.advance(1);
            let message = driftq_core::NewMessage {
                lineage: Some(Box::new(lineage(parent))),
                ..Draft::to(topic).partition(partition).message()
            };
            rig.ask_durably(|ticket| Input::Produce { ticket, message });
        }
        rig.produce(&Draft::to(topic));
        rig.crash();
        let shown: Vec<_> = messages(&mut rig, "run")
            .into_iter()
            .map(|m| (m.topic.to_string(), m.partition, m.offset, m.at, m.step, m.parent))
            .collect();
        let line = |partition, offset, at, parent: &str| {
            ("t".to_owned(), partition, offset, start.after_ms(at), "s".to_owned(), parent.to_owned())
        };
        assert_eq!(shown, [line(0, 0, 1, ""), line(1, 1, 2, "s")]);
        let summary = rig.run_page("run", 0, 1).expect("there").summary;
        assert_eq!((summary.started, summary.touched), (start.after_ms(1), start.after_ms(2)));
        assert_eq!(numbers(&mut rig, "run"), [2, 2, 0, 0, 0]);
        assert_eq!((rig.run_page("other", 0, 9), rig.tally().runs), (None, 1));
        let seen = &messages(&mut rig, "run")[0].groups[0];
        assert_eq!((&*seen.group, seen.state), ("", RunState::Waiting), "no group has seen it");
    }
}

#[test]
fn a_step_is_shown_as_it_goes_and_afterwards() {
    for percent in [0, 100] {
        let (mut rig, topic, first) = one_step(Settings::default());
        rig.snapshot_percent = percent;
        let begun = rig.now;
        let one = |state| vec![("g".to_owned(), state)];
        assert_eq!(states(&mut rig, "run"), one(RunState::Running));
        rig.advance(10);
        rig.settle(&first, nack("broken"));
        assert_eq!(states(&mut rig, "run"), one(RunState::Retrying));
        rig.advance(10);
        let second = rig.lease(topic, 1).remove(0);
        rig.advance(5);
        rig.ack_token(&second);
        rig.crash();
        let done = groups(&mut rig, "run").remove(0);
        assert_eq!((done.state, done.attempts), (RunState::Ended(How::Done), 2));
        assert_eq!((done.first_leased, done.ended), (Some(begun), Some(rig.now)));
        let history: Vec<_> = done.history.iter().map(|a| (a.number, &*a.owner, &*a.error)).collect();
        assert_eq!(history, [(1, "o", "broken")]);
        assert_eq!(numbers(&mut rig, "run"), [1, 0, 0, 0, 0]);
        assert_eq!(rig.run_page("run", 0, 0).expect("there").summary.touched, rig.now);
    }
}

#[test]
fn a_step_tells_who_has_it_and_what_it_waits_for() {
    let (mut rig, topic, first) = one_step(Settings::default());
    let begun = rig.now;
    rig.advance(10);
    let group = groups(&mut rig, "run").remove(0);
    assert_eq!((group.owner.as_deref(), group.leased), (Some("o"), Some(begun)));
    assert_eq!(group.wait, Some((Wait::InFlight, begun, Some(begun.after_ms(LEASE_MS)))));
    rig.settle(&first, nack_after(100));
    let group = groups(&mut rig, "run").remove(0);
    assert_eq!((group.owner, group.leased), (None, Some(begun)));
    assert_eq!(group.wait, Some((Wait::Backoff, rig.now, Some(rig.now.after_ms(100)))));
    rig.advance(100);
    let second = rig.lease(topic, 1).remove(0);
    let again = rig.now;
    rig.advance(5);
    rig.ack_token(&second);
    let group = groups(&mut rig, "run").remove(0);
    assert_eq!((group.wait, group.leased, group.first_leased), (None, Some(again), Some(begun)));
}

#[test]
fn a_step_lists_the_outputs_that_are_still_its_own() {
    for percent in [0, 100] {
        let (mut rig, topic, first) = one_step(Settings::default());
        rig.snapshot_percent = percent;
        rig.produce_in_run(&Draft::to(topic), "run", "other");
        let second = rig.lease(topic, 1).remove(0);
        let put = |rig: &mut Rig, by: &Delivery, outputs| {
            rig.commit(Commit { fences: vec![by.receipt], outputs, ..Commit::default() });
        };
        let shown = |rig: &mut Rig| -> Vec<Vec<String>> {
            rig.crash();
            let name = |output: &RunOutput| format!("{} {}", output.version, output.partition_key);
            messages(rig, "run").iter().map(|message| message.outputs.iter().map(name).collect()).collect()
        };
        put(
            &mut rig,
            &first,
            vec![output("v1", "p", "x"), output("v2", "p", "x"), appended("v2", "q", "a", "x")],
        );
        assert_eq!(shown(&mut rig), [vec!["v1 p", "v2 p", "v2 q"], vec![]]);
        put(&mut rig, &second, vec![output("v1", "p", "y"), appended("v2", "q", "b", "y")]);
        assert_eq!(shown(&mut rig), [vec!["v2 p", "v2 q"], vec!["v1 p", "v2 q"]]);
        let at = messages(&mut rig, "run")[1].outputs[0].at;
        assert_eq!(at, rig.now, "when it was committed");
        let (dataset, version) = ("d".into(), "v2".to_owned());
        rig.ask_durably(|ticket| Input::Output(OutputInput::Drop { ticket, dataset, version }));
        assert_eq!(shown(&mut rig), [vec![], vec!["v1 p".to_owned()]]);
    }
}

/// How groups stand to a message, by their names.
type States = Vec<(String, RunState)>;

/// Every way in which a message can leave: how its run shows it, and nothing of it stays open.
#[test]
fn a_step_is_closed_however_its_message_leaves() {
    type Leave = fn(&mut Rig, TopicId, &Delivery);
    let bury: Leave = |rig, _, delivery| {
        rig.settle(delivery, nack_dead("poison"));
        let burial = rig.fetches().remove(0);
        rig.bury(&burial);
        rig.sync();
    };
    let cancel_idle: Leave = |rig, topic, delivery| {
        rig.settle(delivery, Verdict::Release { delay_ms: 0 });
        rig.cancel(spotted(topic, 0));
    };
    let cancel_running: Leave = |rig, topic, delivery| {
        rig.cancel(spotted(topic, 0));
        assert_eq!(states(rig, "run"), [("g".to_owned(), RunState::Running)]);
        rig.settle(delivery, nack("no"));
    };
    let expire_group: Leave = |rig, topic, _| {
        // Another group is done with it, and this one never comes back.
        let delivery =
            rig.lease_as(driftq_core::LeaseRequest { group: "h".into(), ..request(topic, 1) }).remove(0);
        rig.ack_token(&delivery);
        rig.delete_group(topic, "g");
    };
    let by_bytes: Leave = |rig, topic, _| {
        rig.produce(&Draft::to(topic).value(&"x".repeat(1000)));
    };
    let ended = |how| vec![("g".to_owned(), RunState::Ended(how))];
    let removed = || vec![(String::new(), RunState::Removed)];
    let cases: Vec<(&str, Leave, States)> = vec![
        ("ack", |rig, _, d| drop(rig.settle_many(vec![settled(d, Verdict::Ack)])), ended(How::Done)),
        (
            "ack by name",
            |rig, topic, _| drop(rig.ack(&crate::support::deeds::at(topic, 0), "o")),
            ended(How::Done),
        ),
        ("burial", bury, ended(How::Dead)),
        ("cancellation while it waits", cancel_idle, ended(How::Cancelled)),
        ("cancellation while it runs", cancel_running, ended(How::Cancelled)),
        ("removal", |rig, topic, _| assert_eq!(rig.remove(vec![spotted(topic, 0)]), 1), removed()),
        ("retention by time", |rig, _, _| rig.advance(20_000), removed()),
        ("retention by bytes", by_bytes, removed()),
        ("the last group", expire_group, vec![("h".to_owned(), RunState::Ended(How::Done))]),
        ("its topic", |rig, topic, _| drop(rig.delete_topic(topic)), removed()),
    ];
    for (name, leave, expected) in cases {
        for percent in [0, 100] {
            let retention = name.starts_with("retention");
            let (mut rig, topic, delivery) = one_step(Settings {
                retention_ms: retention.then_some(20_000),
                retention_bytes: retention.then_some(1000),
                ..Settings::default()
            });
            rig.snapshot_percent = percent;
            leave(&mut rig, topic, &delivery);
            rig.sync();
            assert_eq!(states(&mut rig, "run"), expected, "{name}");
            let dead = u64::from(name == "burial");
            assert_eq!(numbers(&mut rig, "run"), [1, 0, 0, dead, 0], "{name}");
            rig.crash();
            assert_eq!(states(&mut rig, "run"), expected, "{name}, after a restart");
        }
    }
}

fn settled(delivery: &Delivery, verdict: Verdict) -> driftq_core::Settlement {
    driftq_core::Settlement { receipt: delivery.receipt, verdict }
}

#[test]
fn a_message_that_a_group_had_done_before_is_skipped_in_its_run() {
    let mut rig = Rig::new(Settings { idempotency_ttl_ms: 50_000, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.produce_in_run(&Draft::to(topic).keyed("k"), "first", "");
    rig.advance(49_000);
    let delivery = rig.lease(topic, 1).remove(0);
    rig.ack_token(&delivery);
    rig.advance(1_000);
    rig.produce_in_run(&Draft::to(topic).keyed("k"), "second", "");
    assert_eq!(rig.lease_offsets(topic, 1), []);
    rig.sync();
    assert_eq!(states(&mut rig, "second"), [("g".to_owned(), RunState::Ended(How::Skipped))]);
    assert_eq!(numbers(&mut rig, "second"), [1, 0, 0, 0, 0]);
}

/// Two groups, one of which is done.
fn two_groups() -> (Rig, TopicId, Delivery) {
    let (mut rig, topic, delivery) = one_step(Settings::default());
    let other = rig.lease_as(driftq_core::LeaseRequest { group: "h".into(), ..request(topic, 1) }).remove(0);
    rig.ack_token(&delivery);
    let expected = [("g".to_owned(), RunState::Ended(How::Done)), ("h".to_owned(), RunState::Running)];
    assert_eq!(states(&mut rig, "run"), expected);
    (rig, topic, other)
}

#[test]
fn what_a_group_has_done_is_not_cancelled_for_it_afterwards() {
    let (mut rig, topic, other) = two_groups();
    for _ in 0..3 {
        rig.cancel(spotted(topic, 0));
    }
    let expected = [("g".to_owned(), RunState::Ended(How::Done)), ("h".to_owned(), RunState::Running)];
    assert_eq!(states(&mut rig, "run"), expected);
    rig.settle(&other, Verdict::Release { delay_ms: 0 });
    let expected = [("g", How::Done), ("h", How::Cancelled)].map(|(g, how)| (g.into(), RunState::Ended(how)));
    assert_eq!(states(&mut rig, "run"), expected);
}

#[test]
fn a_group_that_is_sent_back_has_one_ending_however_often_it_ends() {
    let (mut rig, topic, _) = two_groups();
    for _ in 0..5 {
        rig.seek(topic, "g", None, SeekTo::Earliest);
        let owing = [("g".to_owned(), RunState::Waiting), ("h".to_owned(), RunState::Running)];
        assert_eq!(states(&mut rig, "run"), owing, "it owes the message again");
        let again = rig.lease(topic, 1).remove(0);
        rig.ack_token(&again);
        let expected = [("g".to_owned(), RunState::Ended(How::Done)), ("h".to_owned(), RunState::Running)];
        assert_eq!(states(&mut rig, "run"), expected);
    }
}

#[test]
fn the_notes_of_a_run_are_written_with_what_they_are_about() {
    let (mut rig, _, delivery) = one_step(Settings::default());
    let mark = rig.write();
    let items = vec![settled(&delivery, Verdict::Ack)];
    rig.ask(|ticket| Input::Settle { ticket, items });
    assert_eq!(rig.write(), mark + 1, "one batch");
    let facts = rig.facts_since(mark);
    let both = matches!(
        facts[..],
        [
            Fact::Run(RunFact::StepEnded { how: How::Done, attempts: 1, .. }),
            Fact::Delivery(_, DeliveryFact::Acked { .. })
        ]
    );
    assert!(both, "{facts:?}");
    // Messages without a run leave no notes, also beside one that has one.
    let (mut rig, topic, _) = one_step(Settings::default());
    rig.produce(&Draft::to(topic));
    let plain = rig.lease(topic, 1).remove(0);
    let mark = rig.write();
    rig.ack_token(&plain);
    assert!(matches!(rig.facts_since(mark)[..], [Fact::Delivery(_, DeliveryFact::Acked { .. })]));
}

#[test]
fn effects_belong_to_the_run_of_their_message_or_to_the_one_that_is_named() {
    for percent in [0, 100] {
        let (mut rig, topic, delivery) = one_step(Settings::default());
        rig.snapshot_percent = percent;
        rig.produce(&Draft::to(topic));
        let plain = rig.lease(topic, 1).remove(0);
        let run = |ask: BeginEffect, run: &str| BeginEffect { run: run.into(), ..ask };
        let lease = rig.executes(tied(repeatable("tied"), &delivery));
        rig.executes(tied(run(repeatable("tied and named"), "elsewhere"), &delivery));
        rig.executes(run(repeatable("named"), "run"));
        rig.executes(tied(run(repeatable("of a plain message"), "new"), &plain));
        rig.executes(repeatable("of no run"));
        rig.executes(tied(repeatable("of no run either"), &plain));
        rig.crash();
        let page = rig.run_page("run", 0, 99).expect("there");
        let effects = page.entries.iter().filter_map(|entry| match entry {
            RunEntry::Effect(effect) => Some((effect.step.as_deref().unwrap_or_default(), effect.number)),
            RunEntry::Message(_) => None,
        });
        assert_eq!(effects.collect::<Vec<_>>(), [("step", 1), ("step", 2), ("", 3)]);
        assert_eq!(numbers(&mut rig, "run"), [1, 1, 3, 0, 0]);
        assert_eq!(numbers(&mut rig, "new"), [0, 0, 1, 0, 0]);
        assert_eq!((rig.run_page("elsewhere", 0, 9), rig.tally().runs), (None, 2));
        rig.advance(7);
        rig.try_finish(finishing(lease.receipt, Status::Succeeded, "x"));
        assert_eq!(rig.run_page("run", 0, 0).expect("there").summary.touched, rig.now);
        // What the ledger forgets is gone from the run, too: once nothing is left that could ask for it.
        for delivery in [&delivery, &plain] {
            rig.ack_token(delivery);
        }
        rig.advance(1_000_000);
        assert_eq!(numbers(&mut rig, "run")[2], 0);
        assert_eq!(rig.run_page("run", 0, 99).expect("there").entries.len(), 1);
    }
}
