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
    /// The file with the key that the context has for it.
    pub(crate) key_file: Option<PathBuf>,
}

/// Whether a value was written into the command line itself; else it came from the environment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Typed {
    pub(crate) server: bool,
    pub(crate) context: bool,
}

/// What is typed comes before what is set in the environment, a server before a context, and the file is only read
/// if it is needed: a broken one is not in the way of a user who names a server.
pub(crate) fn choose(common: &Common) -> Result<Chosen, Fault> {
    let Typed { server: server_typed, context: context_typed } = common.typed;
    if server_typed && context_typed {
        return Err(
            Fault::new(Exit::Usage, "--server and --context name two servers").help("leave out one of them")
        );
    }
    let plain =
        |server: &str, origin| Chosen { server: server.to_owned(), origin, context: None, key_file: None };
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
    let file::Context { server, key_file } = contexts.get(&path, name)?.clone();
    Ok(Chosen { server, origin, context: Some((name.to_owned(), path)), key_file })
}

impl Chosen {
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
