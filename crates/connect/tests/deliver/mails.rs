//! Mails: made from deliveries, handed to a server, and what is certain about them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use driftq_client::wire::EffectState;
use driftq_connect::deliver::Endpoint;
use driftq_connect::deliver::attempt::Ending;
use driftq_connect::deliver::connect::Connections;
use driftq_connect::deliver::email::{mail, send};
use driftq_connect::deliver::endpoint::Kind;
use driftq_connect::deliver::request::{Keys, Parcel};
use driftq_connect::deliver::send::Sent;
use driftq_connect::deliver::target::Resolver;
use driftq_connect::secret::Plain;
use driftq_tls::tokio_rustls::TlsAcceptor;

use crate::bench::{Bench, loopback, until};
use crate::mail_server::{MailServer, Manner, Tls};
use crate::targets::fickle;
use crate::tls::self_signed;

const PATIENT: Duration = Duration::from_secs(20);
const IMPATIENT: Duration = Duration::from_millis(500);

fn endpoint(url: String) -> Endpoint {
    Endpoint {
        from: Some("Shop <robot@shop.example>".to_owned()),
        to: vec!["anna@example.org".to_owned(), "nobody@example.org".to_owned()],
        subject: Some("Your order".to_owned()),
        ..Endpoint::new("mails", Kind::Email, url)
    }
}

fn parcel(delivery_id: &str, labels: &[(&str, &str)]) -> Parcel {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let body = Bytes::from_static("Grüße\n.\nend".as_bytes());
    Parcel { tenant_id: String::new(), delivery_id: delivery_id.to_owned(), body, labels }
}

fn text(parcel: &Parcel) -> String {
    let mail = mail(&endpoint("smtp://mail.example".to_owned()), parcel).unwrap();
    String::from_utf8(mail.formatted()).unwrap()
}

fn message_id(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap()
}

#[test]
fn a_mail_has_the_same_id_in_every_attempt() {
    let first = text(&parcel("order-17", &[]));
    let id = message_id(&first);
    assert!(id.ends_with("@shop.example>") && id.len() == "<@shop.example>".len() + 32, "{id}");
    assert!(first.contains("Content-Type: text/plain; charset=utf-8\r\n"), "{first}");
    assert!(first.contains("MIME-Version: 1.0\r\n") && first.contains("\r\nDate: "), "{first}");
    assert_eq!(message_id(&text(&parcel("order-17", &[]))), id);
    assert_ne!(message_id(&text(&parcel("order-18", &[]))), id);
}

#[test]
fn a_message_may_have_a_subject_and_a_type_of_its_own_and_no_more_headers() {
    let labels = [
        ("header.subject", "Hello\r\nBcc: everyone@example.org"),
        ("header.bcc", "everyone@example.org"),
        ("content-type", "text/html"),
    ];
    let text = text(&parcel("order-17", &labels));
    assert!(text.contains("Content-Type: text/html\r\n"), "{text}");
    assert!(!text.lines().any(|line| line.to_ascii_lowercase().starts_with("bcc")), "{text}");
    let odd = parcel("order-17", &[("content-type", "what?")]);
    assert!(mail(&endpoint("smtp://mail.example".to_owned()), &odd).unwrap_err().is_of_message());
    let nobody = Endpoint { to: Vec::new(), ..endpoint("smtp://mail.example".to_owned()) };
    assert!(!mail(&nobody, &parcel("order-17", &[])).unwrap_err().is_of_message());
}

async fn to(server: &MailServer, keys: &Keys, limit: Duration) -> Sent {
    let endpoint = endpoint(format!("smtp://{}", server.address));
    let connections = Connections::new(loopback(), Resolver::System, None).unwrap();
    let mail = mail(&endpoint, &parcel("order-17", &[])).unwrap();
    send(&connections, &endpoint.target().unwrap(), &mail, keys, limit).await
}

