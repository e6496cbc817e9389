//! A brain at an `https://` URL, with a certificate of an own authority.

use std::net::SocketAddr;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::compat::Client;
use crate::router_world::{Brain, PATIENT, browse, produce, try_produce};
use crate::support::{Server, driftq};
use crate::tls::{Certificates, runtime};

/// Speaks TLS with whoever comes, and hands on what they say to a brain that does not.
fn secure_front(runtime: &Runtime, certificates: &Certificates, brain: SocketAddr) -> SocketAddr {
    let acceptor = certificates.acceptor();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // Whoever does not trust the certificate goes away, and need not be told more.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut brain = TcpStream::connect(brain).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut brain).await;
            });
        }
    });
    address
}

#[test]
fn a_brain_with_tls_is_asked_if_its_authority_is_trusted() {
    let (certificates, runtime) = (Certificates::new(), runtime());
    let brain = Brain::saying(r#"{"label": "urgent"}"#);
    let url = format!("https://{}/route", secure_front(&runtime, &certificates, brain.address()));
    let start = |name: &str, authority: Option<&str>| {
        let mut command = driftq();
        command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
        if let Some(authority) = authority {
            command.env("SSL_CERT_FILE", certificates.path(authority));
        }
        let arguments = [&["--ephemeral", "--router-on-error=reject", "--router-url", &url], &PATIENT[..]];
        let server = Server::start_by(command, &certificates.path(name), &arguments.concat());
        let mut client = Client::connect(server.address);
        assert_eq!(client.post("/v1/topics?name=t&partitions=1").status, 201);
        (server, client)
    };
    let message = json!({"key": "k", "value": "v"});

    let (_server, mut client) = start("trusting", Some("first"));
    produce(&mut client, "t", &message);
    assert_eq!(browse(&mut client, "t")[0]["routing"]["label"], "urgent");
    assert_eq!(brain.questions().len(), 1);

    certificates.authority("stranger");
    for (name, authority) in [("of the system", None), ("of another", Some("stranger"))] {
        let (_server, mut client) = start(name, authority);
        let refused = try_produce(&mut client, "t", &message);
        assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("ROUTER_REFUSED")), "{name}");
        assert!(refused.text().contains("UnknownIssuer"), "{name}: {}", refused.text());
        assert_eq!(browse(&mut client, "t").len(), 0, "{name}: nothing is stored");
    }
    assert_eq!(brain.questions().len(), 1, "a brain that is not trusted is told nothing");
}
