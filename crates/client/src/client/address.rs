//! Where the server is.

use std::env;

use crate::error::Error;

/// Named when nothing else is.
pub(crate) const ADDRESS_DEFAULT: &str = "http://127.0.0.1:8080";
/// The environment's word on where the server is.
pub(crate) const ADDRESS_VARIABLE: &str = "DRIFTQ_SERVER";

/// `host:port` of a server that speaks plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(String);

impl Address {
    /// The URL that was given, else the environment's, else this machine's.
    pub(crate) fn find(given: Option<&str>) -> Result<Self, Error> {
        let named = env::var(ADDRESS_VARIABLE).ok().filter(|url| !url.is_empty());
        Self::parse(given.or(named.as_deref()).unwrap_or(ADDRESS_DEFAULT))
    }

    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let invalid = |why: &str| {
            Error::Invalid(format!(
                "the server's URL {url:?} cannot be used: {why}; write it as {ADDRESS_DEFAULT}, or set {ADDRESS_VARIABLE}"
            ))
        };
        let uri: hyper::Uri = url.parse().map_err(|_| invalid("it is no URL"))?;
        if let Some(authority) = uri.authority().filter(|authority| authority.as_str().contains('@')) {
            // What is in front of the @ may be a password, and is not repeated.
            return Err(Error::Invalid(format!(
                "the server's URL for {} names a user, and a DriftQ server knows none: leave user and password out, as in {ADDRESS_DEFAULT}",
                authority.host()
            )));
        }
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(invalid("TLS is not spoken here, put a TLS proxy beside the worker"));
            }
            _ => return Err(invalid("it must begin with http://")),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid("it must not have a path"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| invalid("it names no host"))?;
        Ok(Self(format!("{host}:{}", uri.port_u16().unwrap_or(80))))
    }

    pub(crate) fn authority(&self) -> &str {
        &self.0
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0)
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
            assert_eq!(Address::parse(url).unwrap().authority(), authority);
        }
        for url in ["", "127.0.0.1:8080", "https://broker", "http://a/v1", "ftp://a", "http://"] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains("http://127.0.0.1:8080"), "{url}: {error}");
        }
    }

    #[test]
    fn a_user_in_the_url_is_refused_and_its_password_not_repeated() {
        for url in ["http://me:secret@broker:8080", "http://me@broker", "https://:secret@broker"] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains("user") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("a b/ü"), "a%20b%2F%C3%BC");
        assert_eq!(escape("dlq.orders-1_x~"), "dlq.orders-1_x~");
    }
}
