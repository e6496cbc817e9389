//! The key that a client shows to a DriftQ server.

use std::fmt;

use hyper::header::HeaderValue;

use crate::Failure;

/// Where clients look for their key.
const KEY_VARIABLE: &str = "DRIFTQ_KEY";

/// A key. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(HeaderValue);

impl Key {
    /// A key as it was given out: `dq_<id>_<secret>`.
    ///
    /// # Errors
    /// If no header can carry it.
    pub fn new(key: &str) -> Result<Self, Failure> {
        let key = key.trim();
        // What it was is not repeated: it may be the secret of something else.
        let unfit = || Failure::Invalid("the key is not dq_, an id, _ and a secret".to_owned());
        if !key.starts_with("dq_") {
            return Err(unfit());
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| unfit())?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// The key in `DRIFTQ_KEY`, if there is one.
    ///
    /// # Errors
    /// If no header can carry it.
    pub fn from_environment() -> Result<Option<Self>, Failure> {
        let key = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.trim().is_empty());
        key.map(|key| Self::new(&key)).transpose()
    }

    /// The value of the header that shows it.
    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed() {
        let key = Key::new(" dq_1_secret\n").unwrap();
        assert!(!format!("{key:?} {:?}", key.header()).contains("secret"));
        for text in ["", "secret", "dq_1_\u{1}secret"] {
            let refused = Key::new(text).unwrap_err().to_string();
            assert!(!refused.contains("\u{1}secret"), "{refused}");
        }
    }
}
