//! Endpoints and deliveries, as the API tells of them, on the real binary. What sends is played by the test.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::compat::{Broker, Reply};
use crate::keys::call;

struct Shop {
    server: Broker,
}

impl Shop {
    /// A server with the endpoint `shop`.
    fn start() -> Self {
        let shop = Self { server: Broker::durable(&[]) };
        shop.put("shop", &hook());
        shop
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Reply {
        let body = (!body.is_null()).then(|| body.to_string());
        call(&mut self.server.client(), None, method, path, body.as_deref())
    }

    fn order(&self, method: &str, path: &str, body: &Value) -> Value {
        let reply = self.ask(method, path, body);
        assert!((200..300).contains(&reply.status), "{method} {path}: {}", reply.text());
        reply.json()
    }

    fn get(&self, path: &str) -> Value {
        self.order("GET", path, &Value::Null)
    }

    fn put(&self, name: &str, spec: &Value) -> Value {
        self.order("PUT", &format!("/v2/endpoints/{name}"), spec)
    }

    fn deliver(&self, id: &str, body: &str) -> Reply {
        self.ask("POST", "/v2/deliveries", &json!({"delivery_id": id, "endpoint": "shop", "body": body}))
    }

    /// What a connector gets to send: the message, and its token.
    fn lease(&self) -> (Value, String) {
        let path = "/v2/topics/deliveries.shop/groups/endpoint.shop/lease";
        let leased = self.order("POST", path, &json!({"owner": "c", "wait_ms": 20_000}));
        let message = leased["messages"][0].clone();
        let token = message["lease"]["token"].as_str().expect("something is to be sent").to_owned();
        (message, token)
    }

    fn begin(&self, id: &str, token: &str, more: &Value) -> Value {
        let mut ask = json!({"scope": "delivery:shop", "key": id, "lease_token": token, "owner": "c"});
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.order("POST", "/v2/effects/begin", &ask)
    }

    fn finish(&self, begun: &Value, status: &str, attempts: &Value) {
        let body = json!({"attempts": attempts}).to_string();
        let finish = json!({"token": begun["lease"]["token"], "status": status, "body": body});
        self.order("POST", "/v2/effects/finish", &finish);
    }

    fn deliveries(&self, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v2/deliveries?endpoint=shop{query}"));
        page["deliveries"].as_array().unwrap().clone()
    }

    /// State and sends of a delivery.
    fn state(&self, id: &str) -> (String, usize) {
        let found = self.deliveries(&format!("&delivery_id={id}"));
        assert_eq!(found.len(), 1, "{id}");
        let state = found[0]["state"].as_str().unwrap().to_owned();
        (state, found[0]["attempts"].as_array().unwrap().len())
    }
}

fn hook() -> Value {
    json!({"kind": "webhook", "url": "https://shop.example/hooks", "secrets": [{"env": "SHOP"}]})
}

fn attempt(number: u32, outcome: &str) -> Value {
    json!({"attempt": number, "at": "2026-11-17T00:00:00Z", "took_ms": 3, "outcome": outcome})
}

#[test]
fn an_endpoint_is_made_changed_switched_and_removed() {
    let shop = Shop::start();
    let made = shop.get("/v2/endpoints/shop");
    assert_eq!((&made["state"], &made["version"]), (&json!("enabled"), &json!(1)));
    assert_eq!(made["spec"]["secrets"], json!([{"env": "SHOP"}]));
    // Only for who has seen it.
    let mut other = hook();
    other["expect_version"] = json!(0);
    let refused = shop.ask("PUT", "/v2/endpoints/shop", &other);
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("PRECONDITION_FAILED")));
    other["expect_version"] = json!(1);
    other["url"] = json!("https://shop.example/new");
    assert_eq!(shop.put("shop", &other)["version"], 2);
    let why = json!({"reason": "gone", "by": "connector"});
    let off = shop.order("POST", "/v2/endpoints/shop/disable", &why);
    assert_eq!((&off["state"], &off["disabled"]["reason"]), (&json!("disabled"), &json!("gone")));
    // The first reason stays, and a change of the address does not enable it.
    let again = json!({"reason": "again"});
    let off = shop.order("POST", "/v2/endpoints/shop/disable", &again);
    assert_eq!(off["disabled"]["reason"], "gone");
    assert_eq!(shop.put("shop", &hook())["state"], "disabled");
    let server = shop.server.kill_and_restart(&[]);
    let shop = Shop { server };
    assert_eq!(shop.get("/v2/endpoints/shop")["disabled"]["by"], "connector");
    let on = shop.order("POST", "/v2/endpoints/shop/enable", &json!({}));
    assert_eq!((&on["state"], on.get("disabled")), (&json!("enabled"), None));
    shop.order("DELETE", "/v2/endpoints/shop", &Value::Null);
    for (method, path) in [
        ("GET", "/v2/endpoints/shop"),
        ("DELETE", "/v2/endpoints/shop"),
        ("POST", "/v2/endpoints/shop/disable"),
    ] {
        let body = if method == "POST" { json!({}) } else { Value::Null };
        let reply = shop.ask(method, path, &body);
        assert_eq!((reply.status, &reply.json()["code"]), (404, &json!("ENDPOINT_UNKNOWN")), "{path}");
    }
}

