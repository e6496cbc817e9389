//! How PostgreSQL is reached: what a URL says, and TLS by rustls.
#![warn(missing_docs)]

#[cfg(feature = "tls")]
mod tls;

use std::path::{Path, PathBuf};

use tokio_postgres::config::{Config, SslMode};

#[cfg(feature = "tls")]
pub use tls::{Beginning, Secured, Tls};

/// How a URL wants the database to be reached.
#[derive(Clone)]
pub struct Address {
    /// Hosts, user, database, and what else the parser knows.
    pub config: Config,
    /// Whether it must be over TLS, with the certificate checked.
    is_secured: bool,
    /// A file of authorities to trust on top of the system's.
    ca_file: Option<PathBuf>,
}

impl Address {
    /// What a URL says.
    ///
    /// # Errors
    /// If it names no host, or cannot be obeyed; with the words for the user, and without the URL.
    pub fn parse(url: &str) -> Result<Self, String> {
        let address = wanted(url)?;
        if address.config.get_hosts().is_empty() {
            return Err("the database's URL names no host; write postgres://user@host/database".to_owned());
        }
        Ok(address)
    }

    /// Whether it must be over TLS, with the certificate checked.
    #[must_use]
    pub const fn is_secured(&self) -> bool {
        self.is_secured
    }

    /// A file of authorities to trust on top of the system's.
    #[must_use]
    pub fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// How TLS begins, if it must be over TLS. From then on nothing less is taken.
    ///
    /// # Errors
    /// If the file of authorities cannot be read.
    #[cfg(feature = "tls")]
    pub fn tls(&mut self) -> Result<Option<Tls>, String> {
        if !self.is_secured {
            return Ok(None);
        }
        self.config.ssl_mode(SslMode::Require);
        Tls::new(self.ca_file.as_deref()).map(Some)
    }
}

/// What a URL says. The words about TLS that the parser does not know are libpq's.
fn wanted(url: &str) -> Result<Address, String> {
    let (start, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut kept, mut mode, mut ca_file) = (Vec::new(), None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", word @ ("verify-full" | "verify-ca"))) => mode = Some(word),
            // The authorities of the system are trusted anyway.
            Some(("sslrootcert", "system")) => {}
            Some(("sslrootcert", file)) => ca_file = Some(PathBuf::from(decoded(file)?)),
            _ => kept.push(pair),
        }
    }
    if mode == Some("verify-ca") {
        let why = "sslmode=verify-ca would take a certificate for any name; write verify-full";
        return Err(why.to_owned());
    }
    let url = match kept.is_empty() {
        true => start.to_owned(),
        false => format!("{start}?{}", kept.join("&")),
    };
    // The error of the parser does not repeat the URL, in which there may be a password.
    let config: Config = url.parse().map_err(|error| format!("the database's URL: {error}"))?;
    let is_secured = mode.is_some() || config.get_ssl_mode() == SslMode::Require;
    if ca_file.is_some() && !is_secured {
        let why = "sslrootcert names whom to trust, but nothing asks for TLS; add sslmode=verify-full";
        return Err(why.to_owned());
    }
    Ok(Address { config, is_secured, ca_file })
}

/// A part of a URL with its `%` sequences undone.
fn decoded(text: &str) -> Result<String, String> {
    let refused = || "sslrootcert in the database's URL is not percent-encoded".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2).ok_or_else(refused)?;
            let digits = std::str::from_utf8(digits).map_err(|_| refused())?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| refused())?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn urls_say_how_they_want_to_be_reached() {
        for (url, is_secured, ca_file) in [
            ("postgres://pay@db/pay", false, None),
            ("postgres://pay@db/pay?sslmode=disable", false, None),
            ("postgres://pay@db/pay?sslmode=prefer", false, None),
            ("postgres://pay@db/pay?sslmode=require", true, None),
            ("postgres://pay@db/pay?sslmode=verify-full&connect_timeout=3", true, None),
            ("postgres://pay@db/pay?sslrootcert=system&sslmode=verify-full", true, None),
            (
                "postgres://pay@db/pay?sslmode=require&sslrootcert=/etc/my%20ca.pem",
                true,
                Some("/etc/my ca.pem"),
            ),
            ("host=db user=pay sslmode=require", true, None),
        ] {
            let wanted = wanted(url).unwrap();
            assert_eq!(wanted.is_secured, is_secured, "{url}");
            assert_eq!(wanted.ca_file, ca_file.map(PathBuf::from), "{url}");
            assert_eq!(wanted.config.get_hosts().len(), 1, "{url}");
        }
        let timeout = wanted("postgres://pay@db/pay?sslmode=verify-full&connect_timeout=3").unwrap();
        assert_eq!(timeout.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
    }

    #[test]
    fn what_would_trust_too_much_or_nobody_is_refused() {
        for (url, why) in [
            ("postgres://pay@db/pay?sslmode=verify-ca", "any name"),
            ("postgres://pay@db/pay?sslrootcert=/ca.pem", "nothing asks for TLS"),
            ("postgres://pay@db/pay?sslmode=disable&sslrootcert=/ca.pem", "nothing asks for TLS"),
            ("postgres://pay@db/pay?sslmode=sometimes", "the database's URL"),
            ("postgres://pay@db/pay?sslmode=require&sslrootcert=%2", "percent-encoded"),
            ("postgres://pay@db/pay?sslmode=require&sslrootcert=%fg", "percent-encoded"),
        ] {
            let Err(said) = wanted(url).map(drop) else { panic!("{url} is taken") };
            assert!(said.contains(why), "{url}: {said}");
        }
    }
}
