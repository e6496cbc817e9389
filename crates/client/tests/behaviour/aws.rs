//! Credentials of AWS for those of an attempt: a stand-in for STS checks the token by the published keys.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use driftq_client::testkit::{Server, run_until_idle};
use driftq_client::{AwsCredentials, AwsRole, Client, Error, STS_ANSWER_BYTES_MAX, Worker, json};
use driftq_http::{Address, Call, Method, Options};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support;

const ISSUER: &str = "https://driftq.example";
const ROLE: &str = "arn:aws:iam::123456789012:role/billing";

fn decoded(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

async fn published(place: &str, path: &str) -> Value {
    let http = driftq_http::Client::new(Address::parse(place).unwrap(), &Options::new(1 << 20)).unwrap();
    let answer = http.call(&Call::new(Method::GET, path), Some(Duration::from_secs(30))).await.unwrap();
    serde_json::from_slice(&answer.body).unwrap()
}

/// The claims of a token that is good, else the code and the words of a refusal. The issuer's name resolves to `place`.
async fn checked(place: &str, token: &str) -> Result<Value, (&'static str, &'static str)> {
    let provider = published(place, "/.well-known/openid-configuration").await;
    assert_eq!(provider["issuer"], ISSUER);
    let keys = published(place, provider["jwks_uri"].as_str().unwrap().strip_prefix(ISSUER).unwrap()).await;
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (head, claims) = signed.split_once('.').unwrap();
    let head: Value = serde_json::from_slice(&decoded(head)).unwrap();
    let key = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == head["kid"]).unwrap();
    let point = [vec![4], decoded(key["x"].as_str().unwrap()), decoded(key["y"].as_str().unwrap())].concat();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    if key.verify(signed.as_bytes(), &decoded(signature)).is_err() {
        return Err(("InvalidIdentityToken", "Token signature invalid"));
    }
    let claims: Value = serde_json::from_slice(&decoded(claims)).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    match () {
        () if claims["iss"] != ISSUER => Err(("InvalidIdentityToken", "Incorrect token issuer")),
        () if claims["aud"] != "sts.amazonaws.com" => {
            Err(("InvalidIdentityToken", "Incorrect token audience"))
        }
        () if claims["exp"].as_u64().unwrap() <= now => Err(("ExpiredTokenException", "Token expired")),
        () => Ok(claims),
    }
}

/// The form of a request, which is read whole.
async fn form(socket: &mut TcpStream) -> String {
    let mut request = String::new();
    loop {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).await.unwrap();
        assert!(count > 0, "it breaks off: {request}");
        request.push_str(str::from_utf8(&piece[..count]).unwrap());
        if let Some((head, body)) = request.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            assert!(head.contains("content-type: application/x-www-form-urlencoded"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse().unwrap() {
                return body.to_owned();
            }
        }
    }
}

/// Everything that STS was asked.
type Asked = Arc<Mutex<Vec<String>>>;

/// A local stand-in for AWS's STS; `said`, if there is one, is said to everybody.
async fn sts(place: String, said: Option<String>) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let form = form(&mut socket).await;
            let field = |name: &str| {
                form.split('&')
                    .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
                    .unwrap_or_default()
            };
            let (status, body) = match (&said, field("RoleArn") == driftq_http::escape(ROLE)) {
                (Some(said), _) => (200, said.clone()),
                (None, false) => (403, refusal("AccessDenied", "Not authorized")),
                (None, true) => match checked(&place, field("WebIdentityToken")).await {
                    Ok(_) => (200, granted()),
                    Err((code, message)) => (400, refusal(code, message)),
                },
            };
            seen.lock().unwrap().push(form);
            let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = socket.write_all((head + &body).as_bytes()).await;
        }
    });
    (url, asked)
}

fn refusal(code: &str, message: &str) -> String {
    let error = format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
    format!(
        "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">{error}<RequestId>r-1</RequestId></ErrorResponse>"
    )
}

fn granted() -> String {
    "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
     <AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>secret/example</SecretAccessKey>\
     <SessionToken>session+example==</SessionToken><Expiration>2026-11-17T12:30:00Z</Expiration>\
     </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        .to_owned()
}

/// What a handler gets or is told, asked once.
async fn asked(client: &Client, topic: &str, role: AwsRole) -> Result<AwsCredentials, Error> {
    client.create_topic(topic, &Default::default()).await.unwrap();
    client.produce(topic, json(&1)).await.unwrap();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&outcomes);
    let worker = Worker::new(client, "g").signals(false).handle(topic, move |_: u32, context| {
        let (seen, role) = (Arc::clone(&seen), role.clone());
        async move {
            let outcome = context.aws_credentials(&role).await;
            seen.lock().unwrap().push(outcome);
            Ok(())
        }
    });
    run_until_idle(worker).await.unwrap();
    let outcome = outcomes.lock().unwrap().pop();
    outcome.unwrap()
}

async fn server() -> Server {
    support::launch().flag("--issuer").flag(ISSUER).start().await.unwrap()
}

#[tokio::test]
async fn a_role_is_assumed_by_an_attempt() {
    let server = server().await;
    let client = server.client().unwrap();
    let (url, forms) = sts(server.url(), None).await;
    let role = AwsRole::new(ROLE).endpoint(&url).duration(Duration::from_secs(900));
    let found = asked(&client, "roles", role.clone()).await.unwrap();
    assert_eq!(found.access_key_id, "ASIAEXAMPLE");
    assert_eq!((&*found.secret_access_key, &*found.session_token), ("secret/example", "session+example=="));
    let shown = format!("{found:?}");
    assert!(!shown.contains("secret/example") && !shown.contains("session+example"), "{shown}");
    let form = forms.lock().unwrap().pop().unwrap();
    for part in ["RoleSessionName=driftq-roles-0-0-1", "DurationSeconds=900", "Version=2011-06-15"] {
        assert!(form.contains(part), "{form}");
    }

    let refused = asked(&client, "audience", role.clone().audience("another")).await.unwrap_err();
    assert!(!refused.is_transient() && refused.name() == "StsRefused", "{refused}");
    let Error::StsRefused(refusal) = refused else { panic!("{refused}") };
    assert_eq!((&*refusal.code, &*refusal.detail), ("InvalidIdentityToken", "Incorrect token audience"));
    assert_eq!((refusal.status, refusal.request_id.as_deref()), (400, Some("r-1")));
    let other = asked(&client, "role", AwsRole::new("arn:other").endpoint(&url)).await.unwrap_err();
    assert!(matches!(&other, Error::StsRefused(refusal) if refusal.code == "AccessDenied"), "{other}");
}

#[tokio::test]
async fn what_is_no_answer_of_sts() {
    let server = server().await;
    let client = server.client().unwrap();
    for (topic, said, words) in [
        ("large", format!("<a>{}", " ".repeat(STS_ANSWER_BYTES_MAX)), "more than 65536 bytes"),
        ("plain", "It works!".to_owned(), "is not XML"),
    ] {
        let (url, _) = sts(server.url(), Some(said)).await;
        let error = asked(&client, topic, AwsRole::new(ROLE).endpoint(&url)).await.unwrap_err();
        assert!(matches!(error, Error::StsUnanswered { is_transient: false, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(&url), "{text}");
    }
    // Nobody has this port.
    let error =
        asked(&client, "nobody", AwsRole::new(ROLE).endpoint("http://127.0.0.1:2")).await.unwrap_err();
    assert!(matches!(error, Error::StsUnanswered { is_transient: true, .. }), "{error:?}");
}
