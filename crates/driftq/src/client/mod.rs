//! A small HTTP client for the command line: plain HTTP/1.1, one connection per session, no pool.
//!
//! It speaks only the public API, like any other client.

mod answer;
mod error;
mod path;
mod refusal;
mod retry;
mod session;
mod stream;
pub(crate) mod words;

use std::sync::Arc;

pub(crate) use error::CallError;
pub(crate) use path::Path;
pub(crate) use refusal::Refusal;
pub(crate) use retry::Retry;
pub(crate) use session::Session;
pub(crate) use stream::Stream;

use crate::cli::exit::{Exit, Fault};

/// Where the server is. Cheap to clone; every clone may open sessions.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// `host:port`.
    authority: Arc<str>,
    /// The context that named it, in words, if it was one.
    context: Option<Arc<str>>,
}

impl Client {
    /// Reads `http://host:port`.
    pub(crate) fn new(server: &str) -> Result<Self, Fault> {
        let invalid = |why: &str| {
            Fault::new(Exit::Usage, format!("--server {server}: {why}"))
                .help("write it as http://127.0.0.1:8080, or set DRIFTQ_SERVER")
        };
        let uri: hyper::Uri = server.parse().map_err(|_| invalid("not a URL"))?;
        if let Some(authority) = uri.authority().filter(|authority| authority.as_str().contains('@')) {
            // What is in front of the @ may be a password, and is not repeated.
            let message = format!(
                "--server: the URL for {} names a user, and a DriftQ server knows none",
                authority.host()
            );
            return Err(Fault::new(Exit::Usage, message)
                .help("leave user and password out, as in http://127.0.0.1:8080"));
        }
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(invalid("TLS is not spoken here; put the client next to a TLS proxy"));
            }
            _ => return Err(invalid("the URL must begin with http://")),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid("the URL must not have a path"));
        }
        let host = uri.host().ok_or_else(|| invalid("no host in the URL"))?;
        Ok(Self { authority: format!("{host}:{}", uri.port_u16().unwrap_or(80)).into(), context: None })
    }

    /// Errors tell that it comes from there.
    #[must_use]
    pub(crate) fn named_by(mut self, context: Option<String>) -> Self {
        self.context = context.map(Into::into);
        self
    }

    /// Why it cannot be reached.
    fn unreachable(&self, why: String) -> CallError {
        CallError::Unreachable { authority: self.authority.to_string(), why, context: self.context.clone() }
    }

    /// Why what answers there is not ours.
    fn not_ours(&self, why: String) -> CallError {
        CallError::NotDriftQ { authority: self.authority.to_string(), why, context: self.context.clone() }
    }

    pub(crate) fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// The address to connect to.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }
}

/// One segment of a path, or one value of a query, with everything but unreserved characters escaped.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_url() {
        for (url, authority) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost:9/", "localhost:9"),
            ("http://broker", "broker:80"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(Client::new(url).unwrap().authority(), authority);
        }
        for url in ["", "127.0.0.1:8080", "https://broker", "http://a/v1", "ftp://a"] {
            assert_eq!(Client::new(url).unwrap_err().exit, Exit::Usage, "{url}");
        }
    }

    #[test]
    fn a_user_in_the_url_is_refused_and_its_password_not_repeated() {
        for url in ["http://me:secret@broker:8080", "http://me@broker", "https://:secret@broker"] {
            let fault = Client::new(url).unwrap_err();
            assert_eq!(fault.exit, Exit::Usage, "{url}");
            assert!(fault.message.contains("user") && !fault.message.contains("secret"), "{}", fault.message);
        }
    }

    #[test]
    fn escaping_leaves_nothing_that_a_path_could_stumble_over() {
        assert_eq!(escape("a b/c?d&e+f"), "a%20b%2Fc%3Fd%26e%2Bf");
        assert_eq!(escape("dlq.orders-1_x~"), "dlq.orders-1_x~");
    }
}
