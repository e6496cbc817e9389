//! Secrets of endpoints: where they are read from, how they are sealed for the log, and that no text shows them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet::{STANDARD as STANDARD_ALPHABET, URL_SAFE as URL_SAFE_ALPHABET};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::signature::Ed25519KeyPair;
use serde::{Deserialize, Serialize};

/// The environment variable with the key that seals secrets, in base64.
pub const KEY_VARIABLE: &str = "DRIFTQ_SECRETS_KEY";
/// The environment variable that names a file with that key.
pub const KEY_FILE_VARIABLE: &str = "DRIFTQ_SECRETS_KEY_FILE";
/// Bytes of the key that seals secrets.
pub const KEY_BYTES: usize = 32;
/// Largest secret.
pub const SECRET_BYTES_MAX: usize = 4096;
/// Least and most bytes of a signing secret, as Standard Webhooks has it.
const SIGNING_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// What a symmetric signing secret begins with.
const SYMMETRIC_PREFIX: &str = "whsec_";
/// What an asymmetric signing key begins with.
const ASYMMETRIC_PREFIX: &str = "whsk_";
/// Bytes of the seed of an ed25519 key; the public key may follow it.
const SEED_BYTES: usize = 32;

/// With or without padding: people copy secrets from where both are found.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD_ALPHABET, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE_ALPHABET, LENIENT);

/// Why a secret cannot be used. No text has any part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// There is no such variable.
    #[error("the environment variable {0} with a secret is not set; set it for the process that delivers")]
    NoVariable(String),
    /// The file cannot be read.
    #[error(
        "the file {path} with a secret cannot be read ({error}); put it there for the process that delivers"
    )]
    File {
        /// Which file.
        path: String,
        /// What the system said.
        error: io::Error,
    },
    /// It has too many bytes, or none.
    #[error("a secret must have 1 to {SECRET_BYTES_MAX} bytes of UTF-8")]
    Size,
    /// There is no key to seal or open with.
    #[error(
        "a sealed secret needs the key of this installation: set {KEY_VARIABLE} or {KEY_FILE_VARIABLE} \
         (make one with `head -c 32 /dev/urandom | base64`)"
    )]
    NoKey,
    /// The key is not one.
    #[error("the key in {KEY_VARIABLE} or {KEY_FILE_VARIABLE} must be {KEY_BYTES} bytes in base64")]
    BadKey,
    /// It was sealed with another key, for another endpoint, or was changed.
    #[error(
        "the sealed secret does not open: it was sealed with another key or for another endpoint; set it again"
    )]
    Sealed,
    /// The system has no randomness.
    #[error("the system has no randomness to seal a secret with: {0}")]
    Randomness(getrandom::Error),
    /// The process is ending.
    #[error("the secret could not be read, because the process is ending")]
    Interrupted,
    /// It is no signing secret.
    #[error(
        "a signing secret must be {SYMMETRIC_PREFIX} and 24 to 64 bytes in base64, or {ASYMMETRIC_PREFIX} and an \
         ed25519 key (32 or 64 bytes) in base64"
    )]
    NotSigning,
}

/// Where a secret is found.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// In this environment variable of the process that delivers.
    Env(String),
    /// In this file on the machine that delivers; a line break at its end does not belong to it.
    File(PathBuf),
    /// Here, sealed for its endpoint.
    Sealed(String),
}

impl Secret {
    /// The one that an endpoint names; `None` if it names none, which no server stores.
    #[must_use]
    pub fn named(named: &driftq_client::wire::Secret) -> Option<Self> {
        let env = named.env.clone().map(Self::Env);
        let file = || named.file.as_ref().map(|path| Self::File(path.into()));
        env.or_else(file).or_else(|| named.sealed.clone().map(Self::Sealed))
    }

    /// Reads it, anew every time: a secret that was exchanged counts from then on.
    ///
    /// # Errors
    /// If it is not there, or does not open.
    pub fn read(&self, endpoint: &str, key: Option<&SealingKey>) -> Result<Plain, SecretError> {
        match self {
            Self::Env(name) => {
                let value = std::env::var(name).map_err(|_| SecretError::NoVariable(name.clone()))?;
                Plain::new(value)
            }
            Self::File(path) => Plain::new(read_file(path)?),
            Self::Sealed(text) => key.ok_or(SecretError::NoKey)?.open(endpoint, text),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "Env({name})"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Sealed(_) => f.write_str("Sealed(…)"),
        }
    }
}

