//! Nothing that a router says is taken on trust.

use driftq_core::{Message, NAME_BYTES_MAX};

use super::hook::Refusal;
use super::opinion::{CacheHint, Decision, Opinion, PARTS_MAX, Part};

/// Longest label, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;
/// Most pairs of meta.
pub const META_PAIRS_MAX: usize = 64;
/// Longest name in meta, in bytes.
pub const META_NAME_BYTES_MAX: usize = 128;
/// Longest value in meta, in bytes.
pub const META_VALUE_BYTES_MAX: usize = 1024;

/// Puts meta in order, and says what is wrong if the opinion breaks a rule.
pub(super) fn check_opinion(opinion: &mut Opinion) -> Result<(), &'static str> {
    if let Some(decision) = &mut opinion.decision {
        check_decision(decision)?;
    }
    opinion.cache.as_ref().map_or(Ok(()), check_hint)
}

fn check_decision(decision: &mut Decision) -> Result<(), &'static str> {
    if decision.label.len() > LABEL_BYTES_MAX {
        return Err("the label is longer than 256 bytes");
    }
    if decision.meta.len() > META_PAIRS_MAX {
        return Err("meta has more than 64 pairs");
    }
    for (name, value) in &decision.meta {
        if name.is_empty() || name.len() > META_NAME_BYTES_MAX {
            return Err("a name in meta does not have 1 to 128 bytes");
        }
        if value.len() > META_VALUE_BYTES_MAX {
            return Err("a value in meta is longer than 1024 bytes");
        }
    }
    decision.meta.sort_unstable();
    if decision.meta.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("a name stands in meta twice");
    }
    match &decision.target_topic {
        Some(topic) if topic.is_empty() || topic.len() > NAME_BYTES_MAX => {
            Err("target_topic does not have 1 to 255 bytes")
        }
        _ => Ok(()),
    }
}

fn check_hint(hint: &CacheHint) -> Result<(), &'static str> {
    if hint.on.len() > PARTS_MAX {
        return Err("the cache hint names more than 4 parts");
    }
    let too_long = |part: &Part| matches!(part, Part::Label(name) if name.len() > META_NAME_BYTES_MAX);
    if hint.on.iter().any(too_long) {
        return Err("the cache hint names a label longer than 128 bytes");
    }
    Ok(())
}

/// Whether the place exists that the message would go to. A decision that moves nothing is not looked at: if the
/// producer's own choice is bad, the producer hears of it as ever.
pub(super) fn check_destination(
    requested: &str,
    message: &Message<'_>,
    decision: &Decision,
    partitions_of: &dyn Fn(&str) -> Option<u32>,
) -> Result<(), Refusal> {
    if decision.target_topic.is_none() && decision.partition_override.is_none() {
        return Ok(());
    }
    let envelope = message.envelope.as_deref();
    let theirs = envelope.map(|envelope| &*envelope.target_topic).filter(|topic| !topic.is_empty());
    let topic = decision.target_topic.as_deref().or(theirs).unwrap_or(requested);
    let partition =
        decision.partition_override.or_else(|| envelope.and_then(|envelope| envelope.partition_override));
    let Some(partitions) = partitions_of(topic) else {
        return Err(Refusal::TargetUnknown(topic.to_owned()));
    };
    match partition {
        Some(partition) if partition >= partitions => {
            Err(Refusal::PartitionOutOfRange { topic: topic.to_owned(), partition, partitions })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use driftq_core::Envelope;

    use super::*;

    fn decision(change: impl FnOnce(&mut Decision)) -> Result<Decision, &'static str> {
        let mut decision = Decision { label: "x".to_owned(), ..Decision::default() };
        change(&mut decision);
        let mut opinion = Opinion::from(decision);
        check_opinion(&mut opinion).map(|()| opinion.decision.unwrap())
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn each_bound_holds_at_its_edge() {
        assert!(decision(|it| it.label = "l".repeat(256)).is_ok());
        assert!(decision(|it| it.label = "l".repeat(257)).is_err());
        assert!(decision(|it| it.meta = (0..64).map(|n| pair(&n.to_string(), "")).collect()).is_ok());
        assert!(decision(|it| it.meta = (0..65).map(|n| pair(&n.to_string(), "")).collect()).is_err());
        assert!(decision(|it| it.meta = vec![pair(&"n".repeat(128), &"v".repeat(1024))]).is_ok());
        assert!(decision(|it| it.meta = vec![pair(&"n".repeat(129), "v")]).is_err());
        assert!(decision(|it| it.meta = vec![pair("n", &"v".repeat(1025))]).is_err());
        assert!(decision(|it| it.meta = vec![pair("", "v")]).is_err());
        assert!(decision(|it| it.target_topic = Some("t".repeat(255))).is_ok());
        assert!(decision(|it| it.target_topic = Some("t".repeat(256))).is_err());
        assert!(decision(|it| it.target_topic = Some(String::new())).is_err());
    }

    #[test]
    fn meta_comes_out_sorted_and_names_are_unique() {
        let sorted = decision(|it| it.meta = vec![pair("b", "1"), pair("a", "2")]).unwrap();
        assert_eq!(sorted.meta, [pair("a", "2"), pair("b", "1")]);
        assert!(decision(|it| it.meta = vec![pair("a", "1"), pair("a", "2")]).is_err());
    }

    #[test]
    fn a_hint_has_bounds_too() {
        let hint = |on| {
            let cache = Some(CacheHint { on, ttl: Duration::from_secs(1) });
            check_opinion(&mut Opinion { decision: None, cache })
        };
        assert!(hint(vec![Part::Key; 4]).is_ok());
        assert!(hint(vec![Part::Key; 5]).is_err());
        assert!(hint(vec![Part::Label("n".repeat(129))]).is_err());
    }

    #[test]
    fn the_place_is_the_one_that_routing_would_choose() {
        let partitions_of = |topic: &str| match topic {
            "asked" | "theirs" => Some(2),
            "ours" => Some(1),
            _ => None,
        };
        let check = |theirs: &'static str, their_partition, ours: Option<&str>, our_partition| {
            let envelope = Envelope {
                target_topic: theirs.into(),
                partition_override: their_partition,
                ..Envelope::default()
            };
            let message = Message { envelope: Some(Box::new(envelope)), ..Message::default() };
            let target_topic = ours.map(str::to_owned);
            let decision =
                Decision { target_topic, partition_override: our_partition, ..Decision::default() };
            check_destination("asked", &message, &decision, &partitions_of)
        };
        assert_eq!(check("", None, Some("ours"), Some(0)), Ok(()));
        assert_eq!(check("", None, Some("none"), None), Err(Refusal::TargetUnknown("none".to_owned())));
        let beyond = |topic: &str, partition, partitions| {
            Err(Refusal::PartitionOutOfRange { topic: topic.to_owned(), partition, partitions })
        };
        assert_eq!(check("", None, Some("ours"), Some(1)), beyond("ours", 1, 1));
        assert_eq!(check("", None, None, Some(2)), beyond("asked", 2, 2));
        assert_eq!(check("theirs", None, None, Some(1)), Ok(()));
        // The producer's partition does not exist in the router's topic.
        assert_eq!(check("", Some(1), Some("ours"), None), beyond("ours", 1, 1));
        // Nothing moved: the producer's own mistake is not the router's.
        assert_eq!(check("none", Some(9), None, None), Ok(()));
    }
}
