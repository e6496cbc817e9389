//! Effects, commits, outputs and runs with the command line alone, on the real binary.

use std::time::{Duration, Instant};

use crate::command::{run, run_with};
use crate::desk::{says, server};
use crate::support::Server;
use serde_json::{Value, json};

#[track_caller]
fn shows(text: &str, all: &[&str]) {
    for words in all {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Begins an effect that nobody has begun, and gives its token.
#[track_caller]
fn begin(server: &Server, scope: &str, key: &str, flags: &[&str]) -> String {
    let begun = server.run(&[&["effect", "begin", scope, key, "-o", "json"][..], flags].concat()).ok().json();
    assert_eq!(begun["decision"], "execute");
    begun["lease"]["token"].as_str().unwrap().to_owned()
}

/// Borrows one message, and gives the token of its lease.
#[track_caller]
fn take(server: &Server, topic: &str) -> String {
    let taken = server.run(&["lease", "take", topic, "g", "--wait", "10s", "--owner", "w1"]).ok().lines();
    taken[0]["lease"]["token"].as_str().unwrap().to_owned()
}

fn get(server: &Server, scope: &str, key: &str) -> Value {
    server.run(&["effect", "get", scope, key, "-o", "json"]).ok().json()
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_effect_is_carried_out_once_and_replayed_with_its_own_code() {
    let (_data, server) = server();
    let begin_again = |flags: &[&str]| server.run(&[&["effect", "begin", "pay", "7"][..], flags].concat());
    let text = begin_again(&["--lease", "90s", "--owner", "w1", "--request-id", "call-1"]).ok().stdout;
    shows(&text, &["effect      pay/7\n", "execute: carry it out", "attempt     1\n", "(in 1m"]);
    let again = begin_again(&["--request-id", "call-1", "-o", "json"]).ok().json();
    let token = again["lease"]["token"].as_str().unwrap();
    assert!(text.contains(token), "the same call has the same answer");

    let busy = begin_again(&["-o", "json"]).code(13).json();
    assert_eq!((&busy["decision"], &busy["attempt"]), (&json!("in_progress"), &json!(1)));
    shows(&begin_again(&[]).code(13).stdout, &["another caller carries it out", "ask again  in "]);
    let renewed = server.run(&["effect", "renew", token, "--lease", "2h", "-o", "json"]).ok().json();
    assert!(renewed["expires_at"].as_str() > again["lease"]["expires_at"].as_str());
    shows(&server.run(&["effect", "renew", token]).ok().stdout, &["yours until", "(attempt 1)"]);

    let finish = ["effect", "finish", token, "--status", "succeeded", "--code", "-7", "--header", "a=b=c"];
    let finish = |more: &[&str]| server.run(&[&finish[..], more].concat());
    assert_eq!(finish(&["--body", "ch_1", "-o", "json"]).ok().json()["result"], "committed");
    shows(
        &finish(&["--body", "ch_1"]).ok().stdout,
        &["succeeded, as was said before (attempt 1); remembered"],
    );
    says(finish(&["--body", "ch_2"]), 5, "STALE_LEASE");
    says(server.run(&["effect", "finish", "nonsense", "--status", "succeeded"]), 4, "LEASE_UNKNOWN");

    let replayed = begin_again(&["-o", "json"]).code(12).json();
    assert_eq!(replayed["decision"], "replay");
    let outcome = &replayed["outcome"];
    assert_eq!((&outcome["code"], &outcome["body"]), (&json!(-7), &json!("ch_1")));
    assert_eq!(outcome["headers"], json!({"a": "b=c"}));
    shows(&begin_again(&[]).code(12).stdout, &["it has ended", "header    a: b=c\n", "body      ch_1\n"]);
    let text = server.run(&["effect", "get", "pay", "7"]).ok().stdout;
    shows(&text, &["succeeded: it happened", "owner        w1\n", "forgotten    ", "(in 23h"]);
}

#[test]
fn what_is_asked_for_is_compared_and_failures_are_tried_again() {
    let (data, server) = server();
    let file = data.path().join("request.json");
    std::fs::write(&file, b"charge 5").unwrap();
    let file = file.to_str().unwrap();
    let token = begin(&server, "pay", "8", &["--request-file", file, "--max-attempts", "2", "--tenant", ""]);
    let hash = get(&server, "pay", "8")["request_hash"].as_str().unwrap().to_owned();
    assert!(hash.starts_with("blake3:") && hash.len() == 7 + 64, "{hash}");
    says(server.run(&["effect", "begin", "pay", "8", "--request-hash", "other"]), 4, "KEY_REUSED");
    server.run_piped(&["effect", "begin", "pay", "8", "--request-file", "-"], "charge 5").code(13);
    says(server.run(&["effect", "begin", "a", "b", "--request-file", "/nowhere/x"]), 2, "/nowhere/x");

    let fail = ["effect", "finish", "--status", "failed-retryable", "--error", "timed out"];
    let fail = |token: &str| server.run(&[&fail[..], &[token]].concat()).ok();
    fail(&token);
    let failed = server.run(&["effect", "begin", "pay", "8", "-o", "json"]).code(14).json();
    assert_eq!((&failed["decision"], &failed["attempts_left"]), (&json!("retryable"), &json!(1)));
    let text = server.run(&["effect", "begin", "pay", "8"]).code(14).stdout;
    shows(&text, &["driftq effect reacquire", "attempts left  1\n", "error          timed out\n"]);
    let again = server.run(&["effect", "reacquire", "pay", "8", "-o", "json"]).ok().json();
    assert_eq!((&again["decision"], &again["lease"]["attempt"]), (&json!("execute"), &json!(2)));
    says(server.run(&["effect", "renew", &token]), 5, "STALE_LEASE");
    fail(again["lease"]["token"].as_str().unwrap());
    says(server.run(&["effect", "reacquire", "pay", "8"]), 5, "grants one more attempt");
    says(server.run(&["effect", "reacquire", "pay", "none"]), 4, "driftq effect list");

    let token = begin(&server, "mail", "1", &[]);
    server.run(&["effect", "finish", &token, "--status", "failed-retryable"]).ok();
    server.run(&["effect", "begin", "mail", "1", "--reacquire"]).ok();
    let bytes = data.path().join("bytes");
    std::fs::write(&bytes, [0xff, 0]).unwrap();
    let token = begin(&server, "mail", "2", &["--run-id", "r", "--step-id", "s"]);
    let body = ["--body-file", bytes.to_str().unwrap()];
    server.run(&[&["effect", "finish", &token, "--status", "failed_final"][..], &body].concat()).ok();
    let effect = get(&server, "mail", "2");
    assert_eq!((&effect["state"], &effect["outcome"]["body_b64"]), (&json!("failed_final"), &json!("/wA=")));
    assert_eq!((&effect["run_id"], &effect["step_id"]), (&json!("r"), &json!("s")));
}

#[test]
fn waiting_ends_with_the_outcome_or_with_the_time() {
    let (_data, server) = server();
    let token = begin(&server, "pay", "1", &["--lease", "1m"]);
    let started = Instant::now();
    server.run(&["effect", "begin", "pay", "1", "--wait", "300ms"]).code(13);
    assert!(started.elapsed() >= Duration::from_millis(300));
    std::thread::scope(|scope| {
        let wait = || server.run(&["effect", "begin", "pay", "1", "--wait", "90s", "-o", "json"]);
        let waiter = scope.spawn(wait);
        std::thread::sleep(Duration::from_millis(300));
        server
            .run_piped(&["effect", "finish", &token, "--status", "succeeded", "--body-file", "-"], "done")
            .ok();
        assert_eq!(waiter.join().unwrap().code(12).json()["outcome"]["body"], "done");
    });
    assert!(started.elapsed() < Duration::from_secs(30), "the waiter learns it at once");
}

#[test]
fn what_may_have_happened_waits_for_somebody_who_resolves_it() {
    let (_data, server) = server();
    begin(&server, "pay", "9", &["--lease", "50ms"]);
    begin(&server, "mail", "9", &["--tenant", "acme", "--lease", "1h"]);
    until("the lease lapses", || get(&server, "pay", "9")["state"] == "unknown");
    let text = server.run(&["effect", "begin", "pay", "9"]).code(15).stdout;
    shows(&text, &["unknown: it may have happened", "driftq effect resolve", "unknown since"]);
    assert_eq!(server.run(&["effect", "begin", "pay", "9", "-o", "json"]).code(15).json()["epoch"], 1);

    let url = server.url();
    let resolve = |flags: &[&str]| {
        let arguments =
            [&["effect", "resolve", "--status", "succeeded", "--why", "saw it"][..], flags].concat();
        run_with(&[("DRIFTQ_SERVER", &url), ("USER", "ann")], &arguments)
    };
    says(resolve(&["pay", "9", "--epoch", "7"]), 5, "STALE_LEASE");
    says(resolve(&["mail", "9", "--tenant", "acme"]), 5, "driftq effect get");
    says(resolve(&["mail", "9"]), 4, "--tenant");
    assert_eq!(resolve(&["pay", "9", "-o", "json", "--epoch", "1"]).ok().json()["result"], "committed");
    shows(&resolve(&["pay", "9"]).ok().stdout, &["pay/9 is succeeded, as was said before"]);
    says(resolve(&["pay", "9", "--body", "other"]), 5, "that is final");
    let text = server.run(&["effect", "get", "pay", "9"]).ok().stdout;
    shows(&text, &["resolved by  ann\n", "because      saw it\n"]);
    says(run(&["effect", "resolve", "a", "b", "--status", "succeeded", "--by", "ann"]), 2, "--why");
    says(run(&["effect", "finish", "t", "--status", "perhaps"]), 2, "failed-retryable");
}

#[test]
fn effects_are_listed_over_many_pages() {
    let (_data, server) = server();
    for number in 0..12 {
        let token = begin(&server, if number % 2 == 0 { "pay" } else { "mail" }, &number.to_string(), &[]);
        if number < 3 {
            let error = ["--status", "failed-final", "--error", "card declined"];
            server.run(&[&["effect", "finish", &token][..], &error].concat()).ok();
        }
    }
    begin(&server, "pay", "0", &["--tenant", "acme"]);
    let list = |flags: &[&str]| {
        server.run(&[&["effect", "list", "-o", "ndjson"][..], flags].concat()).ok().lines().len()
    };
    assert_eq!((list(&[]), list(&["--all"]), list(&["--limit", "5"])), (13, 13, 5));
    assert_eq!((list(&["--scope", "pay"]), list(&["--scope", "pay", "--limit", "3"])), (7, 3));
    assert_eq!((list(&["--tenant", "acme"]), list(&["--tenant", ""])), (1, 12));
    assert_eq!((list(&["--state", "failed-final"]), list(&["--state", "in_progress"])), (3, 10));
    assert_eq!(server.run(&["effect", "list", "--state", "unknown", "-o", "json"]).ok().json(), json!([]));
    let all = server.run(&["effect", "list", "-o", "json"]).ok().json();
    assert_eq!(all.as_array().unwrap().len(), 13);
    let table = server.run(&["effect", "list", "--limit", "4"]).ok();
    assert!(table.stdout.starts_with("SCOPE  KEY  TENANT  STATE"), "{}", table.stdout);
    shows(&table.stdout, &["pay    0    -       failed_final  1", "card declined", "lease ends in"]);
    assert!(table.stderr.contains("--all"), "{}", table.stderr);
    assert_eq!(server.run(&["effect", "list", "--scope", "x"]).ok().stdout, "no effect fits\n");
    says(run(&["effect", "list", "--state", "bored"]), 2, "failed-retryable");
    says(server.run(&["effect", "get", "pay", "none"]), 4, "EFFECT_UNKNOWN");
}

#[test]
fn a_lease_that_is_given_up_is_the_next_one_s() {
    let (_data, server) = server();
    let token = begin(&server, "pay", "8", &["--lease", "1h", "--max-attempts", "1"]);
    shows(&server.run(&["effect", "release", &token]).ok().stdout, &["given up: the next one"]);
    let again = server.run(&["effect", "release", &token, "-o", "json"]).ok().json();
    assert_eq!(again, json!({"result": "already_released"}));
    let next = begin(&server, "pay", "8", &["--max-attempts", "1"]);
    server.run(&["effect", "release", &token]).code(5);
    shows(&server.run(&["effect", "release", "--uncertain", &next]).ok().stdout, &["it may have happened"]);
    assert_eq!(get(&server, "pay", "8")["state"], "unknown");
}

#[test]
fn a_commit_happens_whole_or_not_at_all() {
    let (data, server) = server();
    server.run(&["topic", "create", "orders", "--max-in-flight", "100"]).ok();
    server.run(&["topic", "create", "receipts"]).ok();
    server.run_piped(&["produce", "orders"], "1\n2\n3\n").ok();
    let (message, other) = (take(&server, "orders"), take(&server, "orders"));
    let effect = begin(&server, "pay", "1", &["--lease-token", &message]);
    let finish = format!("{effect}:succeeded");
    let output = "sales/v1/2030-01=s3://lake/a=b@sha256:9f";
    let all = ["commit", "--ack", &message, "--fence", &other, "--finish", &finish];
    let rest = ["--produce", "receipts=paid", "--replace-output", output];
    let parts = [&all[..], &rest].concat();

    says(server.run(&[&parts[..], &["--produce", "receits=x"]].concat()), 4, "did you mean `receipts`?");
    says(server.run(&[&parts[..], &["--ack", "nonsense"]].concat()), 4, "nothing was committed: ack[1]: ");
    assert_eq!(get(&server, "pay", "1")["state"], "in_progress", "nothing happened");
    let text = server.run(&parts).ok().stdout;
    shows(&text, &["committed: 1 acked, 1 checked, 1 finished, 1 stored, 1 registered\n"]);
    shows(&text, &["receipts  0          0       stored\n", "sales    v1       2030-01        replaced"]);
    assert_eq!(get(&server, "pay", "1")["state"], "succeeded");
    let again = server.run(&[&parts[..], &["-o", "json"]].concat()).ok().json();
    assert_eq!((&again["result"], &again["produced"][0]["offset"]), (&json!("already_committed"), &json!(0)));
    shows(&server.run(&parts).ok().stdout, &["committed before, exactly so"]);
    says(server.run(&["commit", "--ack", &message, "--produce", "receipts=twice"]), 5, "ack[0]");

    let append = "sales/v1/log=s3://lake/b@md5:1#batch-7";
    server.run(&["commit", "--fence", &other, "--append-output", append]).ok();
    let body = json!({"fence": [other], "produce": [{"topic": "receipts", "message": {"value": "f"}}],
        "outputs": [{"dataset": "sales", "version": "v1", "partition_key": "log", "mode": "append",
            "dedupe_key": "batch-7", "location": "elsewhere", "digest": "md5:2"}]});
    let file = data.path().join("commit.json");
    std::fs::write(&file, body.to_string()).unwrap();
    let text = server.run(&["commit", "--file", file.to_str().unwrap()]).ok().stdout;
    shows(&text, &["duplicate: the first one stays  s3://lake/b\n"]);
    let piped = server.run_piped(&["commit", "--file", "-", "-o", "json"], &body.to_string()).ok().json();
    assert_eq!(piped["result"], "already_committed");

    let wrong = json!({"fence": [other], "outputs": [{"dataset": "sales", "version": "v1",
        "partition_key": "log", "mode": "replace", "location": "x", "digest": "y"}]});
    says(server.run_piped(&["commit", "--file", "-"], &wrong.to_string()), 5, "outputs[0]: ");
    says(server.run_piped(&["commit", "--file", "-"], "{\"colour\": 1}"), 4, "colour");
    says(server.run_piped(&["commit", "--file", "-"], "{broken"), 2, "not JSON");
    says(server.run(&["commit"]), 2, "--file");
    says(server.run(&["commit", "--file", "-", "--ack", "x"]), 2, "--ack");
    says(server.run(&["commit", "--finish", "t:perhaps"]), 2, "failed-retryable");
    says(server.run(&["commit", "--replace-output", output]), 4, "at least one token");
}

#[test]
fn outputs_are_listed_cut_over_rolled_back_and_forgotten() {
    let (_data, server) = server();
    assert_eq!(server.run(&["output", "list"]).ok().stdout, "no dataset has outputs\n");
    server.run(&["topic", "create", "orders"]).ok();
    server.run(&["produce", "orders", "v"]).ok();
    let message = take(&server, "orders");
    for version in ["v1", "v2"] {
        let outputs: Vec<String> =
            (1..4).map(|part| format!("sales/{version}/p{part}=s3://{version}/{part}@md5:{part}")).collect();
        let flags = outputs.iter().flat_map(|output| ["--replace-output", output]);
        let commit = ["commit", "--fence", &message].into_iter().chain(flags).collect::<Vec<_>>();
        server.run(&commit).ok();
    }
    let text = server.run(&["output", "list", "sales"]).ok().stdout;
    shows(&text, &["current  nothing: `driftq output cutover`", "v1       3        20"]);
    says(server.run(&["output", "list", "sales", "current"]), 4, "driftq output list");
    says(server.run(&["output", "rollback", "sales"]), 5, "nothing to go back from");

    let cut = |arguments: &[&str]| server.run(&[&["output", "cutover", "sales"][..], arguments].concat());
    assert_eq!(cut(&["v1"]).ok().stdout, "readers of sales see v1\n");
    assert_eq!(cut(&["v2", "--expect", "v1", "-o", "json"]).ok().json()["previous"], "v1");
    says(cut(&["v1", "--expect", "v1"]), 5, "VERSION_DIFFERS");
    says(cut(&["v3"]), 4, "OUTPUT_UNKNOWN");
    let datasets = server.run(&["output", "list", "-o", "json"]).ok().json();
    assert_eq!(datasets, json!([{"dataset": "sales", "current": "v2", "versions": 2, "outputs": 6}]));
    shows(
        &server.run(&["output", "list"]).ok().stdout,
        &["DATASET  CURRENT  VERSIONS  OUTPUTS\nsales    v2"],
    );
    let dataset = server.run(&["output", "list", "sales", "-o", "json"]).ok().json();
    assert_eq!((&dataset["current"], &dataset["history"][0]["version"]), (&json!("v2"), &json!("v1")));
    assert_eq!(dataset["versions"].as_array().unwrap().len(), 2);

    let list = |arguments: &[&str]| server.run(&[&["output", "list", "sales"][..], arguments].concat()).ok();
    let rows = list(&["current", "-o", "ndjson"]).lines();
    assert_eq!(
        (rows.len(), &rows[0]["version"], &rows[0]["location"]),
        (3, &json!("v2"), &json!("s3://v2/1"))
    );
    assert_eq!(list(&["v1", "--limit", "2", "-o", "json"]).json().as_array().unwrap().len(), 2);
    let text = list(&["v1", "p3"]).stdout;
    shows(
        &text,
        &[
            "VERSION  PARTITION KEY  MODE",
            "v1       p3             replace  s3://v1/3",
            "orders 0/0 attempt 1",
        ],
    );

    says(server.run(&["output", "delete", "sales", "v1"]), 2, "--yes");
    says(server.run(&["output", "delete", "sales", "v2", "--yes"]), 5, "driftq output rollback");
    let back = server.run(&["output", "rollback", "sales", "--from", "v2"]).ok().stdout;
    assert!(back.starts_with("readers of sales see v1"), "{back}");
    let again = server.run(&["output", "rollback", "sales", "--from", "v2", "-o", "json"]).ok().json();
    assert_eq!((&again["current"], &again["changed"]), (&json!("v1"), &json!(false)));
    let deleted = server.run(&["output", "delete", "sales", "v2", "--yes"]).ok().stdout;
    assert_eq!(deleted, "version v2 of sales is forgotten: 3 output(s)\n");
    says(server.run(&["output", "list", "sales", "v2"]), 4, "OUTPUT_UNKNOWN");
    assert_eq!(server.run(&["output", "rollback", "sales", "-o", "json"]).ok().json()["changed"], true);
}

#[test]
fn a_run_is_told_as_a_tree() {
    let (_data, server) = server();
    assert_eq!(server.run(&["run", "list"]).ok().stdout, "no run is known\n");
    server.run(&["topic", "create", "orders", "--max-in-flight", "2000"]).ok();
    let produce = |step: &[&str]| {
        server.run(&[&["produce", "orders", "v", "--run-id", "r-7"][..], step].concat()).ok();
    };
    produce(&["--step-id", "plan"]);
    produce(&["--step-id", "charge", "--parent-step-id", "plan"]);
    produce(&[]);
    let (first, second) = (take(&server, "orders"), take(&server, "orders"));
    let effect = begin(&server, "pay", "1", &["--lease-token", &second]);
    let ended = ["--status", "failed-final", "--code", "402", "--error", "declined"];
    server.run(&[&["effect", "finish", &effect][..], &ended].concat()).ok();
    server.run(&["lease", "ack", &first]).ok();
    server.run(&["lease", "nack", &second, "--dead", "--error", "no money"]).ok();
    let show = |flags: &[&str]| server.run(&[&["run", "show", "r-7"][..], flags].concat());
    until("the letter is buried", || show(&["-o", "json"]).ok().json()["dead_letters"] == 1);

    let text = show(&[]).ok().stdout;
    shows(&text, &["run       r-7\n", "messages  3, 1 open, 1 dead letter(s)\n", "effects   1\n"]);
    shows(&text, &["\nstep plan\n  message orders 0/0, stored +", "    group g: done, 1 attempt, waited "]);
    shows(&text, &["\n  step charge\n    message orders 0/1", "      group g: dead letter, 1 attempt"]);
    shows(
        &text,
        &["attempt 1 by w1", ": no money\n", "    effect pay/1 for orders 0/1: failed_final, attempt 1"],
    );
    shows(&text, &["code 402: declined\n", "\nwithout a step\n  message orders 0/2"]);
    let run = show(&["-o", "json"]).ok().json();
    assert_eq!(run["steps"][0]["children"], json!(["charge"]));

    let many: String = (0..1200).map(|number| format!("{number}\n")).collect();
    server.run_piped(&["produce", "orders", "--run-id", "big", "--step-id", "one"], &many).ok();
    let big = server.run(&["run", "show", "big", "-o", "json"]).ok().json();
    assert_eq!(big["steps"].as_array().unwrap().len(), 1, "one step over two pages");
    let listed = big["steps"][0]["messages"].as_array().unwrap().len() as u64;
    assert_eq!(listed + big["unlisted"].as_u64().unwrap(), 1200);

    let runs = server.run(&["run", "list", "-o", "ndjson"]).ok().lines();
    assert_eq!((&runs[0]["run_id"], &runs[1]["run_id"]), (&json!("big"), &json!("r-7")));
    assert_eq!(server.run(&["run", "list", "--limit", "1", "-o", "json"]).ok().json()[0]["messages"], 1200);
    let table = server.run(&["run", "list"]).ok().stdout;
    shows(&table, &["RUN  TENANT  STARTED", "1,200", "r-7  -       20"]);
    says(server.run(&["run", "show", "r-8"]), 4, "driftq run list");
}

#[test]
fn help_teaches_and_names_the_codes() {
    for (command, words) in [
        (&["effect", "begin"][..], "13  the effect is being carried out by another caller"),
        (&["effect", "begin"], "BLAKE3"),
        (&["effect", "reacquire"], "12  the effect has ended before"),
        (&["effect", "finish"], "--status failed-retryable --error 'timed out'"),
        (&["effect", "renew"], "A heartbeat"),
        (&["effect", "resolve"], "[env: USER]"),
        (&["effect", "get"], "driftq effect get charge order-7"),
        (&["effect", "list"], "driftq effect list --state unknown"),
        (&["commit"], "--append-output sales/v2/log="),
        (&["output", "list"], "driftq output list sales current"),
        (&["output", "cutover"], "--expect v1"),
        (&["output", "rollback"], "--from v2"),
        (&["output", "delete"], "--yes"),
        (&["run", "list"], "driftq run list --limit 20"),
        (&["run", "show"], "driftq run show r-7"),
    ] {
        for flag in ["--help", "-h"] {
            let help = run(&[command, &[flag]].concat()).ok().stdout;
            assert!(help.contains(words), "{command:?} {flag}: {help}");
        }
    }
    says(run_with(&[("DRIFTQ_SERVER", "http://127.0.0.1:9")], &["run", "list"]), 3, "driftq serve");
}
