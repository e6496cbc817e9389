//! Keys that are bound to tenants: what belongs to others does not exist for them, on the real binary.

use driftq_api::v2::{KeyAction, NeededTenants, Operation};
use serde_json::{Value, json};

use crate::compat::Reply;
use crate::keys::{FORBIDDEN, Guarded, actions, assert_refused, body, path_about};

/// A server with a shared topic `orders`, and topics `ours` and `theirs` of the tenants `acme` and `globex`.
pub(crate) struct Shared {
    pub(crate) guarded: Guarded,
    pub(crate) acme: String,
    pub(crate) globex: String,
}

impl Shared {
    pub(crate) fn start() -> Self {
        let guarded = Guarded::start();
        let key = |tenant: &str| {
            guarded.key(&guarded.root, &json!({"actions": actions(&[]), "tenants": [tenant]})).0
        };
        let (acme, globex) = (key("acme"), key("globex"));
        for (topic, key) in [("ours", &acme), ("theirs", &globex)] {
            let made = guarded.call(Some(key), "PUT", &format!("/v2/topics/{topic}"), Some("{}"));
            assert_eq!(made.status, 201, "{}", made.text());
        }
        Self { guarded, acme, globex }
    }

    pub(crate) fn call(&self, key: &str, method: &str, path: &str, body: &Value) -> Reply {
        let body = (!body.is_null()).then(|| body.to_string());
        self.guarded.call(Some(key), method, path, body.as_deref())
    }

    pub(crate) fn get(&self, key: &str, path: &str) -> Value {
        let reply = self.call(key, "GET", path, &Value::Null);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    pub(crate) fn post(&self, key: &str, path: &str, body: &Value) -> Value {
        let reply = self.call(key, "POST", path, body);
        assert!((200..300).contains(&reply.status), "{path}: {}", reply.text());
        reply.json()
    }

    pub(crate) fn root(&self) -> &str {
        &self.guarded.root
    }
}

/// What a refusal says, without what names the request.
fn told(reply: &Reply) -> (u16, Value) {
    let mut told = reply.json();
    if let Some(fields) = told.as_object_mut() {
        fields.remove("request_id");
        fields.remove("instance");
    }
    (reply.status, told)
}

/// A call that names a tenant: its path with a query, and its body.
fn naming(operation: Operation, tenant: Option<&str>) -> (String, Value) {
    let path = path_about(operation, "fresh");
    let effect = |more: Value| {
        let mut body = json!({"scope": "s", "key": "k"});
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.extend(more.clone());
        }
        body
    };
    let body = match operation {
        Operation::PutTopic => return (path, json!({"tenant": tenant})),
        // It is named by the path alone.
        Operation::GetTenant => return (path.replace("none", tenant.unwrap_or("acme")), Value::Null),
        Operation::PostDelivery => {
            return (path, json!({"delivery_id": "d", "endpoint": "e", "body": "b", "tenant_id": tenant}));
        }
        Operation::PostExport => {
            let selection = json!({"kind": "effects"});
            return (
                path,
                json!({"export_id": "e", "place": "p", "selection": selection, "tenant_id": tenant}),
            );
        }
        Operation::Commit => {
            json!({"fence": ["none"], "outputs": [{"dataset": "d", "version": "1", "partition_key": "p",
            "mode": "replace", "location": "l", "digest": "h"}]})
        }
        Operation::Release => {
            let effect = json!({"scope": "s", "key": "k", "tenant_id": tenant.unwrap_or_default()});
            return (path, json!({"leases": [{"token": "none", "effect": effect}]}));
        }
        Operation::BeginEffect | Operation::ReacquireEffect => effect(json!({"lease_ms": 1000})),
        Operation::GetEffect => effect(json!({})),
        Operation::ResolveEffect => effect(json!({"by": "ann", "why": "seen", "status": "succeeded"})),
        Operation::CutOver | Operation::SealVersion => json!({"version": "1"}),
        Operation::RollBack => json!({"from": "1"}),
        _ => {
            let confirm = if operation.method().name() == "DELETE" { "&confirm=none" } else { "" };
            let query = match tenant {
                Some(tenant) => format!("?tenant_id={tenant}{confirm}"),
                None => format!("?limit=1{confirm}").replace("limit=1&", ""),
            };
            let query = if tenant.is_none() && confirm.is_empty() { String::new() } else { query };
            return (format!("{path}{query}"), Value::Null);
        }
    };
    let mut body = body;
    if let Some(tenant) = tenant {
        body["tenant_id"] = json!(tenant);
    }
    (path, body)
}

