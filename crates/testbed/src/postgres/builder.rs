//! How a server of our own is to be.

use anyhow::Result;

use super::{Cluster, Postgres};

/// How a server of our own is to be.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    settings: Vec<(String, String)>,
}

impl Builder {
    /// With a setting as in `postgresql.conf`. Of two with the same name the later one counts.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started; the error says what is missing, or has the end of the server's log.
    pub fn start(&self) -> Result<Postgres> {
        Ok(Postgres::of(Cluster::create(&self.settings)?))
    }
}
