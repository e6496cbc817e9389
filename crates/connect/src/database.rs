//! The connection of a sink to its database.

use std::time::Duration;

use driftq_postgres::Address;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use super::fault::Fault;

/// A connection that is not there by then is tried anew.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What the database shows its operator.
const APPLICATION: &str = "driftq-connect";

/// Where the database is.
#[derive(Clone)]
pub(super) struct Place(Address);

impl Place {
    pub(super) fn new(url: &str) -> Result<Self, String> {
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
    pub(super) async fn connect(&self) -> Result<Client, Fault> {
        let late = |_| Fault::Away(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()));
        timeout(CONNECT_TIMEOUT, self.open()).await.map_err(late)?
    }

    async fn open(&self) -> Result<Client, Fault> {
        let mut address = self.0.clone();
        match address.tls().map_err(Fault::Away)? {
            Some(tls) => {
                let (client, connection) =
                    address.config.connect(tls).await.map_err(|error| Fault::of(&error))?;
                tokio::spawn(connection);
                Ok(client)
            }
            None => {
                let (client, connection) =
                    address.config.connect(NoTls).await.map_err(|error| Fault::of(&error))?;
                tokio::spawn(connection);
                Ok(client)
            }
        }
    }
}
