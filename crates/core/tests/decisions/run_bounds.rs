//! Runs are for people who look: there are only so many, and they go in bounded steps.

use crate::support::ledger::{in_run, repeatable};
use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, BeginEffect, Description, Fact, Input, Query, RunEntry, RunFact, RunList, Settings, TopicId,
};

const TTL_MS: u64 = 100_000;

fn rig_with(run_entries_max: u64) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings { run_ttl_ms: TTL_MS, run_entries_max, ..Settings::default() });
    let topic = rig.topic("t", 1);
    (rig, topic)
}

fn fill(rig: &mut Rig, topic: TopicId, run: &str, count: usize) {
    for _ in 0..count {
        let message = in_run(&Draft::to(topic), run, "");
        rig.ask(|ticket| Input::Produce { ticket, message });
    }
    rig.sync();
}

/// Messages, open ones, effects and what is not listed; `None` if there is no such run.
fn numbers(rig: &mut Rig, run: &str) -> Option<[u64; 4]> {
    let summary = rig.run_page(run, 0, 0)?.summary;
    Some([summary.messages, summary.open, summary.effects, summary.unlisted])
}

fn forgotten(rig: &mut Rig, mark: usize) -> Vec<(u64, u32)> {
    rig.sync();
    let facts = rig.facts_since(mark).into_iter();
    let facts = facts.filter_map(|fact| match fact {
        Fact::Run(RunFact::Forgotten { run, most }) => Some((run, most)),
        _ => None,
    });
    facts.collect()
}

#[test]
fn a_run_lists_so_many_and_counts_the_rest() {
    let (mut rig, topic) = rig_with(1_000_000);
    fill(&mut rig, topic, "run", 10_000);
    assert_eq!(numbers(&mut rig, "run"), Some([10_000, 10_000, 0, 0]));
    fill(&mut rig, topic, "run", 3);
    rig.executes(BeginEffect { run: "run".into(), ..repeatable("k") });
    assert_eq!(numbers(&mut rig, "run"), Some([10_003, 10_000, 1, 4]));
    rig.crash();
    assert_eq!(numbers(&mut rig, "run"), Some([10_003, 10_000, 1, 4]));
    rig.delete_topic(topic);
    assert_eq!(numbers(&mut rig, "run"), Some([10_003, 0, 1, 4]), "what is not listed is not open either");
}

#[test]
fn a_quiet_run_is_forgotten_in_bounded_steps() {
    for restart in [false, true] {
        let (mut rig, topic) = rig_with(1_000_000);
        fill(&mut rig, topic, "quiet", 600);
        rig.advance(1);
        fill(&mut rig, topic, "busy", 1);
        let delivery = rig.lease(topic, 601).pop().expect("on loan");
        rig.advance(TTL_MS - 2);
        if restart {
            rig.crash();
        }
        let mark = rig.write();
        assert_eq!(rig.tally().runs, 2);
        rig.executes(BeginEffect { run: "busy".into(), ..repeatable("k") });
        rig.advance(1);
        assert_eq!(forgotten(&mut rig, mark), [(1, 256); 3], "restart: {restart}");
        assert_eq!(numbers(&mut rig, "quiet"), None);
        assert_eq!(numbers(&mut rig, "busy"), Some([1, 1, 1, 0]), "whatever happens in it keeps it");
        // Its messages go on without it.
        if !restart {
            rig.ack_token(&delivery);
            assert_eq!(numbers(&mut rig, "busy"), Some([1, 0, 1, 0]));
        }
        rig.delete_topic(topic);
        fill_again(&mut rig);
        assert_eq!(numbers(&mut rig, "quiet"), Some([1, 1, 0, 0]), "a new run of the same name");
        rig.advance(2 * TTL_MS);
        assert_eq!(rig.tally().runs, 0);
        rig.crash();
        rig.advance(0);
        assert_eq!(rig.tally().runs, 0, "what was forgotten in vain is forgotten again");
    }
}

fn fill_again(rig: &mut Rig) {
    let topic = rig.topic("u", 1);
    fill(rig, topic, "quiet", 1);
}

