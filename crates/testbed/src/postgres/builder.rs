//! How a server of our own is to be.

use anyhow::Result;

use super::{Cluster, Postgres};

/// How a server of our own is to be.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    settings: Vec<(String, String)>,
    certificate: Option<Certificate>,
}

/// What a server shows to prove who it is, both in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Builder {
    /// With a setting as in `postgresql.conf`. Of two with the same name the later one counts.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// That speaks TLS, with this certificate and its key in PEM.
    #[must_use]
    pub fn tls(mut self, chain: &str, key: &str) -> Self {
        self.certificate = Some(Certificate { chain: chain.to_owned(), key: key.to_owned() });
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started; the error says what is missing, or has the end of the server's log.
    pub fn start(&self) -> Result<Postgres> {
        Ok(Postgres::of(Cluster::create(&self.settings, self.certificate.as_ref())?))
    }
}
