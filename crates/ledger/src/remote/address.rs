//! Where a server is.

use hyper::Uri;

use crate::LedgerError;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// `host:port`, to connect to and to say in the `Host` header.
    pub(super) authority: String,
}

impl Address {
    /// Reads `http://host:port`. What was given is not repeated in the error: it may hold a password.
    pub(super) fn parse(url: &str) -> Result<Self, LedgerError> {
        let invalid = |why: &str| {
            LedgerError::Invalid(format!("the server's URL {why}; write it as http://127.0.0.1:8080"))
        };
        let uri: Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(invalid(
                    "asks for TLS, which is not spoken here: put a TLS proxy beside this program and name that one",
                ));
            }
            _ => return Err(invalid("must begin with http://")),
        }
        if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
            return Err(invalid("must name a host and no user"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid("must have neither path nor query"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| invalid("must name a host"))?;
        Ok(Self { authority: format!("{host}:{}", uri.port_u16().unwrap_or(80)) })
    }
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
            assert_eq!(Address::parse(url).unwrap().authority, authority);
        }
    }

    #[test]
    fn what_cannot_be_spoken_to_is_refused_without_being_repeated() {
        for (url, expected) in [
            ("", "not a URL"),
            ("secret:8080", "http://"),
            ("https://secret", "TLS proxy"),
            ("postgres://secret", "http://"),
            ("http://me:secret@broker", "no user"),
            ("http://broker/secret", "path"),
            ("http://broker?secret", "query"),
            ("http://:8080", "host"),
        ] {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.word(), "invalid");
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("secret"), "{url}: {text}");
        }
    }
}
