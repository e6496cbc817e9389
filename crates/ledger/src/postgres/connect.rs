//! A database's URL, and the pool that it leads to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::NoTls;
use tokio_postgres::config::{Config, SslMode};

use super::CONNECTIONS_MAX;
use crate::LedgerError;

/// How a URL wants the database to be reached.
struct Wanted {
    config: Config,
    /// Whether it must be over TLS, with the certificate checked.
    is_secured: bool,
    /// A file of authorities to trust on top of the system's.
    ca_file: Option<PathBuf>,
}

/// A pool for the database that the URL names. Nothing is connected yet.
pub(super) fn pool(url: &str, patience: Duration) -> Result<Pool, LedgerError> {
    let Wanted { mut config, is_secured, ca_file } = wanted(url)?;
    if config.get_hosts().is_empty() {
        let why = "the database's URL names no host; write postgres://user@host/database";
        return Err(LedgerError::Invalid(why.to_owned()));
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(patience);
    }
    if config.get_application_name().is_none() {
        config.application_name("driftq-ledger");
    }
    // Whether a connection is still there is seen when it is used; calls are repeated.
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = match is_secured {
        true => secured(config, ca_file.as_deref(), recycling)?,
        false => Manager::from_config(config, NoTls, recycling),
    };
    Pool::builder(manager)
        .max_size(CONNECTIONS_MAX)
        .wait_timeout(Some(patience))
        .create_timeout(Some(patience))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| LedgerError::Invalid(error.to_string()))
}

#[cfg(feature = "tls")]
fn secured(
    mut config: Config,
    ca_file: Option<&Path>,
    recycling: ManagerConfig,
) -> Result<Manager, LedgerError> {
    config.ssl_mode(SslMode::Require);
    Ok(Manager::from_config(config, super::tls::Tls::new(ca_file)?, recycling))
}

#[cfg(not(feature = "tls"))]
fn secured(_: Config, _: Option<&Path>, _: ManagerConfig) -> Result<Manager, LedgerError> {
    let why = "this URL asks for TLS, which is the feature `tls` of driftq-ledger; or build a pool with TLS of your \
               own and hand it to PostgresStore::new";
    Err(LedgerError::Invalid(why.to_owned()))
}

/// What a URL says. The words about TLS that the parser does not know are libpq's.
fn wanted(url: &str) -> Result<Wanted, LedgerError> {
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
        return Err(LedgerError::Invalid(why.to_owned()));
    }
    let url = match kept.is_empty() {
        true => start.to_owned(),
        false => format!("{start}?{}", kept.join("&")),
    };
    // The error of the parser does not repeat the URL, in which there may be a password.
    let config: Config =
        url.parse().map_err(|error| LedgerError::Invalid(format!("the database's URL: {error}")))?;
    let is_secured = mode.is_some() || config.get_ssl_mode() == SslMode::Require;
    if ca_file.is_some() && !is_secured {
        let why = "sslrootcert names whom to trust, but nothing asks for TLS; add sslmode=verify-full";
        return Err(LedgerError::Invalid(why.to_owned()));
    }
    Ok(Wanted { config, is_secured, ca_file })
}

/// A part of a URL with its `%` sequences undone.
fn decoded(text: &str) -> Result<String, LedgerError> {
    let refused =
        || LedgerError::Invalid("sslrootcert in the database's URL is not percent-encoded".to_owned());
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
            let Err(LedgerError::Invalid(said)) = wanted(url).map(drop) else { panic!("{url} is taken") };
            assert!(said.contains(why), "{url}: {said}");
        }
    }
}
