//! Streams: which bytes come, in which pieces, and when.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::compat::{Broker, Client, Stream, TIMEOUT, address_of};

const NDJSON: &str = "application/x-ndjson; charset=utf-8";

#[test]
fn headers_go_out_at_once_and_every_message_is_one_chunk() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    // Opened on an empty topic: whoever waits for the first message to see headers would wait for ever.
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let header = |name: &str| {
        stream.headers.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| &**value)
    };
    assert_eq!(header("content-type"), Some(NDJSON));
    assert_eq!(header("transfer-encoding"), Some("chunked"));
    assert_eq!((header("content-length"), header("content-encoding")), (None, None));
    client.produce("t", "k", "first");
    let first = stream.chunk().unwrap();
    assert_eq!(
        first,
        "{\"partition\":0,\"offset\":0,\"attempts\":1,\"key\":\"k\",\"value\":\"first\",\"last_error\":\"\"}\n"
    );
    client.produce("t", "", "second");
    assert_eq!(
        stream.chunk().unwrap(),
        "{\"partition\":0,\"offset\":1,\"attempts\":1,\"key\":\"\",\"value\":\"second\",\"last_error\":\"\"}\n"
    );
}

#[test]
fn messages_that_wait_already_are_one_chunk_each_too() {
    let broker = Broker::ephemeral(&["--in-flight-max=16"]);
    let mut client = broker.client_with_topic("t", 1);
    for number in 0..10 {
        client.produce("t", "", &format!("v{number}"));
    }
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    for number in 0..10 {
        let chunk = stream.chunk().unwrap();
        assert!(chunk.ends_with("\n") && chunk.matches('\n').count() == 1, "{chunk:?}");
        let item: serde_json::Value = serde_json::from_str(&chunk).unwrap();
        assert_eq!((&item["offset"], &item["value"]), (&json!(number), &json!(format!("v{number}"))));
    }
}

