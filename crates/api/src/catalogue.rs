//! Everything that can go wrong, in one table: server, command line, SDKs and documentation read it from here.

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
    /// No topic has that name.
    TopicUnknown,
    /// The topic has no group of that name.
    GroupUnknown,
    /// No lease has that token.
    LeaseUnknown,
    /// The topic has no message at that place.
    MessageUnknown,
    /// No job has that name.
    JobUnknown,
    /// No such path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// The body did not arrive in time.
    RequestTimeout,
    /// Somebody else holds the message, or a newer attempt has started.
    NotOwner,
    /// The message was never delivered to this group.
    NotInFlight,
    /// The lease has lapsed and somebody else has the message, or it is settled.
    StaleLease,
    /// The topic exists with other settings.
    SettingsDiffer,
    /// An operation with the same idempotency key is under way.
    KeyInFlight,
    /// A structural limit is reached: topics, groups, open streams.
    LimitReached,
    /// The body is larger than the server takes.
    BodyTooLarge,
    /// The URL is longer than the server takes.
    UrlTooLong,
    /// The idempotency key was used for another request.
    KeyReused,
    /// The body has a content type that the call does not take.
    UnsupportedMediaType,
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
    pub const ALL: [Self; 27] = [
        Self::InvalidArgument,
        Self::InvalidJson,
        Self::DeadlineExceeded,
        Self::ConfirmationRequired,
        Self::TopicUnknown,
        Self::GroupUnknown,
        Self::LeaseUnknown,
        Self::MessageUnknown,
        Self::JobUnknown,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::NotOwner,
        Self::NotInFlight,
        Self::StaleLease,
        Self::SettingsDiffer,
        Self::KeyInFlight,
        Self::LimitReached,
        Self::BodyTooLarge,
        Self::UrlTooLong,
        Self::KeyReused,
        Self::UnsupportedMediaType,
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
            Self::InvalidArgument => &INVALID_ARGUMENT,
            Self::InvalidJson => &INVALID_JSON,
            Self::DeadlineExceeded => &DEADLINE_EXCEEDED,
            Self::ConfirmationRequired => &CONFIRMATION_REQUIRED,
            Self::TopicUnknown => &TOPIC_UNKNOWN,
            Self::GroupUnknown => &GROUP_UNKNOWN,
            Self::LeaseUnknown => &LEASE_UNKNOWN,
            Self::MessageUnknown => &MESSAGE_UNKNOWN,
            Self::JobUnknown => &JOB_UNKNOWN,
            Self::NotFound => &NOT_FOUND,
            Self::MethodNotAllowed => &METHOD_NOT_ALLOWED,
            Self::RequestTimeout => &REQUEST_TIMEOUT,
            Self::NotOwner => &NOT_OWNER,
            Self::NotInFlight => &NOT_IN_FLIGHT,
            Self::StaleLease => &STALE_LEASE,
            Self::SettingsDiffer => &SETTINGS_DIFFER,
            Self::KeyInFlight => &KEY_IN_FLIGHT,
            Self::LimitReached => &LIMIT_REACHED,
            Self::BodyTooLarge => &BODY_TOO_LARGE,
            Self::UrlTooLong => &URL_TOO_LONG,
            Self::KeyReused => &KEY_REUSED,
            Self::UnsupportedMediaType => &UNSUPPORTED_MEDIA_TYPE,
            Self::Overloaded => &OVERLOADED,
            Self::DiskFull => &DISK_FULL,
            Self::RouterRefused => &ROUTER_REFUSED,
            Self::Unavailable => &UNAVAILABLE,
            Self::Internal => &INTERNAL,
        }
    }
}

const INVALID_ARGUMENT: Entry = Entry {
    code: "INVALID_ARGUMENT",
    status: 400,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "A value is missing or not allowed",
    help: "The detail names the field and what it may be; correct the request before sending it again.",
};

const INVALID_JSON: Entry = Entry {
    code: "INVALID_JSON",
    status: 400,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "The body is not the JSON that this call takes",
    help: "Unknown and repeated fields are refused, so that a misspelt one is never ignored; the detail names it.",
};

const DEADLINE_EXCEEDED: Entry = Entry {
    code: "DEADLINE_EXCEEDED",
    status: 400,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "The message's deadline has passed",
    help: "Send a later deadline, or none; compare the clocks of both machines if it should not have passed.",
};

const CONFIRMATION_REQUIRED: Entry = Entry {
    code: "CONFIRMATION_REQUIRED",
    status: 400,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "This call must be confirmed",
    help: "Add the parameter confirm with the name of what is to be deleted; it cannot be undone.",
};

const TOPIC_UNKNOWN: Entry = Entry {
    code: "TOPIC_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "There is no topic of that name",
    help: "Create it first; topics are never created by producing or consuming.",
};

const GROUP_UNKNOWN: Entry = Entry {
    code: "GROUP_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "The topic has no group of that name",
    help: "A group begins with its first reader and is forgotten after a long time without one.",
};

const LEASE_UNKNOWN: Entry = Entry {
    code: "LEASE_UNKNOWN",
    status: 404,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "There is no lease with that token",
    help: "Send the token as it came with the message; tokens are forgotten some time after the message is settled.",
};

const MESSAGE_UNKNOWN: Entry = Entry {
    code: "MESSAGE_UNKNOWN",
    status: 404,
    v1_code: "INVALID_ARGUMENT",
    v1_status: 400,
    retryable: false,
    title: "There is no message at that place",
    help: "Check partition and offset; messages are dropped when every group is through with them or retention says so.",
};

const JOB_UNKNOWN: Entry = Entry {
    code: "JOB_UNKNOWN",
    status: 404,
    v1_code: "NOT_FOUND",
    v1_status: 404,
    retryable: false,
    title: "There is no job of that name",
    help: "Jobs are forgotten some time after they end, and when the server restarts.",
};

