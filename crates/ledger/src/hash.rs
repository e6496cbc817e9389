//! What was asked for, in a few bytes.

use std::fmt;

use crate::LedgerError;

/// What was asked for, as a hash with the version of the recipe it was made by. Two requests are the same if a hash of
/// one version is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHash {
    version: u16,
    digest: String,
    /// The same request by an older recipe, so that a new release recognises what the old one has begun.
    before: Option<Box<RequestHash>>,
}

/// Most bytes of a digest that a caller brings along.
pub const DIGEST_BYTES_MAX: usize = 200;

/// The version of hashes that are the caller's own.
pub const VERSION_FOREIGN: u16 = 0;

/// The version of hashes of bytes as they are.
pub const VERSION_BYTES: u16 = 1;

impl RequestHash {
    /// Of bytes as they are: a protobuf message as it came, a file. The same message may be encoded in two ways by two
    /// programs; what one program sends twice is the same.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"driftq request bytes 1\0");
        hasher.update(bytes);
        Self { version: VERSION_BYTES, digest: hasher.finalize().to_hex().to_string(), before: None }
    }

    /// A hash of the caller's own making: 1 to 200 bytes of text without control characters.
    pub fn foreign(digest: &str) -> Result<Self, LedgerError> {
        let is_fine = (1..=DIGEST_BYTES_MAX).contains(&digest.len()) && !digest.chars().any(char::is_control);
        match is_fine {
            true => Ok(Self { version: VERSION_FOREIGN, digest: digest.to_owned(), before: None }),
            false => Err(LedgerError::Invalid(format!(
                "a request hash has 1 to {DIGEST_BYTES_MAX} bytes and no control characters; this one has {}",
                digest.len()
            ))),
        }
    }

    /// Recognises requests that were hashed by an older recipe, too.
    #[must_use]
    pub fn or_before(mut self, before: Self) -> Self {
        self.before = Some(Box::new(before));
        self
    }

    /// Whether a record with this hash is about the same request.
    #[must_use]
    pub fn matches(&self, version: u16, digest: &str) -> bool {
        self.all().any(|hash| hash.version == version && hash.digest == digest)
    }

    /// This hash, and those by older recipes.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |hash| hash.before.as_deref())
    }

    /// The version of the recipe.
    #[must_use]
    pub const fn version(&self) -> u16 {
        self.version
    }

    /// The hash as text, without its version.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl fmt::Display for RequestHash {
    /// Version and digest in one text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.version, self.digest)
    }
}