fn read_file(path: &Path) -> Result<String, SecretError> {
    let mut text = String::new();
    let opened = File::open(path);
    // One byte more than it may have, so that one that is too long is noticed.
    let read = opened.and_then(|file| file.take(SECRET_BYTES_MAX as u64 + 3).read_to_string(&mut text));
    read.map_err(|error| SecretError::File { path: path.display().to_string(), error })?;
    let cut = text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
    Ok(cut.to_owned())
}

/// A secret in the clear. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Plain(String);

impl Plain {
    /// A secret of this text.
    ///
    /// # Errors
    /// If it is empty or too long.
    pub fn new(text: impl Into<String>) -> Result<Self, SecretError> {
        let text = text.into();
        if text.is_empty() || text.len() > SECRET_BYTES_MAX {
            return Err(SecretError::Size);
        }
        Ok(Self(text))
    }

    /// The text, for whoever has to send it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain(…)")
    }
}

/// The key that seals secrets: ChaCha20-Poly1305, bound to the name of the endpoint.
#[derive(Clone)]
pub struct SealingKey(LessSafeKey);

impl SealingKey {
    /// From 32 bytes in base64.
    ///
    /// # Errors
    /// If it is something else.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let bytes = decode(text.trim()).ok_or(SecretError::BadKey)?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| SecretError::BadKey)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// The key that the environment has or names, if it does.
    ///
    /// # Errors
    /// If what it has or names is no key.
    pub fn from_environment() -> Result<Option<Self>, SecretError> {
        let given = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(text) = given(KEY_VARIABLE) {
            return Self::parse(&text).map(Some);
        }
        given(KEY_FILE_VARIABLE).map(|path| Self::parse(&read_file(Path::new(&path))?)).transpose()
    }

    /// Seals a secret for an endpoint.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn seal(&self, endpoint: &str, secret: &Plain) -> Result<String, SecretError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(SecretError::Randomness)?;
        let mut sealed = secret.expose().as_bytes().to_vec();
        let bound_to = Aad::from(endpoint.as_bytes());
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound_to, &mut sealed)
            .map_err(|_| SecretError::Size)?;
        Ok(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Opens what was sealed for this endpoint.
    ///
    /// # Errors
    /// If it was sealed with another key or for another endpoint, or was changed.
    pub fn open(&self, endpoint: &str, sealed: &str) -> Result<Plain, SecretError> {
        let mut bytes = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| SecretError::Sealed)?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN).ok_or(SecretError::Sealed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SecretError::Sealed)?;
        let bound_to = Aad::from(endpoint.as_bytes());
        let opened = self.0.open_in_place(nonce, bound_to, sealed).map_err(|_| SecretError::Sealed)?;
        Plain::new(String::from_utf8(opened.to_vec()).map_err(|_| SecretError::Sealed)?)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(…)")
    }
}

/// What signs webhooks.
pub enum SigningKey {
    /// `whsec_…`: HMAC-SHA256, shared with the receiver.
    Symmetric(hmac::Key),
    /// `whsk_…`: ed25519, whose public key the receiver has.
    Asymmetric(Box<Ed25519KeyPair>),
}

impl SigningKey {
    /// Reads a signing secret in its usual form.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(secret: &Plain) -> Result<Self, SecretError> {
        let text = secret.expose();
        if let Some(text) = text.strip_prefix(SYMMETRIC_PREFIX) {
            let bytes = decode(text).filter(|bytes| SIGNING_BYTES.contains(&bytes.len()));
            let bytes = bytes.ok_or(SecretError::NotSigning)?;
            return Ok(Self::Symmetric(hmac::Key::new(hmac::HMAC_SHA256, &bytes)));
        }
        let bytes = text.strip_prefix(ASYMMETRIC_PREFIX).and_then(decode).ok_or(SecretError::NotSigning)?;
        let pair = match bytes.split_at_checked(SEED_BYTES) {
            Some((seed, [])) => Ed25519KeyPair::from_seed_unchecked(seed),
            // Whether the public key is that of the seed is looked at.
            Some((seed, public)) => Ed25519KeyPair::from_seed_and_public_key(seed, public),
            None => return Err(SecretError::NotSigning),
        };
        pair.map(|pair| Self::Asymmetric(Box::new(pair))).map_err(|_| SecretError::NotSigning)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Symmetric(_) => "Symmetric(…)",
            Self::Asymmetric(_) => "Asymmetric(…)",
        })
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).or_else(|_| BASE64_URL.decode(text)).ok()
}
