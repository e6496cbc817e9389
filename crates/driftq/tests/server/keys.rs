//! Who is let in, and what for: every call with every kind of key, on the real binary.

use std::time::{Duration, Instant};

use driftq_api::v2::{KeyAction, NeededTopics, Needs, Operation};
use serde_json::{Value, json};

use crate::command::{run, run_with};
use crate::compat::{Broker, Client, Reply, Stream};

/// A server that asks for keys, with topics `orders` and `mail`, and its root key.
pub(crate) struct Guarded {
    pub(crate) broker: Broker,
    pub(crate) root: String,
    _directory: tempfile::TempDir,
}

impl Guarded {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let made =
            run(&["key", "create", "--root", "-o", "json", "--data", data.to_str().unwrap()]).ok().json();
        let root = made["secret"].as_str().unwrap().to_owned();
        let file = directory.path().join("root");
        std::fs::write(&file, &root).unwrap();
        let broker = Broker::ephemeral(&["--keys", "required", "--root-key-file", file.to_str().unwrap()]);
        let guarded = Self { broker, root, _directory: directory };
        for topic in ["orders", "mail"] {
            let made = guarded.call(Some(&guarded.root), "PUT", &format!("/v2/topics/{topic}"), Some("{}"));
            assert_eq!(made.status, 201, "{}", made.text());
        }
        guarded
    }

    pub(crate) fn call(&self, key: Option<&str>, method: &str, path: &str, body: Option<&str>) -> Reply {
        call(&mut self.broker.client(), key, method, path, body)
    }

    /// A key that hangs on another one: its text and its id.
    pub(crate) fn key(&self, by: &str, spec: &Value) -> (String, String) {
        let made = self.call(Some(by), "POST", "/v2/keys", Some(&spec.to_string()));
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        (made["secret"].as_str().unwrap().to_owned(), made["key"]["id"].as_str().unwrap().to_owned())
    }

    pub(crate) fn revoke(&self, id: &str) {
        let ended = self.call(Some(&self.root), "DELETE", &format!("/v2/keys/{id}"), None);
        assert_eq!((ended.status, &ended.json()["live"]), (200, &json!(false)));
    }
}

pub(crate) fn call(
    client: &mut Client,
    key: Option<&str>,
    method: &str,
    path: &str,
    body: Option<&str>,
) -> Reply {
    let shown = key.map(|key| format!("Bearer {key}"));
    let mut headers = Vec::new();
    if let Some(shown) = &shown {
        headers.push(("authorization", shown.as_str()));
    }
    if body.is_some() {
        headers.push(("content-type", "application/json"));
    }
    client.call(method, path, &headers, body.map(str::as_bytes))
}

/// All actions but some.
pub(crate) fn actions(but: &[KeyAction]) -> Vec<&'static str> {
    let kept = KeyAction::WORDS.iter().filter(|(_, action)| !but.contains(action));
    kept.map(|(name, _)| *name).collect()
}

/// A path of a call, about `orders`; a call without a topic in its path is about what is not there.
fn path(operation: Operation) -> String {
    path_about(operation, "orders")
}

/// A path of a call about a topic.
pub(crate) fn path_about(operation: Operation, topic: &str) -> String {
    let path =
        operation.path().replace("{topic}", topic).replace("{partition}", "0").replace("{offset}", "7");
    let pieces: Vec<&str> =
        path.split('/').map(|piece| if piece.starts_with('{') { "none" } else { piece }).collect();
    let path = pieces.join("/");
    match operation {
        // It waits as long as it is told, and streams for ever.
        Operation::Stream => format!("{path}?credit=0"),
        Operation::ListDeliveries => format!("{path}?endpoint={topic}"),
        Operation::ListExports => format!("{path}?place={topic}"),
        _ => path,
    }
}