const NOT_FOUND: Entry = Entry {
    code: "NOT_FOUND",
    status: 404,
    v1_code: "NOT_FOUND",
    v1_status: 404,
    retryable: false,
    title: "There is nothing at this path",
    help: "Check the path; calls begin with /v1 or /v2, metrics are at /metrics.",
};

const METHOD_NOT_ALLOWED: Entry = Entry {
    code: "METHOD_NOT_ALLOWED",
    status: 405,
    v1_code: "METHOD_NOT_ALLOWED",
    v1_status: 405,
    retryable: false,
    title: "This path does not take this method",
    help: "The Allow header lists the methods that it takes.",
};

const REQUEST_TIMEOUT: Entry = Entry {
    code: "REQUEST_TIMEOUT",
    status: 408,
    v1_code: "REQUEST_TIMEOUT",
    v1_status: 408,
    retryable: true,
    title: "The body did not arrive in time",
    help: "Nothing was done; send the request again, or send less at once.",
};

const NOT_OWNER: Entry = Entry {
    code: "NOT_OWNER",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "Somebody else holds the message",
    help: "The lease lapsed and a newer attempt has started, or the owner differs from the one that consumed it; \
           give this attempt up.",
};

const NOT_IN_FLIGHT: Entry = Entry {
    code: "NOT_IN_FLIGHT",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The message is not on loan to this group",
    help: "Check topic, group, partition and offset; after a restart of the broker, wait for the redelivery.",
};

const STALE_LEASE: Entry = Entry {
    code: "STALE_LEASE",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The lease is no longer valid",
    help: "A newer attempt has started or the message is settled; give this attempt up, and extend sooner next time.",
};

const SETTINGS_DIFFER: Entry = Entry {
    code: "SETTINGS_DIFFER",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The topic exists with other settings",
    help: "The detail names the difference; change settings with PATCH, which partitions do not allow.",
};

const KEY_IN_FLIGHT: Entry = Entry {
    code: "KEY_IN_FLIGHT",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: true,
    title: "An operation with this idempotency key is under way",
    help: "Wait for the first one to end; sending the same key again is then answered with its outcome.",
};

const LIMIT_REACHED: Entry = Entry {
    code: "LIMIT_REACHED",
    status: 409,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "A limit of this broker is reached",
    help: "The detail names the limit; it is a setting of the server.",
};

const BODY_TOO_LARGE: Entry = Entry {
    code: "BODY_TOO_LARGE",
    status: 413,
    v1_code: "PAYLOAD_TOO_LARGE",
    v1_status: 413,
    retryable: false,
    title: "The body is larger than the server takes",
    help: "Keep large payloads elsewhere and send a reference, or raise the server's limit.",
};

const URL_TOO_LONG: Entry = Entry {
    code: "URL_TOO_LONG",
    status: 414,
    v1_code: "URI_TOO_LONG",
    v1_status: 414,
    retryable: false,
    title: "The URL is longer than the server takes",
    help: "Send the values as a JSON body instead of in the query.",
};

const KEY_REUSED: Entry = Entry {
    code: "KEY_REUSED",
    status: 422,
    v1_code: "FAILED_PRECONDITION",
    v1_status: 409,
    retryable: false,
    title: "The idempotency key was used for another request",
    help: "A key stands for one request only; use a new key for a new request.",
};

const UNSUPPORTED_MEDIA_TYPE: Entry = Entry {
    code: "UNSUPPORTED_MEDIA_TYPE",
    status: 415,
    v1_code: "UNSUPPORTED_MEDIA_TYPE",
    v1_status: 415,
    retryable: false,
    title: "This call does not take that content type",
    help: "Send JSON with Content-Type: application/json, or many messages as application/x-ndjson.",
};

const OVERLOADED: Entry = Entry {
    code: "OVERLOADED",
    status: 429,
    v1_code: "RESOURCE_EXHAUSTED",
    v1_status: 429,
    retryable: true,
    title: "More work is waiting than may wait",
    help: "Try again after the given time; if it persists, consumers are too slow or too few.",
};

// 503 and not 507, because existing clients retry 503 and give up on 507, and a full disk is often emptied soon.
const DISK_FULL: Entry = Entry {
    code: "DISK_FULL",
    status: 503,
    v1_code: "UNAVAILABLE",
    v1_status: 503,
    retryable: true,
    title: "The broker's disk is full",
    help: "New messages are refused until space returns; reading and acking go on, and no restart is needed.",
};

const ROUTER_REFUSED: Entry = Entry {
    code: "ROUTER_REFUSED",
    status: 503,
    v1_code: "UNAVAILABLE",
    v1_status: 503,
    retryable: true,
    title: "The router has no good answer",
    help: "The router failed or took too long, and this server refuses what it cannot route; try again later.",
};

const UNAVAILABLE: Entry = Entry {
    code: "UNAVAILABLE",
    status: 503,
    v1_code: "UNAVAILABLE",
    v1_status: 503,
    retryable: true,
    title: "The broker cannot answer now",
    help: "It is starting, stopping, or its log has failed; the detail and the server's log say which.",
};

const INTERNAL: Entry = Entry {
    code: "INTERNAL",
    status: 500,
    v1_code: "INTERNAL",
    v1_status: 500,
    retryable: true,
    title: "The server made a mistake",
    help: "Report it with the X-Request-Id of the answer; the server's log has a line with the same id.",
};

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
            // A body that came too slowly and a key in flight may be sent again, but not blindly.
            let by_hand = matches!(entry.v1_status, 408) || entry.code == "KEY_IN_FLIGHT";
            assert_eq!(entry.retryable, retried_by_clients || by_hand, "{entry:?}");
        }
    }
}
