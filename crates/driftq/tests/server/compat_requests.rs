//! How requests are read: every row of the table "Requests" of the `/v1` contract.

use serde_json::json;

use crate::compat::{Broker, Client, Stream, address_of};

const INVALID: &str = "INVALID_ARGUMENT";

#[test]
fn a_body_counts_and_then_the_query_does_not() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    let answer = client.post_json("/v1/topics?name=from-query&partitions=5", &json!({"name": "from-body"}));
    assert_eq!(answer.json(), json!({"status": "created", "name": "from-body", "partitions": 1}));
    // Chunked, and in a type that says something else: still JSON.
    client.send(
        "POST /v1/topics?name=from-query HTTP/1.1\r\nhost: test\r\ncontent-type: text/plain\r\n\
         transfer-encoding: chunked\r\n\r\n8\r\n{\"name\":\r\na\r\n\"chunked\"}\r\n0\r\n\r\n",
    );
    assert_eq!(client.reply().json()["name"], "chunked");
    // A chunked body without a byte is a body, and not JSON.
    client.send("POST /v1/topics?name=from-query HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    client.reply().assert_error_part(400, INVALID, "invalid json body: ");
    // A length of zero is no body.
    let answer = client.post_text("/v1/topics?name=from-query&partitions=5", "");
    assert_eq!(answer.json(), json!({"status": "created", "name": "from-query", "partitions": 5}));
    assert_eq!(client.get("/v1/topics").json(), json!({"topics": ["chunked", "from-body", "from-query"]}));
}

#[test]
fn in_a_query_the_first_duplicate_wins_and_a_plus_is_a_space() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let path = "/v1/produce?topic=t&topic=other&value=a+b%2Bc&value=x&key=%C3%A9&nobody=knows";
    assert_eq!(client.post(path).json(), json!({"status": "produced", "topic": "t"}));
    let item = broker.stream("topic=t&group=g&owner=o&group=h").item();
    assert_eq!((&item["value"], &item["key"]), (&json!("a b+c"), &json!("é")));
    let broken = client.post("/v1/produce?topic=t&value=%zz");
    broken.assert_error(400, INVALID, "invalid query: bad percent-encoding in value");
}

#[test]
fn unknown_fields_are_refused_at_every_depth() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for (path, body, field) in [
        ("/v1/produce", json!({"topic": "t", "value": "v", "idempotency_key": "k"}), "idempotency_key"),
        ("/v1/produce", json!({"topic": "t", "value": "v", "envelope": {"labels": {"a": "b"}}}), "labels"),
        ("/v1/produce", json!({"topic": "t", "value": "v", "envelope": {"dlq": {}}}), "dlq"),
        ("/v1/produce", json!({"topic": "t", "value": "v", "envelope": {"retry_policy": {"max": 1}}}), "max"),
        ("/v1/topics", json!({"name": "t", "retention": 1}), "retention"),
        (
            "/v1/ack",
            json!({"topic": "t", "group": "g", "owner": "o", "partition": 0, "offset": 0, "x": 1}),
            "x",
        ),
        (
            "/v1/nack",
            json!({"topic": "t", "group": "g", "owner": "o", "partition": 0, "offset": 0, "y": 1}),
            "y",
        ),
    ] {
        let answer = client.post_json(path, &body);
        answer.assert_error_part(400, INVALID, "invalid json body: ");
        answer.assert_error_part(400, INVALID, &format!("`{field}`"));
    }
    for body in
        ["{", "[]", "\"t\"", r#"{"topic":"t","value":"v"}x"#, r#"{"topic":"t","topic":"t","value":"v"}"#]
    {
        client.post_text("/v1/produce", body).assert_error_part(400, INVALID, "invalid json body: ");
    }
    let nothing_stored = client.get("/v2/topics/t").json();
    assert_eq!(nothing_stored["next_offset"], 0);
}

