//! A process that dies between any two steps: readers see nothing of it, and the same export again ends right.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use driftq_connect::export::{Silent, sweep};
use tempfile::TempDir;

use crate::child::{Spec, said};
use crate::support::{fill, filled, pointer, run, served, tree};

const STEPS: [&str; 10] = [
    "Begun",
    "Probed",
    "Planned",
    "Staged(0)",
    "Placed(0)",
    "Staged(2)",
    "Placed(2)",
    "Described",
    "Committed",
    "never",
];

#[tokio::test]
async fn a_death_behind_any_step_is_not_seen_and_the_repeat_ends_right() {
    let (server, client) = served().await;
    let folder = TempDir::new().unwrap();
    let place = folder.path().to_string_lossy().into_owned();
    filled(&client, "orders", 100).await;
    let spec_of = |step: &str| {
        let id = step.to_lowercase().replace(['(', ')'], "-");
        let mut spec = Spec::new(&server.url(), &id, "orders", &place);
        spec.lease_ms = 1_000;
        spec
    };
    let mut dying: Vec<_> = STEPS
        .iter()
        .map(|step| {
            let mut spec = spec_of(step);
            spec.dies_after = Some((*step).to_owned());
            spec.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for (step, child) in STEPS.iter().zip(dying.drain(..)) {
        let output = child.wait_with_output().unwrap();
        assert_eq!(said(&output).is_ok(), *step == "never", "{step}: {output:?}");
        let is_visible = matches!(*step, "Committed" | "never");
        assert_eq!(pointer(&client, &spec_of(step).id).await.is_some(), is_visible, "{step}");
    }
    // The topic moves on; what was pinned before the death does not.
    fill(&client, "orders", 100..150).await;
    let mut digests = BTreeSet::new();
    for step in STEPS {
        let spec = spec_of(step);
        let export = spec.export();
        let done = run(&export, &client).await.unwrap();
        assert_eq!(done.is_replay, matches!(step, "Committed" | "never"), "{step}");
        let is_pinned_late = matches!(step, "Begun" | "Probed");
        assert_eq!(done.manifest.rows, if is_pinned_late { 150 } else { 100 }, "{step}");
        if !is_pinned_late {
            digests.insert(done.manifest.parts.iter().map(|part| part.digest.clone()).collect::<Vec<_>>());
        }
        assert_eq!(pointer(&client, &spec.id).await, Some((done.location.clone(), done.digest)), "{step}");
        // Each part is there once, and nothing that the manifest does not name.
        let files = tree(&folder.path().join(&spec.id));
        let mut named: BTreeSet<_> = done.manifest.parts.iter().map(|part| part.name.clone()).collect();
        named.insert(done.location.rsplit_once('/').unwrap().1.to_owned());
        assert_eq!(files.keys().cloned().collect::<BTreeSet<_>>(), named, "{step}");
    }
    assert_eq!(digests.len(), 1, "the same range is the same bytes, whoever died on the way");
    let staged = |folder: &TempDir| tree(&folder.path().join(".staging"));
    // Only the one that died between commit and cleaning has left anything.
    assert!(staged(&folder).keys().all(|name| name.starts_with("committed/")), "{:?}", staged(&folder));
    let before = tree(folder.path()).len() - staged(&folder).len();
    let swept = sweep(&client, &spec_of("never").export().place, "").await.unwrap();
    assert!(swept.removed > 0 && swept.live.is_empty(), "{swept:?}");
    assert_eq!((staged(&folder).len(), tree(folder.path()).len()), (0, before), "only staging was swept");
}

#[tokio::test]
async fn a_sweep_spares_what_runs_and_clears_what_is_dead() {
    let (server, client) = served().await;
    let folder = TempDir::new().unwrap();
    let place = folder.path().to_string_lossy().into_owned();
    filled(&client, "orders", 100).await;
    let dead = |lease_ms: u64, id: &str| {
        let mut spec = Spec::new(&server.url(), id, "orders", &place);
        (spec.lease_ms, spec.dies_after) = (lease_ms, Some("Staged(1)".to_owned()));
        let output = spec.command().output().unwrap();
        assert!(said(&output).is_err(), "{output:?}");
        spec
    };
    // As far as the server knows, the first one is alive for a minute.
    let (live, lapsed) = (dead(60_000, "live"), dead(500, "lapsed"));
    let staged = |id: &str| tree(&folder.path().join(".staging").join(id)).len();
    assert_eq!((staged("live"), staged("lapsed")), (2, 2), "a plan and a part each");
    let until = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let swept = sweep(&client, &live.export().place, "").await.unwrap();
        assert!(swept.live.contains(&"live".to_owned()), "{swept:?}");
        if swept.live == ["live"] || std::time::Instant::now() > until {
            break;
        }
    }
    assert_eq!(
        (staged("live"), staged("lapsed")),
        (2, 1),
        "the plan of the lapsed one stays for its next attempt"
    );
    let done = lapsed.export().run(&client, &Silent, std::future::pending()).await.unwrap();
    assert_eq!((done.manifest.rows, staged("lapsed")), (100, 0));
}

/// Kills at random moments, again and again under one id, until it ends.
#[tokio::test]
#[ignore = "a minute of kills at random; DRIFTQ_KILL_CYCLES says how many"]
async fn kills_at_random() {
    let cycles: u64 =
        std::env::var("DRIFTQ_KILL_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(50);
    let (server, client) = served().await;
    let folder = TempDir::new().unwrap();
    let place = folder.path().to_string_lossy().into_owned();
    filled(&client, "orders", 5_000).await;
    let spec_of = |id: &str| {
        let mut spec = Spec::new(&server.url(), id, "orders", &place);
        spec.part_rows = 1_000;
        spec
    };
    let reference = run(&spec_of("reference").export(), &client).await.unwrap();
    let (mut killed, mut ended) = (0, 0);
    for cycle in 0..cycles {
        let mut spec = spec_of(&format!("cycle-{}", cycle / 5));
        spec.lease_ms = 300;
        let mut child = spec.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A wait of its own for each cycle: where it strikes is up to the machine.
        tokio::time::sleep(Duration::from_millis(20 + cycle * 37 % 400)).await;
        child.kill().unwrap();
        match said(&child.wait_with_output().unwrap()) {
            Ok(_) => ended += 1,
            Err(_) => killed += 1,
        }
    }
    for id in 0..cycles.div_ceil(5) {
        let done = run(&spec_of(&format!("cycle-{id}")).export(), &client).await.unwrap();
        assert_eq!(done.manifest.parts, reference.manifest.parts, "cycle-{id}");
    }
    println!("{killed} killed, {ended} had ended before");
}
