//! Endpoints that the server keeps: changes of them are picked up, and one that is gone is disabled there.

use driftq_client::escape;
use driftq_connect::deliver::endpoint::{Endpoint, Kind};
use driftq_connect::deliver::{Endpoints, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::bench::{Bench, until};
use crate::mail_server::{MailServer, Manner, Tls};
use crate::receiver::{Receiver, status};

/// A name may be any text.
const ENDPOINT: &str = "orders 1/ü";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What the SDK has no method for.
async fn put(bench: &Bench, path: &str, body: &Value) {
    let url = bench.server.url();
    let address = url.strip_prefix("http://").unwrap();
    let (mut socket, body) = (TcpStream::connect(address).await.unwrap(), body.to_string());
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

async fn deliver(bench: &Bench, delivery_id: &str) {
    let body = json!({"delivery_id": delivery_id, "endpoint": ENDPOINT, "body": {"order": 1}});
    bench.client.post::<Value>("/v2/deliveries", &body).await.unwrap();
}

#[tokio::test]
async fn the_server_s_endpoints_are_served_changed_and_disabled() {
    let old = Receiver::start(|_, _| status(200)).await;
    let new = Receiver::start(|_, before| status(if before == 0 { 410 } else { 200 })).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    let endpoint = |receiver: &Receiver| json!({"kind": "webhook", "url": receiver.url(), "secrets": [{"file": &file}], "concurrency": 1});
    let bench = Bench::new(&[]).await;
    let path = format!("/v2/endpoints/{}", escape(ENDPOINT));
    let running = bench.connect(Endpoints::Server, Settings::default());
    put(&bench, &path, &endpoint(&old)).await;
    deliver(&bench, "order-1").await;
    old.wait_for(1).await;
    assert_eq!(old.received()[0].header("webhook-id"), "order-1");
    assert!(old.received()[0].header("webhook-signature").starts_with("v1,"));
    let delivered = async || {
        let path = format!("/v2/deliveries?endpoint={}&delivery_id=order-1", escape(ENDPOINT));
        bench.client.get::<Value>(&path).await.unwrap()["deliveries"][0].clone()
    };
    until("a delivery", async || delivered().await["state"] == "delivered").await;
    assert_eq!(delivered().await["attempts"][0]["outcome"], "delivered");

    put(&bench, &path, &endpoint(&new)).await;
    let state = async || bench.client.get::<Value>(&path).await.unwrap()["state"].clone();
    // What is taken after the change was answered goes to the new place, however late the connector hears of it.
    deliver(&bench, "order-2").await;
    until("the end", async || state().await == "disabled").await;
    let shown = bench.client.get::<Value>(&path).await.unwrap();
    assert!(shown["disabled"]["reason"].as_str().unwrap().contains("410"), "{shown}");
    assert_eq!((old.received().len(), new.received().len()), (1, 1));
    deliver(&bench, "order-last").await;
    bench.client.post::<Value>(&format!("{path}/enable"), &json!({"by": "a person"})).await.unwrap();
    new.wait_for(2).await;
    assert_eq!(new.received()[1].header("webhook-id"), "order-last");
    running.stop().await;
}

/// A connector that does not know yet what an operator has changed does not send to the place that was.
#[tokio::test]
async fn a_delivery_waits_for_the_endpoint_that_it_was_taken_for() {
    let (old, new) = (Receiver::start(|_, _| status(200)).await, Receiver::start(|_, _| status(200)).await);
    let bench = Bench::new(&[]).await;
    let path = format!("/v2/endpoints/{}", escape(ENDPOINT));
    put(&bench, &path, &json!({"kind": "http", "url": old.url()})).await;
    let known = Endpoint::new(ENDPOINT, Kind::Http, old.url());
    let endpoints = Endpoints::given(vec![known.clone()]);
    let Endpoints::Given(list) = &endpoints else { unreachable!() };
    let running = bench.connect(endpoints.clone(), Settings::default());
    deliver(&bench, "order-1").await;
    old.wait_for(1).await;
    bench.wait_until_idle(&known).await;

    put(&bench, &path, &json!({"kind": "http", "url": new.url()})).await;
    deliver(&bench, "order-2").await;
    let on_loan = async || bench.client.group(&known.topic(), &known.group()).await.unwrap().in_flight;
    until("the connector has it", async || on_loan().await == 1).await;
    list.send_replace(vec![Endpoint { url: new.url(), version: 2, ..known.clone() }]);
    new.wait_for(1).await;
    running.stop().await;
    assert_eq!((old.received().len(), new.received().len()), (1, 1));
}

/// What a body is if nobody says so depends on where it goes.
#[tokio::test]
async fn without_a_type_a_mail_is_text_and_a_call_is_json() {
    let mails = MailServer::start(Manner::Takes, Tls::Never).await;
    let calls = Receiver::start(|_, _| status(200)).await;
    let bench = Bench::new(&[]).await;
    let mail = json!({"kind": "email", "url": format!("smtp://{}", mails.address), "from": "shop@shop.example",
        "to": ["ann@example.org"], "subject": "Your order"});
    put(&bench, "/v2/endpoints/mail", &mail).await;
    put(&bench, "/v2/endpoints/call", &json!({"kind": "http", "url": calls.url()})).await;
    let running = bench.connect(Endpoints::Server, Settings::default());
    for (endpoint, content_type) in
        [("mail", None), ("mail", Some("text/html")), ("call", None), ("call", Some("text/html"))]
    {
        let id = content_type.unwrap_or("none").replace('/', "-");
        let mut body = json!({"delivery_id": id, "endpoint": endpoint, "body": "It is on its way."});
        if let Some(content_type) = content_type {
            body["content_type"] = json!(content_type);
        }
        bench.client.post::<Value>("/v2/deliveries", &body).await.unwrap();
    }
    calls.wait_for(2).await;
    until("two mails", async || mails.texts().len() == 2).await;
    running.stop().await;
    let types = |mut types: Vec<String>| {
        types.sort();
        types
    };
    let called = calls.received().iter().map(|call| call.header("content-type").to_owned()).collect();
    assert_eq!(types(called), ["application/json", "text/html"]);
    let of_mail = |text: &String| {
        text.lines().find_map(|line| line.strip_prefix("Content-Type: ").map(str::to_owned)).unwrap()
    };
    let mailed = mails.texts().iter().map(of_mail).collect();
    assert_eq!(types(mailed), ["text/html", "text/plain; charset=utf-8"]);
}
