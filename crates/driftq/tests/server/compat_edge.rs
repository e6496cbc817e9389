//! The edge itself: limits of size, of time and of number, and how it stops.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::compat::{Broker, TIMEOUT};

#[test]
fn bodies_have_a_limit() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let body = |size: usize| json!({"topic": "t", "value": "x".repeat(size)}).to_string();
    assert_eq!(client.post_text("/v1/produce", &body(3 << 20)).status, 200, "large is fine");
    // It is sent whole before anybody reads the answer, and the answer still arrives.
    let answer = client.post_text("/v1/produce", &body(5 << 20));
    answer.assert_error_part(413, "PAYLOAD_TOO_LARGE", "4194304 bytes");
    let mut chunked = broker.client();
    chunked.send("POST /v1/produce HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n");
    let piece = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
    for _ in 0..5 {
        chunked.send(&piece);
    }
    chunked.send("0\r\n\r\n");
    chunked.reply().assert_error_part(413, "PAYLOAD_TOO_LARGE", "4194304 bytes");
    assert_eq!(broker.client().get("/v2/topics/t").json()["next_offset"], 1);
}

#[test]
fn heads_have_a_limit() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client();
    let long = "x".repeat(20 << 10);
    let headers: Vec<(String, &str)> = (0..5).map(|number| (format!("x-{number}"), &*long)).collect();
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, *value)).collect();
    assert_eq!(client.call("GET", "/v1/healthz", &headers, None).status, 200);
    let longer = "x".repeat(200 << 10);
    assert_eq!(client.call("GET", "/v1/healthz", &[("x-long", &longer)], None).status, 431);
}

