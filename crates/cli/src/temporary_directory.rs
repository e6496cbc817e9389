//! A directory for the time of a command. A process that is killed cannot tidy up; the next one to start does it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::{env, io, os::unix::fs::MetadataExt};

use rustix::process::geteuid;
use tempfile::TempDir;

/// Held for as long as its process lives. A directory without this file is none of ours.
const LOCK: &str = "lock";
/// Most entries of the directory for temporary files that are looked at, and most that are removed at one start.
const LOOKED_AT_MAX: usize = 10_000;
const REMOVED_MAX: usize = 100;
/// A tidier may have taken the lock of a directory that was just made; then there is another one.
const TRIES_MAX: usize = 5;

/// The directory. It is gone when this is dropped.
pub struct TemporaryDirectory {
    directory: TempDir,
    _lock: File,
}

impl TemporaryDirectory {
    /// A new one whose name begins so; and what others left under such names goes.
    pub fn new(prefix: &'static str) -> io::Result<Self> {
        let place = env::temp_dir();
        tidy(&place, prefix);
        for _ in 0..TRIES_MAX {
            let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(&place)?;
            let path = directory.path().join(LOCK);
            let lock = File::options().create_new(true).write(true).open(&path)?;
            match lock.try_lock() {
                Ok(()) => return Ok(Self { directory, _lock: lock }),
                Err(TryLockError::WouldBlock) => {}
                // Not every file system has locks. Without the file no process takes the directory for a dead one's.
                Err(TryLockError::Error(_)) => {
                    fs::remove_file(&path)?;
                    return Ok(Self { directory, _lock: lock });
                }
            }
        }
        Err(io::Error::other(format!("another process takes every lock in {}", place.display())))
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves it to the user: no process removes it any more.
    pub fn keep(self) -> io::Result<PathBuf> {
        match fs::remove_file(self.path().join(LOCK)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(self.directory.keep()),
        }
    }

    /// Removes it, and says if that fails.
    pub fn close(self) -> io::Result<()> {
        self.directory.close()
    }
}

/// Removes what dead processes of this user left. What cannot be removed, or looked at, stays: no command depends on it.
fn tidy(place: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let ours = entries.take(LOOKED_AT_MAX).flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(prefix))
    });
    let left = ours.map(|entry| entry.path()).filter(|path| is_ours(path));
    for path in left.take(REMOVED_MAX) {
        // Read without write: a lock needs no more, and nothing is made where there is none.
        if let Ok(lock) = File::open(path.join(LOCK))
            && lock.try_lock().is_ok()
        {
            // It goes through no links.
            drop(fs::remove_dir_all(&path));
        }
    }
}

/// A directory of this user, not a link to one, with a lock that is a file.
fn is_ours(path: &Path) -> bool {
    let user = geteuid().as_raw();
    let is = |path: &Path, is_kind: fn(&fs::Metadata) -> bool| {
        fs::symlink_metadata(path).is_ok_and(|found| is_kind(&found) && found.uid() == user)
    };
    is(path, fs::Metadata::is_dir) && is(&path.join(LOCK), fs::Metadata::is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "driftq-test-";

    #[test]
    fn only_what_nobody_holds_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, has_lock: bool| {
            let path = place.path().join(name);
            fs::create_dir_all(path.join("inner")).unwrap();
            if has_lock {
                fs::write(path.join(LOCK), "").unwrap();
            }
            path
        };
        let dead = make("driftq-test-dead", true);
        let held = make("driftq-test-held", true);
        let kept = make("driftq-test-kept", false);
        let other = make("another-dead", true);
        let link = place.path().join("driftq-test-link");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let inner = make("driftq-test-inner", true);
        std::os::unix::fs::symlink(&other, inner.join("away")).unwrap();
        let lock = File::open(held.join(LOCK)).unwrap();
        lock.try_lock().unwrap();
        tidy(place.path(), PREFIX);
        assert!(!dead.exists() && !inner.exists(), "no process lives there");
        assert!(held.exists() && kept.exists() && other.join("inner").exists() && link.exists());
        drop(lock);
        tidy(place.path(), PREFIX);
        assert!(!held.exists());
    }
}
