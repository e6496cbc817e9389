//! Limits of keys, and turns between them, on the real binary.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::compat::{Reply, Stream};
use crate::keys::{Guarded, call};

const MESSAGES: &str = "/v2/topics/orders/messages";
const LEASE: &str = "/v2/topics/orders/groups/g/lease";

fn produce(guarded: &Guarded, key: &str, value: &str) -> Reply {
    guarded.call(Some(key), "POST", MESSAGES, Some(&json!({"value": value}).to_string()))
}

/// The quota that a refusal names, and when to come back.
#[track_caller]
fn used_up(reply: &Reply) -> (String, Duration) {
    let told = reply.json();
    assert_eq!((reply.status, &told["code"]), (429, &json!("QUOTA_EXCEEDED")), "{told}");
    assert_eq!(told["retryable"], json!(true));
    let wait = Duration::from_millis(told["retry_after_ms"].as_u64().expect("it says when to come back"));
    (told["reason"].as_str().expect("it names the quota").to_owned(), wait)
}

#[test]
fn a_key_makes_no_more_calls_in_a_second_than_it_may_and_neither_do_those_below_it() {
    let guarded = Guarded::start();
    let spec = json!({"actions": ["produce", "admin"], "limits": {"requests_per_second": 5}});
    let (team, _) = guarded.key(&guarded.root, &spec);
    // Making a key is one of the calls.
    let (child, _) = guarded.key(&team, &json!({"actions": ["produce"]}));
    let begun = Instant::now();
    let replies: Vec<Reply> = (0..40).map(|_| produce(&guarded, &child, "v")).collect();
    let done = replies.iter().filter(|reply| reply.status == 201).count();
    let most = 5 + begun.elapsed().as_secs() as usize * 5 + 5;
    assert!((4..=most).contains(&done), "{done} of 40 were let in, in {:?}", begun.elapsed());
    let refused = replies.iter().find(|reply| reply.status == 429).expect("one is over the limit");
    let (quota, wait) = used_up(refused);
    assert_eq!(quota, "requests_per_second");
    assert!(wait <= Duration::from_millis(250), "{wait:?}");
    assert_eq!(produce(&guarded, &guarded.root, "v").status, 201, "others are not held up");
    let kept = guarded.call(Some(&guarded.root), "GET", "/v2/topics/orders", None).json();
    assert_eq!(kept["messages"], json!(done + 1), "what was refused was not stored: {kept}");
}

#[test]
fn a_large_body_is_paid_for_by_those_after_it() {
    let guarded = Guarded::start();
    let spec = json!({"actions": ["produce"], "limits": {"bytes_per_second": 1000}});
    let (key, _) = guarded.key(&guarded.root, &spec);
    assert_eq!(produce(&guarded, &key, &"x".repeat(20_000)).status, 201);
    let (quota, wait) = used_up(&produce(&guarded, &key, "x"));
    assert_eq!(quota, "bytes_per_second");
    assert!(wait > Duration::from_secs(10) && wait < Duration::from_secs(21), "{wait:?}");
}