/// A body that names a topic, for calls whose topic is not in their path alone.
pub(crate) fn body(operation: Operation, topic: &str) -> Option<String> {
    match operation {
        Operation::Commit => {
            Some(json!({"produce": [{"topic": topic, "message": {"value": "v"}}]}).to_string())
        }
        Operation::Produce => Some(json!({"value": "v", "envelope": {"target_topic": topic}}).to_string()),
        Operation::Redrive => Some(json!({"all": true, "dry_run": true, "target_topic": topic}).to_string()),
        Operation::PostDelivery => {
            Some(json!({"delivery_id": "d", "endpoint": topic, "body": "b"}).to_string())
        }
        Operation::PostExport => {
            Some(json!({"export_id": "e", "place": topic, "selection": {"kind": "effects"}}).to_string())
        }
        Operation::Healthz | Operation::Readyz | Operation::GetOpenApi => None,
        operation if operation.method().name() == "GET" || operation.method().name() == "DELETE" => None,
        _ => Some("{}".to_owned()),
    }
}

/// The code of a refusal by the guard, or nothing: what the call itself makes of it does not matter here.
pub(crate) fn refusal(reply: &Reply) -> Option<(u16, String)> {
    let code = matches!(reply.status, 401 | 403).then(|| reply.json()["code"].as_str().map(str::to_owned));
    code.map(|code| (reply.status, code.unwrap_or_default()))
}

pub(crate) const UNAUTHENTICATED: (u16, &str) = (401, "UNAUTHENTICATED");
pub(crate) const FORBIDDEN: (u16, &str) = (403, "FORBIDDEN");

#[track_caller]
pub(crate) fn assert_refused(reply: &Reply, expected: Option<(u16, &str)>, what: &str) {
    let expected = expected.map(|(status, code)| (status, code.to_owned()));
    assert_eq!(refusal(reply), expected, "{what}: {}", reply.text());
}

#[test]
fn every_call_is_open_to_the_right_key_and_to_no_other() {
    let guarded = Guarded::start();
    let root = guarded.root.as_str();
    let (everything, _) = guarded.key(root, &json!({"actions": actions(&[])}));
    let topics = json!(["orders", "deliveries.orders", "exports.orders"]);
    let (orders, _) = guarded.key(root, &json!({"actions": actions(&[]), "topics": topics}));
    let (mail, _) = guarded.key(root, &json!({"actions": actions(&[]), "topics": ["mail*"]}));
    let (revoked, id) = guarded.key(root, &json!({"actions": actions(&[])}));
    guarded.revoke(&id);
    let (parent, id) = guarded.key(root, &json!({"actions": actions(&[])}));
    let (orphan, _) = guarded.key(&parent, &json!({"actions": actions(&[])}));
    guarded.revoke(&id);
    let forged = format!(
        "{}{}",
        &everything[..everything.len() - 1],
        if everything.ends_with('0') { '1' } else { '0' }
    );
    let wrong = [
        None,
        Some("dq_1"),
        Some("secret"),
        Some(forged.as_str()),
        Some(revoked.as_str()),
        Some(orphan.as_str()),
    ];
    let lacking: Vec<(KeyAction, String)> = KeyAction::WORDS
        .iter()
        .map(|(_, action)| (*action, guarded.key(root, &json!({"actions": actions(&[*action])})).0))
        .collect();
    for operation in Operation::all() {
        let (method, path) = (operation.method().name(), path(operation));
        let what = |key: &str| format!("{method} {path} with {key}");
        let Needs { action, topics, .. } = operation.needs();
        let told = body(operation, "orders");
        // A stream that is let in does not end: it is shown by its head in a test of its own.
        let streams = matches!(operation, Operation::Stream | Operation::StreamEvents);
        for key in wrong {
            let reply = guarded.call(key, method, &path, told.as_deref());
            assert_refused(&reply, action.map(|_| UNAUTHENTICATED), &what(key.unwrap_or("no key")));
        }
        for (lacked, key) in lacking.iter().filter(|(lacked, _)| !streams || action == Some(*lacked)) {
            let reply = guarded.call(Some(key), method, &path, told.as_deref());
            let expected = (action == Some(*lacked)
                || (operation == Operation::Commit && *lacked == KeyAction::Produce))
                .then_some(FORBIDDEN);
            assert_refused(&reply, expected, &what(&format!("no {}", lacked.name())));
        }
        if !streams {
            for key in [root, &everything] {
                assert_refused(&guarded.call(Some(key), method, &path, told.as_deref()), None, &what("all"));
            }
            let of_topic = guarded.call(Some(&orders), method, &path, told.as_deref());
            let expected = (action.is_some() && topics == NeededTopics::All).then_some(FORBIDDEN);
            assert_refused(&of_topic, expected, &what("the topic's key"));
        }
        let of_other = guarded.call(Some(&mail), method, &path, told.as_deref());
        // A job that is not there is not there for any key.
        let is_job = matches!(operation, Operation::GetJob | Operation::CancelJob);
        let is_about_topics = match topics {
            NeededTopics::InPath | NeededTopics::All => true,
            NeededTopics::Asked => !is_job,
            NeededTopics::Filtered | NeededTopics::None => false,
        };
        let expected = (action.is_some() && is_about_topics).then_some(FORBIDDEN);
        assert_refused(&of_other, expected, &what("another topic's key"));
    }
}

