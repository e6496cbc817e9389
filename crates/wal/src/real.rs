//! The disk of the machine.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, Entry, LockError};
use crate::names;

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    dir: PathBuf,
}

impl RealDisk {
    /// Uses `dir`, creating it (and its parents) when it is missing.
    pub fn create(dir: impl AsRef<Path>) -> io::Result<Self> {
        Self::create_with(dir.as_ref(), |parent| File::open(parent)?.sync_all())
    }

    fn create_with(dir: &Path, mut sync: impl FnMut(&Path) -> io::Result<()>) -> io::Result<Self> {
        let missing = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()).count();
        fs::create_dir_all(dir)?;
        // The names of directories must survive a power cut as well, from the innermost on: each lies in the one above
        // it. So must that of one which is there already: the process that made it a moment ago may not have synced it.
        for (depth, made) in dir.ancestors().take(missing.max(1)).enumerate() {
            let Some(parent) = made.parent() else { break };
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            match sync(parent) {
                // A directory of another user, which may be entered but not read.
                Err(error) if depth >= missing && error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        Ok(Self { dir: dir.to_path_buf() })
    }

    /// Uses `dir`, which must exist: offline tools must not create what they were asked to look at.
    pub fn existing(dir: impl AsRef<Path>) -> io::Result<Self> {
        let dir = dir.as_ref();
        if dir.is_dir() { Ok(Self { dir: dir.to_path_buf() }) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

impl Disk for RealDisk {
    type File = File;
    /// The lock is the open file: the system lets go when the process ends, however it ends.
    type Lock = File;

    fn name(&self) -> String {
        self.dir.display().to_string()
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // A file may vanish between being listed and being asked for its length.
            let meta = match entry.metadata() {
                Ok(meta) => meta,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let (true, Ok(name)) = (meta.is_file(), entry.file_name().into_string()) {
                entries.push(Entry { name, bytes: meta.len() });
            }
        }
        Ok(entries)
    }

    fn open(&self, file: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.dir.join(file))
    }

    fn create(&self, file: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(self.dir.join(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(file))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn free_bytes(&self) -> Option<u64> {
        let there = rustix::fs::statvfs(&self.dir).ok()?;
        there.f_bavail.checked_mul(there.f_frsize)
    }

    fn lock(&self) -> Result<File, LockError> {
        let path = self.dir.join(names::LOCK);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(LockError::Busy),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl DiskFile for File {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        Self::sync_data(self)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_every_new_directory_is_made_durable() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b/c");
        let made = |dir: &Path| {
            let mut synced = Vec::new();
            let sync = |parent: &Path| {
                synced.push(parent.to_path_buf());
                Ok(())
            };
            RealDisk::create_with(dir, sync).map(|_| synced).unwrap()
        };
        let expected = ["a/b", "a", ""].map(|name| root.path().join(name));
        assert_eq!(made(&dir), expected);
        assert!(dir.is_dir());
        assert_eq!(made(&dir), [root.path().join("a/b")], "also if another process has made it");
    }

    #[test]
    fn a_directory_that_cannot_be_synced_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let failing = |_: &Path| Err(io::Error::other("broken"));
        assert!(RealDisk::create_with(&root.path().join("new"), failing).is_err());
        let denied = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        assert!(RealDisk::create_with(root.path(), denied).is_ok(), "it was there");
        assert!(RealDisk::create_with(&root.path().join("newer"), denied).is_err());
    }
}
