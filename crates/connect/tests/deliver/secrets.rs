//! Secrets: found where they are said to be, sealed for one endpoint, and never shown.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use driftq_connect::secret::{Plain, SealingKey, Secret, SecretError, SigningKey};

fn key(byte: u8) -> SealingKey {
    SealingKey::parse(&STANDARD.encode([byte; 32])).unwrap()
}

fn plain(text: &str) -> Plain {
    Plain::new(text).unwrap()
}

#[test]
fn a_sealed_secret_opens_for_its_endpoint_with_its_key_and_not_otherwise() {
    let sealed = key(1).seal("orders", &plain("whsec_5")).unwrap();
    assert_eq!(key(1).open("orders", &sealed).unwrap().expose(), "whsec_5");
    let is_shut = |outcome: Result<Plain, SecretError>| matches!(outcome, Err(SecretError::Sealed));
    assert!(is_shut(key(1).open("invoices", &sealed)), "another endpoint");
    assert!(is_shut(key(2).open("orders", &sealed)), "another key");
    let mut bytes = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
    for place in 0..bytes.len() {
        bytes[place] ^= 1;
        assert!(is_shut(key(1).open("orders", &URL_SAFE_NO_PAD.encode(&bytes))), "byte {place} was changed");
        bytes[place] ^= 1;
    }
    for cut in 0..bytes.len() {
        assert!(is_shut(key(1).open("orders", &URL_SAFE_NO_PAD.encode(&bytes[..cut]))), "cut to {cut}");
    }
    assert!(is_shut(key(1).open("orders", "not base64!")));
}

#[test]
fn no_two_seals_are_alike() {
    let seal = || key(1).seal("orders", &plain("secret")).unwrap();
    assert_ne!(seal(), seal());
}

#[test]
fn a_key_is_32_bytes_in_base64() {
    for bytes in [0, 16, 31, 33, 64] {
        let text = STANDARD.encode(vec![7; bytes]);
        assert!(matches!(SealingKey::parse(&text), Err(SecretError::BadKey)), "{bytes}");
    }
    assert!(SealingKey::parse("%").is_err());
    assert!(SealingKey::parse(&format!("{}\n", STANDARD.encode([7; 32]))).is_ok());
}

#[test]
fn a_secret_is_read_from_where_it_is_said_to_be() {
    let read = |secret: &Secret| secret.read("orders", Some(&key(1)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, "from a file\r\n").unwrap();
    assert_eq!(read(&Secret::File(path.clone())).unwrap().expose(), "from a file");
    std::fs::write(&path, "x".repeat(4097)).unwrap();
    assert!(matches!(read(&Secret::File(path)), Err(SecretError::Size)));
    let missing = Secret::File(folder.path().join("missing"));
    assert!(matches!(read(&missing), Err(SecretError::File { .. })));
    // Cargo sets this one for every test.
    let found = read(&Secret::Env("CARGO_MANIFEST_DIR".to_owned())).unwrap();
    assert_eq!(found.expose(), env!("CARGO_MANIFEST_DIR"));
    let missing = Secret::Env("DRIFTQ_NO_SUCH_SECRET".to_owned());
    assert!(matches!(read(&missing), Err(SecretError::NoVariable(_))));
    let sealed = Secret::Sealed(key(1).seal("orders", &plain("sealed")).unwrap());
    assert_eq!(read(&sealed).unwrap().expose(), "sealed");
    assert!(matches!(sealed.read("orders", None), Err(SecretError::NoKey)));
}

#[test]
fn secrets_have_the_form_of_the_contract() {
    let secrets = r#"[{"env":"NAME"},{"file":"/run/secret"},{"sealed":"AAAA"}]"#;
    let read: Vec<Secret> = serde_json::from_str(secrets).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), secrets);
    assert!(serde_json::from_str::<Secret>(r#"{"value":"in the clear"}"#).is_err());
}

#[test]
fn nothing_shows_a_secret() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let sealed = key(1).seal("orders", &plain(secret)).unwrap();
    let shown = [
        format!("{:?}", plain(secret)),
        format!("{:?}", key(1)),
        format!("{:?}", SigningKey::parse(&plain(secret)).unwrap()),
        format!("{:?}", Secret::Sealed(sealed.clone())),
        SigningKey::parse(&plain("MfKQ9r8GKYqr")).unwrap_err().to_string(),
        key(2).open("orders", &sealed).unwrap_err().to_string(),
    ];
    for text in shown {
        assert!(!text.contains("MfKQ") && !text.contains(&sealed), "{text}");
    }
}

#[test]
fn signing_secrets_have_the_sizes_of_the_standard() {
    let is_one = |prefix: &str, bytes: usize| {
        let text = format!("{prefix}{}", STANDARD.encode(vec![9; bytes]));
        SigningKey::parse(&plain(&text)).is_ok()
    };
    for (prefix, bytes, expected) in [
        ("whsec_", 23, false),
        ("whsec_", 24, true),
        ("whsec_", 64, true),
        ("whsec_", 65, false),
        ("whsk_", 31, false),
        ("whsk_", 32, true),
        ("whsk_", 33, false),
        // The second half is not the public key of the first.
        ("whsk_", 64, false),
        ("whpk_", 32, false),
        ("", 32, false),
    ] {
        assert_eq!(is_one(prefix, bytes), expected, "{prefix} {bytes}");
    }
    assert!(SigningKey::parse(&plain("whsec_ü")).is_err());
}