#[test]
fn open_waits_are_counted_and_given_back() {
    let guarded = Guarded::start();
    let spec = json!({"actions": ["consume"], "limits": {"waits": 1}});
    let (key, _) = guarded.key(&guarded.root, &spec);
    let mut reader = guarded.broker.client();
    reader.send(format!(
        "GET /v1/consume?topic=orders&group=g&owner=o HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
    ));
    let stream = Stream::opened(reader);
    let (quota, _) = used_up(&guarded.call(Some(&key), "POST", LEASE, Some(r#"{"owner":"o"}"#)));
    assert_eq!(quota, "waits");
    drop(stream);
    let asked = || guarded.call(Some(&key), "POST", LEASE, Some(r#"{"owner":"o"}"#)).status;
    guarded.wait_until(|| asked() == 200);
    assert_eq!(asked(), 200, "a wait that is over takes no place");
}

#[test]
fn limits_are_shown_and_outlive_the_key_s_rotation() {
    let guarded = Guarded::start();
    let limits = json!({"requests_per_second": 100, "bytes_per_second": 1_048_576, "waits": 7});
    let (_, id) = guarded.key(&guarded.root, &json!({"actions": ["read"], "limits": limits}));
    let shown = |id: &str| guarded.call(Some(&guarded.root), "GET", &format!("/v2/keys/{id}"), None).json();
    assert_eq!(shown(&id)["limits"], limits);
    let rotated = guarded.call(Some(&guarded.root), "POST", &format!("/v2/keys/{id}/rotate"), None).json();
    assert_eq!(rotated["key"]["limits"], limits);
    for limits in [Value::Null, json!({}), json!({"waits": null})] {
        let (_, id) = guarded.key(&guarded.root, &json!({"actions": ["read"], "limits": limits}));
        assert_eq!(shown(&id)["limits"], Value::Null, "{limits}");
    }
    for limits in [json!({"waits": 0}), json!({"requests": 1}), json!(3), json!({"waits": 1u64 << 32})] {
        let spec = json!({"actions": ["read"], "limits": limits}).to_string();
        let reply = guarded.call(Some(&guarded.root), "POST", "/v2/keys", Some(&spec));
        assert_eq!(reply.status, 400, "{limits}: {}", reply.text());
        assert!(reply.text().contains("limits"), "{}", reply.text());
    }
}

/// Not how long anything takes, which is the benchmark's: that keys that take turns lose nothing and wait for nothing.
#[test]
fn keys_that_take_turns_all_get_through() {
    let guarded = Guarded::start();
    let keys: Vec<String> =
        (0..3).map(|_| guarded.key(&guarded.root, &json!({"actions": ["produce", "consume"]})).0).collect();
    let body = json!({"value": "x".repeat(8000)}).to_string();
    let is_over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        // Twelve clients of one key, each with bodies of which its share takes one at a time.
        let noisy: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    let (mut client, mut sent) = (guarded.broker.client(), 0);
                    while !is_over.load(Relaxed) {
                        let reply = call(&mut client, Some(&keys[0]), "POST", MESSAGES, Some(&body));
                        assert_eq!(reply.status, 201, "{}", reply.text());
                        sent += 1;
                    }
                    sent
                })
            })
            .collect();
        let mut quiet = 0;
        for key in [&keys[1], &keys[2]].into_iter().cycle().take(200) {
            assert_eq!(produce(&guarded, key, "v").status, 201);
            // A call that waits has a lane of its own.
            let leased = guarded.call(Some(key), "POST", LEASE, Some(r#"{"owner":"o","wait_ms":10}"#));
            assert_eq!(leased.status, 200, "{}", leased.text());
            quiet += 1;
        }
        is_over.store(true, Relaxed);
        quiet + noisy.into_iter().map(|client| client.join().expect("a client")).sum::<u64>()
    });
    let kept = guarded.call(Some(&guarded.root), "GET", "/v2/topics/orders", None).json();
    assert_eq!(kept["messages"], json!(sent), "{kept}");
}

#[test]
fn what_waits_for_its_turn_when_its_key_ends_does_nothing() {
    const CLIENTS: usize = 24;
    let guarded = Guarded::start();
    let (noisy, id) = guarded.key(&guarded.root, &json!({"actions": ["produce"]}));
    let (quiet, _) = guarded.key(&guarded.root, &json!({"actions": ["produce"]}));
    // Of such a body a key has one under way at a time while others ask for something, too.
    let body = json!({"value": "x".repeat(400_000)}).to_string();
    let kept = || {
        let topic = guarded.call(Some(&guarded.root), "GET", "/v2/topics/orders", None).json();
        topic["messages"].as_u64().expect("a count")
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = guarded.broker.client();
                    loop {
                        let reply = call(&mut client, Some(&noisy), "POST", MESSAGES, Some(&body));
                        if reply.status != 201 {
                            return reply.status;
                        }
                    }
                })
            })
            .collect();
        guarded.wait_until(|| {
            assert_eq!(produce(&guarded, &quiet, "v").status, 201);
            kept() > 60
        });
        guarded.revoke(&id);
        let then = kept();
        for client in clients {
            assert_eq!(client.join().expect("a client"), 401);
        }
        let after = kept();
        assert!(after <= then + 1, "{} were stored after the end of their key", after - then);
    });
}

#[test]
fn calls_that_are_refused_count() {
    let guarded = Guarded::start();
    let spec = json!({"actions": ["produce"], "limits": {"requests_per_second": 2}});
    let (key, _) = guarded.key(&guarded.root, &spec);
    let statuses: Vec<u16> =
        (0..20).map(|_| guarded.call(Some(&key), "GET", "/v2/topics/orders", None).status).collect();
    assert!(statuses.contains(&403) && statuses.contains(&429), "{statuses:?}");
}