#[test]
fn an_item_has_what_the_specification_says_in_its_order() {
    let broker = Broker::ephemeral(&["--in-flight-max=16"]);
    let mut client = broker.client_with_topic("t1", 2);
    let full = json!({
        "run_id": "run_123", "step_id": "step_7", "parent_step_id": "step_3", "tenant_id": "tenant_a",
        "idempotency_key": "tenant_a:run_123:step_7", "target_topic": "t1", "partition_override": 0,
        "deadline": "2999-12-21T14:00:00+02:00",
        "retry_policy": {"max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000},
    });
    for envelope in [full, json!({}), json!({"run_id": "r", "step_id": ""}), json!(null)] {
        let body = json!({"topic": "t1", "value": "päyload \"x\"\n", "envelope": envelope});
        assert_eq!(client.post_json("/v1/produce", &body).status, 200);
    }
    let mut stream = broker.stream("topic=t1&group=g&owner=o&lease_ms=60000");
    let head = |offset: u64| {
        format!(
            "{{\"partition\":0,\"offset\":{offset},\"attempts\":1,\"key\":\"\",\
             \"value\":\"päyload \\\"x\\\"\\n\",\"last_error\":\"\""
        )
    };
    let expected = head(0)
        + ",\"envelope\":{\"run_id\":\"run_123\",\"step_id\":\"step_7\",\"parent_step_id\":\"step_3\",\
           \"tenant_id\":\"tenant_a\",\"idempotency_key\":\"tenant_a:run_123:step_7\",\"target_topic\":\"t1\",\
           \"partition_override\":0,\"deadline\":\"2999-12-21T14:00:00+02:00\",\
           \"retry_policy\":{\"max_attempts\":5,\"backoff_ms\":250,\"max_backoff_ms\":5000}}}\n";
    assert_eq!(stream.line(), expected);
    assert_eq!(stream.line(), head(1) + ",\"envelope\":{}}\n");
    assert_eq!(stream.line(), head(2) + ",\"envelope\":{\"run_id\":\"r\"}}\n");
    assert_eq!(stream.line(), head(3) + "}\n", "no router answered and no envelope was sent");
}

#[test]
fn an_idle_stream_carries_newlines_but_none_before_the_first_interval() {
    let broker = Broker::ephemeral(&["--heartbeat-ms=150"]);
    let mut client = broker.client_with_topic("t", 1);
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let opened = Instant::now();
    assert_eq!(stream.chunk().as_deref(), Some("\n"));
    assert!(opened.elapsed() >= Duration::from_millis(120), "too early: {:?}", opened.elapsed());
    assert_eq!(stream.chunk().as_deref(), Some("\n"));
    client.produce("t", "", "v");
    assert_eq!(stream.item()["value"], "v");
    let sent = Instant::now();
    assert_eq!(stream.chunk().as_deref(), Some("\n"));
    assert!(sent.elapsed() >= Duration::from_millis(120), "a message counts as a sign of life");
}

#[test]
fn other_answers_leave_in_one_piece() {
    let broker = Broker::ephemeral(&[]);
    broker.client_with_topic("t", 1);
    let body = json!({"topic": "t", "value": "v"}).to_string();
    let produce =
        format!("POST /v1/produce HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let requests = [
        produce.as_str(),
        "GET /v1/topics HTTP/1.1\r\nhost: test\r\n\r\n",
        "GET /x HTTP/1.1\r\nhost: test\r\n\r\n",
    ];
    let mut socket = std::net::TcpStream::connect(broker.address()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    for request in requests.iter().cycle().take(60) {
        socket.write_all(request.as_bytes()).unwrap();
        let mut buffer = [0; 4096];
        let count = socket.read(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..count]).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("the whole head");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        assert_eq!(body.len(), length.parse::<usize>().unwrap(), "the body came later than the head");
    }
}

#[test]
fn a_reader_that_leaves_keeps_its_lease_until_it_lapses() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "kept");
    client.produce("t", "", "lapsed");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=600");
    let (kept, lapsed) = (stream.item(), stream.item());
    drop(stream);
    broker.wait_for("/v2/topics/t/groups/g", "the reader's end", |group| group["consumers"] == 0);
    let mut other = broker.stream("topic=t&group=g&owner=other&lease_ms=60000");
    assert!(other.is_silent_for(Duration::from_millis(100)), "both are still on loan");
    assert_eq!(client.post(&format!("/v1/ack?topic=t&group=g&owner=o&{}", address_of(&kept))).status, 204);
    let again = other.item();
    assert_eq!((&again["offset"], &again["attempts"]), (&lapsed["offset"], &json!(2)));
    assert_eq!(again["last_error"], "ack_timeout");
    assert!(other.is_silent_for(Duration::from_millis(100)), "what was acked does not come again");
}

#[test]
fn on_sigterm_streams_end_at_once_and_cleanly() {
    let broker = Broker::durable(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "v");
    let mut busy = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    let mut idle = broker.stream("topic=t&group=h&owner=o");
    assert_eq!(busy.item()["value"], "v");
    idle.item();
    let begun = Instant::now();
    broker.server.signal("TERM");
    for stream in [&mut busy, &mut idle] {
        assert_eq!(stream.chunk(), None, "the last chunk is the empty one");
        assert!(stream.client.is_closed());
    }
    assert!(client.is_closed(), "an idle connection ends as well");
    let Broker { server, data } = broker;
    assert!(server.wait().success());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // The message was delivered, and its reader goes on with it: nobody else gets it, and the ack counts.
    let broker = Broker { server: crate::support::Server::start(data.path(), &[]), data };
    let mut again = broker.stream("topic=t&group=g&owner=p");
    assert!(again.is_silent_for(Duration::from_millis(300)), "it is on loan");
    let mut client = broker.client();
    assert_eq!(client.post("/v1/ack?topic=t&group=g&owner=o&partition=0&offset=0").status, 204);
    let group = client.get("/v2/topics/t/groups/g").json();
    assert_eq!(group["lag"], 0, "{group}");
}

