//! The file that says which connectors run: `driftq connect run FILE`.

use std::path::Path;

use serde::Deserialize;

#[cfg(feature = "deliver")]
use crate::deliver::DeliveriesConfig;
#[cfg(feature = "export")]
use crate::export::ExportsConfig;
#[cfg(feature = "postgres")]
use crate::sink::SinkConfig;

/// Longer files are not read: no list of connectors is as long.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// All connectors of one process.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Topics whose messages become rows of tables.
    #[cfg(feature = "postgres")]
    #[serde(default)]
    pub sink: Vec<SinkConfig>,
    /// Whether the deliveries to the server's endpoints are sent, and where to they may go.
    #[cfg(feature = "deliver")]
    #[serde(default)]
    pub deliveries: Option<DeliveriesConfig>,
    /// Where exports that messages ask for may go.
    #[cfg(feature = "export")]
    #[serde(default)]
    pub exports: Option<ExportsConfig>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{file} cannot be read: {error}")]
    Unreadable {
        /// Which file.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is longer than any list of connectors.
    #[error("{0} is longer than 1 MiB; is it the right file?")]
    TooLong(String),
    /// It is not TOML, or has a field that is unknown, missing or of another kind. Names line and field.
    #[error("{0}")]
    Syntax(String),
    /// A setting cannot work.
    #[error("{0}")]
    Setting(String),
    /// Nothing is configured.
    #[error("the file configures nothing; add [deliveries], [exports.places.NAME] or a [[sink]]")]
    Empty,
}

impl File {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// If it cannot be read, or what it says cannot work.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |error| ConfigError::Unreadable { file: path.display().to_string(), error };
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(ConfigError::TooLong(path.display().to_string()));
        }
        Self::parse(&std::fs::read_to_string(path).map_err(unreadable)?)
    }

    /// Reads and checks the text of a file.
    ///
    /// # Errors
    /// If what it says cannot work.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: Self = toml::from_str(text).map_err(|error| ConfigError::Syntax(error.to_string()))?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let mut is_empty = true;
        #[cfg(feature = "postgres")]
        {
            is_empty = is_empty && self.sink.is_empty();
            crate::sink::check_all(&self.sink).map_err(ConfigError::Setting)?;
        }
        #[cfg(feature = "deliver")]
        {
            is_empty = is_empty && self.deliveries.is_none();
        }
        #[cfg(feature = "export")]
        if let Some(exports) = &self.exports {
            is_empty = false;
            exports.check().map_err(ConfigError::Setting)?;
        }
        if is_empty {
            return Err(ConfigError::Empty);
        }
        Ok(())
    }
}
