//! A copy of the workspace to break things in, so that the real sources are never touched.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::list::Mutant;

/// What cargo needs to build the simulator. Files that are absent are left out.
const PARTS: [&str; 6] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo", "crates", "xtask"];

pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Makes the copy at `root` equal to `workspace`.
    ///
    /// Only files whose content differs are written. Cargo judges by modification time whether to rebuild: a file that
    /// keeps its content keeps its time and costs nothing, and a file that a broken-off run left mutated is written
    /// again and therefore rebuilt.
    pub(crate) fn copy(workspace: &Path, root: &Path) -> Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("creating {}", root.display()))?;
        for part in PARTS {
            mirror(&workspace.join(part), &root.join(part)).with_context(|| format!("copying {part}"))?;
        }
        Ok(Self { root: root.to_owned() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Applies the mutant, calls `work`, and puts the original back with a fresh modification time.
    pub(crate) fn with_mutant<T>(&self, mutant: &Mutant, work: impl FnOnce() -> T) -> Result<T> {
        let path = self.root.join(&mutant.file);
        let original = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let mutated = mutant.apply(&original)?;
        fs::write(&path, mutated).with_context(|| format!("writing {}", path.display()))?;
        let result = work();
        fs::write(&path, original).with_context(|| format!("restoring {}", path.display()))?;
        Ok(result)
    }
}

fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        let content = fs::read(from)?;
        let is_equal = fs::read(to).is_ok_and(|present| present == content);
        return if is_equal { Ok(()) } else { fs::write(to, content) };
    }
    if !from.is_dir() {
        return remove(to);
    }
    fs::create_dir_all(to)?;
    let wanted = names(from)?;
    for name in names(to)?.difference(&wanted) {
        remove(&to.join(name))?;
    }
    for name in &wanted {
        mirror(&from.join(name), &to.join(name))?;
    }
    Ok(())
}

fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

fn remove(path: &Path) -> io::Result<()> {
    match path {
        path if path.is_dir() => fs::remove_dir_all(path),
        path if path.exists() => fs::remove_file(path),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::{Mutant, Tree};

    #[test]
    fn the_copy_follows_the_workspace_and_keeps_times_of_equal_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (workspace, copy) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(workspace.join("crates/x")).expect("the folder is new");
        fs::write(workspace.join("crates/x/same.rs"), "same").expect("a folder takes a file");
        fs::write(workspace.join("crates/x/gone.rs"), "gone").expect("a folder takes a file");
        let tree = Tree::copy(&workspace, &copy).expect("the first copy");
        let time =
            |name: &str| fs::metadata(copy.join(name)).and_then(|data| data.modified()).expect("it is there");
        let before = time("crates/x/same.rs");

        fs::remove_file(workspace.join("crates/x/gone.rs")).expect("it was there");
        fs::write(copy.join("crates/x/more.rs"), "left over").expect("a folder takes a file");
        std::thread::sleep(Duration::from_millis(20));
        Tree::copy(&workspace, &copy).expect("the second copy");
        assert!(!copy.join("crates/x/gone.rs").exists() && !copy.join("crates/x/more.rs").exists());
        assert_eq!(time("crates/x/same.rs"), before, "an equal file must not be rebuilt");

        let word = |text: &str| text.to_owned();
        let (name, file, breaks) = (word("m"), word("crates/x/same.rs"), word("all"));
        let mutant = Mutant {
            name,
            file,
            find: word("same"),
            replace: word("other"),
            breaks,
            is_short: true,
            seed: None,
            scene: crate::command::Scene::default(),
        };
        let read = || fs::read_to_string(copy.join("crates/x/same.rs")).expect("it is there");
        assert_eq!(tree.with_mutant(&mutant, read).expect("it applies"), "other");
        assert_eq!(read(), "same");
        assert!(time("crates/x/same.rs") > before, "a restored file must be rebuilt");
    }
}