#[test]
fn what_never_reached_its_reader_costs_no_attempt() {
    let flags = ["--in-flight-max=16", "--drain-timeout-ms=300", "--body-bytes-max=16MiB"];
    let broker = Broker::durable(&flags);
    let mut client = broker.client_with_topic("t", 1);
    // More than any socket buffer takes, so that the last ones stay behind for sure.
    let value = "x".repeat(3 << 20);
    for _ in 0..8 {
        client.produce("t", "", &value);
    }
    let stalled = broker.stream("topic=t&group=g&owner=o&lease_ms=600000");
    broker.wait_for("/v2/topics/t/groups/g", "the dispatch", |group| group["in_flight"] == 8);
    broker.server.signal("TERM");
    let Broker { server, data } = broker;
    assert!(server.wait().success());
    drop(stalled);
    let broker = Broker { server: crate::support::Server::start(data.path(), &flags), data };
    // What had left the server may have reached its reader, and stays on loan; the rest comes at once.
    let lent = broker.client().get("/v2/topics/t/groups/g").json()["in_flight"].as_u64().unwrap();
    assert!(lent < 8, "{lent}");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=600000");
    for _ in lent..8 {
        assert_eq!(stream.item()["attempts"], 1);
    }
}

#[test]
fn a_reader_that_stalls_costs_little_and_holds_nobody_up() {
    let broker = Broker::ephemeral(&["--in-flight-max=64", "--body-bytes-max=16MiB"]);
    let mut client = broker.client_with_topic("t", 1);
    let value = "x".repeat(1 << 20);
    for _ in 0..24 {
        client.produce("t", "", &value);
    }
    let stalled = broker.stream("topic=t&group=stalled&owner=o&lease_ms=600000");
    broker.wait_for("/v2/topics/t/groups/stalled", "the dispatch", |group| group["in_flight"] == 24);
    let mut other = broker.stream("topic=t&group=other&owner=o&lease_ms=600000");
    for offset in 0..24 {
        assert_eq!(other.item()["offset"], offset);
    }
    let metrics = String::from_utf8(client.get("/metrics").body).unwrap();
    let sent =
        metrics.lines().find_map(|line| line.strip_prefix("driftq_http_stream_messages_total ")).unwrap();
    let sent: u64 = sent.parse().unwrap();
    assert!((25..48).contains(&sent), "the stalled one took what its socket takes and no more: {sent}");
    drop(stalled);
}

/// Not read for as long as a connection may be idle, a stream ends, and what its reader never saw goes to others.
#[test]
fn a_reader_that_stalls_for_too_long_is_cut_off() {
    let flags = ["--in-flight-max=64", "--body-bytes-max=16MiB", "--idle-timeout-ms=400"];
    let broker = Broker::ephemeral(&flags);
    let mut client = broker.client_with_topic("t", 1);
    let value = "x".repeat(3 << 20);
    for _ in 0..8 {
        client.produce("t", "", &value);
    }
    let mut stalled = broker.stream("topic=t&group=g&owner=stalled&lease_ms=600000");
    stalled.item();
    broker.wait_for("/v2/topics/t/groups/g", "the end of the stream", |group| group["consumers"] == 0);
    let mut other = broker.stream("topic=t&group=g&owner=other&lease_ms=600000");
    let item = other.item();
    assert_eq!((&item["attempts"], item["offset"].as_u64() < Some(8)), (&json!(1), true), "{item}");
    drop(stalled);
}

#[test]
fn a_stream_can_be_read_one_byte_at_a_time() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "v");
    let mut socket = std::net::TcpStream::connect(broker.address()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.write_all(b"GET /v1/consume?topic=t&group=g&owner=o HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.contains("\"last_error\":\"\"}\n\r\n") {
        socket.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
}

#[test]
fn a_stream_does_not_keep_a_pipelined_request_from_its_turn() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "", "v");
    // The second request waits behind the stream, as HTTP says; the stream itself must still flow.
    let mut pipelined = broker.client();
    pipelined.send(
        "GET /v1/consume?topic=t&group=g&owner=o HTTP/1.1\r\nhost: test\r\n\r\n\
         GET /v1/healthz HTTP/1.1\r\nhost: test\r\n\r\n",
    );
    assert_eq!(Stream::opened(pipelined).item()["value"], "v");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let broker = Broker::ephemeral(&[]);
    let mut client: Client = broker.client();
    let names: Vec<String> = (0..16).map(|number| format!("t{number:02}")).collect();
    let requests: String = names
        .iter()
        .map(|name| format!("POST /v1/topics?name={name} HTTP/1.1\r\nhost: test\r\n\r\n"))
        .collect();
    client.send(requests);
    for name in names {
        assert_eq!(client.reply().json()["name"], name);
    }
}