#[test]
fn a_message_that_names_another_topic_needs_a_key_for_both() {
    let guarded = Guarded::start();
    let (orders, _) = guarded
        .key(&guarded.root, &json!({"actions": ["produce", "consume", "manage"], "topics": ["orders"]}));
    for operation in [Operation::Produce, Operation::Commit, Operation::Redrive] {
        let reply = guarded.call(Some(&orders), "POST", &path(operation), body(operation, "mail").as_deref());
        assert_refused(&reply, Some(FORBIDDEN), operation.path());
    }
    let lines = "[{\"value\":\"a\"},{\"value\":\"b\",\"envelope\":{\"target_topic\":\"mail\"}}]";
    let reply = guarded.call(Some(&orders), "POST", "/v2/topics/orders/messages", Some(lines));
    assert_refused(&reply, Some(FORBIDDEN), "a batch");
    let old = json!({"topic": "orders", "value": "v", "envelope": {"target_topic": "mail"}}).to_string();
    assert_eq!(guarded.call(Some(&orders), "POST", "/v1/produce", Some(&old)).status, 403);
    let topic = guarded.call(Some(&guarded.root), "GET", "/v2/topics/orders", None).json();
    assert_eq!(topic["next_offset"], json!(0), "nothing was stored: {topic}");
}

