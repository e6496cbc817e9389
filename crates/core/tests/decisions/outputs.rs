//! Output pointers: moved by commits, shown by version, and changed over at once.

use crate::support::ledger::{appended, output, rejected};
use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, Commit, CommitPart, DatasetView, Description, Input, NewOutput, OutputDone, OutputInput,
    OutputList, Query, Receipt, Reject, Settings, Time, VersionsList,
};

/// A worker with a delivery that it never settles, and by whose authority it moves pointers.
struct Desk {
    rig: Rig,
    receipt: Receipt,
}

fn desk() -> Desk {
    let mut rig = Rig::new(Settings::default());
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic));
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

    /// Partition, key and location of what a version shows.
    fn shown(&mut self, version: &str) -> Vec<(String, String, String)> {
        let page = self.rig.outputs(version).expect("there is such a version");
        let shown = page.outputs.iter().map(|output| {
            let texts = [&output.partition_key, &output.dedupe_key, &output.location];
            let [partition, key, location] = texts.map(ToString::to_string);
            (partition, key, location)
        });
        shown.collect()
    }

    fn cut_over(&mut self, version: &str, expect: Option<&str>) -> Answer {
        let (version, expect) = (version.to_owned(), expect.map(str::to_owned));
        self.rig.ask_durably(|ticket| {
            Input::Output(OutputInput::CutOver { ticket, dataset: "d".into(), version, expect })
        })
    }

    fn roll_back(&mut self, from: &str) -> Answer {
        let from = from.to_owned();
        self.rig
            .ask_durably(|ticket| Input::Output(OutputInput::RollBack { ticket, dataset: "d".into(), from }))
    }

    fn drop_version(&mut self, version: &str) -> Answer {
        let version = version.to_owned();
        self.rig
            .ask_durably(|ticket| Input::Output(OutputInput::Drop { ticket, dataset: "d".into(), version }))
    }

    fn dataset(&mut self, after: Option<&str>, limit: u32) -> Option<DatasetView> {
        let list = VersionsList { dataset: "d".into(), after: after.map(str::to_owned), limit };
        match self.rig.ask_durably(|ticket| Input::Describe { ticket, query: Query::Dataset(list) }) {
            Answer::Described(Description::Dataset(view)) => view,
            other => panic!("not a dataset: {other:?}"),
        }
    }

    fn history(&mut self) -> Vec<(Option<String>, Time)> {
        let view = self.dataset(None, 9).expect("there is such a dataset");
        view.history.iter().map(|(version, at)| (version.as_ref().map(ToString::to_string), *at)).collect()
    }
}

fn three(partition: &str, key: &str, location: &str) -> (String, String, String) {
    (partition.into(), key.into(), location.into())
}

fn now_shown(current: Option<&str>, previous: Option<&str>, changed: bool) -> Answer {
    Answer::CutOver { current: current.map(Into::into), previous: previous.map(Into::into), changed }
}

#[test]
fn a_pointer_is_replaced_or_added_and_added_only_once() {
    for percent in [0, 100] {
        let mut desk = desk();
        desk.rig.snapshot_percent = percent;
        let done = desk.put(vec![
            output("v", "p", "one"),
            output("v", "p", "two"),
            appended("v", "q", "b", "first"),
            appended("v", "q", "a", "second"),
            appended("v", "q", "b", "not this"),
        ]);
        use OutputDone::{Appended, Duplicate, Replaced};
        assert_eq!(done, [Replaced, Replaced, Appended, Appended, Duplicate]);
        let expected = [three("p", "", "two"), three("q", "b", "first"), three("q", "a", "second")];
        assert_eq!(desk.shown("v"), expected, "the order of commits, not of keys");
        desk.rig.advance(5);
        let done = desk.put(vec![appended("v", "q", "a", "nor this"), output("v", "p", "three")]);
        assert_eq!(done, [Duplicate, Replaced]);
        let page = desk.rig.outputs("v").expect("there");
        let times: Vec<u64> = page.outputs.iter().map(|output| desk.rig.now.since_ms(output.at)).collect();
        assert_eq!(times, [0, 5, 5], "only what moved is newer");
        let before = desk.shown("v");
        // One way at a time, also by a later commit.
        for wrong in [appended("v", "p", "k", "x"), output("v", "q", "x")] {
            let commit = desk.moving(vec![wrong]);
            let expected = (CommitPart::Output(0), Reject::OutputModeDiffers);
            assert_eq!(desk.rig.refused(commit), expected);
        }
        desk.put(vec![output("other version", "q", "x")]);
        desk.rig.crash();
        assert_eq!(desk.shown("v"), before);
        assert_eq!((desk.rig.tally().outputs, desk.rig.outputs("none")), (4, None));
    }
}

#[test]
fn readers_see_what_is_durable_and_nothing_else() {
    let mut desk = desk();
    let commit = desk.moving(vec![output("v", "p", "here")]);
    desk.rig.ask_commit(commit);
    let list =
        OutputList { dataset: "d".into(), version: "v".into(), partition_key: None, from: None, limit: 9 };
    let reader = desk.rig.ask(|ticket| Input::Describe { ticket, query: Query::Outputs(list) });
    desk.rig.write();
    assert_eq!(desk.rig.answer(reader), None);
    desk.rig.crash();
    assert_eq!(desk.rig.outputs("v"), None, "it never was");
}

