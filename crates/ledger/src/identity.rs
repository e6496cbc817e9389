//! What names an effect: whose it is, of what kind, which one.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Most bytes of a principal, a method or a key.
pub const IDENTITY_BYTES_MAX: usize = 255;

/// What names an effect: the principal on whose behalf it happens, the method that does it, and the key that the
/// caller chose. No two effects share all three.
///
/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    principal: Arc<str>,
    method: Arc<str>,
    key: Arc<str>,
}

impl Identity {
    /// Blanks around each part are dropped. What is left has 1 to 255 bytes and no control characters, and the
    /// principal is not `unknown`.
    pub fn new(principal: &str, method: &str, key: &str) -> Result<Self, IdentityError> {
        let principal = checked(Part::Principal, principal)?;
        // The word that a missing user is logged as: all callers without a name would share one set of keys.
        if principal.eq_ignore_ascii_case("unknown") {
            return Err(IdentityError::Nobody);
        }
        Ok(Self { principal, method: checked(Part::Method, method)?, key: checked(Part::Key, key)? })
    }

    /// On whose behalf.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// What kind of effect: a gRPC method, a route, the name of a tool.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Which one.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.principal, self.method, self.key)
    }
}

/// A part of an [`Identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// On whose behalf.
    Principal,
    /// What kind.
    Method,
    /// Which one.
    Key,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Principal => "principal",
            Self::Method => "method",
            Self::Key => "key",
        })
    }
}

/// Why three texts name no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// Nothing but blanks.
    #[error("the {0} is empty; an effect has a principal, a method and a key")]
    Empty(Part),
    /// More than [`IDENTITY_BYTES_MAX`].
    #[error("the {part} has {bytes} bytes, more than {IDENTITY_BYTES_MAX}; hash what is longer")]
    TooLong {
        /// Which part.
        part: Part,
        /// How many it has.
        bytes: usize,
    },
    /// A control character.
    #[error("the {0} has a control character in it")]
    Control(Part),
    /// The principal is the word for "no principal".
    #[error("the principal is \"unknown\": callers without a name would answer each other's requests")]
    Nobody,
}

fn checked(part: Part, text: &str) -> Result<Arc<str>, IdentityError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(IdentityError::Empty(part));
    }
    if text.len() > IDENTITY_BYTES_MAX {
        return Err(IdentityError::TooLong { part, bytes: text.len() });
    }
    if text.chars().any(char::is_control) {
        return Err(IdentityError::Control(part));
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_a_part_do_not_count() {
        let identity = Identity::new(" ann ", "\tPOST /pay\n", "  k 1 ").unwrap();
        assert_eq!((identity.principal(), identity.method(), identity.key()), ("ann", "POST /pay", "k 1"));
        assert_eq!(identity, Identity::new("ann", "POST /pay", "k 1").unwrap());
        assert_eq!(identity.to_string(), "ann POST /pay k 1");
    }

    #[test]
    fn what_names_nobody_or_nothing_is_refused() {
        let long = "x".repeat(256);
        for (principal, method, key, error) in [
            ("", "m", "k", IdentityError::Empty(Part::Principal)),
            ("  ", "m", "k", IdentityError::Empty(Part::Principal)),
            ("unknown", "m", "k", IdentityError::Nobody),
            (" Unknown ", "m", "k", IdentityError::Nobody),
            ("p", " ", "k", IdentityError::Empty(Part::Method)),
            ("p", "m", "\t", IdentityError::Empty(Part::Key)),
            ("p", "m", long.as_str(), IdentityError::TooLong { part: Part::Key, bytes: 256 }),
            (long.as_str(), "m", "k", IdentityError::TooLong { part: Part::Principal, bytes: 256 }),
            ("p", "m", "a\0b", IdentityError::Control(Part::Key)),
            ("p", "m\u{85}m", "k", IdentityError::Control(Part::Method)),
        ] {
            assert_eq!(Identity::new(principal, method, key), Err(error));
        }
        assert!(Identity::new(&"x".repeat(255), "m", &format!(" {} ", "ä".repeat(127))).is_ok());
        assert!(Identity::new("unknown-7", "unknown", "unknown").is_ok(), "only a principal can be missing");
    }
}
