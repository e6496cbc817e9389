//! Traces: every millisecond of a message's way is a span with a reason, and a collector costs nothing but spans.

use std::io::Read as _;
use std::net::TcpListener;
use std::time::Instant;

use serde_json::{Value, json};

use crate::compat::{Broker, Client, TIMEOUT};
use crate::otlp::{Collector, Span};
use crate::router_world::metric;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PRODUCER: &str = "b7ad6b7169203331";
/// What a wait is for, in spans.
const REASON: &str = "driftq.wait.reason";

fn traceparent() -> String {
    format!("00-{TRACE}-{PRODUCER}-01")
}

fn call(client: &mut Client, path: &str, body: &Value, headers: &[(&str, &str)]) -> Value {
    let headers = [&[("content-type", "application/json")], headers].concat();
    let reply = client.call("POST", path, &headers, Some(body.to_string().as_bytes()));
    assert!((200..300).contains(&reply.status), "{path}: {}", reply.text());
    reply.json()
}

fn lease(client: &mut Client, topic: &str) -> Value {
    let asked = json!({"owner": "w", "max": 1, "lease_ms": 60_000, "wait_ms": 30_000});
    let path = format!("/v2/topics/{topic}/groups/g/lease");
    let leased = call(client, &path, &asked, &[]);
    leased["messages"][0].clone()
}

fn tracing(collector: &Collector, more: &[&str]) -> Broker {
    Broker::ephemeral(&[&["--otlp-endpoint", &*collector.url()], more].concat())
}

fn token(item: &Value) -> Value {
    item["lease"]["token"].clone()
}

/// A message that was scheduled, failed once and was handled with an effect and a commit.
fn journey(client: &mut Client) -> (Value, Value) {
    call(
        client,
        "/v2/topics/t/messages",
        &json!({"value": "v", "delay_ms": 400}),
        &[("traceparent", &traceparent())],
    );
    let first = lease(client, "t");
    call(
        client,
        "/v2/leases/nack",
        &json!({"leases": [{"token": token(&first), "delay_ms": 300, "error": "no"}]}),
        &[],
    );
    let second = lease(client, "t");
    let begin = json!({"scope": "mail", "key": "k", "owner": "w", "lease_token": token(&second)});
    let begun = call(client, "/v2/effects/begin", &begin, &[]);
    assert_eq!(begun["decision"], "execute", "{begun}");
    let finish = json!({"token": begun["lease"]["token"], "status": "succeeded"});
    call(client, "/v2/effects/finish", &finish, &[]);
    call(client, "/v2/commit", &json!({"ack": [token(&second)]}), &[]);
    (first, second)
}

fn of_name<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[test]
fn every_wait_is_a_span_with_its_reason_and_nothing_is_left_unexplained() {
    let collector = Collector::start();
    let broker = tracing(&collector, &["--trace-sample", "0"]);
    let mut client = broker.client_with_topic("t", 1);
    // The group is there before the message: whoever asks for work gets none yet.
    let asked = json!({"owner": "w", "wait_ms": 0});
    call(&mut client, "/v2/topics/t/groups/g/lease", &asked, &[]);
    let (_, second) = journey(&mut client);
    let spans = collector.wait_for("the last delivery", |spans| {
        of_name(spans, "deliver t").len() == 2
            && !of_name(spans, "POST /v2/topics/{topic}/messages").is_empty()
    });
    assert!(spans.iter().all(|span| span.trace == TRACE), "one trace: {spans:#?}");

    let posted = of_name(&spans, "POST /v2/topics/{topic}/messages");
    assert_eq!((posted.len(), posted[0].kind, &*posted[0].parent), (1, 2, PRODUCER));
    let waits: Vec<&Span> = spans.iter().filter(|span| !span.says(REASON).is_empty()).collect();
    let scheduled: Vec<_> = waits.iter().filter(|wait| wait.says(REASON) == "scheduled").collect();
    let backoff: Vec<_> = waits.iter().filter(|wait| wait.says(REASON) == "backoff").collect();
    assert_eq!((scheduled.len(), backoff.len()), (1, 1), "{waits:#?}");
    assert_eq!((scheduled[0].millis(), backoff[0].millis()), (400, 300));
    assert!(waits.iter().all(|wait| wait.parent == PRODUCER && wait.kind == 1), "{waits:#?}");

    let deliveries = of_name(&spans, "deliver t");
    assert_eq!(
        [deliveries[0].says("driftq.ending"), deliveries[1].says("driftq.ending")],
        ["nack", "commit"]
    );
    assert_eq!([deliveries[0].failed, deliveries[1].failed], [true, false]);
    let link = (TRACE.to_owned(), PRODUCER.to_owned());
    assert!(deliveries.iter().all(|delivery| delivery.parent.is_empty() && delivery.links == [link.clone()]));
    // Its holder was told which span its work is part of, and got the producer's context with the envelope.
    let last = deliveries[1];
    assert_eq!(second["lease"]["traceparent"], format!("00-{TRACE}-{}-01", last.id));
    assert_eq!(second["envelope"]["labels"]["traceparent"], traceparent());
    for (name, attribute, said) in [
        ("effect begin mail", "driftq.effect.decision", "execute"),
        ("effect mail", "driftq.effect.status", "succeeded"),
        ("commit", "driftq.commit.acks", "1"),
    ] {
        let found = of_name(&spans, name);
        assert_eq!(
            (found.len(), found[0].says(attribute), &*found[0].parent),
            (1, said, &*last.id),
            "{name}"
        );
    }

    let stored = waits.iter().map(|wait| wait.begin).min().unwrap();
    let whole = (last.end - stored) / 1_000_000;
    let explained: u64 = waits.iter().copied().chain(deliveries.iter().copied()).map(Span::millis).sum();
    assert!(whole >= 700, "{whole}");
    assert!(explained.abs_diff(whole) * 20 <= whole, "{explained} ms of {whole} ms are explained");
}

