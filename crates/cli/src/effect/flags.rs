//! What flags say about an effect: on which terms it is begun or taken again, and what came of it.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{EffectGet, EffectReacquire, EffectResult, EffectStatus, Headers, OnLapse};

use crate::parse::{self, span};
use crate::{Choice, Choices, Exit, Fault, ack::OWNER, client::fresh_id, file};

/// What becomes of an effect whose lease lapses without an outcome.
pub(super) const ON_LAPSE: Choices<OnLapse> = &[
    ("hold", "It becomes unknown, until an operator resolves it", OnLapse::Hold),
    ("retry", "The next begin carries it out again: for what may safely happen twice", OnLapse::Retry),
];

#[derive(clap::Args)]
pub(crate) struct Terms {
    /// What is asked for, as a hash of your own: another one under the same key is refused
    #[arg(long, value_name = "HASH", conflicts_with = "request_file")]
    pub(super) request_hash: Option<String>,
    /// What is asked for, as a file: its BLAKE3 hash is sent, as `blake3:HEX`; `-` is stdin
    #[arg(long, value_name = "PATH")]
    pub(super) request_file: Option<String>,
    /// How long it is yours unless you renew it; what the server says if not given
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub(super) lease: Option<u64>,
    /// How long the outcome is remembered once it is there; what the server says if not given
    #[arg(long, value_name = "DURATION", value_parser = span)]
    pub(super) ttl: Option<u64>,
    /// What becomes of it if the lease lapses without an outcome
    #[arg(long, value_parser = Choice(ON_LAPSE), default_value = "hold", value_name = "WHAT")]
    pub(super) on_lapse: OnLapse,
    /// Most attempts; no cap if not given
    #[arg(long, value_name = "N")]
    pub(super) max_attempts: Option<u32>,
    /// The token of a message's lease: the next holder of the message fences this effect off
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(super) lease_token: Option<String>,
    /// Names this call: the same name again prints the same lease
    #[arg(long, value_name = "ID")]
    pub(super) request_id: Option<String>,
    /// Your name
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, default_value = OWNER)]
    pub(super) owner: String,
}

impl Terms {
    /// The call that asks for it. What the two calls do not share is left as it is by default.
    pub(super) fn request<'a>(&'a self, identity: &'a super::Identity) -> Result<EffectReacquire<'a>> {
        let EffectGet { tenant_id, scope, key } = identity.wire();
        Ok(EffectReacquire {
            tenant_id,
            scope,
            key,
            request_hash: self.hash()?,
            lease_ms: self.lease,
            ttl_ms: self.ttl,
            on_lapse: self.on_lapse,
            max_attempts: self.max_attempts,
            lease_token: self.lease_token.as_deref().map(Cow::Borrowed),
            // A name of our own makes it safe to ask again when an answer is lost.
            request_id: Some(
                self.request_id.as_deref().map_or_else(|| Cow::Owned(fresh_id()), Cow::Borrowed),
            ),
            owner: Cow::Borrowed(&self.owner),
        })
    }

    fn hash(&self) -> Result<Option<Cow<'_, str>>> {
        match (&self.request_hash, &self.request_file) {
            (Some(hash), _) => Ok(Some(Cow::Borrowed(hash))),
            (None, Some(path)) => Ok(Some(Cow::Owned(hash(&file::read("--request-file", path)?)))),
            (None, None) => Ok(None),
        }
    }
}

/// The hash of a request, with the name of the method so that it can be told from others.
fn hash(bytes: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(bytes).to_hex())
}

/// How an effect ended.
pub(crate) const STATUSES: Choices<EffectStatus> = &[
    ("succeeded", "It happened, and is never carried out again", EffectStatus::Succeeded),
    ("failed-final", "It did not happen and never will", EffectStatus::FailedFinal),
    ("failed-retryable", "It did not happen, and may be tried again", EffectStatus::FailedRetryable),
];

#[derive(clap::Args)]
pub(crate) struct Ending {
    /// How it ended
    #[arg(long, value_parser = Choice(STATUSES), ignore_case = true)]
    status: EffectStatus,
    /// A number of your own, such as an HTTP status or an exit code
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    code: Option<i32>,
    /// A small fact beside the body; can be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::pair)]
    header: Vec<(String, String)>,
    /// The result, as text
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// The result, as the bytes of a file; `-` is stdin
    #[arg(long, value_name = "PATH")]
    body_file: Option<String>,
    /// Why it failed
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    error: String,
}

impl Ending {
    /// As the server takes it.
    pub(crate) fn read(&self) -> Result<EffectResult<'_>> {
        let pairs = self.header.iter().map(|(name, value)| (Cow::Borrowed(&**name), Cow::Borrowed(&**value)));
        let headers = Headers::new(pairs.collect())
            .map_err(|why| Fault::new(Exit::Usage, format!("--header: {why}")))?;
        let body = match (&self.body, &self.body_file) {
            (Some(text), _) => Some(Cow::Borrowed(text.as_bytes())),
            (None, Some(path)) => Some(Cow::Owned(file::read("--body-file", path)?)),
            (None, None) => None,
        };
        let error = Cow::Borrowed(&*self.error);
        Ok(EffectResult { status: self.status, code: self.code, headers, body, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_names_its_method() {
        let of_nothing = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(hash(b""), of_nothing);
        assert_ne!(hash(b"charge 5"), of_nothing);
    }
}
