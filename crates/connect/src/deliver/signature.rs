//! Standard Webhooks 1.0: who a webhook is from, and that it was not changed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use sha2::{Digest as _, Sha256};

use crate::secret::SigningKey;

/// The header with the id of the webhook, the same in every attempt.
pub const ID_HEADER: &str = "webhook-id";
/// The header with the moment of this attempt, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header with the signatures, one per secret.
pub const SIGNATURE_HEADER: &str = "webhook-signature";
/// Longest id that is taken over as it is.
const ID_BYTES_MAX: usize = 255;
/// What an id begins with that had to be made from the delivery's.
const ID_PREFIX: &str = "msg_";
/// Bytes of a hash in an id.
const ID_HASH_BYTES: usize = 16;

/// The id of a delivery for its receiver. It has no dot, which would end it within what is signed.
#[must_use]
pub fn webhook_id(delivery_id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !delivery_id.is_empty() && delivery_id.len() <= ID_BYTES_MAX && delivery_id.bytes().all(is_plain) {
        return delivery_id.to_owned();
    }
    format!("{ID_PREFIX}{}", short_hash(&[delivery_id.as_bytes()]))
}

/// The first 16 bytes of a SHA-256, in hex.
pub(super) fn short_hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            // No name has this byte in it, so no two lists of names, with or without a body, are alike.
            hash.update([0]);
        }
        hash.update(part);
    }
    hash.finalize().iter().take(ID_HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The signatures of a webhook, one per key and in their order, with a blank between them.
#[must_use]
pub fn sign(keys: &[SigningKey], id: &str, timestamp: i64, body: &[u8]) -> String {
    let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
    let signatures: Vec<String> = keys
        .iter()
        .map(|key| match key {
            SigningKey::Symmetric(key) => format!("v1,{}", STANDARD.encode(hmac::sign(key, &signed))),
            SigningKey::Asymmetric(pair) => format!("v1a,{}", STANDARD.encode(pair.sign(&signed))),
        })
        .collect();
    signatures.join(" ")
}
