//! The engine's own numbers.

use std::fmt::Error;

use driftq_engine::Counters;
use prometheus_client::encoding::DescriptorEncoder;

use super::scrape::{counter, gauge};

pub(super) fn encode(out: &mut DescriptorEncoder<'_>, counters: &Counters) -> Result<(), Error> {
    for (name, help, value) in [
        ("driftq_requests", "Requests that reached the broker", counters.requests),
        (
            "driftq_requests_busy",
            "Requests turned away because the input queue was full",
            counters.requests_busy,
        ),
        ("driftq_requests_rejected", "Requests refused by the broker", counters.rejected),
        ("driftq_produced", "Messages stored", counters.produced),
        (
            "driftq_produced_duplicates",
            "Produces answered by an earlier message",
            counters.produced_duplicates,
        ),
        ("driftq_delivered", "Deliveries", counters.delivered),
        ("driftq_redelivered", "Deliveries that were not the first attempt", counters.redelivered),
        ("driftq_acked", "Acks accepted", counters.acked),
        ("driftq_nacked", "Nacks accepted", counters.nacked),
        (
            "driftq_settlements_stale",
            "Settlements refused because their token was stale or unknown",
            counters.stale,
        ),
        ("driftq_released", "Deliveries that never reached their reader", counters.released),
        ("driftq_dead_letters", "Dead letters written", counters.buried),
        ("driftq_effects_executed", "Effects that a caller was told to run", counters.effects_executed),
        ("driftq_effects_replayed", "Effects answered with an earlier outcome", counters.effects_replayed),
        ("driftq_effects_finished", "Outcomes of effects written down", counters.effects_finished),
        (
            "driftq_effects_stale",
            "Outcomes refused because their lease was not the newest",
            counters.effects_stale,
        ),
        ("driftq_commits", "Commits done", counters.commits),
        ("driftq_commits_refused", "Commits refused", counters.commits_refused),
        ("driftq_log_batches", "Batches handed to the log", counters.batches),
        ("driftq_log_syncs", "Syncs of the log", counters.syncs),
        ("driftq_log_written_bytes", "Bytes written to the log", counters.written_bytes),
        ("driftq_log_segments_dropped", "Segments given back", counters.segments_dropped),
        ("driftq_log_relocated", "Messages copied out of nearly empty segments", counters.relocated),
        ("driftq_payload_cache_hits", "Payloads read from memory", counters.cache_hits),
        ("driftq_payload_cache_misses", "Payloads read from the log", counters.cache_misses),
        ("driftq_payloads_damaged", "Payloads with a wrong checksum", counters.payloads_damaged),
        ("driftq_snapshots", "Snapshots written", counters.snapshots),
        ("driftq_snapshots_failed", "Snapshots that could not be written", counters.snapshots_failed),
        ("driftq_rebuilds", "Times the state was rebuilt from the log after a failure", counters.rebuilds),
    ] {
        counter(out, name, help, value)?;
    }
    for (name, help, value) in [
        ("driftq_queue_length", "Requests that wait for the broker", counters.queue_length),
        ("driftq_payload_cache_bytes", "Bytes held for readers", counters.cache_bytes),
        ("driftq_log_segments", "Segment files in use", counters.segments),
        ("driftq_log_replay_bytes", "Bytes that a start would replay", counters.replay_bytes),
        ("driftq_recovery_milliseconds", "How long the last recovery took", counters.recovery_ms),
    ] {
        gauge(out, name, help, value)?;
    }
    Ok(())
}
