//! Where a server is.

use hyper::Uri;

/// Where a server is: the parts of `http://host:port/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `http://host:port`.
    url: String,
    host: String,
    path: String,
    is_tls: bool,
}

/// Why a URL names no server. It does not repeat the URL, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It does not parse.
    #[error("it is not a URL")]
    NotUrl,
    /// It is for something else.
    #[error("it must begin with http:// or https://")]
    Scheme,
    /// TLS was left out of this build.
    #[error("TLS is not in this build; name a TLS proxy beside this program, by http://")]
    NoTls,
    /// There is a user in it, and maybe a password.
    #[error("it must name no user")]
    User {
        /// What follows the user.
        host: String,
    },
    /// There is no host in it.
    #[error("it must name a host")]
    NoHost,
    /// There is more in it than a server.
    #[error("it must have neither path nor query")]
    Path,
    /// More servers than a client may be told.
    #[error("it must name at most {} servers", crate::servers::SERVERS_MAX)]
    TooMany,
}

impl Address {
    /// Reads the URL of a server.
    ///
    /// # Errors
    /// If it is not one, or has a path.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let address = Self::parse_with_path(url)?;
        if address.path == "/" { Ok(address) } else { Err(AddressError::Path) }
    }

    /// Reads the URL of a place on a server.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse_with_path(url: &str) -> Result<Self, AddressError> {
        let uri: Uri = url.parse().map_err(|_| AddressError::NotUrl)?;
        if let Some(authority) = uri.authority().filter(|authority| authority.as_str().contains('@')) {
            return Err(AddressError::User { host: authority.host().to_owned() });
        }
        let (is_tls, scheme, port) = match uri.scheme_str() {
            Some("http") => (false, "http", 80),
            Some("https") if cfg!(feature = "tls") => (true, "https", 443),
            Some("https") => return Err(AddressError::NoTls),
            _ => return Err(AddressError::Scheme),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(AddressError::NoHost)?;
        Ok(Self {
            url: format!("{scheme}://{host}:{}", uri.port_u16().unwrap_or(port)),
            host: host.to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            is_tls,
        })
    }

    /// `http://host:port`, whether the port was written or not.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The path, and the query if there is one.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    #[cfg(feature = "tls")]
    pub(crate) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The host as certificates name it.
    #[cfg(feature = "tls")]
    pub(crate) fn name(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }
}

/// One segment of a path, or one value of a query, with everything but unreserved characters escaped.
#[must_use]
pub fn escape(text: &str) -> String {
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
        for (url, full) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://localhost:9/", "http://localhost:9"),
            ("http://broker", "http://broker:80"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("HTTP://broker", "http://broker:80"),
            ("https://broker", "https://broker:443"),
        ] {
            assert_eq!(Address::parse(url).unwrap().url(), full);
        }
        let place = Address::parse_with_path("http://brain/route?v=1").unwrap();
        assert_eq!(place.path(), "/route?v=1");
        assert_eq!(Address::parse("https://[::1]").unwrap().name(), "::1");
    }

    #[test]
    fn what_names_no_server_is_refused_without_being_repeated() {
        for (url, expected) in [
            ("", "not a URL"),
            ("secret:8080", "begin with http://"),
            ("postgres://secret", "begin with http://"),
            ("/secret", "begin with http://"),
            ("http://me:secret@broker", "no user"),
            ("https://:secret@broker", "no user"),
            ("http://broker/secret", "path"),
            ("http://broker?secret", "query"),
            ("http://:8080", "host"),
        ] {
            let text = Address::parse(url).unwrap_err().to_string();
            assert!(text.contains(expected) && !text.contains("secret"), "{url}: {text}");
        }
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("a b/ü?&+"), "a%20b%2F%C3%BC%3F%26%2B");
        assert_eq!(escape("dlq.orders-1_x~"), "dlq.orders-1_x~");
    }
}
