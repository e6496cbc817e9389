//! Who is kept outside: pages of strangers in a browser next door, and servers that would be open to a network.

use crate::command::run;
use crate::compat::{Broker, Client, Reply};

/// A call with headers of its own, `Host` among them.
fn ask(client: &mut Client, request: &str, headers: &[&str]) -> Reply {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    client.send(format!("{request} HTTP/1.1\r\n{headers}\r\n"));
    client.reply()
}

#[test]
fn pages_of_strangers_are_refused_and_programs_notice_nothing() {
    let broker = Broker::ephemeral(&[]);
    let own = format!("host: {}", broker.address());
    let same = format!("origin: http://{}", broker.address());
    let mut client = broker.client_with_topic("t", 1);
    let evil = "origin: https://evil.example";
    for path in ["/v1/topics", "/v2/topics", "/metrics"] {
        let request = format!("GET {path}");
        assert_eq!(ask(&mut client, &request, &[&own]).status, 200, "{path}");
        assert_eq!(ask(&mut client, &request, &[&own, &same]).status, 200, "{path}");
        assert_eq!(ask(&mut client, &request, &["host: localhost:1"]).status, 200, "{path}");
        let answer = ask(&mut client, &request, &[&own, evil]);
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(ask(&mut client, &request, &[&own, "origin: null"]).status, 403, "{path}");
        let answer = ask(&mut client, &request, &["host: rebound.evil.example:8080"]);
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    let answer = ask(&mut client, "GET /v1/topics", &[&own, evil]);
    answer.assert_error_part(403, "PERMISSION_DENIED", "https://evil.example");
    assert_eq!(answer.header("x-driftq-code"), Some("FOREIGN_ORIGIN"));
    let answer = ask(&mut client, "GET /v2/topics", &["host: evil.example"]);
    assert_eq!(answer.json()["code"], "FOREIGN_HOST");
    // What a form of a page can send without asking first.
    let form = [&*own, evil, "content-type: text/plain", "content-length: 25"];
    client.send(format!("POST /v1/produce HTTP/1.1\r\n{}\r\n\r\n", form.join("\r\n")));
    client.send(r#"{"topic":"t","value":"x"}"#);
    assert_eq!(client.reply().status, 403);
    assert_eq!(broker.client().get("/v2/topics/t").json()["next_offset"], 0, "nothing was stored");
    // Old programs name no host.
    let mut old = broker.client();
    old.send("GET /v1/healthz HTTP/1.0\r\n\r\n");
    assert_eq!(old.reply().status, 200);
}

#[test]
fn pages_that_were_allowed_may_ask_and_read() {
    let arguments = ["--allowed-origins=https://app.example.com", "--host-names=broker.example.com"];
    let broker = Broker::ephemeral(&arguments);
    let mut client = broker.client();
    let (host, app) = ("host: broker.example.com", "origin: https://app.example.com");
    let answer = ask(&mut client, "GET /v2/topics", &[host, app]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert_eq!(answer.header("vary"), Some("origin"));
    let wants = ["access-control-request-method: PUT", "access-control-request-headers: content-type"];
    client
        .send(format!("OPTIONS /v2/topics/t HTTP/1.1\r\n{host}\r\n{app}\r\n{}\r\n\r\n", wants.join("\r\n")));
    let answer = client.reply();
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert!(answer.header("access-control-allow-methods").unwrap().contains("PUT"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("content-type"));
    let answer = ask(&mut client, "OPTIONS /v2/topics/t", &[host, "origin: https://other.example", wants[0]]);
    assert_eq!(answer.status, 403);
    // Who is no browser sees a method that is not there, as before.
    assert_eq!(ask(&mut client, "OPTIONS /v2/topics/t", &[host]).status, 405);
}

#[test]
fn a_server_that_a_network_reaches_needs_keys_and_tls() {
    let start =
        |arguments: &[&str]| run(&[&["serve", "--ephemeral", "--listen", "0.0.0.0:0"], arguments].concat());
    for (arguments, next) in [
        (&[][..], "--keys required"),
        (&["--behind-proxy"], "--keys required"),
        (&["--keys", "required"], "--tls-cert"),
    ] {
        let ran = start(arguments).code(9);
        assert!(
            ran.stderr.contains(next) && ran.stderr.contains("--listen"),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    let check = |arguments: &[&str]| run(&[&["config", "check", "-o", "json"], arguments].concat());
    let refused = check(&["--listen", "0.0.0.0:80"]).code(9);
    assert_eq!(refused.json()["valid"], false);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    run(&["key", "create", "--root", "--data", data]).ok();
    let keyed = ["--keys=required", "--data", data];
    let proxied = check(&[&keyed[..], &["--listen", "0.0.0.0:80", "--behind-proxy"]].concat()).ok();
    assert!(proxied.json()["access"].as_str().unwrap().contains("proxy"));
    let open = check(&[]).ok();
    assert!(open.json()["access"].as_str().unwrap().contains("every program on this machine"));
    assert!(check(&keyed).ok().json().get("access").is_none());
    let broker = Broker::ephemeral(&[]);
    assert!(broker.server.banner.contains("access     open: "), "{}", broker.server.banner);
}
