//! Credentials of attempts, on the real binary: signed, short-lived, and dead as soon as the attempt is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use serde_json::{Value, json};

use crate::compat::{Broker, Reply};
use crate::keys::{Guarded, call};

const ISSUED: [&str; 2] = ["--issuer", "https://driftq.example"];

/// A server with one message of a run on loan.
struct Lent {
    world: Broker,
    token: String,
}

impl Lent {
    fn start(lease_ms: u64) -> Self {
        let world = Broker::durable(&ISSUED);
        let lent = Self { token: String::new(), world };
        lent.put("/v2/topics/orders");
        lent.post(
            "/v2/topics/orders/messages",
            &json!({"value": "v", "envelope": {
            "run_id": "r1", "step_id": "charge", "tenant_id": "acme"}}),
        );
        let token = lent.lease(lease_ms);
        Self { token, ..lent }
    }

    fn call(&self, path: &str, body: &Value) -> Reply {
        let method = if body.is_null() { "GET" } else { "POST" };
        let body = (!body.is_null()).then(|| body.to_string());
        call(&mut self.world.client(), None, method, path, body.as_deref())
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.call(path, body);
        assert!((200..300).contains(&reply.status), "{path}: {}", reply.text());
        reply.json()
    }

    fn put(&self, path: &str) {
        let reply = call(&mut self.world.client(), None, "PUT", path, Some("{}"));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }

    fn lease(&self, lease_ms: u64) -> String {
        let asked = json!({"owner": "o", "wait_ms": 20_000, "lease_ms": lease_ms});
        let leased = self.post("/v2/topics/orders/groups/g/lease", &asked);
        leased["messages"][0]["lease"]["token"].as_str().expect("a message is lent").to_owned()
    }

    fn mint(&self, ttl_ms: u64) -> String {
        let asked = json!({"token": self.token, "audience": "bank", "ttl_ms": ttl_ms});
        self.post("/v2/leases/credential", &asked)["credential"].as_str().unwrap().to_owned()
    }

    fn introspect(&self, credential: &str) -> Value {
        self.post("/v2/introspect", &json!({"token": credential}))
    }
}

/// The claims of a token that one of the published keys has signed.
fn checked(keys: &Value, token: &str) -> Value {
    let mut parts = token.split('.');
    let mut next = || parts.next().expect("three parts");
    let (header, claims, signature) = (next(), next(), next());
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
    assert_eq!(header["alg"], "ES256");
    let key = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == header["kid"]);
    let key = key.expect("the key is published");
    let coordinate = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let point = [vec![4], coordinate("x"), coordinate("y")].concat();
    let key = VerifyingKey::from_sec1_bytes(&point).expect("a point of the curve");
    let signature = Signature::from_slice(&URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    let signed = token.rsplit_once('.').unwrap().0;
    key.verify(signed.as_bytes(), &signature).expect("the signature is right");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
}

#[test]
fn a_credential_says_what_it_is_for_and_ends_with_the_lease() {
    let lent = Lent::start(60_000);
    let made = lent.post("/v2/leases/credential", &json!({"token": lent.token, "audience": "bank"}));
    let configuration = lent.call("/.well-known/openid-configuration", &Value::Null).json();
    assert_eq!(configuration["issuer"], "https://driftq.example");
    assert_eq!(configuration["jwks_uri"], "https://driftq.example/.well-known/jwks.json");
    let keys = lent.call("/.well-known/jwks.json", &Value::Null).json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 3, "the one before, the present one and the next");
    let credential = made["credential"].as_str().unwrap();
    let claims = checked(&keys, credential);
    assert_eq!(claims["iss"], "https://driftq.example");
    assert_eq!((&claims["aud"], &claims["tenant"]), (&json!("bank"), &json!("acme")));
    assert_eq!((&claims["topic"], &claims["group"]), (&json!("orders"), &json!("g")));
    assert_eq!((&claims["run"], &claims["step"]), (&json!("r1"), &json!("charge")));
    assert_eq!((&claims["attempt"], &claims["epoch"]), (&json!(1), &json!(1)));
    let subject = claims["sub"].as_str().unwrap();
    assert!(subject.starts_with("tenant:acme:topic:orders:group:g:message:orders/"), "{subject}");
    assert!(subject.ends_with(":attempt:1"), "{subject}");
    let (issued, expires) = (claims["iat"].as_u64().unwrap(), claims["exp"].as_u64().unwrap());
    assert!(expires > issued && expires <= issued + 61, "not longer than the lease: {claims}");
    assert!(!credential.contains(&lent.token) && !claims.to_string().contains(&lent.token));
    // Repeated calls are safe, and name the same attempt.
    let again = checked(&keys, &lent.mint(2_000));
    assert_eq!((&again["jti"], &again["fence"]), (&claims["jti"], &claims["fence"]));
    assert!(again["exp"].as_u64() <= Some(again["iat"].as_u64().unwrap() + 3));
    let told = lent.introspect(credential);
    assert_eq!((&told["active"], &told["sub"]), (&json!(true), &claims["sub"]));
}

