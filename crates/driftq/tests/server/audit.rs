//! Who did what, when, from where: every call that manages something, and what was refused, on the real binary.

use std::path::Path;
use std::time::{Duration, Instant};

use driftq_api::v2::Operation;
use serde_json::{Value, json};

use crate::command::{run, run_with};
use crate::compat::{Client, Reply};
use crate::support::Server;

/// A server that asks for keys and keeps what it is told, and its root key.
struct World {
    server: Server,
    root: String,
    directory: tempfile::TempDir,
}

const KEYS: [&str; 2] = ["--keys", "required"];

impl World {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().to_str().unwrap();
        let made = run(&["key", "create", "--root", "-o", "json", "--data", data]).ok().json();
        let root = made["secret"].as_str().unwrap().to_owned();
        let server = Server::start(directory.path(), &[&KEYS, more].concat());
        Self { server, root, directory }
    }

    fn kill_and_restart(self) -> Self {
        let Self { server, root, directory } = self;
        server.kill();
        let server = Server::start(directory.path(), &KEYS);
        Self { server, root, directory }
    }

    fn call(
        &self,
        key: Option<&str>,
        name: &str,
        (method, path): (&str, &str),
        body: Option<&Value>,
    ) -> Reply {
        let shown = key.map(|key| format!("Bearer {key}"));
        let mut headers = vec![("x-request-id", name)];
        headers.extend(shown.as_deref().map(|shown| ("authorization", shown)));
        headers.extend(body.map(|_| ("content-type", "application/json")));
        let body = body.map(Value::to_string);
        let mut client = Client::connect(self.server.address);
        client.call(method, path, &headers, body.as_deref().map(str::as_bytes))
    }

    /// What must go well, by the root key.
    fn order(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = Some(body).filter(|body| !body.is_null());
        let reply = self.call(Some(&self.root), "setup", (method, path), body);
        assert!((200..300).contains(&reply.status), "{method} {path}: {}", reply.text());
        reply.try_json().unwrap_or_default()
    }

    fn audit(&self, query: &str) -> Value {
        self.order("GET", &format!("/v2/audit?limit=1000&{query}"), &Value::Null)
    }

    /// The entries of the request of that name.
    fn entries_of(&self, name: &str) -> Vec<Value> {
        let page = self.audit("");
        let entries = page["entries"].as_array().unwrap().clone();
        entries.into_iter().filter(|entry| entry["request_id"] == name).collect()
    }

    fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what} does not happen at {}", self.server.address);
            std::thread::yield_now();
        }
    }

    fn topic(&self, topic: &str) {
        self.order("PUT", &format!("/v2/topics/{topic}"), &json!({}));
    }

    /// A topic with a message that its group has on loan: the token.
    fn lent(&self, topic: &str) -> String {
        self.topic(topic);
        self.order("POST", &format!("/v2/topics/{topic}/messages"), &json!({"value": "payload-secret"}));
        let path = format!("/v2/topics/{topic}/groups/g/lease");
        let lent = self.order("POST", &path, &json!({"owner": "o", "wait_ms": 10_000}));
        lent["messages"][0]["lease"]["token"].as_str().unwrap().to_owned()
    }

    /// A topic with a dead letter.
    fn dead(&self, topic: &str) {
        let token = self.lent(topic);
        self.order("POST", "/v2/leases/nack", &json!({"leases": [{"token": token, "dead": true}]}));
        self.wait_until("a dead letter", || {
            let letters = self.call(Some(&self.root), "setup", ("GET", &format!("/v2/dlq/{topic}")), None);
            letters.status == 200 && letters.json()["letters"][0].is_object()
        });
    }

    /// A dataset with versions `v1` and `v2`.
    fn dataset(&self, dataset: &str) {
        let output = |version: &str| {
            json!({"dataset": dataset, "version": version, "partition_key": "p", "mode": "replace",
                   "location": "s3://there", "digest": "sha256:00"})
        };
        let fence = [self.lent(&format!("for-{dataset}"))];
        self.order("POST", "/v2/commit", &json!({"fence": fence, "outputs": [output("v1"), output("v2")]}));
    }

    fn key(&self, spec: &Value) -> (String, String) {
        self.key_below(&self.root, spec)
    }

    /// A key that hangs on another one.
    fn key_below(&self, by: &str, spec: &Value) -> (String, String) {
        let made = self.call(Some(by), "setup", ("POST", "/v2/keys"), Some(spec)).json();
        (made["secret"].as_str().unwrap().to_owned(), made["key"]["id"].as_str().unwrap().to_owned())
    }
}

