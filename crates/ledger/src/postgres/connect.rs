//! The pool that a database's URL leads to.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use driftq_postgres::Address;
use tokio_postgres::NoTls;

use super::CONNECTIONS_MAX;
use crate::LedgerError;

/// A pool for the database that the URL names. Nothing is connected yet.
pub(super) fn pool(url: &str, patience: Duration) -> Result<Pool, LedgerError> {
    let mut address = Address::parse(url).map_err(LedgerError::Invalid)?;
    let config = &mut address.config;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(patience);
    }
    if config.get_application_name().is_none() {
        config.application_name("driftq-ledger");
    }
    Pool::builder(manager(address)?)
        .max_size(CONNECTIONS_MAX)
        .wait_timeout(Some(patience))
        .create_timeout(Some(patience))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| LedgerError::Invalid(error.to_string()))
}

/// Whether a connection is still there is seen when it is used; calls are repeated.
const RECYCLING: ManagerConfig = ManagerConfig { recycling_method: RecyclingMethod::Fast };

#[cfg(feature = "tls")]
fn manager(mut address: Address) -> Result<Manager, LedgerError> {
    Ok(match address.tls().map_err(LedgerError::Invalid)? {
        Some(tls) => Manager::from_config(address.config, tls, RECYCLING),
        None => Manager::from_config(address.config, NoTls, RECYCLING),
    })
}

#[cfg(not(feature = "tls"))]
fn manager(address: Address) -> Result<Manager, LedgerError> {
    if address.is_secured() {
        let why = "this URL asks for TLS, which is the feature `tls` of driftq-ledger; or build a pool with TLS of \
                   your own and hand it to PostgresStore::new";
        return Err(LedgerError::Invalid(why.to_owned()));
    }
    Ok(Manager::from_config(address.config, NoTls, RECYCLING))
}
