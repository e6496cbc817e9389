//! Limits of tenants, on the real binary.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};

use crate::command::run;
use crate::compat::Reply;
use crate::support::Server;
use crate::tenants::Shared;

const OURS: &str = "/v2/topics/ours/messages";
const BEGIN: &str = "/v2/effects/begin";

impl Shared {
    fn limit(&self, tenant: &str, limits: &Value) -> Value {
        let reply = self.call(self.root(), "PUT", &format!("/v2/tenants/{tenant}"), limits);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    fn produce(&self, key: &str, path: &str, value: &str) -> Reply {
        self.call(key, "POST", path, &json!({"value": value}))
    }
}

/// A refusal for want of so much of something.
#[track_caller]
fn assert_used_up(reply: &Reply, quota: &str) {
    let told = reply.json();
    assert_eq!((reply.status, &told["code"]), (429, &json!("QUOTA_EXCEEDED")), "{told}");
    assert_eq!((&told["reason"], &told["retryable"]), (&json!(quota), &json!(true)), "{told}");
    assert!(told["detail"].as_str().is_some_and(|text| text.contains(quota)), "{told}");
    assert!(told["retry_after_ms"].is_u64(), "{told}");
}

#[test]
fn what_a_tenant_stores_is_limited_and_nobody_else_s() {
    let shared = Shared::start();
    let (acme, globex) = (shared.acme.as_str(), shared.globex.as_str());
    let shown = shared.limit("acme", &json!({"messages": 3, "bytes": 100, "topics": 2, "effects": 1}));
    assert_eq!(shown["limits"], json!({"messages": 3, "bytes": 100, "topics": 2, "effects": 1}));
    assert_eq!((&shown["topics"], &shown["messages"]), (&json!(1), &json!(0)));
    assert_used_up(&shared.produce(acme, OURS, &"x".repeat(200)), "bytes");
    for _ in 0..3 {
        assert_eq!(shared.produce(acme, OURS, "v").status, 201);
    }
    assert_used_up(&shared.produce(acme, OURS, "v"), "messages");
    // Whoever it is that would add to what the tenant has.
    assert_used_up(&shared.produce(shared.root(), OURS, "v"), "messages");
    let metrics = shared.call(shared.root(), "GET", "/metrics", &Value::Null).text();
    let counted = metrics.lines().find(|line| line.contains("\"quota_exceeded\"")).unwrap_or_default();
    assert!(counted.ends_with(" 3"), "refusals are counted by their reason: {counted:?}");
    assert_eq!(shared.produce(globex, "/v2/topics/theirs/messages", "v").status, 201);
    assert_eq!(
        shared.produce(acme, "/v2/topics/orders/messages", "v").status,
        201,
        "a shared topic is nobody's"
    );
    let results = shared.call(acme, "POST", OURS, &json!([{"value": "a"}, {"value": "b"}]));
    assert_eq!(results.text().matches("QUOTA_EXCEEDED").count(), 2, "{}", results.text());
    let commit = json!({"produce": [{"topic": "ours", "message": {"value": "v"}}]});
    assert_used_up(&shared.call(acme, "POST", "/v2/commit", &commit), "messages");
    let old = json!({"topic": "ours", "value": "v"});
    let old = shared.call(acme, "POST", "/v1/produce", &old);
    assert_eq!(old.status, 429, "{}", old.text());

    assert_eq!(shared.call(acme, "PUT", "/v2/topics/second", &json!({})).status, 201);
    assert_used_up(&shared.call(acme, "PUT", "/v2/topics/third", &json!({})), "topics");
    let effect = |key: &str, name: &str| {
        shared.call(key, "POST", BEGIN, &json!({"scope": "charge", "key": name, "lease_ms": 60000}))
    };
    assert_eq!(effect(acme, "first").status, 200, "{}", effect(acme, "first").text());
    assert_used_up(&effect(acme, "second"), "effects");
    assert_eq!(effect(globex, "second").status, 200);

    let told = shared.get(acme, "/v2/tenants/acme");
    assert_eq!(
        [&told["topics"], &told["messages"], &told["effects"]],
        [&json!(2), &json!(3), &json!(1)],
        "{told}"
    );
    let lease = shared.post(acme, "/v2/topics/ours/groups/g/lease", &json!({"owner": "o"}));
    shared.post(
        acme,
        "/v2/leases/ack",
        &json!({"leases": [{"token": lease["messages"][0]["lease"]["token"]}]}),
    );
    assert_eq!(shared.produce(acme, OURS, "v").status, 201, "what is settled makes room");
    shared.limit("acme", &json!({}));
    assert_eq!(shared.produce(acme, OURS, &"x".repeat(200)).status, 201);
}

#[test]
fn many_producers_at_once_store_no_more_than_the_limit() {
    let shared = Shared::start();
    shared.limit("acme", &json!({"messages": 50}));
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let reply = shared.produce(&shared.acme, OURS, "v");
                    assert!([201, 429].contains(&reply.status), "{}", reply.text());
                    done.fetch_add(usize::from(reply.status == 201), Relaxed);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 50);
    assert_eq!(shared.get(&shared.acme, "/v2/tenants/acme")["messages"], json!(50));
}