/// One call, and what its entry is to say.
struct Case {
    path: String,
    body: Value,
    target: String,
    /// Part of the detail.
    detail: &'static str,
}

fn case(path: impl Into<String>, body: Value, target: impl Into<String>, detail: &'static str) -> Case {
    Case { path: path.into(), body, target: target.into(), detail }
}

/// Makes what a call is about, and says how it is called. A call that is audited and has no case here fails the test.
fn prepared(world: &World, key: &str, operation: Operation) -> Case {
    let name = format!("of-{}", operation.id());
    let topic = format!("/v2/topics/{name}");
    let (about_topic, about_group) = (format!("topics/{name}"), format!("topics/{name}/groups/g"));
    match operation {
        Operation::PutTopic => {
            let body = json!({"partitions": 3, "retention_ms": 5000});
            case(topic, body, about_topic, "partitions 3 retention_ms null -> 5000")
        }
        Operation::PatchTopic => {
            world.topic(&name);
            case(topic, json!({"lease_ms": 7000}), about_topic, "lease_ms 30000 -> 7000")
        }
        Operation::DeleteTopic => {
            world.topic(&name);
            case(format!("{topic}?confirm={name}"), Value::Null, about_topic, "")
        }
        Operation::PauseTopic | Operation::ResumeTopic => {
            world.topic(&name);
            let verb = if operation == Operation::PauseTopic { "pause" } else { "resume" };
            case(format!("{topic}/{verb}"), Value::Null, about_topic, "")
        }
        Operation::DeleteGroup => {
            world.lent(&name);
            case(format!("{topic}/groups/g?confirm=g"), Value::Null, about_group, "")
        }
        Operation::PauseGroup | Operation::ResumeGroup => {
            world.lent(&name);
            let verb = if operation == Operation::PauseGroup { "pause" } else { "resume" };
            case(format!("{topic}/groups/g/{verb}"), Value::Null, about_group, "")
        }
        Operation::SeekGroup => {
            world.lent(&name);
            case(format!("{topic}/groups/g/seek"), json!({"to": "latest"}), about_group, "to the latest")
        }
        Operation::CancelMessage => {
            world.lent(&name);
            case(format!("{topic}/messages/0/0"), Value::Null, format!("{about_topic}/messages/0/0"), "")
        }
        Operation::RetryMessage => {
            world.lent(&name);
            case(
                format!("{topic}/messages/0/0/retry"),
                Value::Null,
                format!("{about_topic}/messages/0/0"),
                "",
            )
        }
        Operation::Redrive | Operation::Purge => {
            world.dead(&name);
            let (verb, detail) = match operation {
                Operation::Redrive => ("redrive", "all letters"),
                _ => ("purge", "all letters, counted only"),
            };
            let body = json!({"all": true, "dry_run": operation == Operation::Purge});
            case(format!("/v2/dlq/{name}/{verb}"), body, format!("dlq/{name}"), detail)
        }
        Operation::CancelJob => {
            world.dead(&name);
            let job = world.order("POST", &format!("/v2/dlq/{name}/redrive"), &json!({"all": true}));
            let id = job["id"].as_str().unwrap();
            case(format!("/v2/jobs/{id}"), Value::Null, format!("jobs/{id}"), "of-cancel_job")
        }
        Operation::PutEndpoint => {
            let body = json!({"kind": "http", "url": "https://there.example"});
            let target = format!("endpoints/{name}");
            case(format!("/v2/endpoints/{name}"), body, target, "http https://there.example")
        }
        Operation::DeleteEndpoint | Operation::DisableEndpoint | Operation::EnableEndpoint => {
            let path = format!("/v2/endpoints/{name}");
            let body = json!({"kind": "http", "url": "https://there.example"});
            world.order("PUT", &path, &body);
            let why = json!({"reason": "it moves", "by": "ann"});
            let target = format!("endpoints/{name}");
            match operation {
                Operation::DisableEndpoint => case(format!("{path}/disable"), why, target, "it moves"),
                Operation::EnableEndpoint => case(format!("{path}/enable"), why, target, "it moves"),
                _ => case(path, Value::Null, target, ""),
            }
        }
        Operation::LimitTenant => case("/v2/tenants/acme", json!({"topics": 3}), "tenants/acme", "topics 3"),
        Operation::ResolveEffect => {
            let effect = json!({"scope": "pay/out", "key": name, "owner": "o", "lease_ms": 1});
            world.order("POST", "/v2/effects/begin", &effect);
            world.wait_until("a lapse", || {
                let effect = json!({"scope": "pay/out", "key": name});
                world.order("POST", "/v2/effects/get", &effect)["state"] == "unknown"
            });
            let body = json!({"scope": "pay/out", "key": name, "by": "ann", "why": "statement",
                              "status": "succeeded", "body": "payload-secret"});
            let target = format!("effects/pay%2Fout/{name}");
            case("/v2/effects/resolve", body, target, "succeeded, by \"ann\": \"statement\"")
        }
        Operation::CutOver => {
            world.dataset(&name);
            let path = format!("/v2/outputs/{name}/cutover");
            case(path, json!({"version": "v1"}), format!("outputs/{name}"), "version v1 is current")
        }
        Operation::RollBack => {
            world.dataset(&name);
            for version in ["v1", "v2"] {
                let path = format!("/v2/outputs/{name}/cutover");
                world.order("POST", &path, &json!({"version": version}));
            }
            let path = format!("/v2/outputs/{name}/rollback");
            case(path, json!({"from": "v2"}), format!("outputs/{name}"), "version v1 is current")
        }
        Operation::SealVersion => {
            world.dataset(&name);
            let path = format!("/v2/outputs/{name}/seal");
            case(path, json!({"version": "v1"}), format!("outputs/{name}"), "version v1")
        }
        Operation::DeleteVersion => {
            world.dataset(&name);
            let path = format!("/v2/outputs/{name}/v2?confirm=v2");
            case(path, Value::Null, format!("outputs/{name}/v2"), "1 outputs")
        }
        Operation::RemoveEntity => {
            let expect = json!([{"entity": name, "version": 0}]);
            let entity = json!({"fence": [world.lent(&name)], "expect": expect, "tenant_id": "acme"});
            world.order("POST", "/v2/commit", &entity);
            let path = format!("/v2/entities/{name}?confirm={name}&tenant_id=acme");
            case(path, Value::Null, format!("entities/{name}"), "tenant acme: it was at version 1")
        }
        Operation::CreateKey => case(
            "/v2/keys",
            json!({"actions": ["read"], "note": "n"}),
            "keys/",
            "actions read, topics all, tenants all, until ever",
        ),
        Operation::RotateKey => {
            let (_, id) = world.key_below(key, &json!({"actions": ["read"]}));
            let (path, target) = (format!("/v2/keys/{id}/rotate"), format!("keys/{id}"));
            case(path, json!({"overlap_ms": 60_000}), target, "comes in its place, which ends in 60000 ms")
        }
        Operation::RevokeKey => {
            let (_, id) = world.key_below(key, &json!({"actions": ["read"]}));
            case(format!("/v2/keys/{id}"), Value::Null, format!("keys/{id}"), "")
        }
        other => panic!("{} is audited and has no case here", other.id()),
    }
}

