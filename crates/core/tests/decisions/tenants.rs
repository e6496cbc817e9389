//! Datasets and runs of one tenant never meet those of another, and commits are found by name.

use crate::support::ledger::{named, output, wish};
use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, BeginEffect, Commit, CommitPart, Committed, Description, Identity, Input, Named, NewLineage,
    NewMessage, OutputDone, OutputInput, OutputList, Query, Reject, RunList, RunPage, Settings,
};

const TENANTS: [&str; 3] = ["", "t", "u"];

fn of_run(rig: &mut Rig, id: Named) -> Option<RunPage> {
    match rig.ask_durably(|ticket| Input::Describe { ticket, query: Query::Run(id, 0, 99) }) {
        Answer::Described(Description::Run(page)) => page,
        other => panic!("not a run: {other:?}"),
    }
}

fn locations(rig: &mut Rig, tenant: &str, version: &str) -> Vec<String> {
    let list = OutputList {
        dataset: Named::of(tenant, "d"),
        version: version.into(),
        partition_key: None,
        from: None,
        limit: 9,
    };
    let page = rig.output_page(list);
    page.map_or_else(Vec::new, |page| page.outputs.iter().map(|output| output.location.to_string()).collect())
}

#[test]
fn datasets_of_two_tenants_do_not_meet() {
    for percent in [0, 100] {
        let mut rig = Rig::new(Settings::default());
        rig.snapshot_percent = percent;
        let topic = rig.topic("t", 1);
        rig.produce_to(topic, &[0]);
        let receipt = rig.lease(topic, 1)[0].receipt;
        for tenant in TENANTS {
            let outputs = vec![output("v1", "p", &format!("of {tenant}"))];
            let commit =
                Commit { fences: vec![receipt], outputs, tenant: tenant.into(), ..Commit::default() };
            assert_eq!(rig.commit(commit).outputs, [OutputDone::Replaced]);
        }
        let (dataset, version, expect) = (Named::of("t", "d"), "v1".to_owned(), None);
        rig.ask_durably(|ticket| Input::Output(OutputInput::CutOver { ticket, dataset, version, expect }));
        rig.crash();
        for tenant in TENANTS {
            assert_eq!(locations(&mut rig, tenant, "v1"), [format!("of {tenant}")]);
            assert_eq!(locations(&mut rig, tenant, "current").is_empty(), tenant != "t", "{tenant:?}");
        }
        let query = Query::Datasets("t".into(), None, 9);
        let Answer::Described(Description::Datasets(datasets, false)) =
            rig.ask_durably(|ticket| Input::Describe { ticket, query })
        else {
            panic!("no datasets")
        };
        assert_eq!((datasets.len(), datasets[0].outputs), (1, 1));
        // What one tenant sealed and dropped is as it was for the others.
        let (dataset, version) = (Named::of("", "d"), "v1".to_owned());
        rig.ask_durably(|ticket| Input::Output(OutputInput::Drop { ticket, dataset, version }));
        assert!(locations(&mut rig, "", "v1").is_empty());
        assert_eq!(locations(&mut rig, "u", "v1"), ["of u"]);
        let moving = |tenant: &str| Commit {
            fences: vec![receipt],
            outputs: vec![output("v1", "p", "x")],
            tenant: tenant.into(),
            ..Commit::default()
        };
        assert_eq!(rig.refused(moving("t")), (CommitPart::Output(0), Reject::VersionSealed));
        rig.commit(moving("u"));
    }
}

#[test]
fn runs_of_two_tenants_do_not_meet() {
    for percent in [0, 100] {
        let mut rig = Rig::new(Settings::default());
        rig.snapshot_percent = percent;
        let topic = rig.topic("t", 1);
        for tenant in TENANTS {
            let lineage = NewLineage { tenant: tenant.into(), run: "r".into(), ..NewLineage::default() };
            let message = NewMessage { lineage: Some(Box::new(lineage)), ..Draft::to(topic).message() };
            rig.ask_durably(|ticket| Input::Produce { ticket, message });
        }
        let ask = BeginEffect { run: "r".into(), whose: "u".into(), ..wish("k") };
        rig.executes(ask);
        rig.crash();
        for tenant in TENANTS {
            let page = of_run(&mut rig, Named::of(tenant, "r")).expect("everybody has one");
            let effects = u64::from(tenant == "u");
            assert_eq!((page.summary.messages, page.summary.effects), (1, effects), "{tenant:?}");
            assert_eq!((&*page.summary.tenant, page.entries.len() as u64), (tenant, 1 + effects));
        }
        assert_eq!(of_run(&mut rig, Named::of("v", "r")), None);
        let mut listed = |tenant: Option<&str>| {
            let list =
                RunList { tenant: tenant.map(str::to_owned), before: u64::MAX, began_before: None, limit: 9 };
            match rig.ask_durably(|ticket| Input::Describe { ticket, query: Query::Runs(list) }) {
                Answer::Described(Description::Runs(runs, None)) => runs.len(),
                other => panic!("not runs: {other:?}"),
            }
        };
        assert_eq!((listed(None), listed(Some("")), listed(Some("t")), listed(Some("v"))), (3, 1, 1, 0));
    }
}

#[test]
fn a_commit_is_found_by_its_name_once_it_is_durable() {
    let mut rig = Rig::new(Settings { commit_ttl_ms: 1000, ..Settings::default() });
    let topic = rig.topic("t", 1);
    let found = |rig: &mut Rig, name: &str| -> Option<Committed> {
        let query = Query::Commit(Identity::of("", "commit", name));
        match rig.ask_durably(|ticket| Input::Describe { ticket, query }) {
            Answer::Described(Description::Commit(done)) => done,
            other => panic!("not a commit: {other:?}"),
        }
    };
    let commit = named("c", Commit { messages: vec![Draft::to(topic).message()], ..Commit::default() });
    rig.sync();
    rig.ask_commit(commit.clone());
    let query = Query::Commit(Identity::of("", "commit", "c"));
    let early = rig.ask(|ticket| Input::Describe { ticket, query });
    rig.write();
    assert_eq!(rig.answer(early), None, "a crash could take it back");
    rig.crash();
    assert_eq!(found(&mut rig, "c"), None);
    let done = rig.commit(commit);
    assert_eq!(found(&mut rig, "c"), Some(done));
    assert_eq!(found(&mut rig, "d"), None);
    rig.advance(1000);
    assert_eq!(found(&mut rig, "c"), None, "its time is over");
}