#[test]
fn a_peer_that_sends_its_head_too_slowly_is_cut_off() {
    let broker = Broker::ephemeral(&["--head-timeout-ms=200"]);
    let begun = Instant::now();
    let mut client = broker.client();
    client.send("GET /v1/healthz HTTP/1.1\r\nhost: te");
    assert!(client.is_closed());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // More bytes do not buy more time.
    let mut client = broker.client();
    client.send("GET /v1/healthz HTTP/1.1\r\n");
    let mut trickle = client.socket.get_ref().try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        while trickle.write_all(b"x-more: 1\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // Closed, or reset because bytes were still on their way.
    let ended = client.socket.read(&mut [0; 1]);
    assert!(
        matches!(ended, Ok(0)) || ended.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
    );
    writer.join().unwrap();
}

#[test]
fn a_peer_that_sends_its_body_too_slowly_is_told_so() {
    let broker = Broker::ephemeral(&["--body-timeout-ms=200"]);
    let mut client = broker.client_with_topic("t", 1);
    client.send("POST /v1/produce HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\n{\"topic\":");
    client.reply().assert_error_part(408, "REQUEST_TIMEOUT", "did not arrive in time");
    assert!(client.is_closed());
}

#[test]
fn idle_connections_live_until_their_time_is_up() {
    let broker = Broker::ephemeral(&["--idle-timeout-ms=400"]);
    let mut client = broker.client();
    // Each request gives it a new span, whatever the sum of them is.
    for _ in 0..4 {
        assert_eq!(client.get("/v1/healthz").status, 200);
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(client.get("/v1/healthz").status, 200);
    let idle = Instant::now();
    assert!(client.is_closed());
    assert!((350..5_000).contains(&idle.elapsed().as_millis()), "{:?}", idle.elapsed());
}

#[test]
fn a_stream_outlives_the_idle_timeout() {
    let broker =
        Broker::ephemeral(&["--idle-timeout-ms=100", "--head-timeout-ms=100", "--heartbeat-ms=60000"]);
    let mut client = broker.client_with_topic("t", 1);
    let mut stream = broker.stream("topic=t&group=g&owner=o");
    assert!(stream.is_silent_for(Duration::from_millis(400)));
    let mut client = if client.is_closed() { broker.client() } else { client };
    client.produce("t", "", "v");
    assert_eq!(stream.item()["value"], "v");
}

#[test]
fn connections_beyond_the_limit_wait() {
    let broker = Broker::ephemeral(&["--connections-max=2"]);
    let (mut first, mut second) = (broker.client(), broker.client());
    assert_eq!((first.get("/v1/healthz").status, second.get("/v1/healthz").status), (200, 200));
    // Both have begun another request: who does nothing would make room.
    first.send("GET /v1/healthz HTTP/1.1\r\n");
    second.send("GET /v1/healthz HTTP/1.1\r\n");
    let mut third = broker.client();
    third.send("GET /v1/healthz HTTP/1.1\r\nhost: test\r\n\r\n");
    third.socket.get_ref().set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    assert!(third.socket.read(&mut [0; 1]).is_err(), "answered beyond the limit");
    third.socket.get_ref().set_read_timeout(Some(TIMEOUT)).unwrap();
    first.send("host: test\r\n\r\n");
    assert_eq!(first.reply().status, 200, "who is in is served");
    drop(first);
    assert_eq!(third.reply().status, 200);
}

#[test]
fn who_does_nothing_makes_room_for_who_wants_to_work() {
    let broker = Broker::ephemeral(&["--connections-max=3"]);
    let mut stream = {
        let mut client = broker.client_with_topic("t", 1);
        let stream = broker.stream("topic=t&group=g&owner=o");
        assert_eq!(client.get("/v1/healthz").status, 200);
        stream
    };
    // The client above has left; a stream and these two fill the house.
    let (mut first, mut second) = (broker.client(), broker.client());
    assert_eq!(first.get("/v1/healthz").status, 200);
    // Idle times are counted in milliseconds: the second one works for some longer.
    let idle = Instant::now();
    while idle.elapsed() < Duration::from_millis(50) {
        assert_eq!(second.get("/v1/healthz").status, 200);
    }
    let mut third = broker.client();
    assert_eq!(third.get("/v1/healthz").status, 200, "nobody had to leave by itself");
    assert!(first.is_closed(), "the idlest went");
    assert_eq!(second.get("/v1/healthz").status, 200);
    second.produce("t", "", "v");
    assert_eq!(stream.item()["value"], "v", "whoever works stays");
}

#[test]
fn a_request_under_way_is_finished_before_the_stop() {
    let broker = Broker::durable(&[]);
    let mut client = broker.client_with_topic("t", 1);
    let body = json!({"topic": "t", "value": "v"}).to_string();
    // Its head has arrived, as the interim answer proves; its body comes after the signal.
    client.send(format!(
        "POST /v1/produce HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    assert_eq!(client.reply().status, 100);
    let mut idle = broker.client();
    assert_eq!(idle.get("/v1/healthz").status, 200);
    broker.server.signal("TERM");
    assert!(idle.is_closed(), "the stop has begun");
    client.send(body);
    let answer = client.reply();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(client.is_closed());
    let Broker { server, data } = broker;
    assert!(server.wait().success());
    let broker = Broker { server: crate::support::Server::start(data.path(), &[]), data };
    assert_eq!(
        broker.client().get("/v2/topics/t").json()["next_offset"],
        1,
        "and what was answered is there"
    );
}

/// Whoever has just connected would not know whether a request that was on its way was carried out.
#[test]
fn the_first_request_of_a_new_connection_is_answered_while_the_server_stops() {
    let broker = Broker::durable(&[]);
    let (mut idle, mut new) = (broker.client_with_topic("t", 1), broker.client());
    // The server has taken it by then: it answers connections in the order in which they came.
    assert_eq!(broker.client().get("/v1/healthz").status, 200);
    broker.server.signal("TERM");
    assert!(idle.is_closed(), "the stop has begun");
    let answer = new.post_json("/v1/produce", &json!({"topic": "t", "value": "v"}));
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{}", answer.text());
    assert!(new.is_closed());
    assert!(broker.server.wait().success());
}

#[test]
fn nonsense_gets_an_answer_and_harms_nobody() {
    let broker = Broker::ephemeral(&[]);
    for bytes in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET\r\n\r\n", b"\r\n\r\n\r\nx", b"GET / HTTP/9.9\r\n\r\n"]
    {
        let mut socket = std::net::TcpStream::connect(broker.address()).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.write_all(bytes).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        // Whatever comes, the connection ends; a peer that is cut off may see a reset.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    assert_eq!(broker.client().get("/v1/healthz").status, 200);
}
