//! Numbers from the server's own `/metrics`.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use super::http;

/// Syncs of the log since the server started.
pub(super) async fn syncs(address: SocketAddr) -> Result<f64> {
    let text = http::text(address, "/metrics").await?;
    find_syncs(&text).context("no count of syncs in /metrics")
}

/// What a counter without labels shows.
pub(super) async fn counter(address: SocketAddr, name: &str) -> Result<f64> {
    let text = http::text(address, "/metrics").await?;
    find_counter(&text, name).with_context(|| format!("no {name} in /metrics"))
}

fn find_counter(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Effects that the ledger remembers.
pub(super) async fn effects(address: SocketAddr) -> Result<f64> {
    let text = http::text(address, "/metrics").await?;
    Ok(sum_effects(&text))
}

fn sum_effects(text: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with("driftq_effects{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
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
    fn effects_are_counted_over_their_states() {
        let text = "driftq_effects{state=\"over\"} 40\ndriftq_effects_waiting 7\ndriftq_effects{state=\"unknown\"} 2\n";
        assert_eq!(sum_effects(text), 42.0);
    }

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let text = "# TYPE driftq_log_batches counter\ndriftq_log_batches_total 7\ndriftq_log_batches_total_more 8\n";
        assert_eq!(find_counter(text, "driftq_log_batches_total"), Some(7.0));
        assert_eq!(find_counter(text, "driftq_log_batches"), None);
    }

    #[test]
    fn the_count_of_syncs_is_found() {
        let text = "# TYPE driftq_log_syncs counter\ndriftq_produced_total 5\ndriftq_log_syncs_total 42\n";
        assert_eq!(find_syncs(text), Some(42.0));
        assert_eq!(find_syncs("inflight_messages{topic=\"sync\"} 1\n"), None);
    }
}
