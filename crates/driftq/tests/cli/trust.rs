//! Servers with certificates of an own authority, reached by commands that are told whom to trust.

use std::fs;
use std::path::Path;

use crate::command::{Ran, run_with};
use crate::secured::{ALL_BUT_ADMIN, Secured};
use serde_json::json;

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[track_caller]
fn refuses(ran: &Ran, texts: &[&str]) {
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    for text in texts {
        assert!(ran.stderr.contains(text), "{text} in: {}", ran.stderr);
    }
}

#[test]
fn a_command_trusts_the_authorities_in_the_file_that_it_is_told() {
    let secured = Secured::start();
    let (_, _, key) = secured.key("worker", ALL_BUT_ADMIN);
    let (url, authority, key) = (secured.server.url(), text(&secured.authority()), text(&key));
    let way = ["--server", &url, "--key-file", &key];
    let with = |arguments: &[&str]| run_with(&[], &[&way[..], arguments].concat());
    with(&["--ca-file", &authority, "topic", "create", "parcels"]).ok();
    assert_eq!(with(&["topic", "list", "--ca-file", &authority]).ok().stdout, "parcels\n");
    let variables = [("DRIFTQ_CA_FILE", &*authority), ("DRIFTQ_SERVER", &url), ("DRIFTQ_KEY_FILE", &key)];
    assert_eq!(run_with(&variables, &["topic", "list"]).ok().stdout, "parcels\n");
    // Every command has its own way to the server.
    run_with(&variables, &["produce", "parcels", "ring twice"]).ok();
    let listed = run_with(&variables, &["ledger", "list", "-o", "json"]).ok();
    assert_eq!(listed.json()["records"].as_array().map_or(0, Vec::len), 0, "{}", listed.stdout);
    run_with(&variables, &["check"]).ok();
    // Without it the server is a stranger, and the user is told what to do.
    refuses(&with(&["topic", "list"]), &["not trusted", "--ca-file"]);
    refuses(&with(&["work", "parcels", "-g", "g", "--exec", "true", "--until-idle"]), &["not trusted"]);
}

#[test]
fn a_file_of_authorities_that_is_of_no_use_is_named() {
    let secured = Secured::start();
    let (url, absent) = (secured.server.url(), text(&secured.path("absent.pem")));
    let other = secured.path("other.pem");
    fs::write(&other, "no certificate").unwrap();
    let (other, key) = (text(&other), text(&secured.path("tls/key.pem")));
    for (file, words) in [(&absent, "No such file"), (&other, "no certificate"), (&key, "no certificate")] {
        for command in [
            &["topic", "list"][..],
            &["work", "parcels", "-g", "g", "--exec", "true"],
            &["ledger", "list"],
            &["context", "add", "live"],
        ] {
            let flags = ["--server", &url, "--ca-file", file];
            let ran = run_with(&[], &[command, &flags].concat());
            assert_eq!(ran.code, 2, "{command:?}: {}", ran.stderr);
            refuses(&ran, &[file, words]);
        }
    }
}

#[test]
fn a_context_names_the_authorities_of_its_server() {
    let secured = Secured::start();
    let (_, _, key) = secured.key("worker", ALL_BUT_ADMIN);
    let (url, authority, key) = (secured.server.url(), text(&secured.authority()), text(&key));
    let contexts = text(&secured.path("contexts.toml"));
    let with = |arguments: &[&str]| run_with(&[("DRIFTQ_CONTEXTS", &contexts)], arguments);
    let add = ["context", "add", "live", "--server", &url, "--key-file", &key, "--ca-file", &authority];
    let added = with(&[&add[..], &["--use", "-o", "json"]].concat()).ok().json();
    assert_eq!((&added["ca_file"], &added["key_file"]), (&json!(authority), &json!(key)));
    assert!(with(&["context", "show", "live"]).ok().stdout.contains(&authority));
    with(&["topic", "create", "parcels"]).ok();
    with(&["produce", "parcels", "ring twice"]).ok();
    // Commands that are started from here reach the server, too.
    let handler = format!(
        "{} effect run --scope ring --key one -- echo rung > rung && test \"$(cat rung)\" = rung",
        env!("CARGO_BIN_EXE_driftq")
    );
    let work = ["work", "parcels", "-g", "bell", "--exec", &handler, "--until-idle"];
    let place = tempfile::tempdir().unwrap();
    let ran = crate::support::driftq()
        .args(work)
        .env("DRIFTQ_CONTEXTS", &contexts)
        .current_dir(place.path())
        .output()
        .unwrap();
    Ran::from(ran).ok();
    assert_eq!(fs::read_to_string(place.path().join("rung")).unwrap(), "rung\n");
    let handler = format!("{} topic list > listed", env!("CARGO_BIN_EXE_driftq"));
    with(&["produce", "parcels", "ring again"]).ok();
    let consume = ["consume", "parcels", "-g", "bell", "--exec", &handler, "--max", "1", "--timeout", "20s"];
    let ran = crate::support::driftq()
        .args(consume)
        .env("DRIFTQ_CONTEXTS", &contexts)
        .current_dir(place.path())
        .output()
        .unwrap();
    Ran::from(ran).ok();
    assert_eq!(fs::read_to_string(place.path().join("listed")).unwrap(), "parcels\n");
    // The authorities are those of this one context.
    refuses(&with(&["topic", "list", "--server", &url]), &["not trusted"]);
    let plain = ["context", "add", "plain", "--server", "http://127.0.0.1:9"];
    refuses(&with(&[&plain[..], &["--ca-file", &authority]].concat()), &["--ca-file means nothing"]);
    let set = [("DRIFTQ_CONTEXTS", &*contexts), ("DRIFTQ_CA_FILE", &authority)];
    let added = run_with(&set, &[&plain[..], &["-o", "json"]].concat()).ok().json();
    assert_eq!(added.get("ca_file"), None, "one that is set is meant for others");
}
