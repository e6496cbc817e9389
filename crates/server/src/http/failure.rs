//! What the broker's refusals are called on the wire.

use driftq_api::{Code, Fault};
use driftq_engine::Failure;
use driftq_engine::core::{Overload, Quota, Reject};

/// When a client should come back after an overload.
const RETRY_AFTER_MS: u64 = 1000;

const KEY_TOO_WIDE: &str = "the key would allow more than the key that makes it";
const KEY_TOO_LONG: &str = "the key would outlive the key that makes it: give an earlier expires_at";

/// Which call was refused: one refusal is told differently to different callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Produce,
    Other,
}

/// Puts a failure into words.
pub(crate) fn fault(failure: &Failure, call: Call) -> Fault {
    match failure {
        Failure::Reject(reject) => rejected(*reject, call),
        Failure::Commit(_, why) => fault(why, call),
        Failure::Entity { entity, version } => differing(entity, *version),
        Failure::Busy => overloaded(REQUEST_QUEUE_FULL, call),
        Failure::Router(why) => Fault::new(Code::RouterRefused, why.clone()),
        Failure::JobUnknown => Fault::new(Code::JobUnknown, "there is no job of that number"),
        Failure::Unavailable(why) => Fault::new(Code::Unavailable, why.to_string()),
    }
}

fn rejected(reject: Reject, call: Call) -> Fault {
    match reject {
        Reject::TopicUnknown if call == Call::Produce => {
            Fault::new(Code::TopicUnknown, "topic does not exist (create it first)")
        }
        Reject::TopicUnknown => Fault::new(Code::TopicUnknown, "topic does not exist"),
        Reject::PartitionOutOfRange => Fault::invalid("partition out of range"),
        Reject::OverrideOutOfRange => Fault::invalid("partition_override out of range"),
        Reject::DeadlineExceeded => Fault::new(Code::DeadlineExceeded, "message deadline exceeded"),
        Reject::Overloaded(overload) => overloaded(reason(overload), call),
        Reject::NotOwner => Fault::new(Code::NotOwner, "not owner"),
        Reject::NotInFlight => Fault::new(Code::NotInFlight, "message is not in-flight"),
        Reject::DiskFull => {
            Fault::new(Code::DiskFull, "the disk is full: new messages are refused until space returns")
        }
        Reject::SettingsDiffer(setting) => {
            Fault::new(Code::SettingsDiffer, format!("the topic exists with another {setting}"))
        }
        Reject::GroupUnknown => Fault::new(Code::GroupUnknown, "the topic has no group of that name"),
        Reject::MessageUnknown => Fault::new(Code::MessageUnknown, "there is no such message, or it is gone"),
        Reject::KeyReused => Fault::new(Code::KeyReused, "the idempotency key was used for another request"),
        Reject::KeyInFlight => {
            Fault::new(Code::KeyInFlight, "a message with this idempotency key is being routed")
        }
        Reject::LeaseStale(attempt) => stale_delivery(attempt),
        Reject::LeaseUnknown => Fault::new(Code::LeaseUnknown, "no lease has that token"),
        Reject::EffectStale(epoch) => stale_effect(epoch),
        Reject::EffectFenced => Fault::new(
            Code::StaleLease,
            "the message that the effect was begun for was delivered again, or is settled without this delivery",
        ),
        Reject::EffectDiffers => Fault::new(
            Code::StaleLease,
            "this lease ended the effect before with another outcome; the first one stays",
        ),
        Reject::EffectUnknown => Fault::new(Code::EffectUnknown, "the ledger has no such effect"),
        Reject::EffectRunning => {
            Fault::new(Code::EffectRunning, "a holder runs the effect: its lease is live")
        }
        Reject::EffectFinished => {
            Fault::new(Code::EffectFinished, "the effect is over, and its outcome stays what it is")
        }
        Reject::AttemptsExhausted => {
            Fault::new(Code::AttemptsExhausted, "the effect was tried as often as it may be")
        }
        Reject::ResultTooLarge => {
            Fault::new(Code::ResultTooLarge, "the result is larger than the server's effect_result_bytes_max")
        }
        Reject::OutputUnknown
        | Reject::OutputModeDiffers
        | Reject::VersionDiffers
        | Reject::VersionInUse
        | Reject::VersionSealed => about_outputs(reject),
        Reject::RunUnknown => Fault::new(Code::RunUnknown, "nothing is known of such a run"),
        // The broker names the entity; this is how it is told without its name.
        Reject::EntityDiffers { version, .. } => differing("the entity", version),
        Reject::EntityUnknown => Fault::new(Code::EntityUnknown, "the tenant has no entity of that name"),
        Reject::DefinitionUnknown => Fault::new(Code::EndpointUnknown, "there is no such endpoint"),
        Reject::DefinitionDiffers { version } => differing("the endpoint", version),
        Reject::KeyUnknown => Fault::new(Code::AccessKeyUnknown, "there is no such key, or it has ended"),
        Reject::KeyTooWide => Fault::new(Code::Forbidden, KEY_TOO_WIDE),
        Reject::KeyTooLong => Fault::new(Code::Forbidden, KEY_TOO_LONG),
        Reject::TenantDiffers(what) => Fault::new(Code::TenantDiffers, what),
        Reject::QuotaExceeded(quota) => exceeded(quota),
        Reject::Limit(what) => Fault::new(Code::LimitReached, what),
        Reject::Invalid(what) => Fault::invalid(what),
    }
}

