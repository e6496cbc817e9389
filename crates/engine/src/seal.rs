//! Tokens as they leave the broker: opaque, and made by the broker alone.

use std::sync::RwLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftq_core::{EffectReceipt, GroupId, Receipt, Token, TopicId};

use crate::locks::{read, write};

/// A receipt as bytes.
const BODY_BYTES: usize = 36;
/// What proves that the broker wrote it. No caller guesses 96 bits by asking.
const TAG_BYTES: usize = 12;
const SEALED_BYTES: usize = BODY_BYTES + TAG_BYTES;
/// A lease of an effect as bytes.
const EFFECT_BYTES: usize = 12;
const SEALED_EFFECT_BYTES: usize = EFFECT_BYTES + TAG_BYTES;

/// Seals receipts with the shard's secret.
#[derive(Debug, Default)]
pub(crate) struct Seal {
    secret: RwLock<[u8; 32]>,
}

impl Seal {
    /// Uses this secret from now on.
    pub(crate) fn set(&self, secret: &[u8; 32]) {
        *write(&self.secret) = *secret;
    }

    /// The secret in use.
    pub(crate) fn secret(&self) -> [u8; 32] {
        *read(&self.secret)
    }

    /// The token of a receipt.
    pub(crate) fn seal(&self, receipt: &Receipt) -> String {
        let mut bytes = [0; SEALED_BYTES];
        bytes[0..4].copy_from_slice(&receipt.topic.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&receipt.group.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&receipt.partition.to_le_bytes());
        bytes[12..20].copy_from_slice(&receipt.offset.to_le_bytes());
        bytes[20..28].copy_from_slice(&receipt.token.epoch.to_le_bytes());
        bytes[28..36].copy_from_slice(&receipt.token.n.to_le_bytes());
        let proof = self.proof(&bytes[..BODY_BYTES]);
        bytes[BODY_BYTES..].copy_from_slice(&proof);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The receipt of a token; `None` if it is not one of ours.
    pub(crate) fn open(&self, token: &str) -> Option<Receipt> {
        let body = self.opened::<SEALED_BYTES>(token)?;
        let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"));
        Some(Receipt {
            topic: TopicId(word(0)),
            group: GroupId(word(4)),
            partition: word(8),
            offset: long(12),
            token: Token { epoch: long(20), n: long(28) },
        })
    }

    /// The token of a lease of an effect. Shorter than a delivery's, so that one is never taken for the other.
    pub(crate) fn seal_effect(&self, receipt: EffectReceipt) -> String {
        let mut bytes = [0; SEALED_EFFECT_BYTES];
        bytes[0..8].copy_from_slice(&receipt.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&receipt.epoch.to_le_bytes());
        let proof = self.proof(&bytes[..EFFECT_BYTES]);
        bytes[EFFECT_BYTES..].copy_from_slice(&proof);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The lease of an effect that a token names; `None` if it is not one of ours.
    pub(crate) fn open_effect(&self, token: &str) -> Option<EffectReceipt> {
        let bytes = self.opened::<SEALED_EFFECT_BYTES>(token)?;
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (epoch, _) = rest.split_first_chunk::<4>()?;
        Some(EffectReceipt { number: u64::from_le_bytes(*number), epoch: u32::from_le_bytes(*epoch) })
    }

    /// The bytes of a token of that length, if the broker wrote it.
    fn opened<const N: usize>(&self, token: &str) -> Option<[u8; N]> {
        if token.len() != N / 3 * 4 {
            return None;
        }
        let mut bytes = [0; N];
        URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok().filter(|length| *length == N)?;
        let (body, tag) = bytes.split_at(N - TAG_BYTES);
        let proof = self.proof(body);
        // Every byte is looked at, whatever the first ones say: how long it takes tells nothing.
        let differs = proof.iter().zip(tag).fold(0, |differs, (ours, theirs)| differs | (ours ^ theirs));
        (differs == 0).then_some(bytes)
    }

    fn proof(&self, body: &[u8]) -> [u8; TAG_BYTES] {
        let hash = blake3::keyed_hash(&read(&self.secret), body);
        let mut proof = [0; TAG_BYTES];
        proof.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
        proof
    }
}

/// The secret of tokens that a fuzzer begins from.
const FUZZED_SECRET: [u8; 32] = [7; 32];

/// Opens a token as a request does, and seals what was in it again; for fuzzers, which see nothing else of a seal. No
/// broker has this secret.
#[must_use]
pub fn resealed(token: &str) -> Option<String> {
    let seal = Seal::default();
    seal.set(&FUZZED_SECRET);
    let (delivery, effect) = (seal.open(token), seal.open_effect(token));
    assert!(delivery.is_none() || effect.is_none(), "a token is for one thing");
    delivery.map(|receipt| seal.seal(&receipt)).or_else(|| effect.map(|receipt| seal.seal_effect(receipt)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fuzzer_begins_from_are_tokens() {
        let (delivery, effect) = (
            include_str!("../../../fuzz/corpus/tokens/delivery"),
            include_str!("../../../fuzz/corpus/tokens/effect"),
        );
        for token in [delivery, effect] {
            assert_eq!(resealed(token).as_deref(), Some(token));
        }
        assert_ne!(delivery.len(), effect.len());
        assert_eq!(resealed(""), None);
    }

    /// Length of a delivery's token.
    const TOKEN_CHARS: usize = SEALED_BYTES / 3 * 4;

    fn receipt() -> Receipt {
        Receipt {
            topic: TopicId(3),
            group: GroupId(u32::MAX),
            partition: 7,
            offset: u64::MAX / 3,
            token: Token { epoch: 2, n: 12_345_678_901 },
        }
    }

    #[test]
    fn a_token_opens_with_the_secret_that_sealed_it_and_no_other() {
        let seal = Seal::default();
        seal.set(&[7; 32]);
        let token = seal.seal(&receipt());
        assert_eq!(token.len(), TOKEN_CHARS);
        assert_eq!(seal.open(&token), Some(receipt()));
        seal.set(&[8; 32]);
        assert_eq!(seal.open(&token), None);
    }

    #[test]
    fn the_token_of_an_effect_is_not_one_of_a_delivery() {
        let seal = Seal::default();
        seal.set(&[7; 32]);
        let lease = EffectReceipt { number: u64::MAX / 7, epoch: 9 };
        let token = seal.seal_effect(lease);
        assert_eq!((seal.open_effect(&token), seal.open(&token)), (Some(lease), None));
        assert_eq!(seal.open_effect(&seal.seal(&receipt())), None);
        let other = seal.seal_effect(EffectReceipt { epoch: 10, ..lease });
        for at in 0..token.len() {
            let mut forged = token.clone();
            forged.replace_range(at..=at, &other[at..=at]);
            assert!([&token, &other].contains(&&forged) || seal.open_effect(&forged).is_none(), "{forged}");
        }
        seal.set(&[8; 32]);
        assert_eq!(seal.open_effect(&token), None);
    }

    #[test]
    fn a_token_with_one_character_changed_is_nobodys() {
        let seal = Seal::default();
        seal.set(&[7; 32]);
        let token = seal.seal(&receipt());
        for at in 0..token.len() {
            for other in ["A", "B", "-", "=", " "] {
                let mut forged = token.clone();
                forged.replace_range(at..=at, other);
                assert!(forged == token || seal.open(&forged).is_none(), "{forged}");
            }
        }
        for nonsense in ["", "abc", &"A".repeat(TOKEN_CHARS), &"é".repeat(TOKEN_CHARS / 2)] {
            assert_eq!(seal.open(nonsense), None, "{nonsense}");
        }
    }
}
