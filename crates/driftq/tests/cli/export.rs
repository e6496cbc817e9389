//! `driftq export` on the real binary: what it prints, and the codes that scripts rely on.

use serde_json::json;

use crate::desk::{says, server};

#[test]
fn an_export_is_made_once_and_told_from_then_on() {
    let (_data, server) = server();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    server.run(&["topic", "create", "orders"]).ok();
    for number in 0..3 {
        server.run(&["produce", "orders", &format!("order {number}")]).ok();
    }
    let export = |flags: &[&str]| server.run(&[&["export", place][..], flags].concat());
    let first = export(&["--id", "one", "--topic", "orders", "-o", "json"]).ok().json();
    assert_eq!((&first["result"], &first["manifest"]["rows"]), (&json!("exported"), &json!(3)));
    let again = export(&["--id", "one", "--topic", "orders", "-o", "json"]).ok().json();
    assert_eq!((&again["result"], &again["manifest"]), (&json!("replayed"), &first["manifest"]));
    let listed = server.run(&["output", "list", "exports", "v1", "one", "-o", "ndjson"]).ok().lines();
    assert_eq!(listed[0]["location"], first["location"]);
    let text = export(&["--id", "one", "--topic", "orders"]).ok().stdout;
    assert!(text.contains("nothing was written"), "{text}");
    says(export(&["--id", "one", "--topic", "orders", "--to", "2"]), 5, "another selection");
    let swept = server.run(&["export", "sweep", place, "-o", "json"]).ok().json();
    assert_eq!(swept, json!({"removed": 0, "live": []}));
}

#[test]
fn what_is_not_said_well_is_refused_with_advice() {
    let (_data, server) = server();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let export = |flags: &[&str]| server.run(&[&["export", place][..], flags].concat());
    says(export(&["--id", "a", "--dataset", "sales"]), 2, "--latest");
    says(export(&["--id", "a", "--topic", "orders"]), 4, "TOPIC_UNKNOWN");
    says(export(&["--id", "a/b", "--topic", "orders"]), 2, "the name of a folder");
    says(export(&["--id", "a"]), 2, "--topic");
    says(export(&["--id", "a", "--topic", "orders", "--run", "r"]), 2, "cannot be used with");
    says(export(&["--topic", "orders"]), 2, "--id");
    let elsewhere = server.run(&["export", "http://host/a", "--id", "a", "--topic", "orders"]);
    says(elsewhere, 2, "s3://bucket/prefix");
}
