//! TLS against a real listener on loopback: whom the client trusts, and what it says about the others.

mod support;

use driftq_http::{Address, Call, Client, Failure, Method, Options};
use support::{Authority, OPTIONS, PATIENT, tls_server};

async fn asked(url: &str, options: Options) -> Result<String, Failure> {
    let client = Client::new(Address::parse(url).expect("a URL"), &options)?;
    let answer = client.call(&Call::new(Method::GET, "/"), Some(PATIENT)).await?;
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

#[tokio::test]
async fn a_server_whose_authority_is_named_is_trusted() {
    let ours = Authority::new("ours");
    let port = tls_server(&ours, "localhost").await;
    let url = format!("https://localhost:{port}");
    assert_eq!(asked(&url, ours.trusted()).await, Ok("hello".to_owned()));
}

#[tokio::test]
async fn a_certificate_that_signs_itself_is_trusted_when_it_is_named() {
    let (itself, port) = support::self_signed_server("127.0.0.1").await;
    let url = format!("https://127.0.0.1:{port}");
    assert_eq!(asked(&url, itself.trusted()).await, Ok("hello".to_owned()));
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused_with_advice() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let port = tls_server(&theirs, "localhost").await;
    let url = format!("https://localhost:{port}");
    for options in [ours.trusted(), OPTIONS] {
        let Err(Failure::Untrusted(why)) = asked(&url, options).await else { panic!("it was trusted") };
        assert!(why.contains("UnknownIssuer") && why.contains("SSL_CERT_FILE"), "{why}");
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let ours = Authority::new("ours");
    let port = tls_server(&ours, "broker.example").await;
    let failed = asked(&format!("https://localhost:{port}"), ours.trusted()).await;
    let Err(Failure::Untrusted(why)) = failed else { panic!("it was trusted: {failed:?}") };
    assert!(why.contains("localhost") && why.contains("broker.example"), "{why}");
}

#[tokio::test]
async fn plain_http_to_a_tls_port_is_told_so() {
    let ours = Authority::new("ours");
    let port = tls_server(&ours, "localhost").await;
    let failed = asked(&format!("http://localhost:{port}"), OPTIONS).await;
    let expected = "TLS is spoken there; write the URL with https://";
    assert_eq!(failed, Err(Failure::Foreign(expected.to_owned())));
}

#[tokio::test]
async fn tls_to_a_plain_port_is_told_so() {
    let port = support::plain_server(|_| Some(support::answer("hello"))).await;
    let failed = asked(&format!("https://localhost:{port}"), OPTIONS).await;
    let expected = "no TLS is spoken there; write the URL with http://";
    assert_eq!(failed, Err(Failure::Foreign(expected.to_owned())));
}

#[tokio::test]
async fn authorities_that_cannot_be_read_are_an_error_at_once() {
    let empty = tempfile::NamedTempFile::new().expect("a file");
    for (file, expected) in [(empty.path(), "no certificate in it"), ("no/such.pem".as_ref(), "no/such.pem")]
    {
        let options = Options { ca_file: Some(file.to_owned()), ..OPTIONS };
        let Err(Failure::Invalid(why)) = asked("https://localhost:1", options).await else {
            panic!("{file:?}")
        };
        assert!(why.contains(expected), "{why}");
    }
}