/// The row "wrong tenant" of every call.
#[test]
fn no_call_is_open_to_a_key_of_another_tenant() {
    let shared = Shared::start();
    for operation in Operation::all() {
        let method = operation.method().name();
        let call = |topic: &str| {
            let body = body(operation, topic);
            shared.guarded.call(Some(&shared.acme), method, &path_about(operation, topic), body.as_deref())
        };
        let what = |about: &str| format!("{method} {} {about}", operation.path());
        let tenants = operation.needs().tenants;
        // A stream that is let in does not end.
        let streams = matches!(operation, Operation::Stream | Operation::StreamEvents);
        match tenants {
            NeededTenants::OwnTopic | NeededTenants::OwnMessages => {
                let (foreign, missing) = (call("theirs"), call("nothing"));
                assert_eq!((foreign.status, &foreign.json()["code"]), (404, &json!("TOPIC_UNKNOWN")));
                assert_eq!(told(&foreign), told(&missing), "{}", what("is told of a topic of others"));
                let expected = (tenants == NeededTenants::OwnTopic).then_some(FORBIDDEN);
                assert_refused(&call("orders"), expected, &what("with a shared topic"));
                if !streams {
                    assert_refused(&call("ours"), None, &what("with a topic of its own"));
                }
            }
            NeededTenants::Asked => {
                for (tenant, expected) in
                    [(Some("globex"), Some(FORBIDDEN)), (Some("acme"), None), (None, None)]
                {
                    let (path, body) = naming(operation, tenant);
                    let reply = shared.call(&shared.acme, method, &path, &body);
                    assert_refused(&reply, expected, &what(&format!("as {tenant:?}")));
                    assert!(reply.status != 400, "the call is well-formed: {}", reply.text());
                }
            }
            NeededTenants::All => assert_refused(&call("ours"), Some(FORBIDDEN), &what("")),
            NeededTenants::Filtered | NeededTenants::None => {
                assert_refused(&call("ours"), None, &what(""));
            }
        }
    }
    let metrics = shared.guarded.call(Some(&shared.acme), "GET", "/metrics", None);
    assert_eq!(metrics.status, 403, "metrics are about the whole server");
}

#[test]
fn messages_are_those_of_the_keys_tenant() {
    let shared = Shared::start();
    let produce = |key: &str, topic: &str, tenant: Option<&str>| {
        let body = match tenant {
            Some(tenant) => json!({"value": "v", "envelope": {"tenant_id": tenant}}),
            None => json!({"value": "v"}),
        };
        shared.call(key, "POST", &format!("/v2/topics/{topic}/messages"), &body)
    };
    for topic in ["orders", "ours"] {
        assert_refused(&produce(&shared.acme, topic, Some("globex")), Some(FORBIDDEN), topic);
        assert_eq!(produce(&shared.acme, topic, Some("acme")).status, 201);
        let stored = produce(&shared.acme, topic, None).json();
        let path = format!("/v2/topics/{topic}/messages/{}/{}", stored["partition"], stored["offset"]);
        assert_eq!(shared.get(shared.root(), &path)["envelope"]["tenant_id"], "acme");
    }
    // In a topic that belongs to a tenant lies nothing of others, whoever sends it.
    let foreign = produce(shared.root(), "ours", Some("globex"));
    assert_eq!((foreign.status, &foreign.json()["code"]), (409, &json!("TENANT_DIFFERS")));
    let stored = produce(shared.root(), "ours", None).json();
    let path = format!("/v2/topics/ours/messages/{}/{}", stored["partition"], stored["offset"]);
    assert_eq!(shared.get(&shared.acme, &path)["envelope"]["tenant_id"], "acme");
    // Nor by way of another topic, a batch, or a commit.
    let around = json!({"value": "v", "envelope": {"target_topic": "theirs"}});
    let refused = shared.call(&shared.acme, "POST", "/v2/topics/ours/messages", &around);
    assert_eq!((refused.status, &refused.json()["code"]), (404, &json!("TOPIC_UNKNOWN")));
    let batch = json!([{"value": "a"}, {"value": "b", "envelope": {"tenant_id": "globex"}}]);
    let refused = shared.call(&shared.acme, "POST", "/v2/topics/orders/messages", &batch);
    assert_refused(&refused, Some(FORBIDDEN), "a batch");
    for (message, topic, expected) in [
        (json!({"value": "v", "envelope": {"tenant_id": "globex"}}), "orders", 403),
        (json!({"value": "v"}), "theirs", 404),
    ] {
        let commit = json!({"produce": [{"topic": topic, "message": message}]});
        let refused = shared.call(&shared.acme, "POST", "/v2/commit", &commit);
        assert_eq!((refused.status, &refused.json()["part"]), (expected, &json!("produce[0]")), "{topic}");
    }
    let commit = json!({"produce": [{"topic": "orders", "message": {"value": "v", "key": "child"}}]});
    shared.post(&shared.acme, "/v2/commit", &commit);
    let found = shared.get(shared.root(), "/v2/topics/orders/messages?key=child");
    assert_eq!(found["messages"][0]["envelope"]["tenant_id"], "acme");
    assert_eq!(shared.get(shared.root(), "/v2/topics/theirs")["next_offset"], 0, "nothing came to others");
}

