//! `driftq ledger` on real PostgreSQL and on a live server.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Ran, run_with};
use crate::schema::{DATABASE, Schema, one_of_each, put_over, says, shows};
use crate::support::driftq;
use crate::world::{begin, hash, identity, server, until, until_it};
use driftq_ledger::{Begin, Identity};
use serde_json::{Value, json};

fn keys(records: &Value) -> Vec<&str> {
    records.as_array().unwrap().iter().map(|record| record["key"].as_str().unwrap()).collect()
}

#[test]
fn the_table_is_made_once_and_shown_before() {
    let schema = Schema::new("migrate");
    says(schema.run(&["list"]), 1, &["table", "help: `driftq ledger migrate`"]);
    let pending = schema.run(&["migrate", "--dry-run", "-o", "json"]).ok().json();
    let states = |json: &Value| -> Vec<String> {
        let steps = json["steps"].as_array().unwrap().iter();
        steps.map(|step| step["state"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!states(&pending).is_empty() && states(&pending).iter().all(|state| state == "pending"));
    assert_eq!(pending["table"], schema.table);
    shows(&schema.run(&["migrate", "--dry-run"]).ok().stdout, &["pending", "is not up to date"]);
    says(schema.run(&["list"]), 1, &["driftq ledger migrate"]);

    shows(
        &schema.run(&["migrate"]).ok().stdout,
        &["applied now", &format!("{} is up to date now\n", schema.table)],
    );
    shows(&schema.run(&["migrate"]).ok().stdout, &["was there", "was up to date\n"]);
    let there = schema.run(&["migrate", "-o", "json"]).ok().json();
    assert!(states(&there).iter().all(|state| state == "present"), "{there}");
    shows(&schema.run(&["list"]).ok().stdout, &["no record fits\n"]);
}

#[test]
fn printed_sql_does_what_migrate_does_and_needs_no_database() {
    let schema = Schema::new("print");
    let sql = schema.run_at("postgres://nobody:secret@127.0.0.1:1/none", &["migrate", "--print"]).ok().stdout;
    shows(&sql, &["CREATE TABLE", &schema.table, "COMMIT;"]);
    schema.psql(&sql);
    shows(&schema.run(&["migrate", "--dry-run"]).ok().stdout, &["was up to date\n"]);
    assert_eq!(schema.run(&["list", "-o", "json"]).ok().json(), json!([]));
}

#[tokio::test]
async fn records_are_listed_and_shown() {
    let schema = Schema::migrated("look");
    one_of_each(&schema.ledger()).await;
    let all = schema.run(&["list", "-o", "json"]).ok().json();
    assert_eq!(keys(&all), ["done", "lapsed", "later", "never", "runs", "unclear"]);
    for (status, expected) in [
        ("in-progress", &["lapsed", "runs"][..]),
        ("SUCCEEDED", &["done"]),
        ("failed_final", &["never"]),
        ("failed-retryable", &["later"]),
        ("unknown", &["unclear"]),
    ] {
        let found = schema.run(&["list", "--status", status, "-o", "json"]).ok().json();
        let mut found = keys(&found);
        found.sort_unstable();
        assert_eq!(found, expected, "{status}");
    }
    assert_eq!(schema.run(&["list", "--principal", "bob", "-o", "json"]).ok().json(), json!([]));
    assert_eq!(schema.run(&["list", "--method", "pay", "-o", "ndjson"]).ok().lines().len(), 6);
    let table = schema.run(&["list"]).ok().stdout;
    shows(&table, &["PRINCIPAL", "ann", "unclear", "it may have happened: resolve it", "lease ended", "w1"]);
    shows(&table, &["no such\\u0007 card"]);

    let done = schema.run(&["show", "ann", "pay", " done ", "-o", "json"]).ok().json();
    assert_eq!(
        (&done["status"], &done["epoch"], &done["attempts"]),
        (&json!("succeeded"), &json!(1), &json!(1))
    );
    assert_eq!(done["request_hash"], hash().to_string());
    let outcome = &done["outcome"];
    assert_eq!((&outcome["code"], &outcome["body_b64"]), (&json!(201), &json!("/wA=")));
    assert_eq!(outcome["headers"], json!({"content-type": "image/png"}));
    let text = schema.run(&["show", "ann", "pay", "done"]).ok().stdout;
    shows(
        &text,
        &["status        succeeded: it happened", "owner         w1\n", "forgotten", "base64:/wA=\n"],
    );
    let text = schema.run(&["show", "ann", "pay", "unclear"]).ok().stdout;
    shows(&text, &["unknown: it may have happened; find out, then `driftq ledger resolve`", "lease ended"]);

    let bytes = |key: &str| {
        let mut command = driftq();
        command.args(["ledger", "show", "ann", "pay", key, "--body", "--table", &schema.table]);
        command.env("DRIFTQ_LEDGER_STORE", &schema.url).output().unwrap()
    };
    assert_eq!(bytes("done").stdout, [0xff, 0], "as it is, and nothing else");
    says(bytes("runs").into(), 5, &["it has no answer yet: it is in_progress"]);
    says(bytes("nobody's").into(), 4, &["driftq ledger list"]);
}

#[tokio::test]
async fn a_list_goes_through_all_pages() {
    let schema = Schema::migrated("pages");
    // More than one page of the store has.
    schema.psql(
        "INSERT INTO {table} (principal, grpc_method, idempotency_key, request_hash, status, expires_at) \
         SELECT 'ann', 'pay', 'k' || number, 'h', 'SUCCEEDED', now() + interval '1 day' \
         FROM generate_series(1, 2345) AS number",
    );
    for flags in [&["--all"][..], &["--all", "--status", "succeeded"]] {
        let all = schema.run(&[&["list", "-o", "ndjson"][..], flags].concat()).ok().lines();
        let mut names: Vec<_> = all.iter().map(|record| record["key"].to_string()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((all.len(), names.len()), (2345, 2345), "each once");
    }
    assert_eq!(schema.run(&["list", "--limit", "1001", "-o", "ndjson"]).ok().lines().len(), 1001);
    let few = schema.run(&["list", "--limit", "3"]).ok();
    assert_eq!(few.stdout.lines().count(), 4);
    assert!(few.stderr.contains("there may be more: raise --limit"), "{}", few.stderr);
}

#[tokio::test]
async fn a_person_resolves_what_nobody_knows() {
    let schema = Schema::migrated("resolve");
    let ledger = schema.ledger();
    one_of_each(&ledger).await;
    let resolve = |key: &str, more: &[&str]| {
        schema.run(&[&["resolve", "ann", "pay", key, "--why", "the bank says so"][..], more].concat())
    };
    says(
        resolve("runs", &["--status", "succeeded"]),
        5,
        &["a holder runs it right now", "when its lease ends"],
    );
    says(resolve("done", &["--status", "failed-final"]), 5, &["stays what it is", "driftq ledger show"]);
    says(resolve("no", &["--status", "succeeded"]), 4, &["no record", "driftq ledger list"]);
    says(resolve("unclear", &["--status", "succeeded", "--epoch", "7"]), 5, &["stale", "decide anew"]);
    says(resolve("unclear", &["--status", "succeeded", "--by", " "]), 4, &["who resolves it"]);
    assert_eq!(schema.run(&["show", "ann", "pay", "unclear", "-o", "json"]).ok().json()["status"], "unknown");

    let flags = [
        "--status",
        "succeeded",
        "--epoch",
        "1",
        "--code",
        "-7",
        "--body",
        "ch_1",
        "--header",
        "a=b",
        "--ttl",
        "2h",
    ];
    shows(&resolve("unclear", &flags).ok().stdout, &["ann pay unclear is succeeded\n"]);
    let again = resolve("unclear", &[&flags[..2], &flags[4..], &["-o", "json"]].concat()).ok().json();
    assert_eq!(again, json!({"result": "already_committed", "status": "succeeded"}));
    let outcome = &schema.run(&["show", "ann", "pay", "unclear", "-o", "json"]).ok().json()["outcome"];
    assert_eq!((&outcome["body"], &outcome["code"]), (&json!("ch_1"), &json!(-7)));
    assert_eq!(
        (&outcome["resolved_by"], &outcome["resolved_why"]),
        (&json!("ann"), &json!("the bank says so"))
    );
    shows(&schema.run(&["show", "ann", "pay", "unclear"]).ok().stdout, &["resolved by", "(in 1h 59m)"]);

    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("answer");
    std::fs::write(&file, [0xfe]).unwrap();
    resolve("lapsed", &["--status", "FAILED_RETRYABLE", "--body-file", file.to_str().unwrap()]).ok();
    let replayed = ledger.begin(begin("lapsed")).await.unwrap();
    let driftq_ledger::Decision::Retryable { outcome, .. } = replayed else { panic!("{replayed:?}") };
    assert_eq!(&*outcome.response.payload, [0xfe]);
}

#[tokio::test]
async fn a_sweep_removes_what_is_over_and_nothing_else() {
    let schema = Schema::migrated("sweep");
    one_of_each(&schema.ledger()).await;
    put_over(&schema, 20);
    let counts = schema.run(&["stats", "-o", "json"]).ok().json();
    let by_status =
        json!({"in_progress": 2, "succeeded": 1, "failed_final": 1, "failed_retryable": 1, "unknown": 1});
    assert_eq!(
        (&counts["by_status"], &counts["lapsed"], &counts["over"]),
        (&by_status, &json!(1), &json!(20))
    );
    let text = schema.run(&["stats"]).ok().stdout;
    shows(
        &text,
        &[
            "unknown           1        an operator must find out",
            "1 with a lapsed lease",
            "driftq ledger sweep",
        ],
    );

    let dry = schema.run(&["sweep", "--dry-run"]).ok().stdout;
    assert_eq!(dry, "would remove 20 record(s) and hold 1 as unknown\n");
    assert_eq!(schema.psql("SELECT count(*) FROM {table}"), "26", "a dry run changes nothing");
    let some = schema.run(&["sweep", "--limit", "5", "-o", "json"]).ok().json();
    assert_eq!(
        (some["removed"].as_u64().unwrap() + some["held"].as_u64().unwrap(), &some["more"]),
        (5, &json!(true))
    );
    let rest = schema.run(&["sweep", "-o", "json"]).ok().json();
    assert_eq!(rest["removed"].as_u64().unwrap() + rest["held"].as_u64().unwrap(), 16);
    assert_eq!(rest["more"], json!(false));
    assert_eq!(schema.run(&["sweep"]).ok().stdout, "removed 0 record(s), held 0 as unknown\n");
    let all = schema.run(&["list", "-o", "json"]).ok().json();
    assert_eq!(keys(&all), ["done", "lapsed", "later", "never", "runs", "unclear"]);
    assert_eq!(
        schema.psql("SELECT count(*) FROM {table} WHERE status = 'UNKNOWN'"),
        "1",
        "it is written down"
    );
}

#[test]
fn a_sweep_takes_as_many_rounds_as_it_needs() {
    let schema = Schema::migrated("rounds");
    put_over(&schema, 2500);
    shows(
        &schema.run(&["sweep", "--dry-run"]).ok().stdout,
        &["would remove 1,000 record(s)", "there is more"],
    );
    let swept = schema.run(&["sweep"]).ok();
    assert_eq!(swept.stdout, "removed 2,500 record(s), held 0 as unknown\n");
    assert_eq!(swept.stderr, "", "no bar where nobody watches");
}

#[tokio::test]
async fn a_sweep_that_waits_can_be_interrupted() {
    let schema = Schema::migrated("interrupt");
    put_over(&schema, 10);
    let lock = format!("BEGIN; LOCK TABLE {}; SELECT pg_sleep(60)", schema.table);
    let holder = std::thread::spawn(move || DATABASE.psql(&lock));
    let blocked = |what: &str| {
        let sql =
            format!("SELECT count(*) FROM pg_locks WHERE relation = '{}'::regclass AND {what}", schema.table);
        DATABASE.psql(&sql).unwrap() == "1"
    };
    until("the table is locked", async || blocked("granted AND mode = 'AccessExclusiveLock'")).await;
    let child = sweep(&schema);
    until("the sweep waits", async || blocked("NOT granted")).await;
    let asked = Instant::now();
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    says(ran, 130, &["stopped by SIGINT; removed 0 record(s)"]);
    assert!(asked.elapsed() < Duration::from_secs(20), "it did not wait for the lock");
    schema.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks \
         WHERE relation = '{table}'::regclass AND granted AND mode = 'AccessExclusiveLock'",
    );
    assert!(holder.join().unwrap().is_err(), "the holder of the lock was ended");
    assert_eq!(schema.psql("SELECT count(*) FROM {table}"), "10");
}

fn sweep(schema: &Schema) -> Child {
    let mut command = driftq();
    command.args(["ledger", "sweep", "--table", &schema.table]).env("DRIFTQ_LEDGER_STORE", &schema.url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn the_ledger_of_a_server_is_looked_after_in_the_same_way() {
    let (_data, server) = server();
    let ledger = crate::world::ledger(&server.url());
    one_of_each(&ledger).await;
    until_it(&ledger, &identity("unclear"), |found| found.unwrap().status == driftq_ledger::Status::Unknown)
        .await;
    let other = Identity::new("bob", "mail", "k").unwrap();
    ledger.begin(Begin::new(other, hash())).await.map(drop).unwrap();
    // The server is named by --server, DRIFTQ_SERVER, --store or DRIFTQ_LEDGER_STORE.
    let run = |arguments: &[&str]| server.run(&[&["ledger"][..], arguments].concat());
    let all = run(&["list", "-o", "json"]).ok().json();
    assert_eq!(keys(&all), ["done", "never", "later", "runs", "lapsed", "unclear", "k"]);
    for (variable, flag) in [("DRIFTQ_LEDGER_STORE", "--store"), ("DRIFTQ_SERVER", "--server")] {
        let elsewhere = run_with(&[(variable, &server.url())], &["ledger", "list", "-o", "json"]).ok().json();
        let named = crate::command::run(&["ledger", "list", flag, &server.url(), "-o", "json"]).ok().json();
        assert_eq!((&elsewhere, &named), (&all, &all), "{variable}");
    }
    let found = run(&["list", "--principal", "bob", "--method", "mail", "-o", "json"]).ok().json();
    assert_eq!(keys(&found), ["k"]);
    assert_eq!(keys(&run(&["list", "--status", "unknown", "-o", "json"]).ok().json()), ["unclear"]);
    let done = run(&["show", "ann", "pay", "done", "-o", "json"]).ok().json();
    assert_eq!((&done["status"], &done["outcome"]["body_b64"]), (&json!("succeeded"), &json!("/wA=")));

    let flags = ["--status", "succeeded", "--why", "the bank says so", "--by", "ann", "--body", "ch_1"];
    let resolve = |key: &str| run(&[&["resolve", "ann", "pay", key][..], &flags].concat());
    shows(&resolve("unclear").ok().stdout, &["ann pay unclear is succeeded\n"]);
    shows(&resolve("unclear").ok().stdout, &["as was said before"]);
    assert_eq!(run(&["show", "ann", "pay", "unclear", "--body"]).ok().stdout, "ch_1");
    says(resolve("runs"), 5, &["a holder runs it right now"]);
    says(resolve("never"), 5, &["stays what it is"]);
    says(resolve("no such key"), 4, &["driftq ledger list"]);

    let counts = run(&["stats", "-o", "json"]).ok().json();
    assert_eq!((&counts["records"], &counts["by_status"]["succeeded"]), (&json!(7), &json!(2)));
    assert_eq!(counts.get("over"), None, "a server does not say");
    shows(&run(&["sweep"]).ok().stdout, &["sweeps by itself"]);
    assert_eq!(run(&["sweep", "--dry-run", "-o", "json"]).ok().json()["by_itself"], json!(true));
    shows(&run(&["migrate"]).ok().stdout, &["nothing to migrate"]);
    server.kill();
}
