//! What the file of connectors says about deliveries.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::Settings;
use super::address::{Allowed, Network};
use crate::secret::{SealingKey, SecretError};

/// `[deliveries]`: the deliveries to all endpoints of the server are sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliveriesConfig {
    /// Networks (`10.1.0.0/16`) and host names (`hooks.internal`, `*.internal`) that deliveries may go to besides the public
    /// Internet.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Authorities to trust on top of those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// How long a delivery is on loan: how long it waits if this process dies.
    #[serde(default)]
    pub lease_ms: Option<u64>,
}

impl DeliveriesConfig {
    /// How a connector works that does so. The key of sealed secrets is that of the environment.
    ///
    /// # Errors
    /// If the key of secrets is none.
    pub fn settings(&self) -> Result<Settings, SecretError> {
        let mut allowed = Allowed::default();
        for place in &self.allow {
            match Network::parse(place) {
                Ok(network) => allowed.networks.push(network),
                Err(_) => allowed.hosts.push(place.clone()),
            }
        }
        let usual = Settings::default();
        let lease = self.lease_ms.map_or(usual.lease, Duration::from_millis);
        Ok(Settings {
            allowed,
            ca_file: self.ca_file.clone(),
            key: SealingKey::from_environment()?,
            lease,
            ..usual
        })
    }
}
