//! Topics and groups, number by number. A broker with very many of them shows the first ones and says how many are left
//! out, instead of a scrape that takes the monitoring down.

use std::fmt::Error;

use driftq_engine::core::{LaneTally, PartitionDescription, Tally};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::scrape::{family, gauge, level};

/// The only reason for which messages are given up so far.
const REASON: &str = "max_attempts_reached";

pub(super) fn encode(out: &mut DescriptorEncoder<'_>, tally: &Tally) -> Result<(), Error> {
    gauge(out, "driftq_epoch", "Starts of this data directory", tally.epoch)?;
    gauge(out, "driftq_topics", "Topics", tally.topic_count)?;
    gauge(out, "driftq_groups", "Consumer groups", tally.group_count)?;
    gauge(out, "driftq_idempotency_records", "Idempotency keys remembered", tally.idempotency_records)?;
    ledger(out, tally)?;
    gauge(out, "driftq_series_left_out", "Lines of the largest family that are not shown", tally.left_out)?;
    dead_letters(out, tally)?;
    by_partition(out, tally, "driftq_partition_messages", "Messages that wait", |lane| lane.messages)?;
    by_partition(out, tally, "driftq_partition_bytes", "Key and value bytes that wait", |lane| lane.bytes)?;
    let kept = "Messages that every group was done with and that are kept";
    by_partition(out, tally, "driftq_partition_kept_messages", kept, |lane| lane.kept_messages)?;
    by_partition(out, tally, "driftq_partition_kept_bytes", "Their key and value bytes", |lane| {
        lane.kept_bytes
    })?;
    by_lane(out, tally, "inflight_messages", "Deliveries on loan", |lane| lane.in_flight.into())?;
    by_lane(out, tally, "consumer_lag", "Messages kept and not yet acked", |lane| lane.lag)?;
    by_lane(out, tally, "driftq_retrying_messages", "Failed deliveries that wait", |lane| {
        lane.retrying.into()
    })?;
    consumers(out, tally)
}

fn ledger(out: &mut DescriptorEncoder<'_>, tally: &Tally) -> Result<(), Error> {
    let effects = &tally.effects;
    let over = effects.records - effects.in_progress - effects.failed_retryable - effects.unknown;
    let mut states = family(out, "driftq_effects", "Effects remembered, by state", MetricType::Gauge)?;
    for (state, count) in [
        ("in_progress", effects.in_progress),
        ("failed_retryable", effects.failed_retryable),
        ("unknown", effects.unknown),
        ("over", over),
    ] {
        ConstGauge::new(level(count)).encode(states.encode_family(&[("state", state)])?)?;
    }
    gauge(
        out,
        "driftq_effects_waiting",
        "Callers that wait for an effect that another caller runs",
        effects.waiting,
    )?;
    gauge(out, "driftq_outputs", "Output pointers kept", tally.outputs)?;
    gauge(out, "driftq_entities", "Entities whose versions are remembered", tally.entities)?;
    gauge(out, "driftq_parcels", "Messages on their way to other shards", tally.parcels)?;
    gauge(out, "driftq_runs", "Runs remembered", tally.runs)
}

fn dead_letters(out: &mut DescriptorEncoder<'_>, tally: &Tally) -> Result<(), Error> {
    let mut family = family(out, "dlq_messages", "Messages given up, since this start", MetricType::Counter)?;
    for topic in tally.topics.iter().filter(|topic| topic.dead_letters > 0) {
        let labels = [("topic", &*topic.name), ("reason", REASON)];
        ConstCounter::new(topic.dead_letters).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn by_partition(
    out: &mut DescriptorEncoder<'_>,
    tally: &Tally,
    name: &str,
    help: &str,
    value: fn(&PartitionDescription) -> u64,
) -> Result<(), Error> {
    let mut family = family(out, name, help, MetricType::Gauge)?;
    let lanes = tally.topics.iter().flat_map(|topic| {
        topic.partitions.iter().enumerate().map(move |(partition, lane)| (&*topic.name, partition, lane))
    });
    for (topic, partition, lane) in lanes {
        let partition = partition.to_string();
        let labels = [("topic", topic), ("partition", &*partition)];
        ConstGauge::new(level(value(lane))).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn by_lane(
    out: &mut DescriptorEncoder<'_>,
    tally: &Tally,
    name: &str,
    help: &str,
    value: fn(&LaneTally) -> u64,
) -> Result<(), Error> {
    let mut family = family(out, name, help, MetricType::Gauge)?;
    let lanes = tally.groups.iter().flat_map(|group| {
        group.partitions.iter().enumerate().map(move |(partition, lane)| (group, partition, lane))
    });
    for (group, partition, lane) in lanes {
        let partition = partition.to_string();
        let labels = [("topic", &*group.topic), ("group", &*group.name), ("partition", &*partition)];
        ConstGauge::new(level(value(lane))).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn consumers(out: &mut DescriptorEncoder<'_>, tally: &Tally) -> Result<(), Error> {
    let mut family = family(out, "driftq_group_consumers", "Open streams of a group", MetricType::Gauge)?;
    for group in &tally.groups {
        let labels = [("topic", &*group.topic), ("group", &*group.name)];
        ConstGauge::new(i64::from(group.consumers)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