#[test]
fn a_credential_is_dead_from_the_moment_at_which_another_attempt_begins() {
    let lent = Lent::start(60_000);
    let credential = lent.mint(60_000);
    assert_eq!(lent.introspect(&credential)["active"], true);
    lent.post("/v2/leases/nack", &json!({"leases": [{"token": lent.token, "delay_ms": 0}]}));
    assert_eq!(lent.introspect(&credential), json!({"active": false}));
    let newer = Lent { token: lent.lease(60_000), world: lent.world };
    assert_eq!(newer.introspect(&credential), json!({"active": false}));
    let next = newer.mint(60_000);
    let told = newer.introspect(&next);
    assert_eq!((&told["active"], &told["attempt"]), (&json!(true), &json!(2)));
    let fence = |credential: &str| {
        let claims = URL_SAFE_NO_PAD.decode(credential.split('.').nth(1).unwrap()).unwrap();
        serde_json::from_slice::<Value>(&claims).unwrap()["fence"].as_str().unwrap().to_owned()
    };
    assert!(fence(&next) > fence(&credential), "a text that rises with every attempt");
    newer.post("/v2/leases/ack", &json!({"leases": [{"token": newer.token}]}));
    assert_eq!(newer.introspect(&next), json!({"active": false}), "the work is done");
    let refused = newer.call("/v2/leases/credential", &json!({"token": newer.token, "audience": "bank"}));
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("STALE_LEASE")));
}

#[test]
fn what_is_forged_is_not_active_and_tells_nothing() {
    let lent = Lent::start(60_000);
    let credential = lent.mint(60_000);
    let (signed, signature) = credential.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let mut forged: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    forged["aud"] = json!("another");
    let forged = URL_SAFE_NO_PAD.encode(forged.to_string());
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    for token in [
        format!("{header}.{forged}.{signature}"),
        format!("{none}.{claims}."),
        format!("{none}.{claims}"),
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode([0; 64])),
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode([0xff; 64])),
        signed.to_owned(),
        lent.token.clone(),
        "...".to_owned(),
        "x".to_owned(),
    ] {
        assert_eq!(lent.introspect(&token), json!({"active": false}), "{token}");
    }
    for (body, status) in [
        (json!({"token": "x", "audience": "bank"}), 404),
        (json!({"token": lent.token}), 400),
        (json!({"token": lent.token, "audience": ""}), 400),
        (json!({"token": lent.token, "audience": "bank", "ttl_ms": 1}), 400),
        (json!({"token": lent.token, "audience": "bank", "ttl_ms": 3_600_001}), 400),
    ] {
        assert_eq!(lent.call("/v2/leases/credential", &body).status, status, "{body}");
    }
}

/// Keys follow from the log: a server that starts again on it knows its own credentials, and another one does not.
#[test]
fn credentials_outlive_the_server_and_no_other_knows_them() {
    let lent = Lent::start(60_000);
    let credential = lent.mint(60_000);
    let world = lent.world.kill_and_restart(&ISSUED);
    let again = Lent { world, token: lent.token };
    assert_eq!(again.introspect(&credential)["active"], true);
    let other = Lent::start(60_000);
    assert_eq!(other.introspect(&credential), json!({"active": false}));
}

#[test]
fn the_keys_are_open_to_all_and_the_rest_is_not() {
    let guarded = Guarded::start();
    for path in ["/.well-known/jwks.json", "/.well-known/openid-configuration"] {
        assert_eq!(guarded.call(None, "GET", path, None).status, 200, "{path}");
    }
    let asked = json!({"token": "x"}).to_string();
    assert_eq!(guarded.call(None, "POST", "/v2/introspect", Some(&asked)).status, 401);
    assert_eq!(guarded.call(None, "GET", "/.well-known/other", None).status, 404);
    assert_eq!(guarded.call(None, "POST", "/.well-known/jwks.json", None).status, 405);
}

#[test]
fn a_server_on_any_free_port_names_the_one_that_it_got() {
    let server = Broker::durable(&[]);
    let reply = call(&mut server.client(), None, "GET", "/.well-known/openid-configuration", None);
    let issuer = format!("http://{}", server.address());
    assert_eq!(reply.json()["issuer"], issuer);
    assert_eq!(reply.json()["jwks_uri"], format!("{issuer}/.well-known/jwks.json"));
}
