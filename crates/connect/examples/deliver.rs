//! Makes the deliveries of a list of endpoints, until it is stopped or killed.
//!
//! `ENDPOINTS` is the list as JSON, `ALLOW` a network beyond the public Internet, `LEASE_MS` how long a delivery waits
//! after a kill. The server is the one that `DRIFTQ_SERVER` names.

use std::time::Duration;

use driftq_client::{Client, Failure};
use driftq_connect::deliver::address::{Allowed, Network};
use driftq_connect::deliver::{Connector, Endpoint, Endpoints, Settings};

fn setting(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| Failure::new(format!("{name} must be set")))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let endpoints: Vec<Endpoint> = serde_json::from_str(&setting("ENDPOINTS")?)?;
    let allowed = Allowed { networks: vec![Network::parse(&setting("ALLOW")?)?], hosts: Vec::new() };
    let lease = Duration::from_millis(setting("LEASE_MS")?.parse()?);
    let settings = Settings { allowed, lease, ..Settings::default() };
    Connector::new(&Client::connect()?, Endpoints::given(endpoints), settings)?.run().await;
    Ok(())
}
