//! Which server a command talks to, and who said so.

use std::path::PathBuf;

use serde::Serialize;

use super::file;
use crate::{Common, Exit, Fault};

/// Where a server listens that was started without options.
pub(crate) const SERVER_DEFAULT: &str = "http://127.0.0.1:8080";

/// Who named the server. The first that did, in this order, is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    ServerFlag,
    ContextFlag,
    ServerVariable,
    ContextVariable,
    CurrentContext,
    Default,
}

impl Origin {
    /// In words.
    pub(super) const fn display(self) -> &'static str {
        match self {
            Self::ServerFlag => "--server",
            Self::ContextFlag => "--context",
            Self::ServerVariable => "DRIFTQ_SERVER",
            Self::ContextVariable => "DRIFTQ_CONTEXT",
            Self::CurrentContext => "the current context",
            Self::Default => "the default",
        }
    }
}

/// A server, and how it was chosen.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) server: String,
    pub(crate) origin: Origin,
    /// The context that names it, and the file that has the context.
    pub(crate) context: Option<(String, PathBuf)>,
    /// The file with the key to show to it: the one that was named, else that of the context.
    pub(crate) key_file: Option<PathBuf>,
    /// The file with the authorities to trust, likewise.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Whether a value was written into the command line itself; else it came from the environment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Typed {
    pub(crate) server: bool,
    pub(crate) context: bool,
    pub(crate) ca_file: bool,
}

/// What is typed comes before what is set in the environment, a server before a context, and the file is only read
/// if it is needed: a broken one is not in the way of a user who names a server.
pub(crate) fn choose(common: &Common) -> Result<Chosen, Fault> {
    let mut chosen = by_rank(common)?;
    // What was named goes before what the context has.
    chosen.key_file = common.key_file.clone().or(chosen.key_file);
    chosen.ca_file = common.ca_file.clone().or(chosen.ca_file);
    Ok(chosen)
}

fn by_rank(common: &Common) -> Result<Chosen, Fault> {
    let Typed { server: server_typed, context: context_typed, .. } = common.typed;
    if server_typed && context_typed {
        return Err(
            Fault::new(Exit::Usage, "--server and --context name two servers").help("leave out one of them")
        );
    }
    let plain = |server: &str, origin| {
        let (context, key_file, ca_file) = (None, None, None);
        Chosen { server: server.to_owned(), origin, context, key_file, ca_file }
    };
    match (&common.server, &common.context) {
        (Some(server), _) if server_typed => Ok(plain(server, Origin::ServerFlag)),
        (_, Some(name)) if context_typed => by_name(name, Origin::ContextFlag),
        (Some(server), _) => Ok(plain(server, Origin::ServerVariable)),
        (None, Some(name)) => by_name(name, Origin::ContextVariable),
        (None, None) => {
            let current = match file::path() {
                Ok(path) => file::read(&path)?.current,
                // Without a home there is no current context, and the user asked for none.
                Err(_) => None,
            };
            match current {
                Some(name) => by_name(&name, Origin::CurrentContext),
                None => Ok(plain(SERVER_DEFAULT, Origin::Default)),
            }
        }
    }
}

fn by_name(name: &str, origin: Origin) -> Result<Chosen, Fault> {
    let path = file::path()?;
    let contexts = file::read(&path)?;
    let file::Context { server, key_file, ca_file } = contexts.get(&path, name)?.clone();
    Ok(Chosen { server, origin, context: Some((name.to_owned(), path)), key_file, ca_file })
}

impl Chosen {
    /// The key to show to the server, if there is one. That of a context goes before the one in the environment, which
    /// may be meant for another server.
    pub(crate) fn key(&self) -> Result<Option<String>, Fault> {
        crate::key::given(self.key_file.as_deref())
    }

    /// What a command that is started from here needs to reach the server as we do, wherever it runs.
    pub(crate) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let files = [("DRIFTQ_KEY_FILE", &self.key_file), ("DRIFTQ_CA_FILE", &self.ca_file)];
        let files = files.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?)));
        files.map(|(name, file)| (name, std::path::absolute(file).unwrap_or_else(|_| file.clone()))).collect()
    }

    /// How errors tell which context it was; nothing if it was none.
    pub(crate) fn note(&self) -> Option<String> {
        let (name, path) = self.context.as_ref()?;
        let by = match self.origin {
            Origin::ContextFlag => ", named by --context",
            Origin::ContextVariable => ", named by DRIFTQ_CONTEXT",
            _ => ", the current one",
        };
        Some(format!("context `{name}`{by}, in {}", path.display()))
    }

    /// What must be added to a command so that it talks to the same server, with a space before it.
    pub(crate) fn repeat(&self) -> String {
        match (&self.context, self.origin) {
            (Some((name, _)), Origin::ContextFlag) => format!(" --context {name}"),
            (_, Origin::ServerFlag) => format!(" --server {}", self.server),
            _ => String::new(),
        }
    }
}