#[test]
fn readers_are_moved_to_another_version_and_back() {
    for percent in [0, 100] {
        let mut desk = desk();
        desk.rig.snapshot_percent = percent;
        assert_eq!(desk.cut_over("v1", None), rejected(Reject::OutputUnknown));
        assert_eq!(desk.roll_back("v1"), rejected(Reject::OutputUnknown));
        desk.put(vec![output("v1", "p", "one"), output("v2", "p", "two")]);
        assert_eq!(desk.cut_over("v3", None), rejected(Reject::OutputUnknown));
        assert_eq!(desk.rig.outputs("current"), None, "nothing is current yet");
        assert_eq!(
            desk.roll_back("v1"),
            rejected(Reject::VersionDiffers),
            "there is nothing to go back from"
        );
        assert_eq!(desk.cut_over("v1", Some("v2")), rejected(Reject::VersionDiffers));
        assert_eq!(desk.cut_over("v1", None), now_shown(Some("v1"), None, true));
        assert_eq!(desk.cut_over("v1", None), now_shown(Some("v1"), None, false), "the same again");
        assert_eq!(desk.cut_over("v2", Some("v2")), rejected(Reject::VersionDiffers));
        assert_eq!(desk.cut_over("v2", Some("v1")), now_shown(Some("v2"), Some("v1"), true));
        let again = desk.cut_over("v2", Some("v1"));
        assert_eq!(again, now_shown(Some("v2"), Some("v1"), false), "whose answer was lost");
        let page = desk.rig.outputs("current").expect("v2 is current");
        assert_eq!((&*page.version, &*page.outputs[0].location), ("v2", "two"));
        desk.rig.crash();
        assert_eq!(desk.roll_back("v1"), rejected(Reject::VersionDiffers), "v2 is current");
        assert_eq!(desk.roll_back("v2"), now_shown(Some("v1"), None, true));
        assert_eq!(desk.roll_back("v2"), now_shown(Some("v1"), None, false), "the same again");
        desk.rig.crash();
        assert_eq!(desk.roll_back("v2"), now_shown(Some("v1"), None, false), "also after a restart");
        assert_eq!(desk.roll_back("v1"), now_shown(None, None, true), "as it was at first");
        assert_eq!(desk.roll_back("v1"), now_shown(None, None, false));
        assert_eq!(desk.roll_back("v2"), rejected(Reject::VersionDiffers));
        assert_eq!(desk.cut_over("v2", None), now_shown(Some("v2"), None, true));
        assert_eq!(desk.roll_back("v1"), rejected(Reject::VersionDiffers), "an old roll-back is over");
    }
}

#[test]
fn the_answer_to_a_cut_over_waits_for_the_disk() {
    let mut desk = desk();
    desk.put(vec![output("v1", "p", "one")]);
    let asks: [fn(driftq_core::Ticket) -> Input; 3] = [
        |ticket| {
            Input::Output(OutputInput::CutOver {
                ticket,
                dataset: "d".into(),
                version: "v1".into(),
                expect: None,
            })
        },
        |ticket| Input::Output(OutputInput::RollBack { ticket, dataset: "d".into(), from: "v1".into() }),
        |ticket| Input::Output(OutputInput::Drop { ticket, dataset: "d".into(), version: "v1".into() }),
    ];
    for ask in asks {
        let ticket = desk.rig.ask(ask);
        assert!(desk.rig.is_urgent());
        desk.rig.write();
        assert_eq!(desk.rig.answer(ticket), None);
        desk.rig.sync();
        assert!(!matches!(desk.rig.answer(ticket), None | Some(Answer::Rejected(_))));
    }
    assert_eq!(desk.dataset(None, 9), None);
}

#[test]
fn what_was_current_is_remembered_for_the_last_few_changes() {
    let mut desk = desk();
    let versions: Vec<String> = (0..20).map(|n| format!("v{n:02}")).collect();
    desk.put(versions.iter().map(|version| output(version, "p", "x")).collect());
    let start = desk.rig.now;
    for version in &versions {
        desk.rig.advance(1);
        desk.cut_over(version, None);
    }
    let history = desk.history();
    assert_eq!(history.len(), 16);
    let at = |n: u64| start.after_ms(n);
    assert_eq!(history[0], (Some("v18".into()), at(19)), "newest first, and since when");
    assert_eq!(history[15], (Some("v03".into()), at(4)));
    desk.rig.crash();
    assert_eq!(desk.history(), history);
    for version in versions.iter().rev().take(16) {
        assert!(matches!(desk.roll_back(version), Answer::CutOver { changed: true, .. }), "{version}");
    }
    assert_eq!(desk.roll_back("v03"), rejected(Reject::VersionDiffers), "further back nobody knows");
    assert_eq!(desk.dataset(None, 1).expect("there").summary.current.as_deref(), Some("v03"));
}

