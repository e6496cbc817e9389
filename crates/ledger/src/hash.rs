//! What was asked for, in a few bytes.

use std::fmt;

use serde::Serialize;

use driftq_canonical::{self as canonical, Flaw};

use crate::LedgerError;

/// What was asked for, as a hash with the version of the recipe it was made by. Two requests are the same if their
/// hashes of one version are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHash {
    version: u16,
    digest: String,
    /// The same request by an older recipe, so that a new release recognises what the old one has begun.
    before: Option<Box<Self>>,
}

/// Most bytes of a digest that a caller brings along.
pub const DIGEST_BYTES_MAX: usize = 200;

/// The version of hashes that are the caller's own.
pub const VERSION_FOREIGN: u16 = 0;

/// The version of hashes of bytes as they are.
pub const VERSION_BYTES: u16 = 1;

/// The version of hashes of canonical JSON.
pub const VERSION_JSON: u16 = 2;

/// The version of hashes of protobuf messages as they came.
pub const VERSION_PROTOBUF: u16 = 3;

/// The version of hashes of whole HTTP requests, as the tower layer makes them.
pub const VERSION_HTTP: u16 = 4;

impl RequestHash {
    /// Of bytes as they are: a file, a message in a format that is not known here.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::made(VERSION_BYTES, &[b"driftq request bytes 1\0", bytes])
    }

    /// Of JSON text, whatever the order of its members and the blanks between them.
    ///
    /// What is hashed is the document in its [canonical form](driftq_canonical), which is that of the SDKs: members
    /// sorted by the bytes of their names, no blanks, escapes undone and written in one way, numbers by their digits.
    /// `1`, `1.0` and `1e0` are one amount. No number is read as a float, so that two amounts that differ anywhere
    /// differ here. Older releases told the spellings of a number apart; what they have begun is recognised.
    ///
    /// [`LedgerError::Invalid`] if it is no JSON, has two members of one name in one object, has half a surrogate pair,
    /// or is nested more than 128 levels deep.
    pub fn of_json(json: &[u8]) -> Result<Self, LedgerError> {
        let refused =
            |flaw: Flaw| LedgerError::Invalid(format!("this is no JSON that can be hashed: {flaw}"));
        let form = canonical::of_json(json).map_err(refused)?;
        let hash = Self::of_canonical(&form.text);
        if form.is_as_written {
            return Ok(hash);
        }
        Ok(hash.or_before(Self::of_canonical(&canonical::of_json_as_written(json).map_err(refused)?)))
    }

    /// Of a value as its JSON: what [`of_json`](Self::of_json) gives for the text that `serde_json` writes. A map is
    /// sorted, so that its order in memory does not matter. Amounts belong in integers or in text: a float has lost
    /// what it cannot hold before it comes here, and one that is no number is written as `null`.
    pub fn of_value(value: &impl Serialize) -> Result<Self, LedgerError> {
        let json = serde_json::to_vec(value)
            .map_err(|error| LedgerError::Invalid(format!("this value has no JSON to be hashed: {error}")))?;
        Self::of_json(&json)
    }

    /// Of a protobuf message, its bytes as they came. Protobuf has no canonical form: two programs may encode the same
    /// message in two ways and are then refused without need; what one program sends twice is the same. Fields that
    /// this program does not know count, which they would not if the message were decoded first.
    #[must_use]
    pub fn of_protobuf(message: &[u8]) -> Self {
        Self::made(VERSION_PROTOBUF, &[b"driftq request protobuf 3\0", message])
    }

    fn of_canonical(form: &str) -> Self {
        Self::made(VERSION_JSON, &[b"driftq request json 2\0", form.as_bytes()])
    }

    /// Of parts one after the other; the caller that makes them sees to it that no two requests come to the same bytes.
    pub(crate) fn made(version: u16, parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        Self { version, digest: hasher.finalize().to_hex().to_string(), before: None }
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
        self.before = Some(Box::new(match self.before.take() {
            Some(newer) => newer.or_before(before),
            None => before,
        }));
        self
    }

    /// As [`or_before`](Self::or_before), and what is begun is written down by the older recipe: for as long as a release
    /// runs beside this one that knows no other. It would refuse what it cannot compare.
    #[must_use]
    pub fn beside(self, older: Self) -> Self {
        older.or_before(self)
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// These are in people's tables. A change here makes every request of yesterday another one.
    #[test]
    fn hashes_never_change() {
        let payment =
            br#" {"amount": 9007199254740993, "currency":"EUR", "note":"caf\u00e9\n", "tags":[1, 1.0, {}]}"#;
        let hashes = [
            RequestHash::of_bytes(b""),
            RequestHash::of_bytes(b"pay 5"),
            RequestHash::of_json(payment).unwrap(),
            RequestHash::of_json(b"null").unwrap(),
            RequestHash::of_protobuf(b"\x08\x96\x01"),
        ];
        let expected = [
            "1:664db3f36dbbb3ddfcd7f51e72023c30c5abf4b2078bb5a7c7ef4519d5423be4",
            "1:f059c6fc54fae8d5904b60c4e8f3f80fc551d009aef5c2bbe51232dfd428e9a1",
            "2:35460aa3445cebc9685428842609f942c2430bfcb806dcf3b023ce119629c3c5",
            "2:c623d88f384dac3437598e93d0495dd6ed76ecd9c6fc882d876ec2541be1fca1",
            "3:a0d5f2a3f1ac011f65e312fbd3a79560fbf4d000de9d841879be043a8b86f6af",
        ];
        assert_eq!(hashes.clone().map(|hash| hash.to_string()), expected);
        // And this is how another implementation would make one.
        let form = "driftq request json 2\0{\"amount\":9007199254740993,\"currency\":\"EUR\",\
                    \"note\":\"café\\u000a\",\"tags\":[1,1,{}]}";
        assert_eq!(hashes[2].digest(), blake3::hash(form.as_bytes()).to_hex().as_str());
        // What was stored when the spelling of a number still counted.
        let stored = "7ef0715c973fd828d2eb8da38fa4a710e7e8d2e8b52b69847425d3034f170c5e";
        assert!(hashes[2].matches(VERSION_JSON, stored));
        let form = form.replace("[1,1,{}]", "[1,1.0,{}]");
        assert_eq!(stored, blake3::hash(form.as_bytes()).to_hex().as_str());
        let both = hashes[2].clone().or_before(hashes[0].clone());
        assert!(both.matches(VERSION_JSON, stored) && both.matches(VERSION_BYTES, hashes[0].digest()));
        assert_eq!(
            hashes[3].all().count(),
            1,
            "a document without odd numbers has the hash that it always had"
        );
    }

    #[test]
    fn amounts_that_differ_anywhere_are_different_requests() {
        let hash = |amount: &str| RequestHash::of_json(format!("[{amount}]").as_bytes()).unwrap();
        let amounts = [
            "9007199254740992",
            "9007199254740993",
            "0.1",
            "0.1000000000000000055511151231257827",
            "1",
            "-1",
            "0",
            "1e400",
            "1e401",
        ];
        let hashes: std::collections::HashSet<_> =
            amounts.iter().map(|amount| hash(amount).to_string()).collect();
        assert_eq!(hashes.len(), amounts.len());
        for spelling in ["1.0", "1e0", "1E0", "10e-1"] {
            assert_eq!(hash(spelling).digest(), hash("1").digest(), "{spelling}");
        }
    }

    #[test]
    fn a_value_is_hashed_as_its_json() {
        let names = ["amount", "currency", "to", "from", "note", "at"];
        let map: HashMap<_, _> = names.into_iter().zip(1_u64..).collect();
        let json = br#"{"currency":2,"at":6, "note":5,"from":4,"to":3,"amount":1}"#;
        assert_eq!(RequestHash::of_value(&map).unwrap(), RequestHash::of_json(json).unwrap());
        let amount = u128::MAX;
        let json = format!("{amount}");
        assert_eq!(RequestHash::of_value(&amount).unwrap(), RequestHash::of_json(json.as_bytes()).unwrap());
        let no_names: HashMap<Vec<u8>, u8> = [(vec![1], 1)].into();
        assert!(matches!(RequestHash::of_value(&no_names), Err(LedgerError::Invalid(_))));
    }

    #[test]
    fn the_same_bytes_are_different_requests_in_different_formats() {
        let of_json = RequestHash::of_json(b"12").unwrap();
        let all = [RequestHash::of_bytes(b"12"), of_json, RequestHash::of_protobuf(b"12")];
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert_ne!(one.digest(), other.digest());
                assert!(!one.matches(other.version(), other.digest()));
            }
        }
        let both = all[1].clone().or_before(all[0].clone());
        assert!(all[..2].iter().all(|known| both.matches(known.version(), known.digest())));
    }
}