#[test]
fn a_reader_is_woken_by_a_change_and_by_nothing_else() {
    let shop = Shop::start();
    let seen = shop.get("/v2/endpoints");
    assert_eq!((&seen["revision"], seen["endpoints"].as_array().unwrap().len()), (&json!(1), 1));
    // What says the same is no change.
    shop.put("shop", &hook());
    let begun = Instant::now();
    let same = shop.get("/v2/endpoints?revision=1&wait_ms=300");
    assert_eq!(same["revision"], 1);
    assert!(begun.elapsed() >= Duration::from_millis(300), "it waits as long as it is told");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| shop.get("/v2/endpoints?revision=1&wait_ms=60000"));
        shop.put("other", &hook());
        let news = waits.join().unwrap();
        assert_eq!((&news["revision"], &news["endpoints"][0]["name"]), (&json!(2), &json!("other")));
    });
}

#[test]
fn a_delivery_is_taken_once_under_its_id() {
    let shop = Shop::start();
    let first = shop.deliver("d1", "hello");
    assert_eq!((first.status, &first.json()["duplicate"]), (201, &json!(false)));
    let again = shop.deliver("d1", "hello");
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)));
    assert_eq!(again.json()["message"], first.json()["message"]);
    let other = shop.deliver("d1", "another");
    assert_eq!((other.status, &other.json()["code"]), (422, &json!("KEY_REUSED")));
    let nowhere =
        shop.ask("POST", "/v2/deliveries", &json!({"delivery_id": "d", "endpoint": "no", "body": 1}));
    assert_eq!((nowhere.status, &nowhere.json()["code"]), (404, &json!("ENDPOINT_UNKNOWN")));
    for (body, says) in [
        (json!({"delivery_id": "d", "endpoint": "shop"}), "body or body_b64"),
        (json!({"delivery_id": "d", "endpoint": "shop", "body": 1, "body_b64": "aGk="}), "body or body_b64"),
        (json!({"endpoint": "shop", "body": 1}), "delivery_id"),
        (
            json!({"delivery_id": "d", "endpoint": "shop", "body": 1, "headers": {"a": "x".repeat(1025)}}),
            "headers",
        ),
    ] {
        let reply = shop.ask("POST", "/v2/deliveries", &body);
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.text().contains(says), "{}", reply.text());
    }
    let more = json!({"delivery_id": "d2", "endpoint": "shop", "body": {"a": 1}, "content_type": "a/b",
        "headers": {"X-Kind": "k"}});
    shop.order("POST", "/v2/deliveries", &more);
    shop.lease();
    let (message, _) = shop.lease();
    let labels = &message["envelope"]["labels"];
    assert_eq!((&labels["content-type"], &labels["header.x-kind"]), (&json!("a/b"), &json!("k")));
    assert_eq!(message["value"], r#"{"a":1}"#, "as it stood in the request");
}

