//! Everything that can go wrong, in one table: server, command line, SDKs and documentation read it from here.

mod entries;

/// What went wrong, as the wire names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A field or parameter is missing or has a value that makes no sense.
    InvalidArgument,
    /// The body is not the JSON that the call takes.
    InvalidJson,
    /// The message's deadline had passed on arrival.
    DeadlineExceeded,
    /// A call that destroys something was not confirmed.
    ConfirmationRequired,
    /// The request shows no key that opens anything.
    Unauthenticated,
    /// The key does not allow it.
    Forbidden,
    /// No access key has that id.
    AccessKeyUnknown,
    /// No topic has that name.
    TopicUnknown,
    /// The topic has no group of that name.
    GroupUnknown,
    /// No lease has that token.
    LeaseUnknown,
    /// The topic has no message at that place.
    MessageUnknown,
    /// No effect has that identity.
    EffectUnknown,
    /// There is no such dataset, version or output.
    OutputUnknown,
    /// No run has that name.
    RunUnknown,
    /// No commit under that key is remembered.
    CommitUnknown,
    /// No entity has that name.
    EntityUnknown,
    /// There is no such endpoint.
    EndpointUnknown,
    /// No job has that name.
    JobUnknown,
    /// A web page of another origin asks.
    ForeignOrigin,
    /// The request is for a host that is not this server.
    ForeignHost,
    /// No such path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// The body did not arrive in time.
    RequestTimeout,
    /// Another owner holds the message, or a newer attempt has started.
    NotOwner,
    /// The message was never delivered to this group.
    NotInFlight,
    /// The lease has lapsed and another worker has the message, or it is settled.
    StaleLease,
    /// The topic exists with other settings.
    SettingsDiffer,
    /// The topic belongs to another tenant.
    TenantDiffers,
    /// An operation with the same idempotency key is under way.
    KeyInFlight,
    /// The effect's lease is live, so its outcome is not for others to decide.
    EffectRunning,
    /// The effect's outcome is final.
    EffectFinished,
    /// The effect may not be attempted again.
    AttemptsExhausted,
    /// The output was begun in another mode.
    OutputModeDiffers,
    /// The dataset's current version is not the one that the caller named.
    VersionDiffers,
    /// The version is current and cannot be deleted.
    VersionInUse,
    /// The version is sealed.
    VersionSealed,
    /// An entity has another version than was expected.
    PreconditionFailed,
    /// A structural limit is reached: topics, groups, open streams.
    LimitReached,
    /// The body is larger than the server takes.
    BodyTooLarge,
    /// The code, headers and body of a result are larger than the server keeps.
    ResultTooLarge,
    /// The URL is longer than the server takes.
    UrlTooLong,
    /// The idempotency key was used for another request.
    KeyReused,
    /// The body has a content type that the call does not take.
    UnsupportedMediaType,
    /// A key has used up a quota.
    QuotaExceeded,
    /// A limit on buffered work is reached.
    Overloaded,
    /// The disk is full.
    DiskFull,
    /// The router has no good answer, and messages need one.
    RouterRefused,
    /// The broker cannot answer now.
    Unavailable,
    /// The server made a mistake.
    Internal,
}

/// One line of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name in `/v2` answers.
    pub code: &'static str,
    /// The HTTP status in `/v2`.
    pub status: u16,
    /// The name in `/v1` answers, which are coarser and frozen.
    pub v1_code: &'static str,
    /// The HTTP status in `/v1`.
    pub v1_status: u16,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What it is, in a few words.
    pub title: &'static str,
    /// What to do about it, in one line.
    pub help: &'static str,
}

impl Code {
    /// All of them, in the order of the table in the documentation.
    pub const ALL: [Self; 49] = [
        Self::InvalidArgument,
        Self::InvalidJson,
        Self::DeadlineExceeded,
        Self::ConfirmationRequired,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::AccessKeyUnknown,
        Self::TopicUnknown,
        Self::GroupUnknown,
        Self::LeaseUnknown,
        Self::MessageUnknown,
        Self::EffectUnknown,
        Self::OutputUnknown,
        Self::RunUnknown,
        Self::CommitUnknown,
        Self::EntityUnknown,
        Self::EndpointUnknown,
        Self::JobUnknown,
        Self::ForeignOrigin,
        Self::ForeignHost,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::NotOwner,
        Self::NotInFlight,
        Self::StaleLease,
        Self::SettingsDiffer,
        Self::TenantDiffers,
        Self::KeyInFlight,
        Self::EffectRunning,
        Self::EffectFinished,
        Self::AttemptsExhausted,
        Self::OutputModeDiffers,
        Self::VersionDiffers,
        Self::VersionInUse,
        Self::VersionSealed,
        Self::PreconditionFailed,
        Self::LimitReached,
        Self::BodyTooLarge,
        Self::ResultTooLarge,
        Self::UrlTooLong,
        Self::KeyReused,
        Self::UnsupportedMediaType,
        Self::QuotaExceeded,
        Self::Overloaded,
        Self::DiskFull,
        Self::RouterRefused,
        Self::Unavailable,
        Self::Internal,
    ];