#[tokio::test]
async fn only_an_answer_after_the_text_is_certain() {
    for (manner, limit, ending, status, texts) in [
        (Manner::Takes, PATIENT, Ending::Delivered, Some(250), 1),
        (Manner::KnowsNobody, PATIENT, Ending::Failed, Some(550), 0),
        (Manner::RefusesText, PATIENT, Ending::Failed, Some(554), 1),
        (Manner::BreaksBeforeText, PATIENT, Ending::Failed, None, 0),
        (Manner::BreaksAfterText, PATIENT, Ending::Unknown, None, 1),
        (Manner::HangsAfterText, IMPATIENT, Ending::Unknown, None, 1),
    ] {
        let server = MailServer::start(manner, Tls::Never).await;
        let sent = to(&server, &Keys::default(), limit).await;
        assert_eq!((sent.ending, sent.status), (ending, status), "{manner:?}: {sent:?}");
        assert_eq!((server.texts().len(), server.sessions().len()), (texts, 1), "{manner:?}");
    }
    let server = MailServer::start(Manner::Takes, Tls::Never).await;
    let sent = to(&server, &Keys::default(), PATIENT).await;
    assert_eq!(sent.body, "queued as 4711");
    let commands = server.sessions().remove(0).commands;
    assert!(commands.iter().any(|command| command.starts_with("MAIL FROM:<robot@shop.example>")));
    assert!(commands.contains(&"RCPT TO:<anna@example.org>".to_owned()), "{commands:?}");
}

#[tokio::test]
async fn a_password_is_not_sent_in_the_clear() {
    let server = MailServer::start(Manner::Takes, Tls::Never).await;
    let keys = Keys { signing: Vec::new(), credential: Some(Plain::new("secret").unwrap()) };
    let sent = to(&server, &keys, PATIENT).await;
    assert!(sent.ending == Ending::Failed && sent.error.contains("smtps://"), "{sent:?}");
    assert!(server.texts().is_empty());
    assert!(!server.sessions()[0].commands.iter().any(|command| command.starts_with("AUTH")));
}

#[tokio::test]
async fn with_tls_the_user_and_the_password_are_those_of_the_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (config, file) = self_signed("mail.example", &folder);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    for (scheme, tls) in [("smtps", Tls::First(acceptor.clone())), ("smtp", Tls::Asked(acceptor))] {
        let server = MailServer::start(Manner::Takes, tls).await;
        let endpoint = endpoint(format!("{scheme}://robot@mail.example:{}", server.address.port()));
        let here = || fickle(&[&["127.0.0.1"]]);
        let mail = mail(&endpoint, &parcel("order-17", &[])).unwrap();
        let keys = Keys { signing: Vec::new(), credential: Some(Plain::new("secret").unwrap()) };
        let target = endpoint.target().unwrap();
        let wary = Connections::new(loopback(), here(), None).unwrap();
        let sent = send(&wary, &target, &mail, &keys, PATIENT).await;
        assert_eq!((sent.ending, server.texts().len()), (Ending::Failed, 0), "{sent:?}");
        let trusting = Connections::new(loopback(), here(), Some(&file)).unwrap();
        let sent = send(&trusting, &target, &mail, &keys, PATIENT).await;
        assert_eq!((sent.ending, server.texts().len()), (Ending::Delivered, 1), "{sent:?}");
        let auth = format!("AUTH PLAIN {}", STANDARD.encode("\0robot\0secret"));
        let said: Vec<String> = server
            .sessions()
            .into_iter()
            .flat_map(|session| session.commands)
            .filter(|c| *c == auth)
            .collect();
        assert_eq!(said.len(), 1, "only to the one that is trusted");
    }
}

#[tokio::test]
async fn a_mail_that_may_have_been_taken_is_held() {
    let server = MailServer::start(Manner::BreaksAfterText, Tls::Never).await;
    let endpoint = endpoint(format!("smtp://{}", server.address));
    let bench = Bench::new(&[&endpoint]).await;
    let running = bench.serve(&[&endpoint]);
    bench.deliver(&endpoint, "order-17").await;
    until("an unknown outcome", async || {
        let effect = bench.effect(&endpoint, "order-17").await;
        effect.is_some_and(|effect| effect.state == EffectState::Unknown)
    })
    .await;
    running.stop().await;
    assert_eq!(server.texts().len(), 1);
}
