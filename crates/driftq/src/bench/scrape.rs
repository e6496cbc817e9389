//! Numbers from the server's own `/metrics`.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use crate::client::Client;

/// Syncs of the log since the server started.
pub(super) async fn syncs(address: SocketAddr) -> Result<f64> {
    let text = Client::new(&format!("http://{address}"))?.session().get_text("/metrics").await?;
    find_syncs(&text).context("no count of syncs in /metrics")
}

fn find_syncs(text: &str) -> Option<f64> {
    let is_count =
        |name: &str| name.starts_with("driftq_") && name.contains("sync") && name.ends_with("_total");
    let line = text.lines().find(|line| is_count(line.split([' ', '{']).next().unwrap_or_default()))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_syncs_is_found() {
        let text = "# TYPE driftq_log_syncs counter\ndriftq_produced_total 5\ndriftq_log_syncs_total 42\n";
        assert_eq!(find_syncs(text), Some(42.0));
        assert_eq!(find_syncs("inflight_messages{topic=\"sync\"} 1\n"), None);
    }
}
