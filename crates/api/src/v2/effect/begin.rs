//! Beginning an effect.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{OnLapse, is_false, on_lapse};
use crate::fault::Fault;
use crate::v2::limits::{
    DURATION_MS_MAX, EFFECT_ATTEMPTS_MAX, EFFECT_HASH_BYTES_MAX, EFFECT_KEY_BYTES_MAX,
    EFFECT_LINEAGE_BYTES_MAX, EFFECT_REQUEST_ID_BYTES_MAX, EFFECT_SCOPE_BYTES_MAX, EFFECT_TENANT_BYTES_MAX,
    LEASE_MS_MAX, NAME_BYTES_MAX, TOKEN_BYTES_MAX, WAIT_MS_MAX,
};
use crate::v2::read::{self, number, structure, text};

/// `POST /v2/effects/begin`: may this be done, or is it done already?
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectBegin<'a> {
    /// Whose it is; nobody's in particular if not given.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, EFFECT_TENANT_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub tenant_id: Cow<'a, str>,
    /// What kind of effect it is; keys are unique within a scope.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, EFFECT_SCOPE_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub scope: Cow<'a, str>,
    /// Which one it is.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, EFFECT_KEY_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 255)]
    pub key: Cow<'a, str>,
    /// What is asked for, as a hash: another one under the same key is refused with `KEY_REUSED`. Not given, it agrees
    /// with everything.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, EFFECT_HASH_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub request_hash: Option<Cow<'a, str>>,
    /// How long the lease lasts unless it is renewed; the server's setting if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, LEASE_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 604_800_000)]
    pub lease_ms: Option<u64>,
    /// How long the outcome is remembered, from the moment it is finished; the server's setting if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, DURATION_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 316_224_000_000_u64)]
    pub ttl_ms: Option<u64>,
    /// What becomes of it if the lease lapses without an outcome; `hold` if not given.
    #[serde(default, deserialize_with = "on_lapse")]
    #[schema(value_type = Option<OnLapse>)]
    pub on_lapse: OnLapse,
    /// Most attempts; no cap if not given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1, EFFECT_ATTEMPTS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub max_attempts: Option<u32>,
    /// Takes an effect that failed and may be tried again at once.
    #[serde(default, deserialize_with = "structure::flag", skip_serializing_if = "is_false")]
    #[schema(value_type = Option<bool>)]
    pub reacquire: bool,
    /// How long to wait for the outcome while somebody else carries it out; 0 if not given.
    #[serde(default, deserialize_with = "number::or::<_, _, 0, WAIT_MS_MAX, 0>")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 60_000)]
    pub wait_ms: u64,
    /// The token of a message's lease: ties the effect to that delivery.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, TOKEN_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 128)]
    pub lease_token: Option<Cow<'a, str>>,
    /// The run that it belongs to, where there is no `lease_token` to say so.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, EFFECT_LINEAGE_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub run_id: Option<Cow<'a, str>>,
    /// The step within the run, where there is no `lease_token` to say so.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, EFFECT_LINEAGE_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub step_id: Option<Cow<'a, str>>,
    /// Names this call: the same name again answers with the same lease, so that a lost answer loses nothing.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional::<_, 1, EFFECT_REQUEST_ID_BYTES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(min_length = 1, max_length = 255)]
    pub request_id: Option<Cow<'a, str>>,
    /// Who carries it out, for people who look.
    #[serde(
        borrow,
        default,
        deserialize_with = "text::any::<_, NAME_BYTES_MAX>",
        skip_serializing_if = "str::is_empty"
    )]
    #[schema(value_type = Option<String>, max_length = 255)]
    pub owner: Cow<'a, str>,
}

impl<'a> EffectBegin<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}
