//! The port to the disk: what the log needs from a directory and a file, and nothing more.

use std::io;

/// A file in the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Why the directory could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("in use by another process")]
    Busy,
    /// The lock file could not be opened or locked.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One data directory.
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// Held while the directory is in use; dropping it lets go.
    type Lock: Send + Sync + 'static;

    /// The directory as a person would write it, for messages.
    fn name(&self) -> String;
    /// Every file in the directory, in any order.
    fn list(&self) -> io::Result<Vec<Entry>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, file: &str) -> io::Result<Self::File>;
    /// Creates an empty file, emptying it if it exists.
    fn create(&self, file: &str) -> io::Result<Self::File>;
    /// Renames atomically, replacing the target.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file; it may live on until the last handle is closed.
    fn remove(&self, file: &str) -> io::Result<()>;
    /// Makes every create, rename and remove so far survive a power cut.
    fn sync_dir(&self) -> io::Result<()>;
    /// Bytes that may still be written, as far as the system knows; `None` if there is no telling.
    fn free_bytes(&self) -> Option<u64>;
    /// Claims the directory exclusively, without waiting.
    fn lock(&self) -> Result<Self::Lock, LockError>;
}

/// An open file. All positions are explicit: a handle has no cursor and can be shared.
pub trait DiskFile: Send + Sync + 'static {
    /// Reads up to `buffer.len()` bytes; zero means the end of the file.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes up to `bytes.len()` bytes, growing the file when needed.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Makes the contents and the length survive a power cut.
    fn sync_data(&self) -> io::Result<()>;
    /// Current length.
    fn bytes(&self) -> io::Result<u64>;
    /// Cuts the file or extends it with zeros that take no space.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;
}

/// Reads exactly `buffer.len()` bytes.
pub(crate) fn read_all<F: DiskFile>(file: &F, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer = &mut buffer[read..];
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes`. A short write is continued, so that the error that caused it shows.
pub(crate) fn write_all<F: DiskFile>(file: &F, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
