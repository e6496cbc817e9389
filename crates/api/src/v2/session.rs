//! Sessions: how a person in front of a browser shows a key once.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use super::key::KeyAction;
use super::limits::TOKEN_BYTES_MAX;
use super::read::{self, text};
use crate::fault::Fault;
use crate::moment::Moment;

/// `POST /v2/session`: signs in with a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionSpec<'a> {
    /// The key, with its secret.
    #[serde(borrow, deserialize_with = "text::required::<_, 1, TOKEN_BYTES_MAX>")]
    #[schema(min_length = 1, max_length = 128)]
    pub key: Cow<'a, str>,
}

impl<'a> SessionSpec<'a> {
    /// From a JSON body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Fault> {
        read::object(body)
    }
}

impl std::fmt::Debug for SessionSpec<'_> {
    /// Without the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SessionSpec").finish_non_exhaustive()
    }
}

/// To `POST` and `GET /v2/session`: who the caller is, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session<'a> {
    /// Whether this server asks for keys.
    pub keys_required: bool,
    /// Who asks, as the audit names them: `anybody`, `root`, or `key:` and an id.
    pub actor: Cow<'a, str>,
    /// What people wrote on the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What the caller may do.
    pub actions: Vec<KeyAction>,
    /// With which topics; all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// As which tenants; all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<String>>,
    /// When the key ends, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
}