#[test]
fn the_oldest_run_makes_room_for_the_newest() {
    for percent in [0, 100] {
        let (mut rig, topic) = rig_with(300);
        rig.snapshot_percent = percent;
        fill(&mut rig, topic, "old", 280);
        fill(&mut rig, topic, "new", 20);
        let mark = rig.write();
        fill(&mut rig, topic, "new", 1);
        assert_eq!(forgotten(&mut rig, mark), [(1, 256)]);
        assert_eq!(numbers(&mut rig, "old"), Some([280, 24, 0, 256]), "the oldest part of it is gone");
        assert_eq!(numbers(&mut rig, "new"), Some([21, 21, 0, 0]));
        let page = rig.run_page("old", 0, 10).expect("there");
        let RunEntry::Message(first) = &page.entries[0] else { panic!("{page:?}") };
        assert_eq!((first.offset, page.next), (256, Some(266)), "places do not shift");
        rig.crash();
        fill(&mut rig, topic, "new", 255);
        assert_eq!(numbers(&mut rig, "old"), Some([280, 24, 0, 256]), "there is room for so many");
        let mark = rig.write();
        rig.executes(BeginEffect { run: "third".into(), ..repeatable("k") });
        assert_eq!(forgotten(&mut rig, mark), [(1, 256)]);
        assert_eq!(numbers(&mut rig, "old"), None, "the last part takes the run along");
        assert_eq!(numbers(&mut rig, "third"), Some([0, 0, 1, 0]));
        rig.delete_topic(topic);
        assert_eq!(numbers(&mut rig, "new"), Some([276, 0, 0, 0]));
    }
}

#[test]
fn no_room_at_all_is_survived() {
    let (mut rig, topic) = rig_with(0);
    fill(&mut rig, topic, "a", 3);
    fill(&mut rig, topic, "b", 3);
    assert_eq!(numbers(&mut rig, "a"), None);
    assert_eq!(numbers(&mut rig, "b"), Some([1, 1, 0, 0]));
    rig.crash();
    assert_eq!(rig.tally().runs, 1);
}

#[test]
fn effects_without_a_run_cost_no_run_its_entries() {
    let (mut rig, topic) = rig_with(3);
    fill(&mut rig, topic, "run", 3);
    rig.executes(repeatable("k"));
    assert_eq!(numbers(&mut rig, "run"), Some([3, 3, 0, 0]));
}

#[test]
fn runs_and_their_entries_are_shown_page_by_page() {
    let (mut rig, topic) = rig_with(1_000_000);
    for run in ["a", "b", "c"] {
        fill(&mut rig, topic, run, 5);
    }
    let list = |rig: &mut Rig, before, limit| {
        let query = Query::Runs(RunList { tenant: None, before, began_before: None, limit });
        let answer = rig.ask_durably(|ticket| Input::Describe { ticket, query });
        let Answer::Described(Description::Runs(runs, next)) = answer else { panic!("{answer:?}") };
        (runs.iter().map(|run| run.id.to_string()).collect::<Vec<_>>(), next)
    };
    let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(list(&mut rig, u64::MAX, 9), (texts(&["c", "b", "a"]), None), "newest first");
    let (first, next) = list(&mut rig, u64::MAX, 2);
    assert_eq!((first, next), (texts(&["c", "b"]), Some(2)));
    assert_eq!(list(&mut rig, 2, 2), (texts(&["a"]), None));
    assert_eq!(list(&mut rig, u64::MAX, 3).1, None, "a full page that is the last one says so");
    for limit in 1..7 {
        let (mut offsets, mut from, mut pages) = (Vec::new(), 0, 0);
        loop {
            let page = rig.run_page("b", from, limit).expect("there");
            offsets.extend(page.entries.iter().map(|entry| match entry {
                RunEntry::Message(message) => message.offset,
                RunEntry::Effect { .. } => panic!("there is none"),
            }));
            pages += 1;
            let Some(next) = page.next else { break };
            from = next;
        }
        assert_eq!(offsets, (5..10).collect::<Vec<_>>());
        assert_eq!(pages, 5_u32.div_ceil(limit));
    }
    for from in [5, 6, u64::MAX] {
        let page = rig.run_page("b", from, 9).expect("there");
        assert_eq!((page.entries.len(), page.next), (0, None));
    }
}