#[test]
fn creating_a_topic() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    for (body, query, partitions) in [
        (json!({"name": "a"}), "name=a", 1),
        (json!({"name": "b", "partitions": 0}), "name=b&partitions=0", 1),
        (json!({"name": "c", "partitions": 3}), "name=c&partitions=3", 3),
        // It is there already: its partitions stay what they are.
        (json!({"name": "c", "partitions": 9}), "name=c&partitions=9", 3),
    ] {
        for answer in [client.post_json("/v1/topics", &body), client.post(&format!("/v1/topics?{query}"))] {
            assert_eq!(answer.status, 201, "{}", answer.text());
            assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
            assert_eq!(
                answer.json(),
                json!({"status": "created", "name": body["name"], "partitions": partitions})
            );
        }
    }
    for answer in [
        client.post_json("/v1/topics", &json!({"name": "d", "partitions": -1})),
        client.post("/v1/topics?name=d&partitions=-1"),
    ] {
        answer.assert_error(400, INVALID, "partitions cannot be negative");
    }
    client.post("/v1/topics").assert_error(400, INVALID, "name is required");
    client.post("/v1/topics?name=d&partitions=x").assert_error_part(400, INVALID, "invalid partitions");
    assert_eq!(client.get("/v1/topics").json(), json!({"topics": ["a", "b", "c"]}));
}

#[test]
fn producing_needs_a_topic_and_a_text() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for body in [json!({"topic": "t"}), json!({"value": "v"}), json!({"topic": "t", "value": ""}), json!({})]
    {
        client.post_json("/v1/produce", &body).assert_error(400, INVALID, "topic and value are required");
    }
    for query in ["", "?topic=t", "?value=v", "?topic=t&value=", "?topic=&value=v"] {
        client.post(&format!("/v1/produce{query}")).assert_error(
            400,
            INVALID,
            "topic and value are required",
        );
    }
    for value in [json!(5), json!({"a": 1}), json!(["v"]), json!(true)] {
        let answer = client.post_json("/v1/produce", &json!({"topic": "t", "value": value}));
        answer.assert_error_part(400, INVALID, "expected a string");
    }
}

