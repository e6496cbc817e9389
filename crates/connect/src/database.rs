//! Databases that connectors use: where the URL comes from, and a connection.

use std::path::PathBuf;
use std::time::Duration;

use driftq_postgres::Address;
use serde::Deserialize;
use tokio::time::timeout;
use tokio_postgres::{Client, Error, NoTls};

/// A connection that is not there by then is tried anew.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What the database shows its operator.
const APPLICATION: &str = "driftq-connect";

/// Where the URL of the database comes from. Exactly one is given.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// The URL itself.
    #[serde(default)]
    url: Option<String>,
    /// The environment variable that has it.
    #[serde(default)]
    url_env: Option<String>,
    /// The file that has it.
    #[serde(default)]
    url_file: Option<PathBuf>,
}

impl std::fmt::Debug for Database {
    /// Without the URL, in which there may be a password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url_env, url_file, .. } = self;
        formatter
            .debug_struct("Database")
            .field("url_env", url_env)
            .field("url_file", url_file)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// The one whose URL is in this environment variable.
    #[must_use]
    pub const fn from_env(name: String) -> Self {
        Self { url: None, url_env: Some(name), url_file: None }
    }

    /// The one with this URL.
    #[must_use]
    pub const fn from_url(url: String) -> Self {
        Self { url: Some(url), url_env: None, url_file: None }
    }

    /// Whether it says where its URL is.
    pub(crate) const fn is_given(&self) -> bool {
        self.url.is_some() || self.url_env.is_some() || self.url_file.is_some()
    }

    /// The URL, wherever it is.
    pub(crate) fn url(&self) -> Result<String, String> {
        let text = match (&self.url, &self.url_env, &self.url_file) {
            (Some(url), None, None) => url.clone(),
            (None, Some(name), None) => std::env::var(name)
                .map_err(|_| format!("url_env names {name}, which is not set in the environment"))?,
            (None, None, Some(file)) => std::fs::read_to_string(file)
                .map_err(|error| format!("url_file {}: {error}", file.display()))?,
            _ => return Err("a database takes exactly one of url, url_env and url_file".to_owned()),
        };
        Ok(text.trim().to_owned())
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum Unconnected {
    /// The server refused, or could not be reached.
    Refused(Error),
    /// It was not even tried, or took too long.
    Other(String),
}

impl std::fmt::Display for Unconnected {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(error) => formatter.write_str(&spelled(error)),
            Self::Other(why) => formatter.write_str(why),
        }
    }
}

/// An error with what caused it.
pub(crate) fn spelled(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Where the database is.
#[derive(Clone)]
pub(crate) struct Place(Address);

impl Place {
    pub(crate) fn new(url: &str) -> Result<Self, String> {
        let mut address = Address::parse(url)?;
        if address.config.get_connect_timeout().is_none() {
            address.config.connect_timeout(CONNECT_TIMEOUT);
        }
        if address.config.get_application_name().is_none() {
            address.config.application_name(APPLICATION);
        }
        Ok(Self(address))
    }

    /// A connection of its own, which ends with the client.
    pub(crate) async fn connect(&self) -> Result<Client, Unconnected> {
        let late = |_| Unconnected::Other(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()));
        timeout(CONNECT_TIMEOUT, self.open()).await.map_err(late)?
    }

    async fn open(&self) -> Result<Client, Unconnected> {
        let mut address = self.0.clone();
        match address.tls().map_err(Unconnected::Other)? {
            Some(tls) => {
                let (client, connection) = address.config.connect(tls).await.map_err(Unconnected::Refused)?;
                tokio::spawn(connection);
                Ok(client)
            }
            None => {
                let (client, connection) =
                    address.config.connect(NoTls).await.map_err(Unconnected::Refused)?;
                tokio::spawn(connection);
                Ok(client)
            }
        }
    }
}