#[test]
fn in_a_shared_topic_the_messages_of_others_are_not_there() {
    let shared = Shared::start();
    let mut places = Vec::new();
    for (key, value) in [
        (&shared.globex, "theirs-1"),
        (&shared.acme, "ours-1"),
        (&shared.guarded.root, "nobodys"),
        (&shared.globex, "theirs-2"),
        (&shared.acme, "ours-2"),
    ] {
        let message = json!({"value": value, "envelope": {"idempotency_key": value}});
        let stored = shared.post(key, "/v2/topics/orders/messages", &message);
        places.push(format!("/v2/topics/orders/messages/{}/{}", stored["partition"], stored["offset"]));
    }
    let values = |page: &Value| {
        let messages = page["messages"].as_array().unwrap().iter();
        messages.map(|message| message["value"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let page = shared.get(&shared.acme, "/v2/topics/orders/messages");
    assert_eq!((values(&page), &page["scanned"]), (vec!["ours-1".into(), "ours-2".into()], &json!(2)));
    assert_eq!(page.get("cursor"), None);
    let whole = shared.get(shared.root(), "/v2/topics/orders/messages");
    assert_eq!((values(&whole).len(), &whole["scanned"]), (5, &json!(5)));
    // A page is full of its own messages.
    let first = shared.get(&shared.acme, "/v2/topics/orders/messages?limit=1");
    assert_eq!(values(&first), ["ours-1"]);
    let cursor = first["cursor"].as_str().unwrap();
    let second = shared.get(&shared.acme, &format!("/v2/topics/orders/messages?limit=1&cursor={cursor}"));
    assert_eq!(values(&second), ["ours-2"]);
    for (key, found) in [("ours-2", vec!["ours-2".to_owned()]), ("theirs-1", vec![]), ("nobodys", vec![])] {
        let path = format!("/v2/topics/orders/messages?idempotency_key={key}");
        assert_eq!(values(&shared.get(&shared.acme, &path)), found, "{key}");
    }
    let foreign =
        shared.call(&shared.acme, "GET", "/v2/topics/orders/messages?tenant_id=globex", &Value::Null);
    assert_refused(&foreign, Some(FORBIDDEN), "messages of a tenant by name");
    let groups =
        shared.call(&shared.acme, "GET", "/v2/topics/orders/messages?state=window_full", &Value::Null);
    assert_refused(&groups, Some(FORBIDDEN), "how groups stand");
    // One by one: what is not the caller's is like what is not there.
    let missing = shared.call(&shared.acme, "GET", "/v2/topics/orders/messages/0/4711", &Value::Null);
    assert_eq!(missing.status, 404);
    for (place, is_own) in places.iter().zip([false, true, false, false, true]) {
        let reply = shared.call(&shared.acme, "GET", place, &Value::Null);
        if is_own {
            assert_eq!((reply.status, &reply.json()["groups"]), (200, &json!([])), "{}", reply.text());
        } else {
            assert_eq!(told(&reply), told(&missing), "{place}");
        }
    }
}

#[test]
fn lists_and_counts_are_the_same_whatever_others_have() {
    let shared = Shared::start();
    let lists = || {
        let mut status = shared.get(&shared.acme, "/v2/status");
        for counted in ["uptime_ms", "recovery"] {
            status.as_object_mut().unwrap().remove(counted);
        }
        let paths = [
            "/v2/topics",
            "/v1/topics",
            "/v2/dlq",
            "/v2/jobs",
            "/v2/effects",
            "/v2/runs",
            Operation::ListDatasets.path(),
            Operation::ListEntities.path(),
        ];
        (status, paths.map(|path| shared.get(&shared.acme, path)))
    };
    let before = lists();
    assert_eq!(before.0["topics"], 1);
    assert!(before.0.get("streams").is_none() && before.0.get("data").is_none(), "{}", before.0);
    assert_eq!(before.1[1], json!({"topics": ["ours"]}), "a shared one would tell of others by its counts");
    // What another tenant does, in its own topics and in shared ones.
    let theirs = &shared.globex;
    shared.call(theirs, "PUT", "/v2/topics/more", &json!({}));
    let message = json!({"value": "v", "envelope": {"run_id": "r"}});
    for topic in ["theirs", "orders"] {
        shared.post(theirs, &format!("/v2/topics/{topic}/messages"), &message);
    }
    shared.post(theirs, "/v2/effects/begin", &json!({"scope": "s", "key": "k", "lease_ms": 1000}));
    let leased = shared.post(theirs, "/v2/topics/theirs/groups/g/lease", &json!({"owner": "o", "max": 1}));
    let token = &leased["messages"][0]["lease"]["token"];
    let output = json!({"dataset": "d", "version": "1", "partition_key": "p", "mode": "replace",
        "location": "l", "digest": "h"});
    let expect = json!([{"entity": "e", "version": 0}]);
    shared.post(theirs, "/v2/commit", &json!({"fence": [token], "outputs": [output], "expect": expect}));
    let dead = json!({"leases": [{"token": token, "dead": true, "error": "no"}]});
    shared.post(theirs, "/v2/leases/nack", &dead);
    shared.guarded.wait_until(|| shared.get(theirs, "/v2/dlq")["topics"].as_array().unwrap().len() == 1);
    let job = shared.post(theirs, "/v2/dlq/theirs/redrive", &json!({"all": true, "dry_run": true}));
    assert_eq!(shared.get(theirs, "/v2/effects")["effects"].as_array().unwrap().len(), 1);
    assert_eq!(lists(), before);
    let seen =
        shared.call(&shared.acme, "GET", &format!("/v2/jobs/{}", job["id"].as_str().unwrap()), &Value::Null);
    let missing = shared.call(&shared.acme, "GET", "/v2/jobs/4711", &Value::Null);
    assert_eq!(told(&seen), told(&missing));
}

#[test]
fn effects_are_begun_as_a_tenant_of_the_key() {
    let shared = Shared::start();
    let begin = |key: &str, more: Value| {
        let mut body = json!({"scope": "charge", "key": "order-7", "lease_ms": 60_000});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        shared.call(key, "POST", "/v2/effects/begin", &body)
    };
    assert_eq!(begin(&shared.acme, json!({})).json()["decision"], "execute");
    assert_eq!(begin(&shared.acme, json!({"tenant_id": "acme"})).json()["decision"], "in_progress");
    // The same name of another tenant is another effect.
    assert_eq!(begin(&shared.globex, json!({})).json()["decision"], "execute");
    let effect = json!({"scope": "charge", "key": "order-7"});
    assert_eq!(shared.post(&shared.acme, "/v2/effects/get", &effect)["tenant_id"], "acme");
    let many = json!({"effects": [
        {"scope": "s", "key": "a", "lease_ms": 1000, "tenant_id": "globex"},
        {"scope": "s", "key": "b", "lease_ms": 1000},
    ]});
    let results = shared.post(&shared.acme, "/v2/effects/begin", &many);
    assert_eq!(results["results"][0]["problem"]["code"], "FORBIDDEN", "{results}");
    assert_eq!(results["results"][1]["decision"], "execute", "{results}");
    // A token is authority for its delivery: not for effects as the tenant of its message.
    shared.post(&shared.globex, "/v2/topics/theirs/messages", &json!({"value": "v"}));
    let lease = json!({"owner": "o", "max": 1});
    let leased = shared.post(&shared.globex, "/v2/topics/theirs/groups/g/lease", &lease);
    let token = &leased["messages"][0]["lease"]["token"];
    let tied = begin(&shared.acme, json!({"key": "tied", "lease_token": token}));
    assert_refused(&tied, Some(FORBIDDEN), "an effect under a message of others");
    assert_eq!(begin(&shared.globex, json!({"key": "tied", "lease_token": token})).status, 200);
    let acked = shared.post(&shared.acme, "/v2/leases/ack", &json!({"leases": [{"token": token}]}));
    assert_eq!(acked["results"][0]["status"], "ok", "a token settles its one delivery");
}

#[test]
fn topics_are_made_for_a_tenant_and_stay_with_it() {
    let shared = Shared::start();
    let put =
        |key: &str, topic: &str, body: Value| shared.call(key, "PUT", &format!("/v2/topics/{topic}"), &body);
    assert_eq!(shared.get(shared.root(), "/v2/topics/ours")["tenant"], "acme");
    assert_eq!(put(&shared.acme, "ours", json!({})).status, 200);
    // Which of the two it is, and what it is like, is not told.
    let (shared_one, foreign) =
        (put(&shared.acme, "orders", json!({})), put(&shared.acme, "theirs", json!({"partitions": 9})));
    assert_eq!((foreign.status, &foreign.json()["code"]), (409, &json!("SETTINGS_DIFFER")));
    assert_eq!(told(&foreign), told(&shared_one));
    let again = shared.call(shared.root(), "PATCH", "/v2/topics/ours", &json!({"tenant": "globex"}));
    assert_eq!(again.status, 400, "whose it is does not change: {}", again.text());
    // Dead letters of others cannot be had by their name.
    let grave = put(&shared.acme, "dlq.theirs", json!({}));
    assert_eq!((grave.status, &grave.json()["code"]), (409, &json!("TENANT_DIFFERS")));
    let both = json!({"actions": ["manage", "produce"], "tenants": ["acme", "globex"]});
    let (both, _) = shared.guarded.key(shared.root(), &both);
    assert_refused(&put(&both, "either", json!({})), Some(FORBIDDEN), "a topic of one of two");
    assert_eq!(put(&both, "either", json!({"tenant": "globex"})).status, 201);
    let message = json!({"value": "v"});
    assert_eq!(shared.call(&both, "POST", "/v2/topics/either/messages", &message).status, 201);
    assert_refused(
        &shared.call(&both, "POST", "/v2/topics/orders/messages", &message),
        Some(FORBIDDEN),
        "a message of one of two",
    );
}

#[test]
fn the_first_dialect_knows_of_tenants_too() {
    let shared = Shared::start();
    let calls = |topic: &str| {
        let settle = json!({"topic": topic, "group": "g", "owner": "o", "partition": 0, "offset": 9});
        [
            ("POST", "/v1/produce".to_owned(), json!({"topic": topic, "value": "v"})),
            ("POST", "/v1/ack".to_owned(), settle.clone()),
            ("POST", "/v1/nack".to_owned(), settle),
            ("GET", format!("/v1/consume?topic={topic}&group=g&owner=o"), Value::Null),
        ]
    };
    for (foreign, missing) in calls("theirs").into_iter().zip(calls("nothing")) {
        let reply = |(method, path, body): &(&str, String, Value)| {
            told(&shared.call(&shared.acme, method, path, body))
        };
        assert_eq!(reply(&foreign), reply(&missing), "{}", foreign.1);
    }
    for (method, path, body) in calls("orders").into_iter().skip(1) {
        let reply = shared.call(&shared.acme, method, &path, &body);
        assert_eq!((reply.status, &reply.json()["error"]), (403, &json!("FORBIDDEN")), "{path}");
    }
    let foreign = json!({"topic": "orders", "value": "v", "envelope": {"tenant_id": "globex"}});
    assert_eq!(shared.call(&shared.acme, "POST", "/v1/produce", &foreign).status, 403);
    assert_eq!(shared.call(&shared.acme, "POST", "/v1/produce", &calls("orders")[0].2).status, 200);
    let page = shared.get(shared.root(), "/v2/topics/orders/messages");
    assert_eq!(page["messages"][0]["envelope"]["tenant_id"], "acme");
    assert_eq!(shared.call(&shared.acme, "POST", "/v1/topics", &json!({"name": "new"})).status, 201);
    assert_eq!(shared.get(shared.root(), "/v2/topics/new")["tenant"], "acme");
    assert_eq!(shared.get(&shared.acme, "/v1/topics"), json!({"topics": ["new", "ours"]}));
}

#[test]
fn a_key_of_tenants_makes_none_for_others() {
    let shared = Shared::start();
    for wider in [json!({"actions": ["read"]}), json!({"actions": ["read"], "tenants": ["acme", "globex"]})] {
        let reply = shared.call(&shared.acme, "POST", "/v2/keys", &wider);
        assert_refused(&reply, Some(FORBIDDEN), &wider.to_string());
    }
    let (_, id) = shared.guarded.key(&shared.acme, &json!({"actions": ["read"], "tenants": ["acme"]}));
    assert_eq!(shared.get(&shared.acme, &format!("/v2/keys/{id}"))["tenants"], json!(["acme"]));
}

#[test]
fn without_read_payload_everything_is_shown_but_values_results_and_headers() {
    let guarded = Guarded::start();
    let root = guarded.root.clone();
    let (reader, _) = guarded.key(&root, &json!({"actions": ["read"]}));
    let (payload_reader, _) = guarded.key(&root, &json!({"actions": ["read", "read_payload"]}));
    let call = |key: &str, method: &str, path: &str, body: &Value| {
        let body = (!body.is_null()).then(|| body.to_string());
        let reply = guarded.call(Some(key), method, path, body.as_deref());
        assert!((200..300).contains(&reply.status), "{path}: {}", reply.text());
        reply.json()
    };
    let secret = "a secret value";
    for value in [json!({"value": secret, "key": "k"}), json!({"value_b64": "/w==", "key": "k"})] {
        call(&root, "POST", "/v2/topics/orders/messages", &value);
    }
    let leased = call(&root, "POST", "/v2/topics/orders/groups/g/lease", &json!({"owner": "o", "max": 1}));
    let token = &leased["messages"][0]["lease"]["token"];
    let dead = json!({"leases": [{"token": token, "dead": true, "error": "broken"}]});
    call(&root, "POST", "/v2/leases/nack", &dead);
    guarded
        .wait_until(|| !call(&root, "GET", "/v2/dlq", &Value::Null)["topics"].as_array().unwrap().is_empty());
    let begun =
        call(&root, "POST", "/v2/effects/begin", &json!({"scope": "s", "key": "k", "lease_ms": 9999}));
    let finished = json!({"token": begun["lease"]["token"], "status": "succeeded", "code": 7, "body": secret,
        "headers": {"etag": secret}});
    call(&root, "POST", "/v2/effects/finish", &finished);
    let letters = call(&root, "GET", "/v2/dlq/orders", &Value::Null);
    let letter = &letters["letters"][0];
    let letter = format!("/v2/dlq/orders/{}/{}", letter["partition"], letter["offset"]);
    let message = call(&root, "GET", "/v2/topics/orders/messages", &Value::Null);
    let message = &message["messages"][0];
    let message = format!("/v2/topics/orders/messages/{}/{}", message["partition"], message["offset"]);
    let effect = json!({"scope": "s", "key": "k"});
    for (method, path, body) in [
        ("GET", "/v2/topics/orders/messages", &Value::Null),
        ("GET", &message, &Value::Null),
        ("GET", "/v2/topics/dlq.orders/messages", &Value::Null),
        ("GET", "/v2/dlq/orders", &Value::Null),
        ("GET", &letter, &Value::Null),
        ("POST", "/v2/effects/get", &effect),
        ("GET", "/v2/effects", &Value::Null),
    ] {
        let (hidden, shown) = (call(&reader, method, path, body), call(&payload_reader, method, path, body));
        let text = hidden.to_string();
        for field in [secret, "\"value\"", "\"value_b64\"", "\"body\"", "\"body_b64\"", "\"headers\""] {
            assert!(!text.contains(field), "{path} shows {field}: {text}");
        }
        assert_eq!(text.contains("\"payload_hidden\":true"), path != "/v2/effects", "{path}: {text}");
        assert!(!shown.to_string().contains("payload_hidden"), "{path}: {shown}");
        assert_eq!(shown, call(&root, method, path, body), "{path}");
    }
    let seen = call(&reader, "POST", "/v2/effects/get", &effect);
    assert_eq!((&seen["outcome"]["code"], &seen["outcome"]["status"]), (&json!(7), &json!("succeeded")));
    let letter = call(&reader, "GET", &letter, &Value::Null);
    assert_eq!(letter["key"], "k");
    assert_eq!(letter["envelope"]["dead_letter"]["last_error"], "broken", "why it failed is no payload");
    // A reader of payloads alone reads nothing.
    let (payload_only, _) = guarded.key(&root, &json!({"actions": [KeyAction::ReadPayload.name()]}));
    let refused = guarded.call(Some(&payload_only), "GET", "/v2/topics/orders/messages", None);
    assert_refused(&refused, Some(FORBIDDEN), "payloads without the rest");
}