#[test]
fn every_call_that_manages_something_has_its_entry() {
    let world = World::start();
    let (key, id) =
        world.key(&json!({"actions": ["manage", "outputs", "admin", "read"], "note": "night shift"}));
    let actor = format!("key:{id}");
    let mut before = 0;
    for operation in Operation::all().filter(|operation| operation.is_audited()) {
        // A server that has its log for itself refuses it; the tests of clusters look for its entry.
        if matches!(operation, Operation::DrainNode | Operation::ResumeNode) {
            continue;
        }
        let Case { path, body, target, detail } = prepared(&world, &key, operation);
        let body = Some(&body).filter(|body| !body.is_null());
        let (method, name) = (operation.method().name(), format!("request-{}", operation.id()));
        let reply = world.call(Some(&key), &name, (method, &path), body);
        assert!((200..300).contains(&reply.status), "{method} {path}: {}", reply.text());
        // It is there when the answer is.
        let entries = world.entries_of(&name);
        let [entry] = &entries[..] else { panic!("{name} has {} entries", entries.len()) };
        assert_eq!(entry["action"], operation.id());
        assert_eq!((&entry["actor"], &entry["note"]), (&json!(actor), &json!("night shift")), "{entry}");
        assert_eq!(entry["outcome"], "done", "{entry}");
        let told = entry["target"].as_str().unwrap_or_default();
        let is_right = if target.ends_with('/') { told.starts_with(&target) } else { told == target };
        assert!(is_right, "{entry} is about {target}");
        assert!(entry["detail"].as_str().unwrap_or_default().contains(detail), "{entry} says {detail}");
        assert!(entry["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{entry}");
        let sequence = entry["sequence"].as_u64().unwrap();
        assert!(sequence > before, "numbers rise: {entry}");
        before = sequence;
        // What goes wrong is told by its code: the same call, about what is not there or is no longer so.
        let name = format!("refused-{}", operation.id());
        let refused =
            world.call(Some(&key), &name, (method, &format!("{path}{}", sign(&path))), Some(&json!(7)));
        assert!(refused.status >= 400, "{method} {path}: {}", refused.text());
        let entries = world.entries_of(&name);
        assert_eq!(entries.len(), 1, "{name}");
        assert_eq!(entries[0]["outcome"], refused.json()["code"], "{name}");
        assert_eq!(entries[0].get("detail"), None, "what was sent is not repeated");
    }
    let made = world.call(Some(&key), "old", ("POST", "/v1/topics"), Some(&json!({"name": "from-v1"})));
    assert_eq!(made.status, 201);
    let entry = &world.entries_of("old")[0];
    assert_eq!((&entry["action"], &entry["target"]), (&json!("v1_create_topic"), &json!("topics/from-v1")));
    nothing_secret(&world, &[&key, &world.root]);
}

/// A parameter that no call knows.
fn sign(path: &str) -> &'static str {
    if path.contains('?') { "&nonsense=1" } else { "?nonsense=1" }
}

