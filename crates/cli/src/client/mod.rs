//! The command line's way to a server: the public API, like any other client.

mod answer;
mod error;
mod events;
mod path;
mod session;

use std::path::Path as FilePath;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{process, sync::Arc};

use driftq_http::{AddressError, Failure, Key, Options, Servers};

use crate::{Exit, Fault};
pub use error::CallError;
pub(crate) use events::Events;
pub use path::Path;
pub use session::{PATIENCE, Session};

/// Largest answer that is read. The server has none near it; another program that answers must not fill the memory.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// What to do about a file of authorities that is of no use.
pub(crate) const CA_FILE_HELP: &str =
    "name a file with the authority's certificate in PEM by --ca-file or DRIFTQ_CA_FILE";

/// Where the server is, or the servers of a cluster are. Cheap to clone; every clone may open sessions.
#[derive(Clone, Debug)]
pub struct Client {
    http: driftq_http::Client,
    /// The context that named it, in words, if it was one.
    context: Option<Arc<str>>,
}

impl Client {
    /// Reads `http://host:port`, or several with commas in between.
    pub fn new(server: &str) -> Result<Self, Fault> {
        Self::trusting(server, None, None)
    }

    /// Reads `http://host:port`, shows the key to the server, and trusts the authorities in the file.
    pub(crate) fn trusting(
        server: &str,
        key: Option<&str>,
        ca_file: Option<&FilePath>,
    ) -> Result<Self, Fault> {
        let servers = Servers::parse(server).map_err(|why| match why {
            // What is in front of the @ may be a password, and is not repeated.
            AddressError::User { host } => {
                let message =
                    format!("--server: the URL for {host} names a user, and a DriftQ server knows none");
                Fault::new(Exit::Usage, message)
                    .help("leave user and password out, as in http://127.0.0.1:8080")
            }
            why => Fault::new(Exit::Usage, format!("--server {server}: {why}"))
                .help("write it as http://127.0.0.1:8080, or set DRIFTQ_SERVER"),
        })?;
        let key = key.map(Key::new).transpose().map_err(|why| Fault::new(Exit::Usage, why.to_string()))?;
        let ca_file = ca_file.map(FilePath::to_owned);
        let options = Options { key, ca_file, ..Options::new(ANSWER_BYTES_MAX) };
        let http = driftq_http::Client::new(servers, &options).map_err(|why| {
            let fault = Fault::new(Exit::Usage, format!("--server {server}: {why}"));
            if options.ca_file.is_some() { fault.help(CA_FILE_HELP) } else { fault }
        })?;
        Ok(Self { http, context: None })
    }

    /// Errors tell that it comes from there.
    #[must_use]
    pub fn named_by(mut self, context: Option<String>) -> Self {
        self.context = context.map(Into::into);
        self
    }

    /// Why there is no answer.
    fn failed(&self, failure: Failure) -> CallError {
        let (url, context) = (self.url().to_owned(), self.context.clone());
        match failure {
            // What the system's number means is enough where there is one; a failed lookup of the name has none and
            // says more by itself.
            Failure::Unreachable { why, kind } => {
                CallError::Unreachable { url, why: kind.map_or(why, |kind| kind.to_string()), context }
            }
            Failure::Untrusted(why) => CallError::Untrusted { url, why, context },
            Failure::TimedOut(limit) => self.broken(format!("no answer within {} s", limit.as_secs())),
            Failure::Foreign(why) => self.not_ours(why),
            Failure::TooLong(limit) => self.not_ours(format!("an answer of more than {limit} bytes")),
            Failure::Invalid(why) => CallError::Strange(format!("request: {why}")),
            other => self.broken(other.to_string()),
        }
    }

    fn broken(&self, why: String) -> CallError {
        CallError::Broken { url: self.url().to_owned(), why }
    }

    /// Why what answers there is not ours.
    fn not_ours(&self, why: String) -> CallError {
        CallError::NotDriftQ { url: self.url().to_owned(), why, context: self.context.clone() }
    }

    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// `http://host:port`; of several servers all, with commas in between.
    pub fn url(&self) -> &str {
        self.http.url()
    }
}

/// A name for a call that no other call has: the process and the moment are enough on one machine.
pub(crate) fn fresh_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("cli-{}-{now:x}", process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_url() {
        for (url, full) in [
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://broker", "http://broker:80"),
            ("http://a:1, http://b:2", "http://a:1,http://b:2"),
        ] {
            assert_eq!(Client::new(url).unwrap().url(), full);
        }
        for url in ["", "127.0.0.1:8080", "http://a/v1", "ftp://a"] {
            assert_eq!(Client::new(url).unwrap_err().exit, Exit::Usage, "{url}");
        }
    }

    #[test]
    fn a_user_in_the_url_is_refused_and_its_password_not_repeated() {
        for url in [
            "http://me:secret@broker:8080",
            "http://me@broker",
            "https://:secret@broker",
            "http://me:my,secret@broker,http://b",
        ] {
            let fault = Client::new(url).unwrap_err();
            assert_eq!(fault.exit, Exit::Usage, "{url}");
            assert!(fault.message.contains("user") && !fault.message.contains("secret"), "{}", fault.message);
        }
    }
}