/// Said when a tenant has as much of something as it may.
fn exceeded(quota: Quota) -> Fault {
    let (reason, what) = match quota {
        Quota::Topics => ("topics", "topics"),
        Quota::Messages => ("messages", "messages"),
        Quota::Bytes => ("bytes", "bytes of messages"),
        Quota::Effects => ("effects", "remembered effects"),
    };
    let text = format!(
        "the tenant has as many {what} as it may: let some go, or have an operator raise its limit `{reason}`"
    );
    Fault {
        reason: Some(reason),
        retry_after_ms: Some(RETRY_AFTER_MS),
        ..Fault::new(Code::QuotaExceeded, text)
    }
}

/// What is wrong with datasets and their versions.
fn about_outputs(reject: Reject) -> Fault {
    match reject {
        Reject::OutputModeDiffers => Fault::new(
            Code::OutputModeDiffers,
            "outputs of this partition key join each other in the other mode: one replaces, or all append",
        ),
        Reject::VersionDiffers => Fault::new(
            Code::VersionDiffers,
            "another version is current, or there is none before it to go back to",
        ),
        Reject::VersionInUse => {
            Fault::new(Code::VersionInUse, "readers see the version: it is the current one")
        }
        Reject::VersionSealed => {
            Fault::new(Code::VersionSealed, "the version is sealed: nothing moves in it any more")
        }
        _ => Fault::new(Code::OutputUnknown, "there is no such dataset, version or partition key"),
    }
}

fn differing(entity: &str, version: u64) -> Fault {
    let text = format!("{entity} is at version {version}: nothing was done");
    Fault {
        entity: Some(Box::new((entity.to_owned(), version))),
        ..Fault::new(Code::PreconditionFailed, text)
    }
}

fn stale_delivery(attempt: Option<u32>) -> Fault {
    let text = "the message was delivered again, or is settled: this lease has no say any more";
    Fault { attempt, ..Fault::new(Code::StaleLease, text) }
}

fn stale_effect(epoch: Option<u32>) -> Fault {
    let text = match epoch {
        None => "the record of the effect is gone: this lease has no say any more".to_owned(),
        Some(epoch) => format!("the effect is at epoch {epoch}: a newer attempt began, or it was resolved"),
    };
    Fault::new(Code::StaleLease, text)
}

fn overloaded(reason: &'static str, call: Call) -> Fault {
    let who = if call == Call::Produce { "producer overload" } else { "overload" };
    Fault::overloaded(format!("{who}: {reason}"), reason, RETRY_AFTER_MS)
}

const fn reason(overload: Overload) -> &'static str {
    match overload {
        Overload::PartitionMessages => PARTITION_BUFFER_FULL,
        Overload::PartitionBytes => PARTITION_BUFFER_BYTES_FULL,
        Overload::IdempotencyRecords => IDEMPOTENCY_RECORDS_FULL,
        Overload::RetryPolicies => RETRY_POLICIES_FULL,
        Overload::EffectRecords => EFFECT_RECORDS_FULL,
        Overload::Outbox => OUTBOX_FULL,
    }
}

const PARTITION_BUFFER_FULL: &str = "partition_buffer_full";
const PARTITION_BUFFER_BYTES_FULL: &str = "partition_buffer_bytes_full";
const IDEMPOTENCY_RECORDS_FULL: &str = "idempotency_records_full";
const RETRY_POLICIES_FULL: &str = "retry_policies_full";
const OUTBOX_FULL: &str = "outbox_full";
const EFFECT_RECORDS_FULL: &str = "effect_records_full";
const REQUEST_QUEUE_FULL: &str = "request_queue_full";
const DISK_FULL: &str = "disk_full";
const QUOTA_EXCEEDED: &str = "quota_exceeded";

