//! A server that runs its connectors itself, as an operator starts it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::command::run;
use crate::compat::{Broker, Reply};
use crate::keys::call;

/// Whatever a test waits for happens by then.
const WITHIN: Duration = Duration::from_secs(30);

/// Answers one request after the other, each on a connection of its own, and hands them on.
fn receiver(listener: &TcpListener, received: &std::sync::mpsc::Sender<String>) {
    for connection in listener.incoming() {
        let Ok(mut connection) = connection else { return };
        let (mut text, mut piece) = (Vec::new(), [0; 4096]);
        let whole = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            let (head, body) = text.split_once("\r\n\r\n")?;
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
            });
            (body.len() >= length?).then_some(text.clone())
        };
        while let Ok(count) = connection.read(&mut piece)
            && count > 0
        {
            text.extend_from_slice(&piece[..count]);
            if let Some(request) = whole(&text) {
                let answer = "HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
                let _ = connection.write_all(answer.as_bytes());
                if received.send(request).is_err() {
                    return;
                }
                break;
            }
        }
    }
}

#[test]
fn deliveries_go_out_of_a_server_that_runs_its_connectors() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/leads", listener.local_addr().unwrap());
    let (sender, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || receiver(&listener, &sender));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("connect.toml");
    std::fs::write(&file, "[deliveries]\nallow = [\"127.0.0.0/8\"]\n").unwrap();
    let server = Broker::durable(&["--connect", file.to_str().unwrap()]);
    let ask = |method: &str, path: &str, body: &Value| -> Reply {
        let body = (!body.is_null()).then(|| body.to_string());
        call(&mut server.client(), None, method, path, body.as_deref())
    };
    let made = ask("PUT", "/v2/endpoints/crm", &json!({"kind": "http", "url": url}));
    assert_eq!(made.status, 200, "{}", made.text());
    let sent = ask(
        "POST",
        "/v2/deliveries",
        &json!({"delivery_id": "lead-1", "endpoint": "crm", "body": {"name": "Ann"}, "headers": {"x-kind": "lead"}}),
    );
    assert_eq!(sent.status, 201, "{}", sent.text());
    let request = received.recv_timeout(WITHIN).expect("it goes out");
    assert!(request.starts_with("POST /leads HTTP/1.1\r\n"), "{request}");
    let lower = request.to_ascii_lowercase();
    for header in ["idempotency-key: ", "content-type: application/json", "x-kind: lead"] {
        assert!(lower.contains(header), "{header}: {request}");
    }
    assert!(request.ends_with(r#"{"name":"Ann"}"#), "{request}");
    let deadline = Instant::now() + WITHIN;
    let record = loop {
        let page = ask("GET", "/v2/deliveries?endpoint=crm", &Value::Null).json();
        if page["deliveries"][0]["state"] == "delivered" {
            break page["deliveries"][0].clone();
        }
        assert!(Instant::now() < deadline, "{page}");
        std::thread::yield_now();
    };
    let send = &record["attempts"][0];
    assert_eq!(
        (&send["status"], &send["outcome"], &send["body"]),
        (&json!(202), &json!("delivered"), &json!("ok"))
    );
    let metrics = ask("GET", "/metrics", &Value::Null).text();
    for line in [
        "driftq_delivery_sends_total{endpoint=\"crm\",result=\"delivered\"} 1",
        "driftq_delivery_sends_total{endpoint=\"crm\",result=\"unknown\"} 0",
        "driftq_endpoint_breaker{endpoint=\"crm\",state=\"closed\"} 1",
        "driftq_endpoint_disabled{endpoint=\"crm\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    // And by the command line, which waits for what comes of it.
    let test = server.server.run(&["endpoint", "test", "crm"]);
    assert_eq!(test.code, 0, "{}", test.stderr);
    assert!(test.stdout.contains("delivered 202"), "{}", test.stdout);
    received.recv_timeout(WITHIN).expect("the test of the endpoint");
    resend(&server, &request, &received);
    server.server.signal("TERM");
    assert!(server.server.wait().success(), "it drains");
}

/// What was delivered is sent once more under a name, with the same body, headers and id.
fn resend(server: &Broker, first: &str, received: &std::sync::mpsc::Receiver<String>) {
    let resend = |more: &[&str]| {
        let told =
            server.server.run(&[&["delivery", "resend", "crm", "-o", "json", "--name"], more].concat());
        assert_eq!(told.code, 0, "{}", told.stderr);
        let told: Value = serde_json::from_str(&told.stdout).unwrap();
        (told["resent"].clone(), told["repeated"].clone())
    };
    let lead = json!(["lead-1"]);
    assert_eq!(resend(&["lost", "--id", "lead-1", "--dry-run"]), (lead.clone(), json!(0)));
    assert_eq!(resend(&["lost", "--id", "lead-1", "--until", "2020-01-01T00:00:00Z"]), (json!([]), json!(0)));
    assert_eq!(resend(&["lost", "--id", "lead-1"]), (lead.clone(), json!(0)));
    let sorted = |request: &str| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let mut lines: Vec<_> = head.lines().map(str::to_owned).collect();
        lines.sort();
        (lines, body.to_owned())
    };
    let again = received.recv_timeout(WITHIN).expect("it goes out again, and the two before it did not");
    assert_eq!(sorted(&again), sorted(first), "the receiver sees what it saw before");
    assert_eq!(resend(&["lost", "--id", "lead-1"]), (json!([]), json!(1)), "once under a name");
    assert_eq!(resend(&["other", "--id", "lead-1"]), (lead, json!(0)));
    let third = received.recv_timeout(WITHIN).expect("another name sends it once more");
    assert_eq!(sorted(&third), sorted(first));
}

#[test]
fn a_file_that_cannot_work_is_told_before_the_server_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("connect.toml");
    std::fs::write(&file, "[delivery]\n").unwrap();
    let data = folder.path().join("data");
    let serve = ["serve", "--data", data.to_str().unwrap(), "--connect", file.to_str().unwrap()];
    let refused = run(&serve);
    assert_eq!(refused.code, 9, "{}", refused.stderr);
    let said = refused.stderr;
    assert!(said.contains("delivery") && said.contains("deliveries"), "{said}");
    assert!(!data.exists(), "nothing was begun");
}