#[test]
fn the_first_dialect_asks_for_keys_too() {
    let guarded = Guarded::start();
    let (orders, _) = guarded.key(
        &guarded.root,
        &json!({"actions": ["produce", "consume", "read", "manage"], "topics": ["orders"]}),
    );
    let calls = |topic: &str| {
        [
            ("POST", "/v1/topics".to_owned(), json!({"name": topic})),
            ("POST", "/v1/produce".to_owned(), json!({"topic": topic, "value": "v"})),
            (
                "POST",
                "/v1/ack".to_owned(),
                json!({"topic": topic, "group": "g", "owner": "o", "partition": 0, "offset": 9}),
            ),
            (
                "POST",
                "/v1/nack".to_owned(),
                json!({"topic": topic, "group": "g", "owner": "o", "partition": 0, "offset": 9}),
            ),
            ("GET", format!("/v1/consume?topic={topic}&group=g&owner=o"), Value::Null),
        ]
    };
    for (method, path, body) in calls("mail") {
        let body = (!body.is_null()).then(|| body.to_string());
        let stranger = guarded.call(None, method, &path, body.as_deref());
        assert_eq!((stranger.status, &stranger.json()["error"]), (401, &json!("UNAUTHENTICATED")), "{path}");
        let foreign = guarded.call(Some(&orders), method, &path, body.as_deref());
        assert_eq!((foreign.status, &foreign.json()["error"]), (403, &json!("FORBIDDEN")), "{path}");
    }
    for (method, path, body) in calls("orders").into_iter().filter(|(method, ..)| *method == "POST") {
        let reply = guarded.call(Some(&orders), method, &path, Some(&body.to_string()));
        assert!(![401, 403].contains(&reply.status), "{path}: {}", reply.text());
    }
    assert_eq!(guarded.call(Some(&orders), "GET", "/v1/topics", None).json(), json!({"topics": ["orders"]}));
    assert_eq!(guarded.call(None, "GET", "/v1/topics", None).status, 401);
    assert_eq!(guarded.call(None, "GET", "/metrics", None).status, 401);
    assert_eq!(guarded.call(Some(&orders), "GET", "/metrics", None).status, 403, "metrics name every topic");
    assert_eq!(guarded.call(Some(&guarded.root), "GET", "/metrics", None).status, 200);
    for path in ["/v1/healthz", "/v2/healthz", "/v2/readyz"] {
        assert_eq!(guarded.call(None, "GET", path, None).status, 200, "{path}");
    }
}

#[test]
fn a_key_that_ends_ends_its_streams_and_its_waits() {
    let guarded = Guarded::start();
    let (key, id) = guarded.key(&guarded.root, &json!({"actions": ["consume", "effects"]}));
    let mut reader = guarded.broker.client();
    reader.send(format!(
        "GET /v1/consume?topic=orders&group=g&owner=o HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
    ));
    let mut stream = Stream::opened(reader);
    let mut waiting = guarded.broker.client();
    waiting.send(format!(
        "POST /v2/topics/mail/groups/g/lease HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: 31\r\n\r\n{{\"owner\":\"o\",\"wait_ms\":  60000}}"
    ));
    let begun = Instant::now();
    // The wait is known to have begun when the group has its reader.
    guarded.wait_until(|| {
        let group = guarded.call(Some(&guarded.root), "GET", "/v2/topics/mail/groups/g", None);
        group.status == 200
    });
    guarded.revoke(&id);
    assert_eq!(stream.chunk(), None, "the stream ends");
    assert_refused(&waiting.reply(), Some(UNAUTHENTICATED), "the wait ends");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let after = guarded.call(Some(&key), "POST", "/v2/leases/ack", Some("{}"));
    assert_refused(&after, Some(UNAUTHENTICATED), "the next call");
}

#[test]
fn a_body_that_comes_after_the_end_of_its_key_does_nothing() {
    let guarded = Guarded::start();
    let (key, id) = guarded.key(&guarded.root, &json!({"actions": ["produce"]}));
    let mut slow = guarded.broker.client();
    slow.send(format!(
        "POST /v2/topics/orders/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: 13\r\nexpect: 100-continue\r\n\r\n"
    ));
    // The server asks for the body only after it has let the caller in.
    assert_eq!(slow.reply().status, 100);
    guarded.revoke(&id);
    slow.send("{\"value\":\"v\"}");
    assert_refused(&slow.reply(), Some(UNAUTHENTICATED), "the rest of a request");
    let topic = guarded.call(Some(&guarded.root), "GET", "/v2/topics/orders", None).json();
    assert_eq!(topic["next_offset"], json!(0), "{topic}");
}

