//! The file that remembers servers by name.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, env, os::unix::fs::DirBuilderExt};

use serde::{Deserialize, Serialize};

use crate::{Exit, Fault, suggest};

/// Names the file.
pub(super) const PATH_VARIABLE: &str = "DRIFTQ_CONTEXTS";
/// A file of thousands of servers is smaller; anything larger is something else.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest name of a context, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contexts {
    /// The one that is used when nothing else is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<String>,
    #[serde(default)]
    pub(super) contexts: BTreeMap<String, Context>,
}

/// A server by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    pub(super) server: String,
    /// The file with the key to show to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key_file: Option<PathBuf>,
    /// The file with authorities to trust besides those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ca_file: Option<PathBuf>,
}

/// Where the file is, whether it is there or not.
pub(super) fn path() -> Result<PathBuf, Fault> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A relative XDG path is to be ignored, as that specification says.
    let config = || variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| home.join(".config"));
    let found = variable(PATH_VARIABLE)
        .or_else(|| config().or_else(home).map(|base| base.join("driftq").join("contexts.toml")));
    found.ok_or_else(|| {
        Fault::new(Exit::Config, "there is no place for contexts: HOME is not set")
            .help(format!("name the file in {PATH_VARIABLE}, or a server with --server"))
    })
}

/// Reads the file; one that is not there has no contexts.
pub(super) fn read(path: &Path) -> Result<Contexts, Fault> {
    let shown = path.display();
    let help = format!(
        "correct the file, or move it away; `--server URL` works without it ({PATH_VARIABLE} names another)"
    );
    let broken = |why: String| Fault::new(Exit::Config, format!("{shown}: {why}")).help(&help);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contexts::default()),
        Err(error) => return Err(broken(error.to_string())),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| broken(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(broken("larger than 1 MiB, so it is no file of contexts".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| broken("not UTF-8".to_owned()))?;
    parse(&text).map_err(broken)
}

fn parse(text: &str) -> Result<Contexts, String> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: {}", error.message())
    })
}

/// Changes the file: read, changed and put in its place as a whole, one program after the other.
pub(super) fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut Contexts) -> Result<T, Fault>,
) -> Result<(T, Contexts), Fault> {
    // A link stays a link: what it leads to is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let refused = |error: io::Error| {
        Fault::new(Exit::Config, format!("{}: {error}", path.display()))
            .help(format!("name a file that this user may write in {PATH_VARIABLE}"))
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(refused)?;
    let held = File::open(directory).map_err(refused)?;
    held.lock().map_err(refused)?;
    let mut contexts = read(path)?;
    let before = contexts.clone();
    let done = change(&mut contexts)?;
    if contexts != before {
        write(path, directory, &contexts).map_err(refused)?;
    }
    Ok((done, contexts))
}

/// Only its owner can read it: a server's address may be a secret.
fn write(path: &Path, directory: &Path, contexts: &Contexts) -> io::Result<()> {
    let text = toml::to_string(contexts).map_err(io::Error::other)?;
    // Made with the mode 0600, and gone again if it does not get its name.
    let mut file = tempfile::Builder::new().prefix(".contexts-").tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

impl Contexts {
    /// The context of that name.
    pub(super) fn get(&self, path: &Path, name: &str) -> Result<&Context, Fault> {
        self.contexts.get(name).ok_or_else(|| {
            let fault =
                Fault::new(Exit::Config, format!("there is no context `{name}` in {}", path.display()));
            let add =
                format!("add it with `driftq context add {name} --server URL`, or see `driftq context list`");
            match suggest::nearest(name, self.contexts.keys().map(String::as_str)) {
                Some(near) => fault.help(format!("did you mean `{near}`? Else {add}")),
                None => fault.help(add),
            }
        })
    }
}

/// Names are words, so that they can be typed and pasted.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && text.bytes().all(is_plain)
        && !text.starts_with('-');
    if is_name {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is no name: write up to {NAME_BYTES_MAX} letters, digits, dots, hyphens and underscores"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_nobody_else_reads_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("deep/er/contexts.toml");
        assert_eq!(read(&path).unwrap(), Contexts::default(), "no file, no contexts");
        let server = "http://10.0.0.5:8080".to_owned();
        let add = |contexts: &mut Contexts| {
            contexts.current = Some("staging".to_owned());
            contexts.contexts.insert(
                "staging".to_owned(),
                Context { server: server.clone(), key_file: None, ca_file: None },
            );
            Ok(())
        };
        let ((), written) = change(&path, add).unwrap();
        assert_eq!(read(&path).unwrap(), written);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing lies beside it: {left:?}");
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("contexts.toml");
        fs::write(&path, "current = \"a\"\n").unwrap();
        let refusal = change(&path, |contexts| {
            contexts.current = None;
            Err::<(), _>(Fault::new(Exit::Conflict, "no"))
        });
        assert!(refusal.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "current = \"a\"\n");
    }

    #[test]
    fn a_link_stays_a_link() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real.toml"), home.path().join("link.toml"));
        fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        change(&link, |contexts| {
            contexts.current = Some("a".to_owned());
            Ok(())
        })
        .unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&real).unwrap().current.as_deref(), Some("a"));
    }

    #[test]
    fn broken_files_are_told_with_their_line() {
        for (text, expected) in [
            ("current = \n", "line 1"),
            ("\n[contexts.a]\nserver = 5\n", "line 3"),
            ("\n\nname = \"a\"\n", "line 3: unknown field `name`"),
            ("[contexts.a]\n", "missing field `server`"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    #[test]
    fn names_can_be_typed() {
        for text in ["a", "staging-2", "eu.west_1"] {
            assert_eq!(name(text).as_deref(), Ok(text));
        }
        for text in ["", "-a", "a b", "a/b", "ä", &"a".repeat(65)] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
