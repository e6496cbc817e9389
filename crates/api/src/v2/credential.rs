//! Credentials of an attempt: short-lived, signed, and dead as soon as the attempt is.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::limits::{AUDIENCE_BYTES_MAX, CREDENTIAL_BYTES_MAX, CREDENTIAL_TTL_MS_MAX, TOKEN_BYTES_MAX};
use super::read::{self, number, text};
use crate::fault::Fault;
use crate::moment::Moment;

/// `POST /v2/leases/credential`: a credential of the delivery on loan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialRequest<'a> {
    /// The token of the delivery.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    pub token: Cow<'a, str>,
    /// For whom it is: the service that will be shown it.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, AUDIENCE_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 512)]
    pub audience: Cow<'a, str>,
    /// How long it is good for: never longer than the lease; for as long as the lease, and at most an hour, if not
    /// given.
    #[serde(
        default,
        deserialize_with = "number::optional::<_, _, 1000, CREDENTIAL_TTL_MS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 1000, maximum = 3_600_000)]
    pub ttl_ms: Option<u64>,
}

impl<'a> CredentialRequest<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To `POST /v2/leases/credential`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Credential<'a> {
    /// The credential: a JSON Web Token, signed with ES256.
    pub credential: Cow<'a, str>,
    /// When it ends.
    pub expires_at: Moment,
}

/// Never shows the credential, whatever asks for its text.
impl std::fmt::Debug for Credential<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Credential").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// `POST /v2/introspect`: whether a credential is still good.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Introspect<'a> {
    /// The credential.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, CREDENTIAL_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 32768)]
    pub token: Cow<'a, str>,
}

impl<'a> Introspect<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

/// To `POST /v2/introspect`, in the words of RFC 7662. What is not active says no more than that.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Introspected {
    /// Whether its delivery is the newest of its message, its lease live, and its own time not over.
    pub active: bool,
    /// Who signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// Whom it stands for: tenant, topic, group, message and attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    /// For whom it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aud: Option<String>,
    /// When it ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<u64>,
    /// When it was made, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat: Option<u64>,
    /// From when on it is good, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    /// Names the delivery and the audience: the same for every credential of an attempt for one audience.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
    /// Whose the message is, if it is a tenant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The run that the message belongs to, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The step within the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The message: `topic/incarnation/partition/offset` of where it was born.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Which delivery of it to the group, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The run of the broker that handed it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Rises, as a text, with every delivery of the message: who stores the highest one can refuse those below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<String>,
}

impl From<Claims> for Introspected {
    fn from(claims: Claims) -> Self {
        Self {
            active: true,
            iss: Some(claims.iss),
            sub: Some(claims.sub),
            aud: Some(claims.aud),
            exp: Some(claims.exp),
            iat: Some(claims.iat),
            nbf: Some(claims.nbf),
            jti: Some(claims.jti),
            tenant: claims.tenant,
            topic: Some(claims.topic),
            group: Some(claims.group),
            run: claims.run,
            step: claims.step,
            message: Some(claims.message),
            attempt: Some(claims.attempt),
            epoch: Some(claims.epoch),
            fence: Some(claims.fence),
        }
    }
}

/// What a credential says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Claims {
    /// Who signed it.
    pub iss: String,
    /// Whom it stands for: tenant, topic, group, message and attempt.
    pub sub: String,
    /// For whom it is.
    pub aud: String,
    /// When it ends, in seconds since 1970.
    pub exp: u64,
    /// When it was made, in seconds since 1970.
    pub iat: u64,
    /// From when on it is good, in seconds since 1970.
    pub nbf: u64,
    /// Names the delivery and the audience: the same for every credential of an attempt for one audience.
    pub jti: String,
    /// Whose the message is, if it is a tenant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The topic.
    pub topic: String,
    /// The group.
    pub group: String,
    /// The run that the message belongs to, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The step within the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The message: `topic/incarnation/partition/offset` of where it was born.
    pub message: String,
    /// Which delivery of it to the group, counted from 1.
    pub attempt: u32,
    /// The run of the broker that handed it out.
    pub epoch: u64,
    /// Rises, as a text, with every delivery of the message: who stores the highest one can refuse those below.
    pub fence: String,
}

/// To `GET /.well-known/openid-configuration`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenIdConfiguration {
    /// Who signs.
    pub issuer: String,
    /// Where the keys are.
    pub jwks_uri: String,
    /// `id_token`
    pub response_types_supported: Vec<String>,
    /// `public`
    pub subject_types_supported: Vec<String>,
    /// `ES256`
    pub id_token_signing_alg_values_supported: Vec<String>,
    /// What a credential says.
    pub claims_supported: Vec<String>,
}

/// To `GET /.well-known/jwks.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonWebKeys {
    /// The key that signs, the one before and the one after.
    pub keys: Vec<JsonWebKey>,
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JsonWebKey {
    /// `EC`
    pub kty: String,
    /// `P-256`
    pub crv: String,
    /// `sig`
    #[serde(rename = "use")]
    pub usage: String,
    /// `ES256`
    pub alg: String,
    /// Names it.
    pub kid: String,
    /// Its first coordinate.
    pub x: String,
    /// Its second coordinate.
    pub y: String,
}
