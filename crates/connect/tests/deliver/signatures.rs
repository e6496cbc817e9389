//! Standard Webhooks 1.0, against what other implementations computed.

use driftq_connect::deliver::signature::{sign, webhook_id};
use driftq_connect::secret::{Plain, SigningKey};

const BODY: &str = r#"{"größe":"€ 5"}"#;
const SYMMETRIC: &str =
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
const ASYMMETRIC: &str = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const ASYMMETRIC_WITH_PUBLIC: &str =
    "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA==";
const BY_SYMMETRIC: &str = "v1,ekptysYP0+0wqK+0Go1BKo6eVXrho3M1lKMmGQDaMDU=";
const BY_ASYMMETRIC: &str =
    "v1a,5L8hvcd2033Q67+Kgi0fim3Yg1D0PwxMS25P+Gb8e5GB10rtzv32CMDRpT6DwHPQmvxBXojXrXiy+nby+J3MAA==";

fn keys(secrets: &[&str]) -> Vec<SigningKey> {
    secrets.iter().map(|secret| SigningKey::parse(&Plain::new(*secret).unwrap()).unwrap()).collect()
}

/// What `Webhook(secret).sign(…)` of the Python package `standardwebhooks` 1.1.0 returned for these.
#[test]
fn symmetric_signatures_are_those_of_the_published_package() {
    let published = keys(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let signature = sign(&published, id, 1_614_265_330, br#"{"test": 2432232314}"#);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let long = keys(&[SYMMETRIC]);
    assert_eq!(sign(&long, "order-17_paid", 1_793_862_000, BODY.as_bytes()), BY_SYMMETRIC);
    let empty = "v1,svM396+JPT9bKQqlT+Vl/Bsl8/z5lYVdM3PNXwAR6V8=";
    assert_eq!(sign(&long, "empty", 1_793_862_000, b""), empty);
}

/// What the Python package `cryptography` computed for the same seed.
#[test]
fn asymmetric_signatures_are_those_of_another_implementation() {
    for secret in [ASYMMETRIC, ASYMMETRIC_WITH_PUBLIC] {
        let signature = sign(&keys(&[secret]), "order-17_paid", 1_793_862_000, BODY.as_bytes());
        assert_eq!(signature, BY_ASYMMETRIC);
    }
}

#[test]
fn every_secret_signs_while_they_are_exchanged() {
    let both = sign(&keys(&[ASYMMETRIC, SYMMETRIC]), "order-17_paid", 1_793_862_000, BODY.as_bytes());
    assert_eq!(both, format!("{BY_ASYMMETRIC} {BY_SYMMETRIC}"));
}

#[test]
fn an_id_is_taken_over_or_made_but_never_ends_what_is_signed() {
    let longest = "x".repeat(255);
    for plain in ["order-17_paid", "A", &longest] {
        assert_eq!(webhook_id(plain), plain);
    }
    let too_long = "x".repeat(256);
    let mut made: Vec<String> =
        ["", "a.b", "a b", "ü", "orders/0/1/17", "a\nb", &too_long].map(webhook_id).into();
    for id in &made {
        let hash = id.strip_prefix("msg_").unwrap();
        assert!(hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    }
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 7, "no two of them are alike");
    // The first 16 bytes of the SHA-256 of `a.b`, by `sha256sum`.
    assert_eq!(webhook_id("a.b"), "msg_2e7336dc8eba87ef472df568c35482ab");
}