fn nothing_secret(world: &World, keys: &[&str]) {
    let told = world.audit("").to_string();
    assert!(!told.contains("payload-secret"), "{told}");
    for key in keys {
        let secret = key.rsplit('_').next().unwrap();
        assert!(!told.contains(secret), "{told}");
    }
}

#[test]
fn numbers_have_no_gaps_and_pages_follow_each_other() {
    let world = World::start();
    for number in 0..5 {
        world.topic(&format!("t{number}"));
    }
    let page = world.audit("");
    let numbers: Vec<u64> =
        page["entries"].as_array().unwrap().iter().map(|entry| entry["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!((&page["seen"], &page["more"], &page["oldest"]), (&json!(5), &json!(false), &json!(1)));
    let page = world.order("GET", "/v2/audit?limit=2&after=1&target=topics/t*", &Value::Null);
    assert_eq!((&page["seen"], &page["more"]), (&json!(3), &json!(true)));
    for (query, count) in [
        ("actor=root", 5),
        ("actor=key:*", 0),
        ("action=put_topic&target=topics%2Ft3", 1),
        ("outcome=done", 5),
        ("outcome=refused", 0),
        ("since=2100-01-01T00:00:00Z", 0),
        ("until=2100-01-01T00:00:00Z", 5),
    ] {
        assert_eq!(world.audit(query)["entries"].as_array().unwrap().len(), count, "{query}");
    }
}

#[test]
fn what_is_refused_for_want_of_a_key_is_told_for_every_kind_of_call() {
    let world = World::start();
    world.topic("orders");
    let (reader, id) = world.key(&json!({"actions": ["read"], "note": "reader"}));
    let (revoked, revoked_id) = world.key(&json!({"actions": ["read"]}));
    world.order("DELETE", &format!("/v2/keys/{revoked_id}"), &Value::Null);
    let produce = ("POST", "/v2/topics/orders/messages");
    let message = json!({"value": "payload-secret"});
    let status = |key, name| world.call(key, name, produce, Some(&message)).status;
    assert_eq!(status(None, "no-key"), 401);
    assert_eq!(status(Some("dq_1_2"), "no-shape"), 401);
    assert_eq!(status(Some(&revoked), "revoked"), 401);
    assert_eq!(status(Some(&reader), "no-action"), 403);
    let entry = |name: &str| {
        let entries = world.entries_of(name);
        assert_eq!(entries.len(), 1, "{name}");
        entries[0].clone()
    };
    for name in ["no-key", "no-shape", "revoked"] {
        let entry = entry(name);
        assert_eq!((&entry["actor"], &entry["outcome"]), (&json!("unknown"), &json!("UNAUTHENTICATED")));
        assert_eq!((&entry["action"], &entry["target"]), (&json!("produce"), &json!("topics/orders")));
    }
    assert!(entry("revoked")["detail"].as_str().unwrap().contains(&revoked_id));
    let forbidden = entry("no-action");
    assert_eq!(forbidden["actor"], format!("key:{id}"));
    assert_eq!((&forbidden["note"], &forbidden["outcome"]), (&json!("reader"), &json!("FORBIDDEN")));
    // What went well and manages nothing has none.
    world.call(Some(&world.root), "produced", produce, Some(&message));
    assert_eq!(world.entries_of("produced"), [Value::Null; 0]);
    // The audit itself is for those who have the key to it.
    assert_eq!(world.call(Some(&reader), "curious", ("GET", "/v2/audit"), None).status, 403);
    nothing_secret(&world, &[&reader, &revoked, &world.root]);
}

#[test]
fn a_flood_of_refusals_is_counted_and_not_written_down() {
    let world = World::start();
    let mut client = Client::connect(world.server.address);
    let begun = Instant::now();
    let flood = 300;
    for _ in 0..flood {
        assert_eq!(client.get("/v2/topics").status, 401);
    }
    let seconds = begun.elapsed().as_secs() + 2;
    world.topic("after");
    let entries = world.audit("")["entries"].as_array().unwrap().clone();
    let refused = entries.iter().filter(|entry| entry["outcome"] == "UNAUTHENTICATED").count() as u64;
    assert!(refused >= 10 && refused <= 10 * seconds, "{refused} in {seconds} s");
    let suppressed: u64 = entries.iter().filter_map(|entry| entry["suppressed"].as_u64()).sum();
    assert_eq!(refused + suppressed, flood, "none is forgotten");
}

#[test]
fn entries_outlive_the_server_and_their_numbers_go_on() {
    let world = World::start();
    world.topic("a");
    world.call(None, "stranger", ("GET", "/v2/topics"), None);
    let before = world.audit("");
    let world = world.kill_and_restart();
    assert_eq!(world.audit(""), before);
    world.topic("b");
    assert_eq!(world.audit("after=2")["entries"][0]["sequence"], json!(3));
}

#[test]
fn a_caller_that_hangs_up_leaves_no_deed_without_an_entry() {
    let world = World::start();
    let hang_up = |number: u32| {
        let mut client = Client::connect(world.server.address);
        client.send(format!(
            "PUT /v2/topics/gone{number} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
            world.root
        ));
        drop(client);
    };
    let made = || {
        let topics = world.order("GET", "/v2/topics?limit=1000", &Value::Null);
        topics["topics"].as_array().unwrap().len()
    };
    let told = || world.audit("action=put_topic")["entries"].as_array().unwrap().len();
    // Some of them hang up before they are heard at all, on a busy machine nearly all.
    let numbers = std::cell::Cell::new(0);
    world.wait_until("an entry of one that hung up", || {
        for _ in 0..20 {
            hang_up(numbers.replace(numbers.get() + 1));
        }
        told() > 0
    });
    world.wait_until("as many entries as topics", || {
        let made = made();
        told() >= made
    });
}

#[test]
fn a_reader_waits_for_the_next_entry() {
    let world = World::start();
    world.topic("a");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| world.audit("after=1&wait_ms=20000&target=topics/c"));
        world.topic("b");
        world.topic("c");
        let page = waiting.join().unwrap();
        assert_eq!(page["entries"][0]["target"], "topics/c", "{page}");
    });
    assert!(begun.elapsed() < Duration::from_secs(15));
    let page = world.audit("after=3&wait_ms=10");
    assert_eq!((&page["entries"], &page["seen"]), (&json!([]), &json!(3)));
}

