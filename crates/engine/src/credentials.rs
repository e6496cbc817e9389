//! Credentials of attempts: signed with keys that follow from the shard's secret, so that none has to be kept.
//!
//! A new key takes over every thirty days. The one before it still checks what it has signed, and the one after it is
//! published in advance, so that a service which reads the keys once a day never meets one that it does not know.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftq_core::{Description, LeaseView, Message, Query, Receipt, Reject, Spotted, Time, Token, TopicId};
use p256::ecdsa::signature::{Signer as _, Verifier as _};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;
use crate::locks::read;
use crate::payload_store::Extent;

/// How long one key signs: thirty days.
const PERIOD_MS: u64 = 30 * 24 * 3600 * 1000;
/// What sets these keys apart from anything else that is derived from the shard's secret.
const CONTEXT: &str = "driftq 2026-11-17 signing key of credentials";
/// Keys that are tried until one is a number below the order of the curve: all but one in 2^32 are.
const TRIES_MAX: u8 = 8;

/// A public key, as it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// Names it.
    pub id: String,
    /// Its coordinates.
    pub x: [u8; 32],
    /// See `x`.
    pub y: [u8; 32],
}

/// A delivery on loan, and what its message says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedMessage {
    /// The lease.
    pub lease: LeaseView,
    /// Which delivery.
    pub receipt: Receipt,
    /// The topic's name.
    pub topic: String,
    /// The group's name.
    pub group: String,
    /// Where the message was born: topic, incarnation, partition, offset.
    pub origin: (String, u32, u32, u64),
    /// Whose it is; may be empty.
    pub tenant: String,
    /// The run that it belongs to; may be empty.
    pub run: String,
    /// The step within the run; may be empty.
    pub step: String,
}

impl Broker {
    /// Signs the header-less part of a token: the caller's claims, as JSON. The answer is a whole JSON Web Token.
    #[must_use]
    pub fn sign_credential(&self, claims: &[u8], now: Time) -> String {
        let generation = now.0 / PERIOD_MS;
        let key = self.credential_key(generation);
        let header = format!(r#"{{"alg":"ES256","kid":"{}","typ":"JWT"}}"#, key_id(generation, &key));
        let mut token = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature: Signature = key.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.to_bytes(), &mut token);
        token
    }

    /// The claims of a token that this broker signed with one of the keys that are in force; `None` if it did not.
    #[must_use]
    pub fn verified_claims(&self, token: &str, now: Time) -> Option<Vec<u8>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (_, claims) = signed.split_once('.')?;
        let signature = Signature::from_slice(&URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        // Whatever the header says, a token is ours if one of our keys signed it in our way.
        let is_ours = |generation| {
            let key = VerifyingKey::from(&self.credential_key(generation));
            key.verify(signed.as_bytes(), &signature).is_ok()
        };
        let generation = now.0 / PERIOD_MS;
        if ![Some(generation), generation.checked_sub(1)].into_iter().flatten().any(is_ours) {
            return None;
        }
        URL_SAFE_NO_PAD.decode(claims).ok()
    }

    /// The keys by which credentials are checked: of the period before, of this one and of the next.
    #[must_use]
    pub fn credential_keys(&self, now: Time) -> Vec<PublicKey> {
        let generation = now.0 / PERIOD_MS;
        (generation.saturating_sub(1)..=generation + 1)
            .map(|generation| {
                let key = self.credential_key(generation);
                let (x, y) = coordinates(&key);
                PublicKey { id: key_id(generation, &key), x, y }
            })
            .collect()
    }

    fn credential_key(&self, generation: u64) -> SigningKey {
        let secret = self.house().seal.secret();
        for attempt in 0..TRIES_MAX {
            let mut material = [0; 41];
            material[..32].copy_from_slice(&secret);
            material[32..40].copy_from_slice(&generation.to_le_bytes());
            material[40] = attempt;
            if let Ok(key) = SigningKey::from_slice(&blake3::derive_key(CONTEXT, &material)) {
                return key;
            }
        }
        unreachable!(
            "eight numbers of 256 bits in a row are above the order of the curve once in 2^256 secrets"
        )
    }