/// Every reason for which a message is turned away although nothing is wrong with it.
pub(crate) const PRODUCE_REJECTIONS: [&str; 7] = [
    PARTITION_BUFFER_FULL,
    PARTITION_BUFFER_BYTES_FULL,
    IDEMPOTENCY_RECORDS_FULL,
    RETRY_POLICIES_FULL,
    REQUEST_QUEUE_FULL,
    DISK_FULL,
    QUOTA_EXCEEDED,
];

/// The reason under which a refused produce is counted, as a place in [`PRODUCE_REJECTIONS`].
pub(crate) fn produce_rejection(failure: &Failure) -> Option<usize> {
    let reason = match failure {
        Failure::Busy => REQUEST_QUEUE_FULL,
        Failure::Reject(Reject::Overloaded(overload)) => reason(*overload),
        Failure::Reject(Reject::DiskFull) => DISK_FULL,
        Failure::Reject(Reject::QuotaExceeded(_)) => QUOTA_EXCEEDED,
        Failure::Commit(_, why) => return produce_rejection(why),
        Failure::Reject(_)
        | Failure::Entity { .. }
        | Failure::Router(_)
        | Failure::JobUnknown
        | Failure::Unavailable(_) => return None,
    };
    PRODUCE_REJECTIONS.iter().position(|candidate| *candidate == reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_words() {
        for (reject, call, status, code, message) in [
            (
                Reject::TopicUnknown,
                Call::Produce,
                400,
                "INVALID_ARGUMENT",
                "topic does not exist (create it first)",
            ),
            (Reject::TopicUnknown, Call::Other, 400, "INVALID_ARGUMENT", "topic does not exist"),
            (Reject::PartitionOutOfRange, Call::Other, 400, "INVALID_ARGUMENT", "partition out of range"),
            (
                Reject::OverrideOutOfRange,
                Call::Produce,
                400,
                "INVALID_ARGUMENT",
                "partition_override out of range",
            ),
            (Reject::DeadlineExceeded, Call::Produce, 400, "INVALID_ARGUMENT", "message deadline exceeded"),
            (
                Reject::Overloaded(Overload::PartitionMessages),
                Call::Produce,
                429,
                "RESOURCE_EXHAUSTED",
                "producer overload: partition_buffer_full",
            ),
            (
                Reject::Overloaded(Overload::PartitionBytes),
                Call::Produce,
                429,
                "RESOURCE_EXHAUSTED",
                "producer overload: partition_buffer_bytes_full",
            ),
            (
                Reject::Overloaded(Overload::IdempotencyRecords),
                Call::Other,
                429,
                "RESOURCE_EXHAUSTED",
                "overload: idempotency_records_full",
            ),
            (Reject::NotOwner, Call::Other, 409, "FAILED_PRECONDITION", "not owner"),
            (Reject::NotInFlight, Call::Other, 409, "FAILED_PRECONDITION", "message is not in-flight"),
            (Reject::Limit("topics: full"), Call::Other, 409, "FAILED_PRECONDITION", "topics: full"),
            (Reject::Invalid("no"), Call::Other, 400, "INVALID_ARGUMENT", "no"),
        ] {
            let fault = fault(&Failure::Reject(reject), call);
            let entry = fault.entry();
            assert_eq!(
                (entry.v1_status, entry.v1_code, &*fault.message),
                (status, code, message),
                "{reject:?}"
            );
            assert_eq!(fault.retry_after_ms.is_some(), status == 429, "{reject:?}");
            let known = ["partition_buffer_full", "partition_buffer_bytes_full"];
            let reason = known.into_iter().find(|known| message.ends_with(&format!(": {known}")));
            let reason = (status == 429).then(|| reason.unwrap_or("overloaded"));
            assert_eq!(fault.v1().reason.as_deref(), reason, "{reject:?}");
        }
    }

    #[test]
    fn our_own_faults_are_never_the_clients() {
        for failure in [Failure::Reject(Reject::DiskFull), Failure::Unavailable("the log failed".into())] {
            assert_eq!(fault(&failure, Call::Produce).entry().v1_status, 503, "{failure:?}");
        }
        assert_eq!(fault(&Failure::Busy, Call::Other).entry().v1_status, 429);
    }

    #[test]
    fn rejections_are_counted_by_reason() {
        let counted = |failure: Failure| produce_rejection(&failure).map(|place| PRODUCE_REJECTIONS[place]);
        assert_eq!(counted(Failure::Busy), Some("request_queue_full"));
        assert_eq!(counted(Failure::Reject(Reject::DiskFull)), Some("disk_full"));
        let bytes = Failure::Reject(Reject::Overloaded(Overload::PartitionBytes));
        assert_eq!(counted(bytes), Some("partition_buffer_bytes_full"));
        assert_eq!(counted(Failure::Reject(Reject::TopicUnknown)), None);
    }
}
