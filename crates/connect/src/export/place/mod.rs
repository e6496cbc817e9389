//! Where files go: a folder, or an object store. Names are created once, and never replaced.

mod bucket;
mod folder;
mod http;
mod url;

use std::fs::File;

use bytes::Bytes;
pub use url::PlaceUrl;

use self::bucket::Bucket;
use self::folder::Folder;
use super::error::ExportError;

/// The folder of the place that no reader looks into.
pub(crate) const STAGING: &str = ".staging";
/// Bytes of randomness in the name of a probe.
const PROBE_BYTES: usize = 8;

/// Where the files of exports are.
pub(crate) struct Place {
    url: PlaceUrl,
    home: Home,
}

enum Home {
    Folder(Folder),
    Bucket(Bucket),
}

/// A file that is being written, where no reader looks.
pub(super) enum Staged {
    /// A file in the staging folder.
    Named(tempfile::NamedTempFile),
    /// A file on this machine that nobody finds.
    Unnamed(File),
}

impl Staged {
    /// Another handle of it, to write with.
    pub(super) fn writer(&self) -> Result<File, ExportError> {
        Ok(match self {
            Self::Named(file) => file.as_file().try_clone()?,
            Self::Unnamed(file) => file.try_clone()?,
        })
    }
}

impl Place {
    pub(crate) fn open(url: &PlaceUrl) -> Result<Self, ExportError> {
        let home = match url.folder() {
            Some(folder) => Home::Folder(Folder::new(folder)),
            None => Home::Bucket(Bucket::open(url)?),
        };
        Ok(Self { url: url.clone(), home })
    }

    /// The whole name of a file.
    pub(crate) fn location(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// A new file for a part. `scratch` is the folder of this attempt.
    pub(super) async fn stage(&self, scratch: &str) -> Result<Staged, ExportError> {
        match &self.home {
            Home::Folder(folder) => {
                folder.stage(scratch).await.map(Staged::Named).map_err(|e| self.failed(&e))
            }
            Home::Bucket(_) => Ok(Staged::Unnamed(tempfile::tempfile()?)),
        }
    }

    /// Gives a staged file its name; `false` if the name was there before.
    pub(super) async fn publish(&self, staged: Staged, name: &str) -> Result<bool, ExportError> {
        match (&self.home, staged) {
            (Home::Folder(folder), Staged::Named(file)) => {
                folder.publish(file, name).await.map_err(|error| self.failed(&error))
            }
            (Home::Bucket(bucket), Staged::Unnamed(file)) => bucket.publish(file, name).await,
            (Home::Folder(_), Staged::Unnamed(_)) | (Home::Bucket(_), Staged::Named(_)) => {
                Err(ExportError::Invalid("a part was staged for another place".to_owned()))
            }
        }
    }

    /// Creates a small file; `false` if the name was there before.
    pub(crate) async fn create(&self, scratch: &str, name: &str, bytes: Bytes) -> Result<bool, ExportError> {
        match &self.home {
            Home::Folder(folder) => {
                folder.create(scratch, name, bytes).await.map_err(|error| self.failed(&error))
            }
            Home::Bucket(bucket) => bucket.create(name, bytes.into()).await,
        }
    }

    /// A small file, if it is there.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Bytes>, ExportError> {
        match &self.home {
            Home::Folder(folder) => folder.read(name).await.map_err(|error| self.failed(&error)),
            Home::Bucket(bucket) => bucket.read(name).await,
        }
    }

    /// Removes a file, or all that is under a folder; what is not there is no fault. Says how many files there were.
    pub(crate) async fn remove(&self, name: &str) -> Result<u64, ExportError> {
        match &self.home {
            Home::Folder(folder) => folder.remove(name).await.map_err(|error| self.failed(&error)),
            Home::Bucket(bucket) => bucket.remove(name).await,
        }
    }

    /// Removes a file.
    async fn discard(&self, name: &str) -> Result<(), ExportError> {
        match &self.home {
            Home::Folder(folder) => folder.remove(name).await.map(drop).map_err(|error| self.failed(&error)),
            Home::Bucket(bucket) => bucket.discard(name).await,
        }
    }

    /// The names right under a folder; none if it is not there.
    pub(crate) async fn list(&self, name: &str) -> Result<Vec<String>, ExportError> {
        match &self.home {
            Home::Folder(folder) => folder.list(name).await.map_err(|error| self.failed(&error)),
            Home::Bucket(bucket) => bucket.list(name).await,
        }
    }

    /// Finds out whether the place refuses to create a name that is there: a store that takes the condition and ignores
    /// it would let two exports write over each other.
    pub(crate) async fn probe(&self, scratch: &str) -> Result<(), ExportError> {
        let mut random = [0; PROBE_BYTES];
        getrandom::fill(&mut random)
            .map_err(|error| ExportError::Invalid(format!("no randomness: {error}")))?;
        let name = format!("{scratch}/probe-{:016x}", u64::from_le_bytes(random));
        // A first one that finds the name taken is a repeat whose answer got lost.
        self.create(scratch, &name, Bytes::from_static(b"1")).await?;
        let is_created_again = self.create(scratch, &name, Bytes::from_static(b"2")).await?;
        let cleared = self.discard(&name).await;
        if is_created_again {
            return Err(ExportError::Unconditional { place: self.url.to_string() });
        }
        cleared
    }

    fn failed(&self, error: &std::io::Error) -> ExportError {
        ExportError::Place { place: self.url.to_string(), why: error.to_string() }
    }
}