    /// A delivery on loan, if its lease is the newest of its message and live.
    pub async fn live_lease(&self, receipt: Receipt) -> Result<LeaseView, Failure> {
        match self.at(receipt.topic).describe(Query::Lease(receipt)).await? {
            Description::Lease(lease) => lease.map_err(Failure::Reject),
            other => Err(unexpected(&other)),
        }
    }

    /// The same, with what its message says about itself.
    pub async fn leased_message(&self, receipt: Receipt) -> Result<LeasedMessage, Failure> {
        let lease = self.live_lease(receipt).await?;
        let payload = match self.at(receipt.topic).describe(Query::Payloads(vec![lease.message])).await? {
            Description::Payloads(lie) => lie.into_iter().next().flatten(),
            other => return Err(unexpected(&other)),
        };
        let attempt = lease.attempt;
        let gone = || Failure::Reject(Reject::LeaseStale(Some(attempt)));
        let blob = payload.ok_or_else(gone)?;
        let extent = Extent { position: blob.position, length: blob.length, check: blob.check };
        let bytes = self.at(receipt.topic).payload_store.fetch(extent).await.map_err(|_| gone())?;
        let message = Message::decode(&bytes).map_err(|_| gone())?;
        let topic = self.name_of(receipt.topic).ok_or_else(gone)?;
        let Spotted { partition, offset, .. } = lease.message;
        let origin = match &message.origin {
            Some(born) => (born.topic.to_string(), born.incarnation.0, born.partition, born.offset),
            None => (topic.clone(), receipt.topic.0, partition, offset),
        };
        let envelope = message.envelope.unwrap_or_default();
        let owner = read(&self.house().catalog).find(&topic).and_then(|info| info.tenant.clone());
        let tenant = Some(envelope.tenant_id.to_string()).filter(|tenant| !tenant.is_empty());
        Ok(LeasedMessage {
            group: lease.group.to_string(),
            lease,
            receipt,
            topic,
            origin,
            tenant: tenant.or_else(|| owner.map(|owner| owner.to_string())).unwrap_or_default(),
            run: envelope.run_id.to_string(),
            step: envelope.step_id.to_string(),
        })
    }

    fn name_of(&self, topic: TopicId) -> Option<String> {
        read(&self.house().catalog).name(topic).map(ToString::to_string)
    }
}

/// A delivery as a credential names it: enough to find it, and not enough to settle it.
#[must_use]
pub fn named_receipt(receipt: &Receipt) -> String {
    let Receipt { topic, group, partition, offset, token } = receipt;
    format!("{}.{}.{partition}.{offset}.{}.{}", topic.0, group.0, token.epoch, token.n)
}

/// The delivery that a credential names.
#[must_use]
pub fn receipt_named(name: &str) -> Option<Receipt> {
    let mut numbers = name.split('.').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let short = |number: u64| u32::try_from(number).ok();
    let receipt = Receipt {
        topic: TopicId(short(next()?)?),
        group: driftq_core::GroupId(short(next()?)?),
        partition: short(next()?)?,
        offset: next()?,
        token: Token { epoch: next()?, n: next()? },
    };
    numbers.next().is_none().then_some(receipt)
}

fn coordinates(key: &SigningKey) -> ([u8; 32], [u8; 32]) {
    let point = VerifyingKey::from(key).to_sec1_point(false);
    let coordinate = |bytes: Option<&p256::FieldBytes>| bytes.map_or([0; 32], |bytes| (*bytes).into());
    (coordinate(point.x()), coordinate(point.y()))
}

/// Names a key by its period and by what it is, so that no two keys of two brokers have one name.
fn key_id(generation: u64, key: &SigningKey) -> String {
    let (x, y) = coordinates(key);
    let hash = blake3::hash(&[x, y].concat());
    format!("{generation}-{}", &hash.to_hex()[..8])
}