#[test]
fn a_key_that_is_replaced_goes_on_for_its_overlap_and_hands_on_what_hangs_on_it() {
    let guarded = Guarded::start();
    let (old, id) = guarded.key(&guarded.root, &json!({"actions": actions(&[])}));
    let (child, _) = guarded.key(&old, &json!({"actions": ["read"]}));
    let status = |key: &str| guarded.call(Some(key), "GET", "/v2/topics", None).status;
    let rotate = |id: &str, overlap: u64| {
        let body = json!({"overlap_ms": overlap}).to_string();
        let made = guarded.call(Some(&guarded.root), "POST", &format!("/v2/keys/{id}/rotate"), Some(&body));
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        (made["secret"].as_str().unwrap().to_owned(), made["key"]["id"].as_str().unwrap().to_owned())
    };
    let (second, second_id) = rotate(&id, 3_600_000);
    assert_eq!((status(&old), status(&second), status(&child)), (200, 200, 200));
    let (third, third_id) = rotate(&second_id, 0);
    assert_eq!((status(&second), status(&third), status(&child)), (401, 200, 200));
    guarded.revoke(&third_id);
    assert_eq!((status(&third), status(&child)), (401, 401));
}

#[test]
fn no_key_makes_a_wider_or_a_longer_one() {
    let guarded = Guarded::start();
    let spec =
        json!({"actions": ["produce", "admin"], "topics": ["orders*"], "expires_at": "2100-01-01T00:00:00Z"});
    let (key, id) = guarded.key(&guarded.root, &spec);
    for wider in [
        json!({"actions": ["consume"], "topics": ["orders"]}),
        json!({"actions": ["produce"]}),
        json!({"actions": ["produce"], "topics": ["mail"]}),
        json!({"actions": ["produce"], "topics": ["o*"]}),
        json!({"actions": ["produce"], "topics": ["orders"], "expires_at": "2100-01-01T00:00:01Z"}),
    ] {
        let reply = guarded.call(Some(&key), "POST", "/v2/keys", Some(&wider.to_string()));
        assert_refused(&reply, Some(FORBIDDEN), &wider.to_string());
    }
    let (_, child) = guarded.key(&key, &json!({"actions": ["produce"], "topics": ["orders.eu"]}));
    let shown = guarded.call(Some(&key), "GET", &format!("/v2/keys/{child}"), None).json();
    assert_eq!((&shown["parent"], &shown["expires_at"]), (&json!(id), &json!("2100-01-01T00:00:00Z")));
    // Keys of others do not exist for it.
    let (_, other) = guarded.key(&guarded.root, &json!({"actions": ["read"]}));
    for (method, path) in [("GET", ""), ("DELETE", ""), ("POST", "/rotate")] {
        let reply = guarded.call(Some(&key), method, &format!("/v2/keys/{other}{path}"), None);
        assert_eq!((reply.status, &reply.json()["code"]), (404, &json!("ACCESS_KEY_UNKNOWN")));
    }
    let listed = guarded.call(Some(&key), "GET", "/v2/keys", None).json();
    let mut ids: Vec<&str> =
        listed["keys"].as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let mut expected = [id.as_str(), child.as_str()];
    expected.sort_unstable();
    assert_eq!(ids, expected);
    assert!(!listed.to_string().contains("secret") && !listed.to_string().contains("digest"));
}

#[test]
fn keys_end_when_they_are_told_and_outlive_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let root = run(&["key", "create", "--root", "-o", "json", "--data", data]).ok().json();
    let root = root["secret"].as_str().unwrap();
    run(&["key", "create", "--root", "--data", data]).code(5);
    let start = || crate::support::Server::start(directory.path(), &["--keys", "required"]);
    let server = start();
    let create = |server: &crate::support::Server, spec: &Value| {
        let mut client = Client::connect(server.address);
        let made = call(&mut client, Some(root), "POST", "/v2/keys", Some(&spec.to_string()));
        made.json()["secret"].as_str().unwrap_or_else(|| panic!("{}", made.text())).to_owned()
    };
    let kept = create(&server, &json!({"actions": ["read"]}));
    let past = json!({"actions": ["read"], "expires_at": "2020-01-01T00:00:00Z"}).to_string();
    let refused = call(&mut Client::connect(server.address), Some(root), "POST", "/v2/keys", Some(&past));
    assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("INVALID_ARGUMENT")));
    server.kill();
    let server = start();
    let status =
        |key: &str| call(&mut Client::connect(server.address), Some(key), "GET", "/v2/topics", None).status;
    assert_eq!((status(&kept), status(root)), (200, 200));
    // From the snapshot of a graceful stop, too.
    server.signal("TERM");
    assert!(server.wait().success());
    run(&["key", "create", "--root", "--replace", "--data", data]).ok();
    let server = start();
    let status =
        |key: &str| call(&mut Client::connect(server.address), Some(key), "GET", "/v2/topics", None).status;
    assert_eq!((status(&kept), status(root)), (200, 401), "the old root key opens nothing");
}

