//! Versions that are sealed, and versions that were read.

use crate::support::ledger::{appended, output, rejected};
use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, Commit, CommitPart, Input, NewOutput, OutputDone, OutputInput, Read, Receipt, Reject, RunEntry,
    Settings,
};

struct Desk {
    rig: Rig,
    receipt: Receipt,
}

fn desk() -> Desk {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce_in_run(&Draft::to(topic), "run", "step");
    let mut request = crate::support::orders::request(topic, 1);
    request.lease_ms = Some(7 * 24 * 60 * 60 * 1000);
    let receipt = rig.lease_as(request)[0].receipt;
    Desk { rig, receipt }
}

impl Desk {
    fn moving(&self, outputs: Vec<NewOutput>) -> Commit {
        Commit { fences: vec![self.receipt], outputs, ..Commit::default() }
    }

    fn put(&mut self, outputs: Vec<NewOutput>) -> Vec<OutputDone> {
        let commit = self.moving(outputs);
        self.rig.commit(commit).outputs
    }

    fn is_refused(&mut self, outputs: Vec<NewOutput>) -> (CommitPart, Reject) {
        let commit = self.moving(outputs);
        self.rig.refused(commit)
    }

    fn seal(&mut self, version: &str) -> Answer {
        let version = version.to_owned();
        self.rig
            .ask_durably(|ticket| Input::Output(OutputInput::Seal { ticket, dataset: "d".into(), version }))
    }

    fn cut_over(&mut self, version: &str) -> Answer {
        let (version, expect) = (version.to_owned(), None);
        self.rig.ask_durably(|ticket| {
            Input::Output(OutputInput::CutOver { ticket, dataset: "d".into(), version, expect })
        })
    }

    fn roll_back(&mut self, from: &str) -> Answer {
        let from = from.to_owned();
        self.rig
            .ask_durably(|ticket| Input::Output(OutputInput::RollBack { ticket, dataset: "d".into(), from }))
    }
}

#[test]
fn nothing_moves_in_a_version_that_is_sealed() {
    for percent in [0, 100] {
        let mut desk = desk();
        desk.rig.snapshot_percent = percent;
        assert_eq!(desk.seal("v1"), rejected(Reject::OutputUnknown));
        desk.put(vec![
            output("v1", "p", "here"),
            appended("v1", "q", "once", "there"),
            output("v2", "p", "x"),
        ]);
        assert_eq!(desk.seal("v1"), Answer::Sealed { changed: true, pointers: 2 });
        assert_eq!(desk.seal("v1"), Answer::Sealed { changed: false, pointers: 2 }, "the same again");
        desk.rig.crash();
        let sealed = Reject::VersionSealed;
        let moved = vec![output("v2", "p", "y"), output("v1", "p", "elsewhere")];
        assert_eq!(desk.is_refused(moved), (CommitPart::Output(1), sealed));
        assert_eq!(desk.is_refused(vec![output("v1", "new", "x")]), (CommitPart::Output(0), sealed));
        assert_eq!(desk.is_refused(vec![appended("v1", "q", "twice", "x")]), (CommitPart::Output(0), sealed));
        // A repeat of what was added before the seal is a duplicate, as ever.
        assert_eq!(desk.put(vec![appended("v1", "q", "once", "x")]), [OutputDone::Duplicate]);
        assert_eq!(desk.put(vec![output("v2", "p", "y")]), [OutputDone::Replaced], "another version moves");
    }
}

#[test]
fn a_cut_over_seals_and_going_back_still_works() {
    let mut desk = desk();
    desk.put(vec![output("v1", "p", "one"), output("v2", "p", "two")]);
    desk.cut_over("v1");
    let sealed = (CommitPart::Output(0), Reject::VersionSealed);
    assert_eq!(desk.is_refused(vec![output("v1", "p", "x")]), sealed);
    desk.cut_over("v2");
    assert_eq!(desk.is_refused(vec![output("v1", "p", "x")]), sealed, "what readers saw stays what it was");
    let back = Answer::CutOver { current: Some("v1".into()), previous: None, changed: true };
    assert_eq!(desk.roll_back("v2"), back);
    assert_eq!(desk.is_refused(vec![output("v2", "p", "x")]), sealed);
    // A version that is gone and comes anew is another one.
    let version = "v2".to_owned();
    desk.rig.ask_durably(|ticket| Input::Output(OutputInput::Drop { ticket, dataset: "d".into(), version }));
    assert_eq!(desk.put(vec![output("v2", "p", "anew")]), [OutputDone::Replaced]);
}

#[test]
fn a_seal_is_answered_when_it_is_durable() {
    let mut desk = desk();
    desk.put(vec![output("v1", "p", "one")]);
    desk.rig.sync();
    let version = "v1".to_owned();
    let ticket = desk.rig.ask(|ticket| {
        Input::Output(OutputInput::Seal { ticket, dataset: "d".into(), version: version.clone() })
    });
    let commit = desk.moving(vec![output("v1", "p", "x")]);
    let refused = desk.rig.ask_commit(commit);
    desk.rig.write();
    assert_eq!((desk.rig.answer(ticket), desk.rig.answer(refused)), (None, None));
    desk.rig.crash();
    assert_eq!(desk.put(vec![output("v1", "p", "x")]), [OutputDone::Replaced], "nobody was told otherwise");
}

#[test]
fn what_was_read_is_shown_in_the_run() {
    for percent in [0, 100] {
        let mut desk = desk();
        desk.rig.snapshot_percent = percent;
        let read = |dataset: &str, version: &str| Read { dataset: dataset.into(), version: version.into() };
        let reads = vec![read("d", "v2"), read("c", "v1"), read("d", "v2")];
        let commit = Commit { reads, ..desk.moving(Vec::new()) };
        desk.rig.commit(commit);
        desk.rig.crash();
        let page = desk.rig.run_page("run", 0, 9).expect("there is such a run");
        let [RunEntry::Message(message)] = &page.entries[..] else { panic!("{page:?}") };
        let told: Vec<_> = message.reads.iter().map(|(dataset, version)| (&**dataset, &**version)).collect();
        assert_eq!(told, [("c", "v1"), ("d", "v2")]);
        let many = Commit { reads: vec![read("d", "v"); 101], ..desk.moving(Vec::new()) };
        assert!(matches!(desk.rig.refused(many), (CommitPart::Whole, Reject::Invalid(_))));
        let nameless = Commit { reads: vec![read("", "v")], ..desk.moving(Vec::new()) };
        assert!(matches!(desk.rig.refused(nameless), (CommitPart::Whole, Reject::Invalid(_))));
    }
}