#[test]
fn the_oldest_entries_go_and_a_reader_sees_it() {
    let world = World::start_with(&["--audit-keep-bytes", "1KiB"]);
    for number in 0..20 {
        world.topic(&format!("t{number}"));
    }
    let page = world.audit("");
    let oldest = page["oldest"].as_u64().unwrap();
    assert!(oldest > 10 && page["entries"][0]["sequence"] == oldest, "{page}");
}

#[test]
fn the_command_line_shows_and_follows_the_audit() {
    let world = World::start();
    world.topic("orders");
    world.call(None, "stranger", ("GET", "/v2/topics"), None);
    let variables = [("DRIFTQ_SERVER", &*world.server.url()), ("DRIFTQ_KEY", &world.root)];
    let shown = run_with(&variables, &["audit"]).ok();
    assert!(shown.stdout.starts_with("NUMBER") && shown.stdout.contains("topics/orders"), "{}", shown.stdout);
    let refused = run_with(&variables, &["audit", "--outcome", "refused", "-o", "ndjson"]).ok().lines();
    assert_eq!((refused.len(), &refused[0]["request_id"]), (1, &json!("stranger")));
    let last = run_with(&variables, &["audit", "--limit", "1", "-o", "json"]).ok().json();
    assert_eq!(last[0]["sequence"], 2);
    let none = run_with(&variables, &["audit", "--actor", "key:none"]).ok();
    assert_eq!(none.stdout, "the audit has no such entry\n");
    follow(&world, world.directory.path());
}

