//! Dead letters by what killed them.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// To `GET /v2/dlq/{topic}/causes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Causes<'a> {
    /// Causes, that of the most letters first.
    pub causes: Vec<Cause<'a>>,
    /// Letters that were looked at.
    pub scanned: u64,
    /// Whether there are letters that were not looked at, or causes that are not listed: there are too many.
    pub more: bool,
}

/// What killed some messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cause<'a> {
    /// The last error, with `#` in the place of numbers and of what is named by eight hexadecimal digits or more; cut
    /// after 160 characters. The reason, if there was no error.
    pub cause: Cow<'a, str>,
    /// How many died of it.
    pub letters: u64,
    /// When the first of these died.
    pub first_at: Moment,
    /// When the last of these died.
    pub last_at: Moment,
}