#[test]
fn the_ledger_tells_where_every_delivery_stands() {
    let shop = Shop::start();
    for id in ["d1", "d2", "d3"] {
        shop.deliver(id, id);
    }
    assert_eq!(shop.state("d1"), ("pending".to_owned(), 0));
    // One that arrives.
    let (message, token) = shop.lease();
    assert_eq!(message["value"], "d1");
    let begun = shop.begin("d1", &token, &json!({}));
    assert_eq!(shop.state("d1"), ("sending".to_owned(), 0));
    shop.finish(&begun, "succeeded", &json!([attempt(1, "delivered")]));
    shop.order("POST", "/v2/leases/ack", &json!({"leases": [{"token": token}]}));
    assert_eq!(shop.state("d1"), ("delivered".to_owned(), 1));
    // One that fails for now, and then for good.
    let (_, token) = shop.lease();
    let begun = shop.begin("d2", &token, &json!({}));
    shop.finish(&begun, "failed_retryable", &json!([attempt(1, "failed")]));
    shop.order("POST", "/v2/leases/nack", &json!({"leases": [{"token": token, "delay_ms": 100}]}));
    let stands = shop.deliveries("&delivery_id=d2").remove(0);
    assert_eq!((&stands["state"], stands["next_at"].is_string()), (&json!("retrying"), true));
    // One of which it is not known.
    let (message, third) = shop.lease();
    assert_eq!(message["value"], "d3");
    let begun = shop.begin("d3", &third, &json!({}));
    let release = json!({"token": begun["lease"]["token"], "uncertain": true});
    shop.order("POST", "/v2/effects/release", &release);
    let effect = json!({"scope": "delivery:shop", "key": "d3"});
    shop.order("POST", "/v2/leases/release", &json!({"leases": [{"token": third, "effect": effect}]}));
    assert_eq!(shop.state("d3"), ("unknown".to_owned(), 0));
    let (message, token) = shop.lease();
    assert_eq!(message["value"], "d2");
    shop.begin("d2", &token, &json!({"reacquire": true}));
    // What the send before it came to is told while the next one is under way.
    let record = shop.order("POST", "/v2/effects/get", &json!({"scope": "delivery:shop", "key": "d2"}));
    assert_eq!((&record["state"], record.get("outcome")), (&json!("in_progress"), None));
    assert!(record["last_outcome"]["body"].as_str().unwrap().contains("failed"), "{record}");
    assert_eq!(shop.state("d2"), ("sending".to_owned(), 1));
    shop.order("POST", "/v2/leases/nack", &json!({"leases": [{"token": token, "dead": true}]}));
    let deadline = Instant::now() + Duration::from_secs(20);
    while shop.state("d2").0 != "failed" {
        assert!(Instant::now() < deadline, "it is given up: {:?}", shop.state("d2"));
    }
    let of = |state: &str| {
        let found = shop.deliveries(&format!("&state={state}"));
        found.iter().map(|one| one["delivery_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((of("delivered"), of("failed")), (vec!["d1".to_owned()], vec!["d2".to_owned()]));
    assert_eq!((of("unknown"), of("pending")), (vec!["d3".to_owned()], vec![]));
    // By pages.
    let page = shop.get("/v2/deliveries?endpoint=shop&limit=2");
    assert_eq!(page["deliveries"].as_array().unwrap().len(), 2);
    let cursor = page["cursor"].as_str().unwrap();
    let rest = shop.get(&format!("/v2/deliveries?endpoint=shop&limit=2&cursor={cursor}"));
    assert_eq!(rest["deliveries"][0]["delivery_id"], "d3");
    assert_eq!(shop.ask("GET", "/v2/deliveries?endpoint=no", &Value::Null).status, 404);
    assert_eq!(shop.ask("GET", "/v2/deliveries", &Value::Null).status, 400);
}

#[test]
fn deliveries_in_order_go_one_after_the_other() {
    let shop = Shop { server: Broker::durable(&[]) };
    let mut spec = hook();
    spec["ordered"] = json!(true);
    shop.put("shop", &spec);
    for id in ["d1", "d2"] {
        shop.deliver(id, id);
    }
    let (_, token) = shop.lease();
    let path = "/v2/topics/deliveries.shop/groups/endpoint.shop/lease";
    let none = shop.order("POST", path, &json!({"owner": "another"}));
    assert_eq!(none["messages"], json!([]), "the second waits for the first, whoever asks");
    shop.order("POST", "/v2/leases/ack", &json!({"leases": [{"token": token}]}));
    assert_eq!(shop.lease().0["value"], "d2");
}
