//! `driftq bench tls` runs from end to end. What it measures is for people to judge.

use crate::command::run;

#[test]
fn every_figure_of_tls_is_there_beside_its_peer() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["bench", "tls", "--messages", "64", "--rounds", "1", "-o", "json", "--dir"];
    let report = run(&[&arguments[..], &[directory.path().to_str().unwrap()]].concat()).ok().json();
    let figures = report["figures"].as_array().unwrap();
    let peers: Vec<_> = figures
        .iter()
        .filter(|figure| figure["unit"] == "per_second")
        .map(|figure| {
            assert!(figure["value"].as_f64() > Some(0.0), "{figure}");
            (figure["name"].as_str().unwrap(), figure["peer"].as_str().unwrap())
        })
        .collect();
    let produce = "produce over TLS, 64 connections";
    let new = "new connections with TLS, one request each, 16 at a time";
    let (bare, open) = ("bare hyper with TLS", "driftq without TLS");
    assert_eq!(peers, [(produce, bare), (produce, open), (new, bare)]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}