#[test]
fn everything_a_query_can_say_about_a_message() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 2);
    let rest = "&run_id=r&step_id=s&parent_step_id=p&target_topic=t&partition_override=1\
                &retry_max_attempts=5&retry_backoff_ms=250&retry_max_backoff_ms=5000";
    let names = ["tenant_id=acme&idempotency_key=k0", "tenant=acme&idem_key=k1", "tenant=acme&idem_key=k2"];
    let deadlines = [
        "deadline=2999-12-21T12:00:00.25Z",
        "deadline_rfc3339=2999-12-21T13:00:00.25%2B01:00",
        "deadline_ms=32502772800250",
    ];
    let utc = "2999-12-21T12:00:00.25Z";
    let expected_deadlines = [utc, "2999-12-21T13:00:00.25+01:00", utc];
    for (name, deadline) in names.iter().zip(deadlines) {
        let answer = client.post(&format!("/v1/produce?topic=t&value=v&key=k&{name}&{deadline}{rest}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let mut stream = broker.stream("topic=t&group=g&owner=o");
    for (number, deadline) in expected_deadlines.iter().enumerate() {
        let item = stream.item();
        let expected = json!({
            "run_id": "r", "step_id": "s", "parent_step_id": "p", "tenant_id": "acme",
            "idempotency_key": format!("k{number}"), "target_topic": "t", "partition_override": 1,
            "deadline": deadline,
            "retry_policy": {"max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000},
        });
        assert_eq!(item["envelope"], expected);
        let ack = client.post(&format!("/v1/ack?topic=t&group=g&owner=o&{}", address_of(&item)));
        assert_eq!(ack.status, 204, "{}", ack.text());
    }
}

#[test]
fn what_a_query_must_not_say_about_a_message() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for (part, message) in [
        ("retry_backoff_ms=5", "retry_max_attempts"),
        ("retry_max_backoff_ms=5", "retry_max_attempts"),
        ("retry_max_attempts=0&retry_backoff_ms=5", "retry_max_attempts"),
        ("retry_max_attempts=-1", "retry_max_attempts cannot be negative"),
        ("retry_max_attempts=1&retry_backoff_ms=-5", "retry_backoff_ms cannot be negative"),
        ("retry_max_attempts=x", "invalid retry_max_attempts"),
        ("partition_override=x", "invalid partition_override"),
        ("deadline=soon", "invalid deadline"),
        ("deadline_rfc3339=2999-12-21", "invalid deadline_rfc3339"),
        ("deadline_ms=-5", "deadline_ms cannot be negative"),
        ("deadline_ms=soon", "invalid deadline_ms"),
    ] {
        client.post(&format!("/v1/produce?topic=t&value=v&{part}")).assert_error_part(400, INVALID, message);
    }
    for part in [json!({"max_attempts": -1}), json!({"backoff_ms": -1}), json!({"max_backoff_ms": -1})] {
        let body = json!({"topic": "t", "value": "v", "envelope": {"retry_policy": part}});
        client.post_json("/v1/produce", &body).assert_error_part(400, INVALID, "cannot be negative");
    }
}

#[test]
fn consuming_needs_three_names_and_takes_a_body() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for query in ["", "?topic=t&group=g", "?topic=t&owner=o", "?group=g&owner=o", "?topic=t&group=g&owner=+"]
    {
        let answer = client.get(&format!("/v1/consume{query}"));
        answer.assert_error(400, INVALID, "topic, group and owner are required");
    }
    for lease in ["0", "-1", "x", "1.5"] {
        let answer = client.get(&format!("/v1/consume?topic=t&group=g&owner=o&lease_ms={lease}"));
        answer.assert_error(400, INVALID, "lease_ms must be a positive integer");
    }
    for lease in [json!(0), json!(-1)] {
        let body = json!({"topic": "t", "group": "g", "owner": "o", "lease_ms": lease}).to_string();
        let answer = client.call("GET", "/v1/consume", &[], Some(body.as_bytes()));
        answer.assert_error(400, INVALID, "lease_ms must be a positive integer");
    }
    let body = json!({"topic": "t", "group": "g", "owner": "o", "max": 5}).to_string();
    client.call("GET", "/v1/consume", &[], Some(body.as_bytes())).assert_error_part(400, INVALID, "`max`");
    client.produce("t", "", "v");
    let mut reader = broker.client();
    let body = json!({"topic": "t", "group": "g", "owner": "o", "lease_ms": 60_000}).to_string();
    let head = format!(
        "GET /v1/consume?topic=nothing HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    reader.send(head + &body);
    assert_eq!(Stream::opened(reader).item()["value"], "v");
}

#[test]
fn acks_and_nacks_need_an_address_and_trim_their_texts() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    for call in ["/v1/ack", "/v1/nack"] {
        let without_owner = json!({"topic": "t", "group": "g", "partition": 0, "offset": 0});
        client.post_json(call, &without_owner).assert_error(
            400,
            INVALID,
            "topic, group and owner are required",
        );
        let blank = client.post(&format!("{call}?topic=t&group=+&owner=o&partition=0&offset=0"));
        blank.assert_error(400, INVALID, "topic, group and owner are required");
        let without_place = json!({"topic": "t", "group": "g", "owner": "o", "partition": 0});
        client.post_json(call, &without_place).assert_error(
            400,
            INVALID,
            "partition and offset are required",
        );
        let without_place = client.post(&format!("{call}?topic=t&group=g&owner=o&offset=0"));
        without_place.assert_error(400, INVALID, "partition and offset are required");
        let nonsense = client.post(&format!("{call}?topic=t&group=g&owner=o&partition=x&offset=0"));
        nonsense.assert_error_part(400, INVALID, "invalid partition");
    }
    client.produce("t", "", "v");
    let mut stream = broker.stream("topic=t&group=g&owner=o&lease_ms=60000");
    stream.item();
    for (call, reason) in [
        ("/v1/nack?topic=+t&group=g+&owner=+o+&partition=0&offset=0", "nack"),
        ("/v1/nack?topic=t&group=g&owner=o&partition=0&offset=0&error=from+alias", "from alias"),
        ("/v1/nack?topic=t&group=g&owner=o&partition=0&offset=0&reason=+first+&error=second", "first"),
    ] {
        assert_eq!(client.post(call).status, 204);
        assert_eq!(stream.item()["last_error"], reason);
    }
    let body =
        json!({"topic": " t", "group": "g ", "owner": "\to", "partition": 0, "offset": 0, "reason": " x "});
    assert_eq!(client.post_json("/v1/nack", &body).status, 204);
    assert_eq!(stream.item()["last_error"], "x");
    let ack = client.post("/v1/ack?topic=t+&group=+g&owner=o+&partition=0&offset=0");
    assert_eq!((ack.status, ack.body.len(), ack.header("content-type")), (204, 0, None));
}

#[test]
fn request_ids_are_echoed_tidied_or_made() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let with_id = |client: &mut Client, path: &str, id: &str| {
        let answer = client.call("GET", path, &[("X-Request-Id", id)], None);
        answer.header("x-request-id").unwrap().to_owned()
    };
    for path in ["/v1/healthz", "/v1/nothing", "/nothing", "/v2/topics", "/metrics", "/v1/produce"] {
        assert_eq!(with_id(&mut client, path, "run-7:step.3"), "run-7:step.3", "{path}");
    }
    assert_eq!(with_id(&mut client, "/v1/healthz", "a b"), "ab");
    assert_eq!(with_id(&mut client, "/v1/healthz", &"x".repeat(5000)).len(), 128);
    let fresh = |client: &mut Client| client.get("/v1/healthz").header("x-request-id").unwrap().to_owned();
    let (first, second) = (fresh(&mut client), fresh(&mut client));
    assert!(first.len() >= 16 && first != second, "{first} {second}");
    let stream = broker.stream("topic=t&group=g&owner=o");
    assert!(stream.headers.iter().any(|(name, _)| name == "x-request-id"));
}

