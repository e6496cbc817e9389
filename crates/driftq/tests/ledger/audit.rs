//! `driftq ledger audit` on real PostgreSQL: what became of records, and what leaves no note.

use std::time::Duration;

use crate::schema::{Schema, begun, says, shows};
use crate::world::{begin, identity, until_it};
use driftq_ledger::{Ending, Response, Sweep, Terms};
use serde_json::{Value, json};

/// What a note says, but when.
fn told(notes: &[Value]) -> Vec<Value> {
    let without_time = |note: &Value| {
        let mut note = note.clone();
        let at = note.as_object_mut().unwrap().remove("at").unwrap();
        assert!(at.as_str().is_some_and(|at| at.ends_with('Z')), "{at}");
        note
    };
    notes.iter().map(without_time).collect()
}

#[tokio::test]
async fn the_audit_says_what_became_of_a_record() {
    let schema = Schema::migrated("audit");
    let ledger = schema.ledger();
    assert_eq!(schema.run(&["audit", "-o", "json"]).ok().json(), json!([]));
    assert_eq!(schema.run(&["audit", "-o", "ndjson"]).ok().stdout, "");
    shows(&schema.run(&["audit"]).ok().stdout, &["there is no note\n"]);

    // Begins and ends: there is nothing to say about it that its record does not say.
    let held = begun(&ledger, "plain").await;
    ledger.finish(&held, &Ending::succeeded(Response::new("ch_1"))).await.unwrap();
    assert_eq!(schema.run(&["audit", "-o", "json"]).ok().json(), json!([]));

    // Begins, lapses, is found out, and is tried again.
    let brief = Terms::default().lease(Duration::from_millis(1));
    ledger.begin(begin("order-7").owner("w1").terms(brief)).await.map(drop).unwrap();
    until_it(&ledger, &identity("order-7"), |found| !found.unwrap().lease_live).await;
    ledger.sweep(Sweep::default()).await.unwrap();
    let why = "the bank has no such\u{7} charge";
    schema.run(&["resolve", "ann", "pay", "order-7", "--status", "failed-retryable", "--why", why]).ok();
    let again = crate::world::lease(ledger.begin(begin("order-7").owner("w2").reacquire()).await.unwrap());
    ledger.finish(&again, &Ending::succeeded(Response::new("ch_7"))).await.unwrap();
    // Another record, with a note of its own.
    let held = begun(&ledger, "order-8").await;
    ledger.finish(&held, &Ending::failed_retryable("timed out")).await.unwrap();

    let of = |key: &str, event: &str, from: &str, to: &str, epoch: u32, attempt: u32| {
        json!({"principal": "ann", "method": "pay", "key": key, "event": event, "from": from, "to": to,
               "epoch": epoch, "attempt": attempt})
    };
    let with = |mut note: Value, by: Option<&str>, why: Option<&str>| {
        for (name, text) in [("by", by), ("why", why)] {
            if let Some(text) = text {
                note[name] = json!(text);
            }
        }
        note
    };
    let of_seven = [
        of("order-7", "lapsed", "in_progress", "unknown", 1, 1),
        with(of("order-7", "resolved", "unknown", "failed_retryable", 2, 1), Some("ann"), Some(why)),
        with(of("order-7", "reacquired", "failed_retryable", "in_progress", 3, 2), Some("w2"), None),
        with(of("order-7", "ended", "in_progress", "succeeded", 3, 2), Some("w2"), None),
    ];
    let of_eight =
        with(of("order-8", "ended", "in_progress", "failed_retryable", 1, 1), Some("w1"), Some("timed out"));
    let all = schema.run(&["audit", "-o", "json"]).ok().json();
    assert_eq!(told(all.as_array().unwrap()), [&of_seven[..], std::slice::from_ref(&of_eight)].concat());
    // One record's alone, as lines of JSON.
    let lines = schema.run(&["audit", "ann", "pay", "order-7", "-o", "ndjson"]).ok().lines();
    assert_eq!(told(&lines), of_seven);
    assert_eq!(schema.run(&["audit", "ann", "pay", "plain", "-o", "json"]).ok().json(), json!([]));
    shows(&schema.run(&["audit", "bob", "pay", "order-7"]).ok().stdout, &["there is no note\n"]);

    let table = schema.run(&["audit", "ann", "pay", "order-7"]).ok().stdout;
    shows(&table, &["AT", "EVENT", "lapsed", "resolved", "reacquired", "the bank has no such\\u0007 charge"]);
    assert!(!table.contains('\u{7}') && !table.contains("order-8"), "{table}");

    let first = schema.run(&["audit", "--limit", "1", "-o", "ndjson"]).ok().lines();
    assert_eq!(told(&first), of_seven[..1], "the oldest first");
    let few = schema.run(&["audit", "--limit", "1"]).ok();
    assert_eq!(few.stdout.lines().count(), 2, "{}", few.stdout);
    shows(&few.stderr, &["there may be more: raise --limit"]);
    let every = schema.run(&["audit", "--all", "-o", "ndjson"]).ok();
    assert_eq!((every.lines().len(), every.stderr.as_str()), (5, ""));
}

#[test]
fn the_audit_says_what_is_wrong_with_the_question() {
    let schema = Schema::new("no_audit");
    says(schema.run(&["audit"]), 1, &["driftq ledger migrate"]);
    says(schema.run(&["audit", "ann", "pay"]), 2, &["<KEY>"]);
    says(schema.run(&["audit", "ann", "pay", ""]), 2, &["key"]);
}
