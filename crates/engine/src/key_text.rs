//! Keys as texts: how one is drawn, read and compared, and where the root key is kept.
//!
//! The root key allows everything and hangs on nothing. It is not in the log: its digest lies in a file of the data
//! directory, or the key itself in a file that the server is told of, so that whoever owns the directory or starts the
//! server can always make a new one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use driftq_core::KeyId;

/// The file of the data directory that holds the digest.
const DIGEST_FILE: &str = "root-key";
/// What every key begins with.
const MARK: &str = "dq_";
/// What the root key has in the place of an id.
const ROOT: &str = "root";
/// Hexadecimal digits of an id, and of a secret: 256 random bits.
const ID_DIGITS: usize = 16;
const SECRET_DIGITS: usize = 64;
/// A file of a key is not longer than this; anything else is not a key.
const FILE_BYTES_MAX: u64 = 4096;

/// The public half of a key as a client shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownId {
    /// The root key.
    Root,
    /// A key from the log.
    Key(KeyId),
}

/// A key that was just drawn.
pub struct DrawnKey {
    /// Its public half.
    pub id: KeyId,
    /// The whole of it, shown once.
    pub text: String,
    /// What is kept of it.
    pub digest: [u8; 32],
}

/// Reads the shape of a key, without looking whether it opens anything.
#[must_use]
pub fn shown_id(key: &str) -> Option<ShownId> {
    let (id, secret) = key.strip_prefix(MARK)?.split_once('_')?;
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if secret.len() != SECRET_DIGITS || !is_hex(secret) {
        return None;
    }
    match id {
        ROOT => Some(ShownId::Root),
        id => parsed_id(id).map(ShownId::Key),
    }
}

/// An id as it is written.
#[must_use]
pub fn parsed_id(id: &str) -> Option<KeyId> {
    let is_hex = id.len() == ID_DIGITS && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u64::from_str_radix(id, 16).ok().map(KeyId)).flatten()
}

/// An id as it is written.
#[must_use]
pub fn written_id(id: KeyId) -> String {
    format!("{:016x}", id.0)
}

/// What is kept of a key.
#[must_use]
pub fn digest(key: &str) -> [u8; 32] {
    *blake3::hash(key.as_bytes()).as_bytes()
}

/// Whether a key is the one of a digest. The comparison takes the same time wherever they differ.
#[must_use]
pub fn fits(key: &str, kept: &[u8; 32]) -> bool {
    blake3::hash(key.as_bytes()) == blake3::Hash::from_bytes(*kept)
}

/// Draws a key.
pub fn draw() -> Result<DrawnKey, io::Error> {
    let mut bytes = [0; 40];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no randomness: {error}")))?;
    let (id, secret) = bytes.split_at(8);
    let id = KeyId(u64::from_be_bytes(id.try_into().unwrap_or_default()));
    let text = format!("{MARK}{}_{}", written_id(id), hex(secret));
    Ok(DrawnKey { id, digest: digest(&text), text })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a root key for a data directory: its digest is written there, and the key is given back. An older root key
/// opens nothing from the next start on.
pub fn create(data: &Path) -> Result<String, io::Error> {
    let drawn = draw()?;
    let secret = drawn.text.rsplit('_').next().unwrap_or_default();
    let text = format!("{MARK}{ROOT}_{secret}");
    fs::create_dir_all(data)?;
    let (path, fresh) = (data.join(DIGEST_FILE), data.join(format!("{DIGEST_FILE}.new")));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{}", hex(&digest(&text)))?;
    file.sync_all()?;
    fs::rename(&fresh, &path)?;
    fs::File::open(data)?.sync_all()?;
    Ok(text)
}

/// Whether a data directory has a root key.
#[must_use]
pub fn exists(data: &Path) -> bool {
    data.join(DIGEST_FILE).exists()
}

/// The digest that a data directory keeps, if it has one.
pub fn read(data: &Path) -> Result<Option<[u8; 32]>, io::Error> {
    let path = data.join(DIGEST_FILE);
    let text = match short_text(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let digest = blake3::Hash::from_hex(text.trim()).map_err(|_| {
        io::Error::other("this is no digest of a root key; `driftq key create --root` writes a new one")
    })?;
    Ok(Some(*digest.as_bytes()))
}

/// The digest of the root key that stands in a file.
pub fn read_file(path: &Path) -> Result<[u8; 32], io::Error> {
    let text = short_text(path)?;
    let key = text.trim();
    match shown_id(key) {
        Some(ShownId::Root) => Ok(digest(key)),
        // Not repeated: it may be the secret of something else.
        _ => Err(io::Error::other("this is no root key; one reads dq_root_ and 64 hexadecimal digits")),
    }
}

fn short_text(path: &Path) -> Result<String, io::Error> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("the file is too long for a key"));
    }
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_their_shape() {
        let drawn = draw().unwrap();
        assert_eq!(shown_id(&drawn.text), Some(ShownId::Key(drawn.id)));
        assert!(fits(&drawn.text, &drawn.digest));
        let other = draw().unwrap();
        assert!(!fits(&other.text, &drawn.digest) && other.id != drawn.id);
        let secret = "0".repeat(SECRET_DIGITS);
        assert_eq!(shown_id(&format!("dq_root_{secret}")), Some(ShownId::Root));
        for text in [
            String::new(),
            "dq_".to_owned(),
            "dq__".to_owned(),
            format!("dq_root_{secret}0"),
            format!("dq_ROOT_{secret}"),
            format!("dq_0123456789abcdeg_{secret}"),
            format!("dq_+123456789abcdef_{secret}"),
            format!("dq_0123456789abcdef0_{secret}"),
            format!("xx_0123456789abcdef_{secret}"),
            format!("dq_0123456789abcdef_{}", "é".repeat(SECRET_DIGITS / 2)),
        ] {
            assert_eq!(shown_id(&text), None, "{text}");
        }
    }

    #[test]
    fn a_directory_keeps_the_digest_of_its_root_key_and_not_the_key() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        assert_eq!(read(&data).unwrap(), None);
        let first = create(&data).unwrap();
        assert!(fits(&first, &read(&data).unwrap().unwrap()));
        let second = create(&data).unwrap();
        let kept = read(&data).unwrap().unwrap();
        assert!(fits(&second, &kept) && !fits(&first, &kept));
        let text = fs::read_to_string(data.join(DIGEST_FILE)).unwrap();
        assert!(!second.contains(text.trim()));
        fs::write(data.join(DIGEST_FILE), "nonsense").unwrap();
        assert!(read(&data).unwrap_err().to_string().contains("key create --root"));
    }

    #[test]
    fn a_root_key_can_stand_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let key = create(directory.path()).unwrap();
        let path = directory.path().join("secret");
        fs::write(&path, format!("{key}\n")).unwrap();
        assert_eq!(read_file(&path).unwrap(), digest(&key));
        fs::write(&path, "hunter2").unwrap();
        let refused = read_file(&path).unwrap_err().to_string();
        assert!(refused.contains("dq_root_") && !refused.contains("hunter2"), "{refused}");
    }
}