#[test]
fn a_wait_for_a_key_a_pause_or_a_worker_says_so() {
    let collector = Collector::start();
    let broker = tracing(&collector, &[]);
    let mut client = broker.client();
    let put = client.put_json("/v2/topics/t", &json!({"partitions": 1, "ordering": "key"}));
    assert!(put.status < 300, "{}", put.text());
    let headers = [("traceparent", &*traceparent())];
    call(&mut client, "/v2/topics/t/messages", &json!({"key": "k", "value": "a"}), &headers);
    let first = lease(&mut client, "t");
    call(&mut client, "/v2/topics/t/messages", &json!({"key": "k", "value": "b"}), &headers);
    // A reader looks at the second one, and is told to wait for the first.
    let asked = json!({"owner": "w", "wait_ms": 50});
    call(&mut client, "/v2/topics/t/groups/g/lease", &asked, &[]);
    call(&mut client, "/v2/leases/ack", &json!({"leases": [{"token": token(&first)}]}), &[]);
    assert_eq!(client.post("/v2/topics/t/groups/g/pause").status, 200);
    let asked = json!({"owner": "w", "wait_ms": 50});
    call(&mut client, "/v2/topics/t/groups/g/lease", &asked, &[]);
    assert_eq!(client.post("/v2/topics/t/groups/g/resume").status, 200);
    let second = lease(&mut client, "t");
    assert_eq!(second["value"], "b");
    let spans = collector.wait_for("both waits", |spans| {
        ["key_busy", "paused"].iter().all(|reason| spans.iter().any(|span| span.says(REASON) == *reason))
    });
    let reasons: Vec<&str> =
        spans.iter().map(|span| span.says(REASON)).filter(|reason| !reason.is_empty()).collect();
    assert!(reasons.iter().all(|reason| ["key_busy", "paused", "no_worker"].contains(reason)), "{reasons:?}");
    let of = |reason: &str| spans.iter().find(|span| span.says(REASON) == reason).unwrap();
    assert!(of("key_busy").millis() >= 50 && of("paused").millis() >= 50, "{spans:#?}");
}

#[test]
fn the_share_decides_where_no_client_does_and_a_client_that_says_no_is_heard() {
    let collector = Collector::start();
    let broker = tracing(&collector, &["--trace-sample", "1"]);
    let mut client = broker.client_with_topic("t", 1);
    let unwanted = format!("00-{TRACE}-{PRODUCER}-00");
    call(&mut client, "/v2/topics/t/messages", &json!({"value": "no"}), &[("traceparent", &unwanted)]);
    call(&mut client, "/v2/topics/t/messages", &json!({"value": "yes"}), &[]);
    let (no, yes) = (lease(&mut client, "t"), lease(&mut client, "t"));
    assert_eq!(no["envelope"]["labels"]["traceparent"], unwanted, "it reaches the handler all the same");
    assert_eq!(no["lease"].get("traceparent"), None);
    let begun = yes["envelope"]["labels"]["traceparent"].as_str().unwrap().to_owned();
    let tokens = json!({"leases": [{"token": token(&no)}, {"token": token(&yes)}]});
    call(&mut client, "/v2/leases/ack", &tokens, &[]);
    let spans = collector.wait_for("the delivery", |spans| !of_name(spans, "deliver t").is_empty());
    let posted = of_name(&spans, "POST /v2/topics/{topic}/messages");
    assert_eq!((posted.len(), format!("00-{}-{}-01", posted[0].trace, posted[0].id)), (1, begun));
    assert!(spans.iter().all(|span| span.trace == posted[0].trace), "{spans:#?}");
}

/// Everything is traced, and nothing may be slower or lost for it.
fn produce_without_collector(broker: &Broker) {
    let mut client = broker.client_with_topic("t", 1);
    let dropped = |client: &mut Client| {
        let reasons = ["queue_full", "not_taken"];
        let names = reasons.map(|reason| format!("driftq_trace_spans_dropped_total{{reason=\"{reason}\"}}"));
        names.iter().map(|name| metric(client, name)).sum::<u64>()
    };
    let deadline = Instant::now() + TIMEOUT;
    let mut sent = 0;
    while dropped(&mut client) == 0 {
        let lines = "{\"value\":\"v\"}\n".repeat(100);
        for _ in 0..20 {
            let headers = [("content-type", "application/x-ndjson")];
            let reply = client.call("POST", "/v2/topics/t/messages", &headers, Some(lines.as_bytes()));
            assert_eq!(reply.status, 200, "{}", reply.text());
            sent += 100;
        }
        call(&mut client, "/v2/topics/t/groups/g/lease", &json!({"owner": "w", "max": 1_000}), &[]);
        assert!(Instant::now() < deadline, "nothing was dropped after {sent} messages");
    }
    assert_eq!(metric(&mut client, "driftq_trace_spans_exported_total"), 0);
}

#[test]
fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let broker = Broker::ephemeral(&["--otlp-endpoint", &url, "--trace-sample", "1"]);
    produce_without_collector(&broker);
}

#[test]
fn a_collector_that_hangs_costs_spans_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let hanging = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        // Reads whatever comes and says nothing, until the server is gone.
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let broker = Broker::ephemeral(&["--otlp-endpoint", &url, "--trace-sample", "1"]);
    produce_without_collector(&broker);
    drop(broker);
    hanging.join().unwrap();
}