#[test]
fn all_keys_of_a_tenant_share_its_pace() {
    let shared = Shared::start();
    let spec = json!({"actions": ["produce"], "tenants": ["acme"]});
    let (second, _) = shared.guarded.key(shared.root(), &spec);
    shared.limit("acme", &json!({"requests_per_second": 4}));
    let replies: Vec<Reply> =
        (0..40).map(|n| shared.produce(if n % 2 == 0 { &shared.acme } else { &second }, OURS, "v")).collect();
    let done = replies.iter().filter(|reply| reply.status == 201).count();
    assert!((4..20).contains(&done), "{done} of 40 were let in");
    let refused = replies.iter().rfind(|reply| reply.status == 429).expect("some are over the limit");
    assert_used_up(refused, "requests_per_second");
    assert_eq!(shared.produce(&shared.globex, "/v2/topics/theirs/messages", "v").status, 201);
    shared.limit("acme", &json!({}));
    assert_eq!(shared.produce(&second, OURS, "v").status, 201, "a limit that is lifted counts at once");
}

/// By the command line, and from the log as from the snapshot of a graceful stop.
#[test]
fn limits_outlive_the_broker_and_are_audited() {
    let directory = tempfile::tempdir().unwrap();
    let start = || Server::start(directory.path(), &[]);
    let tenant = |server: &Server, words: &[&str]| {
        let at = format!("http://{}", server.address);
        run(&[&["tenant"], words, &["--server", &at]].concat())
    };
    let server = start();
    for words in [&["limit", "acme"][..], &["limit", "acme", "--none", "--topics", "1"]] {
        tenant(&server, words).code(2);
    }
    let given = "limit acme --requests-per-second 1000 --bytes-per-second 1MiB --waits 9 --topics 7 --messages 6 \
                 --bytes 1TiB --effects 5";
    tenant(&server, &given.split_whitespace().collect::<Vec<_>>()).ok();
    let limits = json!({
        "requests_per_second": 1000, "bytes_per_second": 1_048_576, "waits": 9,
        "topics": 7, "messages": 6, "bytes": 1_099_511_627_776_u64, "effects": 5,
    });
    server.kill();
    let server = start();
    let shown = |server: &Server| tenant(server, &["show", "acme", "-o", "json"]).ok().json();
    assert_eq!(shown(&server)["limits"], limits);
    server.signal("TERM");
    assert!(server.wait().success());
    let server = start();
    assert_eq!(shown(&server)["limits"], limits);
    let listed = tenant(&server, &["list", "-o", "table"]).ok().stdout;
    assert!(listed.contains("0 of 6") && listed.contains("1000 requests/s, 1MiB/s, 9 waits"), "{listed}");
    let at = format!("http://{}", server.address);
    let audit = run(&["audit", "--action", "limit_tenant", "-o", "json", "--server", &at]).ok().stdout;
    assert!(audit.contains("tenants/acme") && audit.contains("messages 6, bytes 1099511627776"), "{audit}");
    tenant(&server, &["limit", "acme", "--none"]).ok();
    assert_eq!(shown(&server)["limits"], json!({}));
}

/// Whoever raises one limit does not have the others in mind.
#[test]
fn the_command_line_changes_only_the_limits_that_it_names() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let at = format!("http://{}", server.address);
    let limit = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        run(&[&["tenant", "limit", "acme", "-o", "json", "--server", &at][..], &words].concat())
    };
    let limits = |words: &str| limit(words).ok().json()["limits"].clone();
    assert_eq!(limits("--topics 7 --waits 9"), json!({"topics": 7, "waits": 9}));
    assert_eq!(limits("--messages 6"), json!({"topics": 7, "waits": 9, "messages": 6}));
    assert_eq!(limits("--topics 8 --lift waits,effects"), json!({"topics": 8, "messages": 6}));
    for wrong in ["", "--none --lift topics", "--lift everything"] {
        limit(wrong).code(2);
    }
    assert_eq!(limits("--none"), json!({}));
}

#[test]
fn a_key_of_a_tenant_sees_its_own_and_sets_nothing() {
    let shared = Shared::start();
    shared.limit("initech", &json!({"topics": 1}));
    let names = |key: &str| {
        let told = shared.get(key, "/v2/tenants");
        let tenants = told["tenants"].as_array().expect("a list").clone();
        tenants.iter().map(|tenant| tenant["tenant"].as_str().unwrap_or("?").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(shared.root()), ["acme", "globex", "initech"]);
    assert_eq!(names(&shared.acme), ["acme"]);
    let page = shared.get(shared.root(), "/v2/tenants?limit=2");
    let rest = format!("/v2/tenants?limit=2&cursor={}", page["cursor"].as_str().expect("there is more"));
    assert_eq!(shared.get(shared.root(), &rest)["tenants"][0]["tenant"], json!("initech"));
    for tenant in ["globex", "nobody"] {
        assert_eq!(
            shared.call(&shared.acme, "GET", &format!("/v2/tenants/{tenant}"), &Value::Null).status,
            403
        );
    }
    for tenant in ["acme", "globex"] {
        let reply = shared.call(&shared.acme, "PUT", &format!("/v2/tenants/{tenant}"), &json!({}));
        assert_eq!(reply.status, 403, "{}", reply.text());
    }
    let unknown = shared.get(shared.root(), "/v2/tenants/nobody");
    assert_eq!((&unknown["limits"], &unknown["topics"]), (&json!({}), &json!(0)));
}