#[test]
fn a_context_has_its_own_key() {
    let guarded = Guarded::start();
    let home = tempfile::tempdir().unwrap();
    let (contexts, file) = (home.path().join("contexts.toml"), home.path().join("live.key"));
    let (key, _) = guarded.key(&guarded.root, &json!({"actions": ["read"]}));
    std::fs::write(&file, format!("{key}\n")).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let own = [("DRIFTQ_CONTEXTS", contexts.to_str().unwrap())];
    let (server, file) = (format!("http://{}", guarded.broker.address()), file.to_str().unwrap());
    let add = ["context", "add", "live", "--server", &server];
    let missing = run_with(&own, &[&add[..], &["--key-file", "/nowhere/key"]].concat()).code(2);
    assert!(missing.stderr.contains("/nowhere/key"), "{}", missing.stderr);
    let added = run_with(&own, &[&add[..], &["--key-file", file, "-o", "json"]].concat()).ok().json();
    assert_eq!(added["key_file"], json!(file));
    // A key that is meant for another server is not shown to this one.
    let other = [&own[..], &[("DRIFTQ_KEY", "dq_0000000000000000_00")]].concat();
    for variables in [&own[..], &other] {
        let listed = run_with(variables, &["topic", "list", "--context", "live"]).ok();
        assert_eq!(listed.stdout, "mail\norders\n");
    }
    let refused = run_with(&own, &["topic", "list", "--server", &server]);
    assert!(refused.stderr.contains("UNAUTHENTICATED"), "the key is the context's: {}", refused.stderr);
    assert!(!std::fs::read_to_string(&contexts).unwrap().contains(&key), "the file is named, not copied");
}

#[test]
fn a_server_that_asks_for_no_keys_makes_none() {
    let broker = Broker::ephemeral(&[]);
    let spec = json!({"actions": ["admin"]}).to_string();
    let reply = call(&mut broker.client(), None, "POST", "/v2/keys", Some(&spec));
    assert_refused(&reply, Some(FORBIDDEN), "a key for later");
    assert_eq!(call(&mut broker.client(), None, "GET", "/v2/keys", None).json(), json!({"keys": []}));
    // What it is shown does not matter to it.
    assert_eq!(call(&mut broker.client(), Some("dq_1_2"), "GET", "/v2/topics", None).status, 200);
}

#[test]
fn without_a_root_key_a_server_that_asks_for_keys_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--keys", "required", "--data", data];
    let refused = run(&serve).code(9);
    assert!(refused.stderr.contains("driftq key create --root"), "{}", refused.stderr);
    // Who checks the configuration first hears the same.
    let checked = run(&["config", "check", "--keys", "required", "--data", data]).code(9);
    assert!((checked.stdout + &checked.stderr).contains("driftq key create --root"));
    let file = directory.path().join("root");
    std::fs::write(&file, "hunter2").unwrap();
    let refused = run(&[&serve[..], &["--root-key-file", file.to_str().unwrap()]].concat()).code(9);
    assert!(refused.stderr.contains("dq_root_") && !refused.stderr.contains("hunter2"), "{}", refused.stderr);
}

impl Guarded {
    pub(crate) fn wait_until(&self, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < deadline, "it does not become so at {}", self.broker.address());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