/// A follower prints what is there and what comes.
fn follow(world: &World, directory: &Path) {
    use std::io::{BufRead as _, BufReader};
    let key_file = directory.join("key");
    std::fs::write(&key_file, &world.root).unwrap();
    let mut follower = crate::support::driftq()
        .args(["audit", "--follow", "--action", "put_topic", "-o", "ndjson", "--key-file"])
        .arg(&key_file)
        .env("DRIFTQ_SERVER", world.server.url())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["target"], "topics/orders");
    world.topic("later");
    assert_eq!(next()["target"], "topics/later");
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn a_server_without_keys_tells_what_anybody_did() {
    let broker = crate::compat::Broker::ephemeral(&[]);
    let mut client = broker.client();
    client.call("PUT", "/v2/topics/t", &[("x-forwarded-for", "6.6.6.6")], None);
    let entry = client.get("/v2/audit").json()["entries"][0].clone();
    assert_eq!((&entry["actor"], &entry["action"]), (&json!("anybody"), &json!("put_topic")));
    assert!(entry["from"].as_str().unwrap().starts_with("127.0.0.1:"), "headers are not believed: {entry}");
    let broker = crate::compat::Broker::ephemeral(&["--behind-proxy"]);
    let mut client = broker.client();
    client.call("PUT", "/v2/topics/t", &[("x-forwarded-for", "6.6.6.6, 10.0.0.9")], None);
    let entry = client.get("/v2/audit").json()["entries"][0].clone();
    assert_eq!(entry["from"], "10.0.0.9", "the proxy is believed");
}