    /// Its line of the catalogue.
    #[must_use]
    pub const fn entry(self) -> &'static Entry {
        match self {
            Self::InvalidArgument => &entries::INVALID_ARGUMENT,
            Self::InvalidJson => &entries::INVALID_JSON,
            Self::DeadlineExceeded => &entries::DEADLINE_EXCEEDED,
            Self::ConfirmationRequired => &entries::CONFIRMATION_REQUIRED,
            Self::Unauthenticated => &entries::UNAUTHENTICATED,
            Self::Forbidden => &entries::FORBIDDEN,
            Self::AccessKeyUnknown => &entries::ACCESS_KEY_UNKNOWN,
            Self::TopicUnknown => &entries::TOPIC_UNKNOWN,
            Self::GroupUnknown => &entries::GROUP_UNKNOWN,
            Self::LeaseUnknown => &entries::LEASE_UNKNOWN,
            Self::MessageUnknown => &entries::MESSAGE_UNKNOWN,
            Self::EffectUnknown => &entries::EFFECT_UNKNOWN,
            Self::OutputUnknown => &entries::OUTPUT_UNKNOWN,
            Self::RunUnknown => &entries::RUN_UNKNOWN,
            Self::CommitUnknown => &entries::COMMIT_UNKNOWN,
            Self::EntityUnknown => &entries::ENTITY_UNKNOWN,
            Self::EndpointUnknown => &entries::ENDPOINT_UNKNOWN,
            Self::JobUnknown => &entries::JOB_UNKNOWN,
            Self::ForeignOrigin => &entries::FOREIGN_ORIGIN,
            Self::ForeignHost => &entries::FOREIGN_HOST,
            Self::NotFound => &entries::NOT_FOUND,
            Self::MethodNotAllowed => &entries::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => &entries::REQUEST_TIMEOUT,
            Self::NotOwner => &entries::NOT_OWNER,
            Self::NotInFlight => &entries::NOT_IN_FLIGHT,
            Self::StaleLease => &entries::STALE_LEASE,
            Self::SettingsDiffer => &entries::SETTINGS_DIFFER,
            Self::TenantDiffers => &entries::TENANT_DIFFERS,
            Self::KeyInFlight => &entries::KEY_IN_FLIGHT,
            Self::EffectRunning => &entries::EFFECT_RUNNING,
            Self::EffectFinished => &entries::EFFECT_FINISHED,
            Self::AttemptsExhausted => &entries::ATTEMPTS_EXHAUSTED,
            Self::OutputModeDiffers => &entries::OUTPUT_MODE_DIFFERS,
            Self::VersionDiffers => &entries::VERSION_DIFFERS,
            Self::VersionInUse => &entries::VERSION_IN_USE,
            Self::VersionSealed => &entries::VERSION_SEALED,
            Self::PreconditionFailed => &entries::PRECONDITION_FAILED,
            Self::LimitReached => &entries::LIMIT_REACHED,
            Self::BodyTooLarge => &entries::BODY_TOO_LARGE,
            Self::ResultTooLarge => &entries::RESULT_TOO_LARGE,
            Self::UrlTooLong => &entries::URL_TOO_LONG,
            Self::KeyReused => &entries::KEY_REUSED,
            Self::UnsupportedMediaType => &entries::UNSUPPORTED_MEDIA_TYPE,
            Self::QuotaExceeded => &entries::QUOTA_EXCEEDED,
            Self::Overloaded => &entries::OVERLOADED,
            Self::DiskFull => &entries::DISK_FULL,
            Self::RouterRefused => &entries::ROUTER_REFUSED,
            Self::Unavailable => &entries::UNAVAILABLE,
            Self::Internal => &entries::INTERNAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_every_line_is_whole() {
        let codes: BTreeSet<_> = Code::ALL.iter().map(|code| code.entry().code).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        for entry in Code::ALL.map(Code::entry) {
            assert!((400..600).contains(&entry.status) && (400..600).contains(&entry.v1_status), "{entry:?}");
            assert!(!entry.title.ends_with('.') && entry.help.ends_with('.'), "{entry:?}");
            assert!(!entry.help.contains('\n') && !entry.help.contains("  "), "one line each: {entry:?}");
        }
    }

    #[test]
    fn what_v1_clients_retry_is_retryable_and_the_other_way_round() {
        for entry in Code::ALL.map(Code::entry) {
            let retried_by_clients = matches!(entry.v1_status, 429 | 500 | 502 | 503 | 504);
            // A body that came too slowly, and what another caller is working on, may be sent again, but not blindly.
            let by_hand =
                matches!(entry.v1_status, 408) || matches!(entry.code, "KEY_IN_FLIGHT" | "EFFECT_RUNNING");
            assert_eq!(entry.retryable, retried_by_clients || by_hand, "{entry:?}");
        }
    }
}
