//! What the dashboard stands on: sessions by cookie, and the stream of events.

use serde_json::{Value, json};

use crate::compat::{Broker, Reply, Stream};
use crate::keys::{FORBIDDEN, Guarded, UNAUTHENTICATED, assert_refused};

/// The cookie that an answer sets, as a browser sends it back.
fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie").expect("a cookie is set");
    assert!(set.contains("; HttpOnly; SameSite=Strict; Max-Age=43200"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

fn sign_in(guarded: &Guarded, key: &str) -> Reply {
    guarded.call(None, "POST", "/v2/session", Some(&json!({ "key": key }).to_string()))
}

fn by_cookie(guarded: &Guarded, method: &str, path: &str, cookie: &str, more: &[(&str, &str)]) -> Reply {
    let headers: Vec<(&str, &str)> = [("cookie", cookie)].into_iter().chain(more.iter().copied()).collect();
    guarded.broker.client().call(method, path, &headers, None)
}

#[test]
fn a_cookie_stands_for_a_key_and_for_no_more() {
    let guarded = Guarded::start();
    let (reader, id) = guarded.key(&guarded.root, &json!({"actions": ["read"], "note": "on call"}));
    assert_refused(&sign_in(&guarded, "dq_root_x"), Some(UNAUTHENTICATED), "no key");
    assert_refused(&sign_in(&guarded, &reader.replace('_', "_0")), Some(UNAUTHENTICATED), "another key");
    let signed = sign_in(&guarded, &reader);
    assert_eq!((signed.status, &signed.json()["actions"]), (201, &json!(["read"])), "{}", signed.text());
    let cookie = cookie(&signed);
    assert!(!reader.contains(cookie.split('=').nth(1).unwrap()), "it is not the key");

    assert_eq!(by_cookie(&guarded, "GET", "/v2/topics", &cookie, &[]).status, 200);
    let who = by_cookie(&guarded, "GET", "/v2/session", &cookie, &[]).json();
    assert_eq!((&who["actor"], &who["note"]), (&json!(format!("key:{id}")), &json!("on call")));
    assert_refused(
        &by_cookie(&guarded, "DELETE", "/v2/topics/mail", &cookie, &[]),
        Some(FORBIDDEN),
        "manage",
    );
    for (site, expected) in
        [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403), ("", 403)]
    {
        let reply = by_cookie(&guarded, "GET", "/v2/topics", &cookie, &[("sec-fetch-site", site)]);
        assert_eq!(reply.status, expected, "{site}: {}", reply.text());
    }
    let wrong = by_cookie(&guarded, "GET", "/v2/topics", &cookie, &[("authorization", "Bearer dq_1")]);
    assert_refused(&wrong, Some(UNAUTHENTICATED), "a key that is shown counts");

    guarded.revoke(&id);
    let after = by_cookie(&guarded, "GET", "/v2/topics", &cookie, &[]);
    assert_refused(&after, Some(UNAUTHENTICATED), "it ends with its key");
}

#[test]
fn whoever_signs_out_is_out() {
    let guarded = Guarded::start();
    let cookie = cookie(&sign_in(&guarded, &guarded.root));
    assert_eq!(by_cookie(&guarded, "GET", "/v2/keys", &cookie, &[]).status, 200);
    let out = by_cookie(&guarded, "DELETE", "/v2/session", &cookie, &[]);
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_refused(
        &by_cookie(&guarded, "GET", "/v2/keys", &cookie, &[]),
        Some(UNAUTHENTICATED),
        "signed out",
    );
    let open = Broker::ephemeral(&[]);
    let body = json!({ "key": guarded.root }).to_string();
    let reply = open.client().call(
        "POST",
        "/v2/session",
        &[("content-type", "application/json")],
        Some(body.as_bytes()),
    );
    assert_refused(&reply, Some(FORBIDDEN), "a server without keys");
}

/// The next event; comments are passed over.
fn event(stream: &mut Stream) -> Value {
    loop {
        let chunk = stream.chunk().expect("the stream goes on");
        if let Some((_, data)) = chunk.split_once("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[test]
fn events_tell_what_changes_and_end_with_the_key() {
    let guarded = Guarded::start();
    let (reader, id) = guarded.key(&guarded.root, &json!({"actions": ["read"]}));
    let mut watcher = guarded.broker.client();
    watcher.send(format!("GET /v2/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {reader}\r\n\r\n"));
    let mut stream = Stream::opened(watcher);
    let first = event(&mut stream);
    let names: Vec<&str> =
        first["topics"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mail", "orders"]);
    assert!(first["history"]["samples"].is_array(), "{first}");

    let stored =
        guarded.call(Some(&guarded.root), "POST", "/v2/topics/orders/messages", Some("{\"value\":\"v\"}"));
    assert_eq!(stored.status, 201);
    let changed = loop {
        let event = event(&mut stream);
        if event["topics"].as_array().is_some_and(|topics| !topics.is_empty()) {
            break event;
        }
    };
    let rows = changed["topics"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["name"], &rows[0]["messages"]), (1, &json!("orders"), &json!(1)));
    assert!(changed.get("history").is_none());

    guarded.revoke(&id);
    while let Some(chunk) = stream.chunk() {
        assert!(chunk.starts_with([':', 'd']), "{chunk}");
    }
}
