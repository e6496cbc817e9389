//! A folder of this machine, or of one that is mounted.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;

/// What a file may be done with by whom; the process's mask takes away what it takes from any other.
const MODE: u32 = 0o666;

pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) async fn stage(&self, scratch: &str) -> io::Result<NamedTempFile> {
        let scratch = self.root.join(scratch);
        blocking(move || stage(&scratch)).await
    }

    /// `false` if the name was there before.
    pub(super) async fn publish(&self, file: NamedTempFile, name: &str) -> io::Result<bool> {
        let path = self.root.join(name);
        blocking(move || publish(file, &path)).await
    }

    /// `false` if the name was there before.
    pub(super) async fn create(&self, scratch: &str, name: &str, bytes: Bytes) -> io::Result<bool> {
        let (scratch, path) = (self.root.join(scratch), self.root.join(name));
        blocking(move || {
            let mut file = stage(&scratch)?;
            file.write_all(&bytes)?;
            file.as_file().sync_all()?;
            publish(file, &path)
        })
        .await
    }

    pub(super) async fn read(&self, name: &str) -> io::Result<Option<Bytes>> {
        let path = self.root.join(name);
        blocking(move || absent_is(fs::read(path).map(|bytes| Some(bytes.into())), None)).await
    }

    pub(super) async fn remove(&self, name: &str) -> io::Result<u64> {
        let path = self.root.join(name);
        blocking(move || absent_is(remove(&path), 0)).await
    }

    pub(super) async fn list(&self, name: &str) -> io::Result<Vec<String>> {
        let path = self.root.join(name);
        blocking(move || absent_is(list(&path), Vec::new())).await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

fn absent_is<T>(found: io::Result<T>, absent: T) -> io::Result<T> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(absent),
        other => other,
    }
}

fn stage(scratch: &Path) -> io::Result<NamedTempFile> {
    fs::create_dir_all(scratch)?;
    tempfile::Builder::new().prefix("part-").permissions(Permissions::from_mode(MODE)).tempfile_in(scratch)
}

/// The name appears together with all of the bytes, which are on the disk, and so is the name.
fn publish(file: NamedTempFile, path: &Path) -> io::Result<bool> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let is_new = match file.persist_noclobber(path) {
        Ok(_) => true,
        Err(taken) if taken.error.kind() == ErrorKind::AlreadyExists => false,
        Err(failed) => return Err(failed.error),
    };
    File::open(folder)?.sync_all()?;
    Ok(is_new)
}

fn remove(path: &Path) -> io::Result<u64> {
    if !fs::symlink_metadata(path)?.is_dir() {
        fs::remove_file(path)?;
        return Ok(1);
    }
    let mut removed = 0;
    for entry in fs::read_dir(path)? {
        removed += absent_is(remove(&entry?.path()), 0)?;
    }
    fs::remove_dir(path)?;
    Ok(removed)
}

fn list(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        // A name that is no text is not ours.
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