#[test]
fn a_client_may_ask_before_it_sends() {
    let broker = Broker::ephemeral(&["--body-bytes-max=1KiB"]);
    let mut client = broker.client_with_topic("t", 1);
    let body = json!({"topic": "t", "value": "v"}).to_string();
    let head = format!(
        "POST /v1/produce HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.send(head);
    assert_eq!(client.reply().status, 100);
    client.send(body);
    assert_eq!(client.reply().status, 200);
    // What would be refused is refused before it is sent.
    client.send(
        "POST /v1/produce HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 5000\r\n\r\n",
    );
    client.reply().assert_error_part(413, "PAYLOAD_TOO_LARGE", "1024 bytes");
}

#[test]
fn headers_of_the_sdks_do_no_harm() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let headers = [
        ("Idempotency-Key", "k"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("Accept", "application/json"),
    ];
    for _ in 0..2 {
        let body = json!({"topic": "t", "value": "v"}).to_string();
        assert_eq!(client.call("POST", "/v1/produce", &headers, Some(body.as_bytes())).status, 200);
    }
    // The header is for the SDK's own retries: it does not make a message idempotent.
    assert_eq!(client.get("/v2/topics/t").json()["next_offset"], 2);
}

#[test]
fn urls_carry_payloads_up_to_a_limit() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let long = "x".repeat(59 << 10);
    assert_eq!(client.post(&format!("/v1/produce?topic=t&value={long}")).status, 200);
    assert_eq!(broker.stream("topic=t&group=g&owner=o").item()["value"], long);
    let longer = "x".repeat(61 << 10);
    let answer = client.post(&format!("/v1/produce?topic=t&value={longer}"));
    answer.assert_error_part(414, "URI_TOO_LONG", "61440 bytes");
    assert_eq!(client.get("/v1/healthz").status, 200, "the connection goes on");
    // Beyond what the HTTP library can hold, the connection ends, but the answer is the same.
    for kib in [65, 70, 127, 140, 400] {
        let longest = "x".repeat(kib << 10);
        let answer = broker.client().post(&format!("/v1/produce?topic=t&value={longest}"));
        answer.assert_error_part(414, "URI_TOO_LONG", "send a JSON body instead");
        assert!(answer.header("x-request-id").is_some(), "{kib}");
        let answer = broker.client().get(&format!("/v2/topics/{longest}"));
        let problem = answer.json();
        assert_eq!(
            (answer.status, &problem["code"], &problem["status"]),
            (414, &json!("URL_TOO_LONG"), &json!(414))
        );
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{kib}");
    }
}