#[test]
fn a_version_that_nobody_sees_can_go() {
    let mut desk = desk();
    assert_eq!(desk.drop_version("v1"), rejected(Reject::OutputUnknown));
    desk.put(vec![
        output("v1", "p", "x"),
        appended("v1", "q", "a", "x"),
        appended("v1", "q", "b", "x"),
        output("v2", "p", "x"),
        output("v3", "p", "x"),
    ]);
    for version in ["v1", "v2", "v3"] {
        desk.cut_over(version, None);
    }
    assert_eq!(desk.drop_version("v3"), rejected(Reject::VersionInUse));
    assert_eq!(desk.drop_version("v2"), Answer::Removed(1));
    assert_eq!(desk.drop_version("v2"), rejected(Reject::OutputUnknown));
    let versions: Vec<_> = desk.history().into_iter().map(|(version, _)| version).collect();
    assert_eq!(versions, [Some("v1".to_owned()), None], "nobody goes back to what is gone");
    assert_eq!(desk.roll_back("v3"), now_shown(Some("v1"), None, true));
    assert_eq!(desk.drop_version("v3"), Answer::Removed(1));
    desk.rig.crash();
    assert_eq!(desk.roll_back("v1"), now_shown(None, None, true));
    assert_eq!(desk.drop_version("v1"), Answer::Removed(3));
    assert_eq!((desk.dataset(None, 9), desk.rig.tally().outputs), (None, 0));
    assert_eq!(desk.put(vec![appended("v1", "p", "a", "x")]), [OutputDone::Appended], "all begins anew");
}

/// A roll-back whose answer was lost is asked for again, and must not go back twice.
#[test]
fn going_back_leads_to_another_version_also_when_one_between_is_gone() {
    let mut desk = desk();
    desk.put(["v1", "v2"].map(|version| output(version, "p", "x")).to_vec());
    for version in ["v1", "v2", "v1"] {
        desk.cut_over(version, None);
    }
    desk.drop_version("v2");
    assert_eq!(desk.roll_back("v1"), now_shown(None, None, true));
    assert_eq!(desk.roll_back("v1"), now_shown(None, None, false));
    desk.rig.crash();
    assert_eq!(desk.history(), []);
}

#[test]
fn lists_go_on_where_they_ended() {
    let mut desk = desk();
    desk.put(vec![
        appended("v1", "a", "1", "a1"),
        appended("v1", "a", "2", "a2"),
        appended("v1", "a", "3", "a3"),
        output("v1", "b", "b"),
        appended("v1", "c", "1", "c1"),
        output("v2", "p", "x"),
        NewOutput { dataset: "e".into(), ..output("v", "p", "x") },
    ]);
    let whole: Vec<String> = ["a1", "a2", "a3", "b", "c1"].map(String::from).to_vec();
    for (limit, only) in (1..7).flat_map(|limit| [(limit, None), (limit, Some("a"))]) {
        let (mut found, mut from) = (Vec::new(), None);
        for _ in 0..9 {
            let list = OutputList {
                dataset: "d".into(),
                version: "v1".into(),
                partition_key: only.map(str::to_owned),
                from: from.take(),
                limit,
            };
            let page = desk.rig.output_page(list).expect("there");
            assert!(page.outputs.len() <= limit as usize);
            found.extend(page.outputs.iter().map(|output| output.location.to_string()));
            let Some((key, seen)) = page.next else { break };
            from = Some((key.to_string(), seen));
        }
        let expected = if only.is_some() { &whole[..3] } else { &whole[..] };
        assert_eq!(found, expected, "{limit} {only:?}");
    }
    let nowhere = |dataset: &str, version: &str, key: Option<&str>| OutputList {
        dataset: dataset.into(),
        version: version.into(),
        partition_key: key.map(str::to_owned),
        from: None,
        limit: 9,
    };
    for list in [nowhere("x", "v1", None), nowhere("d", "v9", None), nowhere("d", "v1", Some("z"))] {
        assert_eq!(desk.rig.output_page(list.clone()), None, "{list:?}");
    }
    let view = desk.dataset(None, 1).expect("there");
    assert_eq!((&*view.versions[0].version, view.versions[0].outputs, view.more), ("v1", 5, true));
    assert_eq!((view.summary.versions, view.summary.outputs, view.cut_over), (2, 6, None));
    let rest = desk.dataset(Some("v1"), 1).expect("there");
    assert_eq!((&*rest.versions[0].version, rest.more), ("v2", false));
    for (after, limit, names, more) in
        [(None, 1, vec!["d"], true), (Some("d"), 1, vec!["e"], false), (None, 9, vec!["d", "e"], false)]
    {
        let query = Query::Datasets(String::new(), after.map(str::to_owned), limit);
        let answer = desk.rig.ask_durably(|ticket| Input::Describe { ticket, query });
        let Answer::Described(Description::Datasets(found, left)) = answer else { panic!("{answer:?}") };
        assert_eq!(found.iter().map(|dataset| &*dataset.dataset).collect::<Vec<_>>(), names);
        assert_eq!(left, more);
    }
}
